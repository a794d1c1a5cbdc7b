/* While a thread tries to start programs that are not there, what another thread closes is closed: the pipe is at its
 * end, or broken, and the lock and the lease are given back. */
#include "log.h"
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/syscall.h>

enum { EXECS = 1500 };

static volatile int is_over;

static void *executes(void *unused) {
    for (int i = 0; i < EXECS; i++) execl("/nonexistent/program", "program", (char *)NULL);
    is_over = 1;
    return unused;
}

/* Closes one end of a pipe in a way; whether the other one does not see it. */
static int pipe_is_open(int closed, int way) {
    int ends[2], is_open;
    char byte = 0;
    if (pipe2(ends, O_NONBLOCK | O_CLOEXEC)) return 1;
    if (way == 0) close(ends[closed]);
    if (way == 1) dup2(ends[!closed], ends[closed]);
    if (way == 2) fclose(fdopen(ends[closed], closed ? "w" : "r"));
    if (way == 3) syscall(SYS_close, ends[closed]);
    is_open = closed ? read(ends[0], &byte, 1) != 0 : write(ends[1], &byte, 1) != -1;
    if (way == 1) close(ends[closed]);
    close(ends[!closed]);
    return is_open;
}

static int is_locked(void) {
    int fd = open("lock", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    int failed = flock(fd, LOCK_EX | LOCK_NB);
    close(fd);
    return failed != 0;
}

int main(void) {
    pthread_t thread;
    long ends = 0, broken = 0, replaced = 0, streams = 0, raw = 0, locks = 0, leases = 0;
    signal(SIGPIPE, SIG_IGN);
    /* Who opens a file that is leased is told so. */
    signal(SIGIO, SIG_IGN);
    if (pthread_create(&thread, NULL, executes, NULL)) return 9;
    while (!is_over) {
        ends += pipe_is_open(1, 0), broken += pipe_is_open(0, 0);
        replaced += pipe_is_open(1, 1), streams += pipe_is_open(1, 2), raw += pipe_is_open(0, 3);
        locks += is_locked();
        int fd = open("lease", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        leases += fcntl(fd, F_SETLEASE, F_WRLCK) != 0;
        close(fd);
    }
    pthread_join(thread, NULL);
    say("ends %ld, broken %ld, replaced %ld, streams %ld, raw %ld, locks %ld, leases %ld\n", ends, broken, replaced,
        streams, raw, locks, leases);
    unlink("lock"), unlink("lease");
    log_out();
    return 0;
}
