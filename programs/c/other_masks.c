/* Signal masks that come otherwise than by sigprocmask: with a wait, with a thread, by `sigset`. A bad address
 * stays an error under each, and what `sigset` answers and holds is as ever.
 *
 *   old, new   one of two threads with the same mask opens it, and a third one ends meanwhile
 *   timer, aio the thread of a timer, or of an operation that has ended, in which libc blocks signals
 *   started    the program is started with the mask, and makes a thread before it opens it
 *   beside     a handler opens its own mask while another thread has one
 *   back       a handler opens its own mask, and returns to one that is not open */
#include "log.h"
#include <aio.h>
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

enum { RECORD = 50 };
typedef void Handler(int);
static int in, out, heard;
static Handler *(*set_signal)(int, Handler *);

static void tries(const char *when) {
    char record[RECORD], *volatile nowhere = (char *)16;
    for (int i = 0; i < 200; i++) {
        read(in, record, RECORD), write(out, record, RECORD);
        if (i % 10 == 0) give_time(out);
    }
    ssize_t written = write(out, nowhere, RECORD);
    say("%s: write %zd errno %d", when, written, errno);
    ssize_t got = read(in, nowhere, RECORD);
    say(", read %zd errno %d\n", got, errno);
    lseek(in, 0, SEEK_SET);
}

static void on_signal(int number) { tries(number == SIGALRM ? "while it waits" : "in a handler of faults"); }
static void on_held(int number) { (void)number, heard++; }

static void *body(void *argument) {
    tries("in a thread");
    return argument;
}

static const char *name_of(Handler *handler) {
    return handler == SIG_HOLD ? "held" : handler == SIG_DFL ? "default" : handler == on_held ? "ours" : "other";
}

static void hold(int signal) {
    say("%d was %s", signal, name_of(set_signal(signal, on_held)));
    say(", then %s", name_of(set_signal(signal, SIG_HOLD)));
    heard = 0, raise(signal);
    say(", heard %d", heard);
    say(", then %s", name_of(set_signal(signal, on_held)));
    say(", heard %d", heard);
    say(", then %s\n", name_of(set_signal(signal, SIG_DFL)));
}

static sigset_t faults;
static int go[2], end[2];

static void *ends_on_word(void *argument) {
    char byte;
    read(end[0], &byte, 1);
    return argument;
}

/* It has the mask of the thread that made it. */
static void *inherits(void *opens) {
    char byte;
    read(go[0], &byte, 1);
    if (opens) pthread_sigmask(SIG_UNBLOCK, &faults, NULL);
    else tries("with an inherited mask");
    return NULL;
}

static void one_of_two_opens(int new_one) {
    pthread_t third, heir;
    if (pipe(go) || pipe(end)) exit(2);
    pthread_create(&third, NULL, ends_on_word, NULL);
    pthread_sigmask(SIG_BLOCK, &faults, NULL);
    pthread_create(&heir, NULL, inherits, new_one ? &faults : NULL);
    write(end[1], "e", 1), pthread_join(third, NULL);
    /* The kernel counts it for a moment longer. */
    usleep(20000);
    if (!new_one) pthread_sigmask(SIG_UNBLOCK, &faults, NULL);
    write(go[1], "g", 1), pthread_join(heir, NULL);
    if (new_one) tries("with a mask that was inherited");
    pthread_sigmask(SIG_UNBLOCK, &faults, NULL);
}

static void in_timer(union sigval unused) {
    (void)unused;
    tries("in a thread of the C library's"), write(go[1], "g", 1);
}

static void by_timer(void) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = in_timer};
    struct itimerspec soon = {.it_value = {0, 1000000}};
    timer_t timer;
    char byte;
    if (pipe(go) || timer_create(CLOCK_MONOTONIC, &event, &timer)) exit(2);
    timer_settime(timer, 0, &soon, NULL), read(go[0], &byte, 1);
}

static void by_operation(void) {
    char byte, other;
    struct aiocb operation = {.aio_fildes = open("in", O_RDONLY), .aio_buf = &byte, .aio_nbytes = 1};
    operation.aio_sigevent.sigev_notify = SIGEV_THREAD;
    operation.aio_sigevent.sigev_notify_function = in_timer;
    tries("before");
    if (pipe(go) || aio_read(&operation)) exit(2);
    read(go[0], &other, 1);
}

static void started(char **arguments) {
    sigset_t now;
    pthread_t heir;
    sigprocmask(SIG_SETMASK, NULL, &now);
    if (!sigismember(&now, SIGSEGV)) {
        pthread_sigmask(SIG_BLOCK, &faults, NULL), execv("/proc/self/exe", arguments);
        exit(2);
    }
    if (pipe(go)) exit(2);
    pthread_create(&heir, NULL, inherits, NULL);
    sigprocmask(SIG_UNBLOCK, &faults, NULL);
    tries("open to all");
    write(go[1], "g", 1), pthread_join(heir, NULL);
}

static void on_signal_opens(int number) { (void)number, pthread_sigmask(SIG_UNBLOCK, &faults, NULL); }

static void *blocks(void *argument) {
    char byte;
    pthread_sigmask(SIG_BLOCK, &faults, NULL), write(end[1], "b", 1), read(go[0], &byte, 1);
    tries("with a mask of its own");
    return argument;
}

static void handler_opens(int beside) {
    pthread_t other;
    char byte;
    struct sigaction action = {.sa_handler = on_signal_opens};
    if (pipe(go) || pipe(end)) exit(2);
    if (beside) {
        action.sa_mask = faults;
        pthread_create(&other, NULL, blocks, NULL), read(end[0], &byte, 1);
    } else sigprocmask(SIG_BLOCK, &faults, NULL);
    sigaction(SIGUSR1, &action, NULL), raise(SIGUSR1), raise(SIGUSR1);
    if (!beside) tries("before"), raise(SIGUSR1);
    tries("here");
    if (beside) write(go[1], "g", 1), pthread_join(other, NULL);
}

int main(int count, char **arguments) {
    make_file("in", 100000);
    in = open("in", O_RDONLY | O_CLOEXEC), out = open("out", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (count > 1) {
        const char *way = arguments[1];
        sigemptyset(&faults), sigaddset(&faults, SIGSEGV), sigaddset(&faults, SIGBUS);
        if (!strcmp(way, "timer")) by_timer();
        if (!strcmp(way, "aio")) by_operation();
        if (!strcmp(way, "started")) started(arguments);
        if (!strcmp(way, "beside") || !strcmp(way, "back")) handler_opens(way[1] == 'e');
        if (log_length) {
            log_out();
            return 0;
        }
        tries("open to all");
        one_of_two_opens(!strcmp(arguments[1], "new"));
        log_out();
        return 0;
    }
    set_signal = (Handler * (*)(int, Handler *)) dlsym(RTLD_DEFAULT, "sigset");
    hold(SIGCHLD);
    tries("open to all");
    hold(SIGCHLD), hold(SIGUSR1), hold(SIGBUS);

    sigset_t one, others;
    sigemptyset(&one), sigaddset(&one, SIGALRM);
    sigfillset(&others), sigdelset(&others, SIGALRM);
    signal(SIGALRM, on_signal);
    for (int turn = 0; turn < 2; turn++) {
        sigprocmask(SIG_BLOCK, &one, NULL), raise(SIGALRM);
        if (turn) ppoll(NULL, 0, NULL, &others);
        else sigsuspend(&others);
        sigprocmask(SIG_UNBLOCK, &one, NULL);
    }
    signal(SIGSEGV, on_signal), raise(SIGSEGV), signal(SIGSEGV, SIG_DFL);

    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all;
    sigfillset(&all), pthread_attr_init(&attributes);
    int (*set_mask)(pthread_attr_t *, const sigset_t *) =
        (int (*)(pthread_attr_t *, const sigset_t *))dlsym(RTLD_DEFAULT, "pthread_attr_setsigmask_np");
    for (int turn = 0; turn < 2; turn++) {
        if (set_mask) set_mask(&attributes, turn ? NULL : &all);
        pthread_create(&thread, &attributes, body, NULL), pthread_join(thread, NULL);
    }
    set_signal(SIGSEGV, SIG_HOLD), tries("held");
    log_out();
    return 0;
}
