/* A process that `clone` makes ends as its function returns. Its parent learns of the end by a pipe, and looks. */
#include "log.h"
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { ROUNDS = 20, RECORDS = 1500 };

static char stack[1 << 18];

static int write_records(void *unused) {
    (void)unused;
    int fd = open("out", O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < RECORDS; i++) {
        if (i > 65 && i < 1000) give_time(fd);
        if (write(fd, "x\n", 2) != 2) return 1;
    }
    return 7;
}

int main(void) {
    int short_files = 0, wrong = 0;
    for (int i = 0; i < ROUNDS; i++) {
        int ends[2], status = -1;
        char byte;
        struct stat seen = {0};
        if (pipe(ends)) return 1;
        pid_t child = clone(write_records, stack + sizeof stack, SIGCHLD, NULL);
        close(ends[1]);
        if (read(ends[0], &byte, 1) != 0) return 1;
        stat("out", &seen);
        short_files += seen.st_size != 2 * RECORDS;
        close(ends[0]);
        waitpid(child, &status, 0);
        wrong += !WIFEXITED(status) || WEXITSTATUS(status) != 7;
        unlink("out");
    }
    printf("%d of %d files are short, %d other ends\n", short_files, ROUNDS, wrong);
    return 0;
}
