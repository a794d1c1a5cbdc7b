/* Signals that come at once, as their mask is lifted: the kernel has made the frames of all their handlers before the
 * first one runs, which sets what the others do. Says which handlers ran. */
#include "log.h"
#include <signal.h>

enum { RECORDS = 2000 };

static const char *volatile ran[16];
static volatile int runs;
static void (*next)(int);

static void note(const char *name) {
    if (runs < 16) ran[runs++] = name;
}

static void old(int signal) {
    (void)signal;
    note("old");
}

static void new(int signal) {
    (void)signal;
    note("new");
}

static void set(int signal, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler};
    sigaction(signal, &action, NULL);
}

static void change(int signal) {
    (void)signal;
    note("change");
    set(SIGUSR1, next), set(SIGHUP, next);
}

/* `next` is what the last of them sets for the others. */
static void send_all(const char *name, void (*to)(int), int fd) {
    sigset_t all, before;
    next = to, runs = 0;
    set(SIGHUP, old), set(SIGUSR1, old), set(SIGUSR2, change);
    sigemptyset(&all);
    sigaddset(&all, SIGHUP), sigaddset(&all, SIGUSR1), sigaddset(&all, SIGUSR2);
    sigprocmask(SIG_BLOCK, &all, &before);
    raise(SIGHUP), raise(SIGUSR1), raise(SIGUSR2);
    sigprocmask(SIG_SETMASK, &before, NULL);
    say("%s:", name);
    for (int i = 0; i < runs; i++) say(" %s", ran[i]);
    runs = 0;
    if (to != SIG_DFL) raise(SIGUSR1);
    say(", then %s\n", runs ? ran[0] : "nothing");
    if (write(fd, "once more\n", 10) != 10) say("short write\n");
}

int main(void) {
    int fd = open("out", O_CREAT | O_TRUNC | O_WRONLY, 0666);
    set(SIGHUP, old);
    for (int i = 0; i < RECORDS; i++) {
        if (write(fd, "one record\n", 11) != 11) say("short write\n");
        /* The guard gets its turn. */
        if (i == RECORDS / 2) usleep(30000);
    }
    send_all("new", new, fd);
    send_all("default", SIG_DFL, fd);
    send_all("ignored", SIG_IGN, fd);
    send_all("new again", new, fd);
    close(fd);
    log_out();
    return 0;
}
