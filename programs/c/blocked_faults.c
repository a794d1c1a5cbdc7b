/* A bad address is an error, also while the signals by which it shows are blocked: by the mask, by
 * that of a handler, in one of several threads, in a handler while another thread makes calls, and in one that comes
 * in a wait and has them open. */
#include "log.h"
#include <pthread.h>
#include <signal.h>

enum { RECORD = 100 };
static int out, in;
static char record[RECORD];

/* Enough for a window, and for writes that wait. */
static void warm(void) {
    for (int i = 0; i < 400; i++) {
        write(out, record, RECORD);
        if (i % 10 == 0) give_time(out);
    }
    for (int i = 0; i < 100; i++) read(in, record, RECORD);
}

static void tries(const char *when) {
    char *volatile nowhere = (char *)8;
    for (int i = 0; i < 2; i++) {
        warm();
        errno = 0;
        long written = write(out, nowhere, RECORD);
        say("%s: write %ld errno %d", when, written, errno);
        errno = 0;
        long got = read(in, nowhere, RECORD);
        say(", read %ld errno %d", got, errno);
        written = write(out, record, RECORD), got = read(in, record, RECORD);
        say(", then %ld and %ld\n", written, got);
    }
}

static void on_signal(int number) { (void)number, tries("in a handler"); }

static void *body(void *argument) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    tries("in a thread");
    return argument;
}

static volatile int turn;

static void pass(int from, int to) {
    turn = to;
    while (turn != from + 2) sched_yield();
}

/* The other thread makes all kinds of calls in between. */
static void on_beside(int number) {
    (void)number;
    for (int i = 0; i < 6; i += 2) pass(i, i + 1), tries("in a handler beside a thread");
    turn = 100;
}

static void *calls_beside(void *argument) {
    int own = open("own", O_RDWR | O_CREAT | O_TRUNC, 0644);
    while (turn != 100) {
        while (turn % 2 == 0 && turn != 100) sched_yield();
        if (turn == 100) break;
        for (int i = 0; i < 400; i++) {
            write(own, record, RECORD);
            if (i % 10 == 0) give_time(own);
        }
        turn++;
    }
    close(own), unlink("own");
    return argument;
}

/* It has them open, and returns to where they are not. */
static void on_wait(int number) { (void)number, tries("open in a wait"); }

static void wait_open(void) {
    sigset_t all, none, before;
    sigfillset(&all), sigemptyset(&none);
    signal(SIGUSR2, on_wait);
    sigprocmask(SIG_BLOCK, &all, &before);
    raise(SIGUSR2), sigsuspend(&none);
    tries("after a wait");
    sigprocmask(SIG_SETMASK, &before, NULL);
}

int main(void) {
    memset(record, 'r', RECORD);
    make_file("in", 1000000);
    out = open("out", O_RDWR | O_CREAT | O_TRUNC, 0644), in = open("in", O_RDONLY);
    tries("open to all");
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    tries("blocked");
    sigprocmask(SIG_SETMASK, &before, NULL);
    struct sigaction action = {.sa_handler = on_signal};
    sigfillset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    tries("open again");
    wait_open();
    pthread_t thread;
    pthread_create(&thread, NULL, body, NULL);
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, calls_beside, NULL);
    action.sa_handler = on_beside, sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    pthread_join(thread, NULL);
    close(out);
    say_file("out");
    log_out();
    return 0;
}
