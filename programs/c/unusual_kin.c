/* Children of unusual kinds: what one of them asks for, or lacks, is not its parent's, nor the reverse.
 *
 *   filter     the child of a vfork asks for a seccomp filter; then its parent learns of a death as ever
 *   handlers   clone3 sets all handlers back in a child, where a bad address is an error all the same
 *   numbers    in a pid namespace, where processes have other numbers, nobody is waited for as if dead */
#include "log.h"
#include "raw.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

enum { RECORD = 100, RECORDS = 1200 };

/* The descriptor stays open. */
static int records(const char *path) {
    char record[RECORD];
    memset(record, 'x', RECORD);
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    for (int i = 0; i < RECORDS; i++) {
        write(fd, record, RECORD);
        if (i == 100 || i == 300 || i == 500) usleep(15000);
    }
    return fd;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A process that writes, and then computes until it is killed; or writes a little now and then, too. */
static pid_t computing(const char *path, int ready[2], int goes_on) {
    if (pipe(ready)) exit(9);
    pid_t process = fork();
    if (process) return process;
    int fd = records(path);
    char byte = 'x';
    /* Unseen: else it would be a word to others. */
    raw(SYS_write, ready[1], (long)&byte, 1, 0);
    double until = seconds() + 30;
    while (seconds() < until) {
        double next = seconds() + 0.02;
        while (seconds() < next) continue;
        if (goes_on) write(fd, path, 1);
    }
    _exit(0);
}

static void filter(void) {
    struct sock_filter allow[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    struct sock_fprog all = {1, allow};
    for (int round = 0; round < 6; round++) {
        int status, ready[2];
        pid_t child = vfork();
        if (child == 0) {
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all, 0, 0);
            execl("/bin/true", "true", NULL);
            _exit(1);
        }
        waitpid(child, &status, 0);
        child = computing("file", ready, 0);
        char byte;
        read(ready[0], &byte, 1);
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        struct stat file;
        stat("file", &file);
        say("%ld bytes short\n", (long)(RECORD * RECORDS - file.st_size));
        close(ready[0]), close(ready[1]);
    }
}

static void handlers(void) {
    /* As clone3 takes them; libc has neither. */
    struct { uint64_t flags, pidfd, child, parent, signal, stack, stack_bytes, tls; } how = {0};
    how.flags = 1ULL << 32, how.signal = SIGCHLD;
    records("before");
    int status = -1;
    pid_t child = (pid_t)syscall(SYS_clone3, &how, sizeof how);
    if (child == 0) {
        int fd = records("after");
        void *volatile nowhere = (void *)8;
        ssize_t answer = write(fd, nowhere, 20);
        _exit(answer == -1 && errno == EFAULT ? 7 : 8);
    }
    if (child > 0) waitpid(child, &status, 0);
    say("status %x\n", status);
    say_file("after");
}

static void numbers(const char *program) {
    int ready[2], status = -1;
    pid_t writer = computing("file", ready, 1), inside;
    char byte;
    read(ready[0], &byte, 1);
    inside = fork();
    if (inside == 0) {
        /* As root; others may not, and then there is nothing to see. */
        if (unshare(CLONE_NEWPID)) _exit(0);
        inside = fork();
        if (inside == 0) execl(program, program, "inside", NULL), _exit(9);
        waitpid(inside, &status, 0), _exit(WEXITSTATUS(status));
    }
    waitpid(inside, &status, 0);
    say("status %x\n", status);
    kill(writer, SIGKILL);
    waitpid(writer, &status, 0);
    close(ready[0]), close(ready[1]), unlink("file");
}

/* Asks for what could be news of a death. */
static int inside(void) {
    double begun = seconds();
    for (int i = 0; i < 3; i++) getppid();
    return seconds() - begun > 9 ? 1 : 0;
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "";
    if (!strcmp(way, "inside")) return inside();
    if (!strcmp(way, "filter")) filter();
    if (!strcmp(way, "handlers")) handlers();
    if (!strcmp(way, "numbers")) numbers(arguments[0]);
    log_out();
    return 0;
}
