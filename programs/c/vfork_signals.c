/* Signals arrive at any moment of a vfork: before it, in the middle of the call, which the kernel then begins anew, and
 * while the parent waits. Its handler writes. The child still is no parent: what it does to descriptors is its own
 * affair. */
#include "log.h"
#include <sched.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { RECORD = 16, RECORDS = 2000, TURNS = 300 };

static int heard_in;

static void hear(int signal) {
    (void)signal;
    int kept = errno;
    if (write(heard_in, ".", 1) != 1) _exit(8);
    errno = kept;
}

static int filled_with(char letter, const char *name) {
    char record[RECORD];
    memset(record, letter, RECORD);
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    for (int i = 0; i < RECORDS; i++) write(fd, record, RECORD);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

static int others_in(int fd, char letter) {
    char record[RECORD];
    int others = 0;
    for (int i = 0; i < 3; i++) {
        if (read(fd, record, RECORD) != RECORD) return -1;
        for (int at = 0; at < RECORD; at++) others += record[at] != letter;
    }
    return others;
}

static int fds[3];
/* Of a child that `clone` makes. */
static char stack[1 << 16] __attribute__((aligned(16)));

static int child(void *by_itself) {
    if (by_itself) _exit(0);
    close(fds[2]);
    int fd = open("others", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    for (int i = 0; i < 150; i++) {
        write(fd, "of a child\n", 11);
        if (i == 80) usleep(200);
    }
    kill(getpid(), SIGKILL);
    return 0;
}

int main(void) {
    heard_in = open("heard", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    fds[0] = filled_with('1', "one");
    fds[1] = filled_with('2', "two");
    fds[2] = open("out", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = hear;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 100}, {0, 100}};
    setitimer(ITIMER_REAL, &often, NULL);
    int wrong = 0;
    for (int i = 0; i < TURNS; i++) {
        pid_t pid;
        void *by_itself = i / 2 % 2 ? &fds : NULL;
        if (i % 2) {
            pid = clone(child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, by_itself);
        } else {
            pid = vfork();
            if (pid == 0) child(by_itself);
        }
        int status = 0;
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
        wrong += status != (by_itself ? 0 : SIGKILL) || others_in(fds[0], '1') || others_in(fds[1], '2');
        for (int at = 0; at < 5; at++) wrong += write(fds[2], "a line of the parent\n", 21) != 21;
    }
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    sigset_t none;
    sigprocmask(SIG_BLOCK, NULL, &none);
    say("wrong: %d of %d; blocked afterwards: %d\n", wrong, TURNS, sigismember(&none, SIGALRM));
    close(fds[2]);
    say_file("out");
    say_file("others");
    int after = open("after", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < 5000; i++) {
        write(after, "after all children\n", 19);
        if (i < 1000 && i % 10 == 0) give_time(after);
    }
    close(after);
    say_file("after");
    log_out();
    unlink("heard");
    return 0;
}
