/* A bad address is an error, also while the signals by which it shows are blocked: by the mask, by
 * that of a handler, in one of several threads. */
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
    pthread_t thread;
    pthread_create(&thread, NULL, body, NULL);
    pthread_join(thread, NULL);
    close(out);
    say_file("out");
    log_out();
    return 0;
}
