/* A process says who may trace it, and its child tries to. Its word is the child, before it writes ("before") or
 * after it has ("named"), also by a bare call ("raw"); or nobody ("nobody"); or it says nothing ("silent"). Where the
 * system asks for that word (Yama), only who is named may. */
#include "log.h"
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { RECORD = 40, RECORDS = 4000 };

static void writes(void) {
    char record[RECORD];
    for (int i = 0; i < RECORDS; i++) {
        memset(record, 'a' + i % 26, RECORD - 1), record[RECORD - 1] = '\n';
        if (write(1, record, RECORD) != RECORD) exit(1);
    }
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "silent";
    int go[2], status;
    char byte;
    if (pipe(go)) return 2;
    if (strcmp(way, "before")) writes();
    pid_t child = fork();
    if (child == 0) {
        read(go[0], &byte, 1);
        errno = 0;
        long answer = ptrace(PTRACE_SEIZE, getppid(), NULL, NULL);
        _exit(answer ? errno : 0);
    }
    if (!strcmp(way, "named") || !strcmp(way, "before")) prctl(PR_SET_PTRACER, child, 0, 0, 0);
    if (!strcmp(way, "raw")) syscall(SYS_prctl, PR_SET_PTRACER, child, 0, 0, 0);
    if (!strcmp(way, "nobody")) prctl(PR_SET_PTRACER, 0, 0, 0, 0);
    writes();
    write(go[1], "g", 1);
    if (waitpid(child, &status, 0) != child) return 3;
    say("%s: %d\n", way, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    log_out();
    return 0;
}
