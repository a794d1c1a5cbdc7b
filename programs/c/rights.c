/* A program takes from itself the right to write to a file that it has open, writes on, and is killed
 * by a system call that no library sees: all that it wrote is in the file. */
#include "log.h"
#include "raw.h"
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { RECORD = 100, BEFORE = 500, AFTER = 500 };

static void take(const char *how, int fd, const char *name) {
    if (!strcmp(how, "fchmod")) fchmod(fd, 0400);
    if (!strcmp(how, "chmod")) chmod(name, 0400);
    if (!strcmp(how, "fchmodat")) fchmodat(AT_FDCWD, name, 0400, 0);
    if (!strcmp(how, "syscall")) syscall(SYS_fchmodat, AT_FDCWD, name, 0400);
    if (!strcmp(how, "other")) {
        int other = open(name, O_RDONLY);
        fchmod(other, 0400), close(other);
    }
}

int main(void) {
    static const char *const ways[] = {"fchmod", "chmod", "fchmodat", "syscall", "other"};
    char record[RECORD];
    memset(record, 'x', RECORD);
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        const char *name = ways[way];
        pid_t process = fork();
        if (process == 0) {
            int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
            for (int i = 0; i < BEFORE; i++) {
                write(fd, record, RECORD);
                if (i % 10 == 0) give_time(fd);
            }
            take(name, fd, name);
            for (int i = 0; i < AFTER; i++) write(fd, record, RECORD);
            raw(SYS_kill, raw(SYS_getpid, 0, 0, 0, 0), SIGKILL, 0, 0);
        }
        waitpid(process, NULL, 0);
        struct stat stat_of = {0};
        stat(name, &stat_of);
        say("%s: %ld bytes, mode %o\n", name, (long)stat_of.st_size, stat_of.st_mode & 0777);
    }
    log_out();
    return 0;
}
