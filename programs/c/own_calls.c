/* A descriptor that is closed, and opened again as another file, by system calls of the program's
 * own, which no library sees. What is written afterwards is for the other file.
 * Usage: own_calls [append] */
#include "log.h"
#include "raw.h"
#include <sys/stat.h>

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
    raw(SYS_close, fd, 0, 0, 0);
    other = (int)raw(SYS_openat, AT_FDCWD, (long)"second", flags, 0644);
#else
    raw(SYS_close, fd, 0, 0, 0);
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
