#ifndef TRACED_CALL_H
#define TRACED_CALL_H
#include <stdint.h>

/* The kernel's ptrace_syscall_info, of which headers have different names. */
struct call {
    uint8_t kind, reserved[3];
    uint32_t machine;
    uint64_t instruction, stack;
    union {
        struct { uint64_t number, arguments[6]; } begins;
        struct { int64_t answer; uint8_t is_error; } ends;
    };
};
enum { GET_CALL = 0x420e, BEGINS = 1, ENDS = 2 };
#endif
