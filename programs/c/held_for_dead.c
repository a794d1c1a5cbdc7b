/* A child writes to a file that came from outside of it, and is killed. Its parent learns
 * of that by a wait, a handler or a descriptor, and then finds the file free: nobody holds its lock, nobody
 * has it open for writing. */
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include "log.h"

enum { ROUNDS = 8, RECORDS = 300 };

static volatile sig_atomic_t told;
static void on_child(int signal) {
    (void)signal;
    told = 1;
}

static void pause_ms(int ms) {
    struct timespec time = {0, ms * 1000000L};
    nanosleep(&time, NULL);
}

/* What waited last is written: the sleep is a word to others. The guard goes on holding the file. */
static void writer(void) {
    if (write(1, "#!/bin/sh\nexit 7\n", 17) != 17) _exit(1);
    for (int i = 0; i < RECORDS; i++) {
        if (write(1, "# a record\n", 11) != 11) _exit(1);
        if (i % 100 == 0) pause_ms(20);
    }
    kill(getppid(), SIGUSR1);
    for (;;) pause();
}

static int is_locked(void) {
    int fd = open("script", O_RDONLY);
    int locked = flock(fd, LOCK_EX | LOCK_NB);
    close(fd);
    return locked != 0;
}

static int is_busy(void) {
    pid_t child = vfork();
    if (child == 0) {
        execl("./script", "./script", (char *)NULL);
        _exit(errno);
    }
    int status;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status) != 7;
}

static void learn(const char *way, pid_t child) {
    int pidfd = (int)syscall(SYS_pidfd_open, child, 0);
    told = 0;
    kill(child, SIGKILL);
    if (strcmp(way, "handler") == 0)
        while (!told) poll(NULL, 0, 1);
    if (strcmp(way, "descriptor") == 0) {
        struct pollfd wanted = {pidfd, POLLIN, 0};
        poll(&wanted, 1, -1);
    }
    if (strcmp(way, "wait") == 0) waitpid(child, NULL, 0);
    close(pidfd);
}

int main(int count, char **words) {
    static const char *const ways[] = {"wait", "handler", "descriptor"};
    if (count > 1) writer();
    sigset_t ready;
    sigemptyset(&ready);
    sigaddset(&ready, SIGUSR1);
    sigprocmask(SIG_BLOCK, &ready, NULL);
    signal(SIGCHLD, on_child);
    for (int way = 0; way < 3; way++) {
        int locked = 0, busy = 0;
        for (int round = 0; round < ROUNDS; round++) {
            unlink("script");
            pid_t child = fork();
            if (child == 0) {
                int fd = open("script", O_CREAT | O_WRONLY, 0755);
                sigprocmask(SIG_UNBLOCK, &ready, NULL);
                if (round % 2 == 0) flock(fd, LOCK_EX);
                dup2(fd, 1);
                close(fd);
                execl(words[0], words[0], "writer", (char *)NULL);
                _exit(99);
            }
            int signal;
            sigwait(&ready, &signal);
            learn(ways[way], child);
            if (round % 2 == 0) locked += is_locked();
            else busy += is_busy();
            waitpid(child, NULL, 0);
        }
        say("%s: locked %d, busy %d\n", ways[way], locked, busy);
    }
    log_out();
    return 0;
}
