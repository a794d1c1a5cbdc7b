/* A process limits the size of files of another one, which writes: what that one has written is in the file, and the
 * first write that is too long fails, once. Argument: whether it appends. */
#include "log.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { RECORD = 100, LIMIT = 300000, LATER_US = 3000, ROUNDS = 6 };
static volatile sig_atomic_t signals;
static void on_signal(int number) { (void)number, signals++; }

static void writes(int to, int flags) {
    char record[RECORD];
    long accepted = 0, done;
    struct stat is;
    signal(SIGXFSZ, on_signal), memset(record, 'x', RECORD);
    int fd = open("out", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | flags, 0644);
    while ((done = write(fd, record, RECORD)) > 0) accepted += done;
    int error = errno;
    fstat(fd, &is);
    dprintf(to, "errno %d, %d signals, %s, close %d\n", error, (int)signals,
            is.st_size == accepted ? "all is there" : "less is there", close(fd));
    _exit(0);
}

int main(int count, char **arguments) {
    (void)arguments;
    for (int round = 0; round < ROUNDS; round++) {
        int said[2], status;
        char text[200];
        if (pipe(said)) return 2;
        pid_t child = fork();
        if (child == 0) close(said[0]), writes(said[1], count > 1 ? O_APPEND : 0);
        close(said[1]), usleep(LATER_US + 1000 * (useconds_t)round);
        struct rlimit limit = {LIMIT, LIMIT};
        prlimit(child, RLIMIT_FSIZE, &limit, NULL);
        ssize_t length = read(said[0], text, sizeof text - 1);
        text[length > 0 ? length : 0] = 0;
        waitpid(child, &status, 0), close(said[0]), unlink("out");
        say("%sstatus %d\n", text, status);
    }
    log_out();
    return 0;
}
