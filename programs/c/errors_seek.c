/* lseek: every origin, offsets that overflow, holes and data, and what a position means afterwards. */
#include "errors.h"
#include "newer.h"
#include <limits.h>

static int call(int fd, int number) {
    switch (number) {
    case 0: CALL(lseek(fd, 0, SEEK_CUR)); CALL(lseek64(fd, 3, SEEK_CUR)); return 1;
    case 1: CALL(lseek(fd, -1, SEEK_SET)); CALL(lseek(fd, LONG_MIN, SEEK_SET)); return 1;
    case 2: CALL(lseek(fd, -100000, SEEK_CUR)); CALL(lseek(fd, LONG_MIN, SEEK_CUR)); return 1;
    case 3: CALL(lseek(fd, LONG_MAX, SEEK_CUR)); CALL(lseek(fd, 0, SEEK_CUR)); return 1;
    case 4: CALL(lseek(fd, LONG_MAX, SEEK_SET)); CALL(lseek(fd, 1, SEEK_CUR)); CALL(read(fd, scratch, 5)); CALL(lseek(fd, 7, SEEK_SET)); return 1;
    case 5: CALL(lseek(fd, 0, SEEK_END)); CALL(lseek(fd, -17, SEEK_END)); CALL(lseek(fd, 17, SEEK_END)); return 1;
    case 6: CALL(lseek(fd, -FILE_BYTES * 3L, SEEK_END)); CALL(lseek(fd, LONG_MAX, SEEK_END)); CALL(lseek(fd, LONG_MIN, SEEK_END)); return 1;
    case 7: CALL(lseek(fd, 0, SEEK_DATA)); CALL(lseek(fd, 100, SEEK_DATA)); return 1;
    case 8: CALL(lseek(fd, 0, SEEK_HOLE)); CALL(lseek(fd, 100, SEEK_HOLE)); return 1;
    case 9: CALL(lseek(fd, 100000, SEEK_DATA)); CALL(lseek(fd, 100000, SEEK_HOLE)); CALL(lseek(fd, -1, SEEK_DATA)); CALL(lseek(fd, -1, SEEK_HOLE)); return 1;
    case 10: CALL(lseek(fd, 0, 5)); CALL(lseek(fd, 0, -1)); CALL(lseek(fd, 0, INT_MAX)); CALL(lseek(fd, 0, 99)); return 1;
    case 11: CALL(lseek(fd + 1, 0, SEEK_CUR)); CALL(lseek(-1, 0, SEEK_CUR)); CALL(lseek(-1, 0, 99)); CALL(lseek(70000, 0, SEEK_SET)); return 1;
    case 12: CALL(lseek(fd, 50000, SEEK_SET)); CALL(read(fd, scratch, 5)); CALL(write(fd, "far", 3)); CALL(lseek(fd, 0, SEEK_CUR)); return 1;
    case 13: CALL(lseek(fd, 40000, SEEK_SET)); CALL(write(fd, "data", 4)); CALL(lseek(fd, 20000, SEEK_HOLE)); CALL(lseek(fd, 20000, SEEK_DATA)); return 1;
    case 14:
        /* To and fro by less and by more than any window. */
        for (long step = 1; step < 20000; step = step * 3 + 1) {
            CALL(lseek(fd, step, SEEK_CUR)); CALL(read(fd, scratch, 3));
            CALL(lseek(fd, -step, SEEK_CUR)); CALL(read(fd, scratch, 3)); CALL(write(fd, "y", 1));
        }
        return 1;
    case 15: CALL(write(fd, "one", 3)); CALL(lseek(fd, 0, SEEK_END)); CALL(write(fd, "two", 3)); CALL(lseek(fd, -3, SEEK_CUR)); CALL(read(fd, scratch, 9)); return 1;
    case 16: lseek(fd, 0, SEEK_END); for (int i = 0; i < 300; i++) write(fd, "tail ", 5); CALL(lseek(fd, -10, SEEK_END)); CALL(read(fd, scratch, 100)); return 1;
    default: CALL(lseek(fd, 1, SEEK_SET)); return 0;
    }
}

static int odd(void) {
    /* What has no position, or another meaning of it. */
    int pipes[2], fd;
    if (pipe(pipes)) return 1;
    CALL(lseek(pipes[0], 0, SEEK_CUR)); CALL(lseek(pipes[1], 0, SEEK_END));
    CALL(pread(pipes[0], scratch, 1, 0)); CALL(pwrite(pipes[1], scratch, 1, 0));
    fd = open("/dev/null", O_RDWR);
    CALL(lseek(fd, 100, SEEK_SET)); CALL(read(fd, scratch, 5)); CALL(write(fd, "x", 1)); CALL(lseek(fd, 0, SEEK_CUR)); close(fd);
    fd = open("/dev/zero", O_RDWR);
    CALL(lseek(fd, 100, SEEK_SET)); CALL(read(fd, scratch, 5)); CALL(lseek(fd, 0, SEEK_CUR)); CALL(pread(fd, scratch, 9, 1)); close(fd);
    fd = open("/dev/full", O_RDWR);
    for (int i = 0; i < 300; i++) if (write(fd, "full", 4) != -1 || errno != ENOSPC) say("full %d\n", i);
    CALL(write(fd, "", 0)); CALL(read(fd, scratch, 5)); close(fd);
    fd = open(".", O_RDONLY);
    CALL(read(fd, scratch, 5)); CALL(pread(fd, scratch, 5, 0)); CALL(write(fd, "x", 1)); CALL(lseek(fd, 0, SEEK_SET)); CALL(ftruncate(fd, 0)); close(fd);
    fd = open("subject", O_RDONLY | O_CREAT, 0644);
    close(fd);
    fd = open("subject", O_PATH);
    CALL(read(fd, scratch, 5)); CALL(write(fd, "x", 1)); CALL(lseek(fd, 0, SEEK_CUR)); CALL(ftruncate(fd, 0)); close(fd);
    fd = open("/proc/self/stat", O_RDONLY);
    long total = 0;
    for (int i = 0; i < 20; i++) total += read(fd, scratch, 1);
    CALL_AS("20 bytes of /proc", total); CALL(lseek(fd, 0, SEEK_SET)); CALL(lseek(fd, 0, SEEK_END)); close(fd);
    fd = open("/proc/sys/kernel/ostype", O_RDONLY);
    char byte;
    while (read(fd, &byte, 1) == 1) say("%c", byte);
    CALL(lseek(fd, 2, SEEK_SET)); CALL(read(fd, scratch, 100)); CALL(read(fd, scratch, 100)); close(fd);
    unlink("subject");
    return 0;
}

int main(void) {
    every_state(call);
    odd();
    log_out();
    return 0;
}
