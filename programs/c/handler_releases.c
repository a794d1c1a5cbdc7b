/* A signal handler with a release point (a byte into a pipe), in the middle of writes that wait.
 * Usage: handler_releases WRITES */
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>
#include "log.h"

static int pair[2];

static void release(int number) {
    (void)number;
    int saved = errno;
    char byte = 'x';
    if (write(pair[1], &byte, 1) == 1 && read(pair[0], &byte, 1) != 1) abort();
    errno = saved;
}

int main(int argc, char **argv) {
    long writes = argc > 1 ? atol(argv[1]) : 1000, wrong = 0;
    enum { BYTES = 20000 };
    static char record[BYTES], seen[BYTES];
    if (pipe(pair)) return 1;
    int fd = open("spoken", O_RDWR | O_CREAT | O_TRUNC, 0644);
    struct sigaction action = {.sa_handler = release, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 40}, {0, 40}};
    setitimer(ITIMER_REAL, &often, NULL);
    for (long i = 0; i < writes; i++) {
        memset(record, (int)(i % 251), BYTES);
        if (write(fd, record, BYTES) != BYTES) wrong++;
        if (lseek(fd, 0, SEEK_CUR) != (i + 1) * BYTES) wrong++;
    }
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    struct stat data;
    if (fstat(fd, &data) || data.st_size != writes * BYTES) wrong++;
    for (long i = 0; i < writes; i++) {
        memset(record, (int)(i % 251), BYTES);
        if (pread(fd, seen, BYTES, i * BYTES) != BYTES || memcmp(seen, record, BYTES)) wrong++;
    }
    close(fd);
    unlink("spoken");
    say("wrong %ld\n", wrong);
    log_out();
    return 0;
}
