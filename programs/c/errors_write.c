/* write and pwrite: every way in which they can fail or be short. */
#include "errors.h"
#include <limits.h>
#include <sys/mman.h>

static char *two_pages;

static int call(int fd, int number) {
    long page = sysconf(_SC_PAGESIZE);
    switch (number) {
    case 0: CALL(write(fd, "zero", 0)); return 1;
    case 1: CALL(write(fd, NULL, 0)); return 1;
    case 2: CALL(write(fd, NULL, 5)); return 1;
    case 3: CALL(write(fd, (void *)8, 100)); return 1;
    case 4: CALL(write(fd, "x", 1)); return 1;
    case 5: pattern(scratch, 100000, 3); CALL(write(fd, scratch, 100000)); return 1;
    case 6: CALL(write(fd, (void *)-1L, 5)); return 1;
    case 7: CALL(write(fd, (void *)0x800000000000L, 5)); return 1;
    case 8: CALL(write(fd, two_pages + page - 7, 20)); return 1;
    case 9: CALL(write(fd, two_pages + page - 7, 7)); return 1;
    case 10: CALL(write(fd, two_pages + page, 20)); return 1;
    case 11: CALL(write(fd, two_pages, 9000)); return 1;
    case 12: lseek(fd, 0, SEEK_END); CALL(write(fd, "at the end", 10)); return 1;
    case 13: lseek(fd, 5000, SEEK_END); CALL(write(fd, "beyond", 6)); return 1;
    case 14: CALL(pwrite(fd, "negative", 8, -1)); CALL(pwrite(fd, "negative", 0, -1)); return 1;
    case 15: CALL(pwrite(fd, "smallest", 8, LONG_MIN)); return 1;
    case 16: CALL(pwrite(fd, "largest", 7, LONG_MAX)); CALL(pwrite(fd, "largest", 7, LONG_MAX - 3)); return 1;
    case 17: CALL(pwrite(fd, "positioned", 10, 5)); return 1;
    case 18: CALL(pwrite(fd, "hole", 4, FILE_BYTES + 3000)); return 1;
    case 19: CALL(pwrite(fd, NULL, 4, 0)); CALL(pwrite(fd, NULL, 0, 0)); return 1;
    case 20: CALL(pwrite(fd, two_pages + page - 3, 50, 4090)); return 1;
    case 21: CALL(pwrite64(fd, "sixty-four", 10, 77)); return 1;
    case 22: lseek(fd, LONG_MAX - 2, SEEK_SET); CALL(write(fd, "0123456789", 10)); return 1;
    case 23: CALL(write(fd, scratch, (size_t)-1)); CALL(write(fd, scratch, (size_t)SSIZE_MAX + 1)); return 1;
    case 24: CALL(pwrite(fd, scratch, (size_t)-1, 0)); return 1;
    case 25: CALL(write(fd + 1, "x", 1)); CALL(write(-1, "x", 1)); CALL(write(-100, "x", 0)); return 1;
    case 26: CALL(write(INT_MAX, "x", 1)); CALL(write(1 << 20, "x", 1)); CALL(pwrite(70000, "x", 1, 0)); return 1;
    case 27: lseek(fd, 0, SEEK_SET); CALL(write(fd, "start", 5)); CALL(lseek(fd, 0, SEEK_CUR)); return 1;
    /* Overlapping: over what was just written, from the middle of it on. */
    case 28: CALL(write(fd, "0123456789", 10)); lseek(fd, -6, SEEK_CUR); CALL(write(fd, "abcdefghij", 10)); return 1;
    case 29: CALL(write(fd, "0123456789", 10)); CALL(pwrite(fd, "XY", 2, lseek(fd, 0, SEEK_CUR) - 3)); return 1;
    case 30: CALL(write(fd, "0123456789", 10)); lseek(fd, -6, SEEK_CUR); CALL(read(fd, scratch, 20)); say("    %.6s\n", scratch); return 1;
    default: CALL(write(fd, "last", 4)); return 0;
    }
}

int main(void) {
    long page = sysconf(_SC_PAGESIZE);
    two_pages = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(two_pages, 'm', (size_t)page);
    mprotect(two_pages + page, (size_t)page, PROT_NONE);
    every_state(call);
    log_out();
    return 0;
}
