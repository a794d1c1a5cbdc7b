/* A descriptor that is closed, and opened again as another file, by system calls of the program's
 * own, which no library sees. What is written afterwards is for the other file.
 * Usage: own_calls [append] */
#include "log.h"
#include <sys/stat.h>
#include <sys/syscall.h>

static long own_call(long number, long first, long second, long third) {
#ifdef __x86_64__
    long answer = number;
    __asm__ volatile("syscall" : "+a"(answer) : "D"(first), "S"(second), "d"(third)
                     : "rcx", "r11", "memory");
    return answer;
#else
    return syscall(number, first, second, third);
#endif
}

int main(int argc, char **argv) {
    (void)argv;
    int flags = O_RDWR | O_CREAT | O_TRUNC | (argc > 1 ? O_APPEND : 0), pipes[2], other;
    if (pipe(pipes)) return 2;
    int fd = open("first", flags, 0644);
    for (int i = 0; i < 400; i++) {
        if (write(fd, "of the first\n", 13) != 13) return 3;
        if (i % 10 == 0) give_time(fd);
    }
    /* A word: nothing waits any more. */
    if (write(pipes[1], "w", 1) != 1) return 5;
#ifdef SYS_open
    own_call(SYS_close, fd, 0, 0);
    other = (int)own_call(SYS_open, (long)"second", flags, 0644);
#else
    own_call(SYS_close, fd, 0, 0);
    other = open("second", flags, 0644);
#endif
    if (other != fd) return 4;
    for (int i = 0; i < 400; i++)
        if (write(fd, "of the second\n", 14) != 14) say("write errno %d\n", errno);
    say("at %ld\n", (long)lseek(fd, 0, SEEK_CUR));
    say("close %d\n", close(fd));
    log_out();
    return 0;
}
