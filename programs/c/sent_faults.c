/* SIGSEGV and SIGBUS that somebody sends while they are blocked wait, as any signal does, for the thread that takes them,
 * however much is read and written meanwhile.
 *
 *   wait      by sigwaitinfo
 *   signalfd  by a descriptor
 *   thread    by another thread, which inherits the mask
 *   handler   they have a handler: it runs when they are let in
 *   storm     another process sends one after the other, at any moment
 *   taken     the same, and another thread takes them, as they were sent to the process
 *   beside    the same, to a thread that has them open while another one has not: its handler hears them
 *   many      many threads write meanwhile, and the first one takes them
 *   jump      a handler looks at the mask, and jumps out of calls; later one that is sent and let in is heard */
#include "log.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

enum { RECORD = 10, STORM = 2000 };
static const int signals[] = {SIGSEGV, SIGBUS};
static int in, out;
static sigset_t all;

static void open_files(void) {
    in = open("in", O_RDONLY | O_CLOEXEC), out = open("out", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
}

static void records(int count) {
    char record[RECORD];
    long wrong = 0;
    for (int i = 0; i < count; i++) {
        wrong += read(in, record, RECORD) != RECORD;
        wrong += write(out, record, RECORD) != RECORD;
        if (i % 10 == 0) give_time(out);
    }
    if (wrong) say("%ld wrong\n", wrong);
}

/* An address of nobody's is an error meanwhile, too. */
static void bad_addresses(void) {
    char *volatile nowhere = (char *)16;
    ssize_t written = write(out, nowhere, RECORD);
    say("write %zd errno %d", written, errno);
    ssize_t got = read(in, nowhere, RECORD);
    say(", read %zd errno %d\n", got, errno);
}

static void work(void) { records(300), bad_addresses(), records(100); }

static int is_pending(int signal) {
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    return sigismember(&pending, signal);
}

static void wait_for(int signal) {
    siginfo_t info;
    kill(getpid(), signal);
    work();
    say("pending %d", is_pending(signal));
    say(", taken %d", sigwaitinfo(&all, &info));
    say(" code %d of us %d\n", info.si_code, info.si_pid == getpid());
}

static void by_descriptor(int signal) {
    struct signalfd_siginfo info;
    int taker = signalfd(-1, &all, SFD_CLOEXEC);
    kill(getpid(), signal);
    work();
    read(taker, &info, sizeof info);
    say("taken %u code %d\n", info.ssi_signo, info.ssi_code);
    close(taker);
}

static void *takes(void *taken) {
    sigwait(&all, taken);
    return NULL;
}

static void by_thread(int signal) {
    pthread_t thread;
    int taken = 0;
    kill(getpid(), signal);
    work();
    pthread_create(&thread, NULL, takes, &taken), pthread_join(thread, NULL);
    work();
    say("taken %d\n", taken);
}

static volatile sig_atomic_t is_let_in, early, heard;

static void on_signal(int signal) {
    (void)signal;
    heard++, early += !is_let_in;
}

static void by_handler(int number) {
    sigset_t one;
    sigemptyset(&one), sigaddset(&one, number);
    signal(number, on_signal);
    is_let_in = early = heard = 0;
    kill(getpid(), number), raise(number);
    work();
    say("heard %d", heard);
    is_let_in = 1;
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    say(", then %d, early %d\n", heard, early);
    is_let_in = 0;
    sigprocmask(SIG_BLOCK, &one, NULL);
    signal(number, SIG_DFL);
}

/* Each one is taken by who writes, and the next one is sent then. */
static void storm(void) {
    int sent = 0, wrong = 0, status = -1, next[2];
    sigset_t faults;
    sigemptyset(&faults), sigaddset(&faults, SIGSEGV), sigaddset(&faults, SIGBUS);
    if (pipe(next)) exit(2);
    pid_t us = getpid(), child = fork();
    if (child == 0) {
        char byte;
        close(next[1]);
        for (int i = 0; i < STORM && read(next[0], &byte, 1) == 1; i++) kill(us, signals[i % 2]);
        _exit(0);
    }
    /* Files that the child does not share. */
    open_files();
    records(600);
    for (; sent < STORM; sent++) {
        siginfo_t info = {0};
        struct timespec none = {0, 0};
        char record[RECORD];
        write(next[1], "n", 1);
        while (sigtimedwait(&faults, &info, &none) < 0)
            for (int i = 0; i < 20; i++) pread(in, record, RECORD, i), pwrite(out, record, RECORD, i);
        wrong += info.si_signo != signals[sent % 2] || info.si_code != SI_USER || info.si_pid != child;
    }
    waitpid(child, &status, 0);
    say("%d sent, %d otherwise, status %x\n", sent, wrong, status);
}

static int back[2];

static void *takes_each(void *nothing) {
    int signal;
    while (sigwait(&all, &signal) == 0) write(back[1], "t", 1);
    return nothing;
}

/* Sends many, each when the last one was taken; waits at most a second for each. */
static int sends_each(pid_t process) {
    char byte;
    fcntl(back[0], F_SETFL, O_NONBLOCK);
    for (int i = 0; i < STORM / 4; i++) {
        kill(process, SIGSEGV);
        for (int turn = 0; read(back[0], &byte, 1) != 1; turn++) {
            if (turn == 1000) return 1;
            if (turn > 100) usleep(1000);
        }
    }
    return 0;
}

static void write_beside(pid_t child) {
    int status = -1;
    open_files();
    records(600);
    while (waitpid(child, &status, WNOHANG) == 0)
        for (int i = 0; i < 200; i++) pwrite(out, "0123456789", RECORD, 0);
    say("status %x, pending %d\n", status, is_pending(SIGSEGV));
}

static void taken(void) {
    pthread_t thread;
    if (pipe(back)) exit(2);
    pid_t us = getpid(), child = fork();
    if (child == 0) usleep(100000), _exit(sends_each(us));
    pthread_create(&thread, NULL, takes_each, NULL);
    write_beside(child);
}

static void *waits(void *end) {
    char byte;
    read(*(int *)end, &byte, 1);
    return NULL;
}

static void beside(void) {
    int end[2];
    pthread_t thread;
    sigset_t now;
    if (pipe(end)) exit(2);
    signal(SIGSEGV, on_signal);
    pthread_create(&thread, NULL, waits, &end[0]);
    usleep(20000);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    pid_t us = getpid(), child = fork();
    if (child == 0) {
        usleep(100000);
        for (int i = 0; i < STORM; i++) {
            kill(us, SIGSEGV);
            for (volatile int turn = 0; turn < 5000;) turn++;
        }
        _exit(0);
    }
    write_beside(child);
    sigprocmask(SIG_BLOCK, NULL, &now);
    say("blocked %d, heard %d\n", sigismember(&now, SIGSEGV), heard > 0);
    write(end[1], "e", 1), pthread_join(thread, NULL);
}

enum { WRITERS = 30, TAKEN = 100 };
static volatile int is_over;

static void *writes(void *number) {
    char name[20], record[RECORD] = "";
    sprintf(name, "own%d", *(int *)number);
    int own = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    while (!is_over) {
        for (int i = 0; i < 200 && !is_over; i++) write(own, record, RECORD);
        lseek(own, 0, SEEK_SET);
    }
    close(own), unlink(name);
    return NULL;
}

static void many(void) {
    pthread_t threads[WRITERS];
    int numbers[WRITERS], taken = 0;
    struct timespec second = {1, 0}, moment = {0, 300000};
    for (int i = 0; i < WRITERS; i++) numbers[i] = i, pthread_create(&threads[i], NULL, writes, &numbers[i]);
    usleep(100000);
    for (int i = 0; i < TAKEN; i++) {
        kill(getpid(), SIGSEGV), nanosleep(&moment, NULL);
        taken += sigtimedwait(&all, NULL, &second) == SIGSEGV;
    }
    is_over = 1;
    for (int i = 0; i < WRITERS; i++) pthread_join(threads[i], NULL);
    say("%d of %d taken\n", taken, TAKEN);
}

static jmp_buf before;
static volatile sig_atomic_t is_armed, jumps, seen_open;

static void on_tick(int signal) {
    sigset_t now;
    (void)signal;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    seen_open += !sigismember(&now, SIGSEGV);
    if (is_armed) is_armed = 0, jumps++, longjmp(before, 1);
}

static void jump(void) {
    enum { JUMPS = 3000 };
    char record[RECORD] = "";
    sigset_t one, now;
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_NODEFER | SA_RESTART};
    struct itimerval every = {{0, 150}, {0, 150}}, never = {{0, 0}, {0, 0}};
    sigemptyset(&one), sigaddset(&one, SIGALRM);
    sigaction(SIGALRM, &action, NULL), signal(SIGSEGV, on_signal);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    while (jumps < JUMPS) {
        if (setjmp(before)) continue;
        for (is_armed = 1;;) write(out, record, RECORD), lseek(out, 0, SEEK_SET);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    sigprocmask(SIG_BLOCK, NULL, &now);
    say("seen open %d, blocked %d", seen_open, sigismember(&now, SIGSEGV));
    is_let_in = 1, sigprocmask(SIG_UNBLOCK, &all, NULL);
    kill(getpid(), SIGSEGV);
    say(", heard %d, early %d\n", heard, early);
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "";
    make_file("in", 100000);
    open_files(), records(600);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    for (int i = 0; i < 2; i++) {
        if (!strcmp(way, "wait")) wait_for(signals[i]);
        if (!strcmp(way, "signalfd")) by_descriptor(signals[i]);
        if (!strcmp(way, "thread")) by_thread(signals[i]);
        if (!strcmp(way, "handler")) by_handler(signals[i]);
    }
    if (!strcmp(way, "storm")) storm(), unlink("out");
    else if (!strcmp(way, "many")) many(), unlink("out");
    else if (!strcmp(way, "jump")) jump(), unlink("out");
    else if (!strcmp(way, "taken")) taken(), unlink("out");
    else if (!strcmp(way, "beside")) beside(), unlink("out");
    else close(out), say_file("out");
    log_out();
    return 0;
}
