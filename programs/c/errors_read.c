/* read and pread: every way in which they can fail or be short. */
#include "errors.h"
#include <limits.h>
#include <sys/mman.h>

static char *two_pages;

static int call(int fd, int number) {
    long page = sysconf(_SC_PAGESIZE);
    memset(two_pages, 0, (size_t)page);
    switch (number) {
    case 0: CALL(read(fd, scratch, 0)); return 1;
    case 1: CALL(read(fd, NULL, 0)); return 1;
    case 2: CALL(read(fd, NULL, 5)); return 1;
    case 3: CALL(read(fd, (void *)8, 100)); return 1;
    case 4: CALL(read(fd, scratch, 1)); return 1;
    case 5: CALL(read(fd, scratch, sizeof scratch)); return 1;
    case 6: CALL(read(fd, (void *)-1L, 5)); return 1;
    case 7: CALL(read(fd, (void *)0x800000000000L, 5)); return 1;
    case 8: CALL(read(fd, "read only memory", 5)); return 1;
    /* The first page is there, the second is not: a short read, then the same again. */
    case 9: CALL(read(fd, two_pages + page - 7, 20)); say("    %.7s\n", two_pages + page - 7); return 1;
    case 10: CALL(read(fd, two_pages + page - 7, 7)); say("    %.7s\n", two_pages + page - 7); return 1;
    case 11: CALL(read(fd, two_pages + page, 20)); return 1;
    case 12: CALL(read(fd, two_pages + page - 100, 9000)); return 1;
    case 13: lseek(fd, 0, SEEK_END); CALL(read(fd, NULL, 5)); CALL(read(fd, scratch, 5)); return 1;
    case 14: lseek(fd, 100, SEEK_END); CALL(read(fd, scratch, 5)); return 1;
    case 15: lseek(fd, -3, SEEK_END); CALL(read(fd, scratch, 100)); CALL(read(fd, scratch, 1)); return 1;
    case 16: CALL(pread(fd, scratch, 10, -1)); CALL(pread(fd, scratch, 0, -1)); return 1;
    case 17: CALL(pread(fd, scratch, 10, LONG_MIN)); return 1;
    case 18: CALL(pread(fd, scratch, 10, LONG_MAX)); return 1;
    case 19: CALL(pread(fd, scratch, 10, LONG_MAX - 5)); return 1;
    case 20: CALL(pread(fd, scratch, 10, FILE_BYTES - 4)); return 1;
    case 21: CALL(pread(fd, scratch, 10, FILE_BYTES)); CALL(pread(fd, scratch, 10, FILE_BYTES + 1)); return 1;
    case 22: CALL(pread(fd, NULL, 10, 0)); CALL(pread(fd, NULL, 0, 0)); return 1;
    case 23: CALL(pread(fd, two_pages + page - 3, 50, 4090)); return 1;
    case 24: CALL(pread64(fd, scratch, 17, 33)); say("    %.17s\n", scratch); return 1;
    case 25: lseek(fd, LONG_MAX - 2, SEEK_SET); CALL(read(fd, scratch, 10)); return 1;
    /* A count beyond SSIZE_MAX, and one beyond what a call transfers at most. */
    case 26: CALL(read(fd, scratch, (size_t)-1)); CALL(read(fd, scratch, (size_t)SSIZE_MAX + 1)); return 1;
    case 27: CALL(pread(fd, scratch, (size_t)-1, 0)); return 1;
    case 28: CALL(read(fd + 1, scratch, 5)); CALL(read(-1, scratch, 5)); CALL(read(-100, scratch, 0)); return 1;
    case 29: CALL(read(INT_MAX, scratch, 5)); CALL(read(1 << 20, scratch, 5)); CALL(pread(70000, scratch, 5, 0)); return 1;
    default: CALL(read(fd, scratch, 5)); return 0;
    }
}

int main(void) {
    long page = sysconf(_SC_PAGESIZE);
    two_pages = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(two_pages + page, (size_t)page, PROT_NONE);
    every_state(call);
    log_out();
    return 0;
}
