/* A program, or one thread of it (argument "thread"), is stopped at each of its system calls by one that traces it,
 * and learns of each stop. What it writes arrives as ever, and its tracer waits for none of it: it goes on when
 * it is let. */
#include "log.h"
#include <pthread.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { RECORD = 40, RECORDS = 1500 };

static int writes(void) {
    char record[RECORD];
    int fd = open("file", O_CREAT | O_TRUNC | O_WRONLY, 0644);
    for (int i = 0; i < RECORDS; i++) {
        memset(record, 'a' + i % 26, RECORD);
        if (write(fd, record, RECORD) != RECORD) return 1;
    }
    return close(fd);
}

static int numbers[2], go[2];

static void *thread_writes(void *unused) {
    pid_t number = (pid_t)syscall(SYS_gettid);
    char byte;
    write(numbers[1], &number, sizeof number), read(go[0], &byte, 1);
    _exit(writes());
    return unused;
}

/* The thread of a child that is to be traced, or the child. */
static pid_t begin(int by_thread) {
    pid_t child = fork(), thread;
    if (child == 0 && !by_thread) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL), raise(SIGSTOP);
        _exit(writes());
    }
    if (child == 0) {
        pthread_t writer;
        pthread_create(&writer, NULL, thread_writes, NULL);
        for (;;) pause();
    }
    if (!by_thread) return child;
    read(numbers[0], &thread, sizeof thread);
    if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) || ptrace(PTRACE_INTERRUPT, thread, NULL, NULL)) exit(3);
    write(go[1], "g", 1);
    return thread;
}

int main(int count, char **arguments) {
    int status, stops = 0;
    (void)arguments;
    if (pipe(numbers) || pipe(go)) return 2;
    pid_t traced = begin(count > 1);
    while (waitpid(traced, &status, __WALL) == traced && WIFSTOPPED(status)) {
        int signal = WSTOPSIG(status);
        stops++;
        ptrace(PTRACE_SYSCALL, traced, NULL, (void *)(long)(signal == SIGTRAP || signal == SIGSTOP ? 0 : signal));
    }
    /* Its process. */
    if (count > 1) wait(&status);
    say("%s, status %d\n", stops > 10 ? "many stops" : "few stops", status);
    log_out();
    return 0;
}
