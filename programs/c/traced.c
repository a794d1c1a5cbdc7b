/* A program is stopped at each of its system calls by one that traces it, and learns of each stop. What it writes
 * arrives as ever, and whoever traces it waits for none of it: it goes on when it is let. */
#include "log.h"
#include <signal.h>
#include <sys/ptrace.h>
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

int main(void) {
    int status, stops = 0;
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL), raise(SIGSTOP);
        _exit(writes());
    }
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        int signal = WSTOPSIG(status);
        stops++;
        ptrace(PTRACE_SYSCALL, child, NULL, (void *)(long)(signal == SIGTRAP || signal == SIGSTOP ? 0 : signal));
    }
    say("%s, status %d\n", stops > 10 ? "many stops" : "few stops", status);
    log_out();
    return 0;
}
