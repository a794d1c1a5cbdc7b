/* A file may get another time, by which it is told from those that are written later, when bytes wait for it by another
 * description. A program that is killed just then, if that ever happens, has those bytes in the file all the same.
 *
 *   writes NAME OTHER     writes by two descriptions of one file, and to another one
 *   kills COMMAND ...     runs a command, outside of the run, and kills it there; whether it ended in one of these ways */
#include "log.h"
#include "traced_call.h"
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

/* What fits into a buffer of 64 KiB, of which a page is for the place in the first one. */
enum { RECORD = 16, FIRST = 3, ROUNDS = 30, LARGE = 61440, MANY = 200 };

static int kills(char **command) {
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        execvp(command[0], command);
        _exit(127);
    }
    int status, begun = 0;
    waitpid(child, &status, 0);
    ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD);
    for (ptrace(PTRACE_SYSCALL, child, 0, 0); waitpid(child, &status, 0) > 0 && WIFSTOPPED(status);) {
        int signal = WSTOPSIG(status);
        struct call call = {0};
        if (signal == (SIGTRAP | 0x80)) {
            syscall(SYS_ptrace, GET_CALL, child, sizeof call, &call);
            signal = 0;
        } else if (signal == SIGTRAP) signal = 0;
        if (call.kind == BEGINS) begun = call.begins.number == SYS_utimensat && call.begins.arguments[0] == FIRST;
        else if (call.kind == ENDS && begun) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return 0;
        }
        ptrace(PTRACE_SYSCALL, child, 0, signal);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

static void adds(int fd, int count) {
    for (int i = 0; i < count; i++)
        if (write(fd, "0123456789abcde\n", RECORD) != RECORD) exit(1);
}

/* Until writes wait; then nothing does. */
static void warm(int fd) {
    for (int i = 0; i < 300; i++) {
        adds(fd, 1);
        if (i > 60) give_time(fd);
    }
    umask(022);
}

static long coarse(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now.tv_nsec;
}

static int writes(const char *name, const char *other) {
    int first = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644), second = open(name, O_WRONLY);
    int third = open(other, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (first != FIRST) return 4;
    lseek(second, 1 << 20, SEEK_SET);
    warm(first), warm(second), warm(third);
    for (int i = 0; i < ROUNDS; i++) {
        umask(022);
        /* It is full, so the next one has both written. */
        adds(third, LARGE / RECORD);
        adds(first, MANY);
        for (long begun = coarse(); coarse() == begun;) {}
        adds(third, 1);
        /* In the same moment of the clock. */
        adds(second, MANY);
        adds(third, LARGE / RECORD);
    }
    return 0;
}

int main(int count, char **values) {
    if (count > 2 && *values[1] == 'k') return kills(values + 2);
    return count > 3 ? writes(values[2], values[3]) : 5;
}
