/* SIGSEGV and SIGBUS that are ignored interrupt nothing when somebody sends them, a bad address is an error
 * all the same, and a handler that is set again is reached. */
#include "log.h"
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

static int out, in;
static volatile int queued;

static void records(void) {
    char record[50];
    for (int i = 0; i < 300; i++) {
        read(in, record, sizeof record), write(out, record, sizeof record);
        give_time(out);
    }
}

/* Somebody sends both, while this process waits in one way or another. */
static void wait_under_fire(int by_poll) {
    struct timespec time = {0, 100000000};
    pid_t us = getpid(), child = fork();
    if (child == 0) {
        for (int i = 0; i < 8; i++) usleep(10000), kill(us, i % 2 ? SIGSEGV : SIGBUS);
        _exit(0);
    }
    int answer = by_poll ? poll(NULL, 0, 100) : nanosleep(&time, NULL);
    say("%s %d errno %d\n", by_poll ? "poll" : "nanosleep", answer, answer ? errno : 0);
    waitpid(child, NULL, 0);
}

static void bad_address(void) {
    char *volatile none = (char *)8;
    ssize_t wrote = write(out, none, 20);
    say("write %zd %d, ", wrote, errno);
    ssize_t got = read(in, none, 20);
    say("read %zd %d, ", got, errno);
    int locked = fcntl(out, F_SETLK, none);
    say("lock %d %d\n", locked, errno);
}

/* Files of which one has a window, and the other bytes that wait, when the signals come to be ignored. */
static void ignored_while_buffered(void) {
    char record[50];
    in = open("in", O_RDONLY), out = open("late", O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < 400; i++) read(in, record, sizeof record);
    for (int i = 0; i < 400; i++) {
        write(out, record, sizeof record);
        if (i % 10 == 0) give_time(out);
    }
    read(in, record, sizeof record);
    signal(SIGSEGV, SIG_IGN), signal(SIGBUS, SIG_IGN);
    bad_address();
}

static void on_signal(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    queued = info->si_value.sival_int;
}

int main(void) {
    make_file("in", 100000);
    in = open("in", O_RDONLY), out = open("out", O_RDWR | O_CREAT | O_TRUNC, 0644);
    /* First as it was inherited, then as it is set while records wait. */
    for (int turn = 0; turn < 2; turn++) {
        struct sigaction faults[2];
        records();
        bad_address();
        if (turn) ignored_while_buffered();
        sigaction(SIGSEGV, NULL, &faults[0]), sigaction(SIGBUS, NULL, &faults[1]);
        int are_ignored = faults[0].sa_handler == SIG_IGN && faults[1].sa_handler == SIG_IGN;
        say("ignored %d\n", are_ignored);
        if (are_ignored) wait_under_fire(0), wait_under_fire(1);
        records();
        bad_address();
    }
    sigaction(SIGSEGV, &(struct sigaction){.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO}, NULL);
    sigqueue(getpid(), SIGSEGV, (union sigval){77});
    records();
    say("queued %d, position %ld\n", queued, (long)lseek(out, 0, SEEK_CUR));
    log_out();
    return 0;
}
