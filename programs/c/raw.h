/* A system call that no library sees: its instruction stands in the program itself. */
#ifndef RAW_H
#define RAW_H
#include <sys/syscall.h>

static inline long raw(long number, long a, long b, long c, long d) {
#if defined(__x86_64__)
    long answer;
    register long fourth __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(answer)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
                     : "rcx", "r11", "memory");
    return answer;
#else
    register long call __asm__("x8") = number, answer __asm__("x0") = a, second __asm__("x1") = b;
    register long third __asm__("x2") = c, fourth __asm__("x3") = d;
    __asm__ volatile("svc 0"
                     : "+r"(answer)
                     : "r"(call), "r"(second), "r"(third), "r"(fourth)
                     : "memory");
    return answer;
#endif
}
#endif
