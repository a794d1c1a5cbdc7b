/* Signals that come while descriptors are duplicated, replaced and closed, as a shell does for each line.
 * Usage: signals_between timer ROUNDS  a timer's, every 30 us; the handler reads, writes and duplicates
 *                        queue COUNT   a child's, one after the other, each with a number
 *                        once COUNT    the same, with a handler that is for one time
 *                        mask COUNT    the same, and the mask that the handler and the program have */
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include "log.h"

static int notes, numbers, answers[2], written, usual, other;
static long handled, wrong;
static int has_mask;
static pid_t child;
static struct sigaction action;

static void noted(int number) {
    (void)number;
    int saved = errno;
    char digit;
    int twin = dup(notes);
    if (twin < 0 || write(twin, "n", 1) != 1) wrong++;
    close(twin);
    if (read(numbers, &digit, 1) != 1 || digit != '0' + handled % 10) wrong++;
    handled++;
    errno = saved;
}

static void numbered(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)context;
    int saved = errno;
    sigset_t now;
    if (info->si_code != SI_QUEUE || info->si_pid != child || info->si_value.sival_int != handled) wrong++;
    sigprocmask(SIG_BLOCK, NULL, &now);
    if (has_mask && (!sigismember(&now, SIGUSR1) || !sigismember(&now, SIGHUP) || sigismember(&now, SIGINT)))
        wrong++;
    handled++;
    if (action.sa_flags & (int)SA_RESETHAND) sigaction(SIGUSR1, &action, NULL);
    if (write(answers[1], "a", 1) != 1) wrong++;
    errno = saved;
}

/* A line goes to `other` in the place of `usual`. */
static void line(int in) {
    char eight[8];
    if (read(in, eight, 8) != 8 && lseek(in, 0, SEEK_SET)) wrong++;
    int kept = fcntl(usual, F_DUPFD_CLOEXEC, 20);
    if (dup2(other, usual) != usual || write(usual, "a line\n", 7) != 7) wrong++;
    if (dup2(kept, usual) != usual || close(kept)) wrong++;
    if (lseek(in, 0, SEEK_CUR) % 8) wrong++;
    written++;
}

static int made(const char *name) {
    return open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
}

static void fill(const char *name, long count) {
    int fd = made(name);
    for (long i = 0; i < count; i++) {
        char digit = '0' + i % 10;
        if (write(fd, &digit, 1) != 1) wrong++;
    }
    close(fd);
}

static void by_timer(int in, long rounds) {
    action = (struct sigaction){.sa_handler = noted, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 30}, {0, 30}};
    setitimer(ITIMER_REAL, &often, NULL);
    for (long i = 0; i < rounds; i++) line(in);
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    struct stat status;
    if (!handled || fstat(notes, &status) || status.st_size != handled) wrong++;
}

static void by_child(int in, long count, int flags) {
    action = (struct sigaction){.sa_sigaction = numbered, .sa_flags = SA_SIGINFO | SA_RESTART | flags};
    sigaddset(&action.sa_mask, SIGHUP);
    sigaction(SIGUSR1, &action, NULL);
    if (pipe(answers)) abort();
    child = fork();
    if (child == 0) {
        char answer;
        for (int i = 0; i < count; i++) {
            if (read(answers[0], &answer, 1) != 1) _exit(1);
            if (sigqueue(getppid(), SIGUSR1, (union sigval){.sival_int = i})) _exit(2);
        }
        _exit(0);
    }
    /* From here on it is known whose signals they are. */
    if (write(answers[1], "a", 1) != 1) wrong++;
    while (handled < count) {
        long before = handled;
        while (handled == before) line(in);
        sigset_t now;
        sigprocmask(SIG_BLOCK, NULL, &now);
        if (sigismember(&now, SIGUSR1) || sigismember(&now, SIGHUP)) wrong++;
    }
    int status;
    if (waitpid(child, &status, 0) != child || status) wrong++;
    say("handled %ld\n", handled);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    long count = atol(argv[2]);
    fill("between.in", 80000);
    fill("between.numbers", 400000);
    int in = open("between.in", O_RDONLY);
    numbers = open("between.numbers", O_RDONLY);
    notes = made("between.notes");
    usual = made("between.usual");
    other = made("between.other");
    for (int i = 0; i < 2000; i++) line(in);
    if (!strcmp(argv[1], "timer")) by_timer(in, count);
    has_mask = !strcmp(argv[1], "mask");
    if (!strcmp(argv[1], "once")) by_child(in, count, (int)SA_RESETHAND);
    if (!strcmp(argv[1], "queue") || has_mask) by_child(in, count, 0);
    struct stat status;
    if (fstat(other, &status) || status.st_size != written * 7L) wrong++;
    if (fstat(usual, &status) || status.st_size) wrong++;
    unlink("between.other");
    unlink("between.notes");
    say("wrong %ld\n", wrong);
    log_out();
    return 0;
}
