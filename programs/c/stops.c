/* A child is stopped while what it wrote may still wait. However its parent learns of that, the file then
 * holds all of it; the parent cuts it off, and it stays away when the child goes on. */
#include "log.h"
#include "raw.h"
#include <signal.h>
#include <spawn.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;
enum { RECORD = 100, RECORDS = 1200 };
static volatile sig_atomic_t told;
static void on_signal(int number) { (void)number, told = 1; }

/* Writes; then it stops itself by a call that no library sees (-1) with its whole group (-2), or says
 * likewise that it may be stopped, and computes. */
static int child(int ready) {
    char record[RECORD];
    memset(record, 'x', RECORD);
    signal(SIGUSR1, on_signal);
    int fd = open("file", O_CREAT | O_TRUNC | O_WRONLY, 0644);
    int beside = open("beside", O_CREAT | O_TRUNC | O_WRONLY | O_APPEND, 0644);
    for (int i = 0; i < RECORDS; i++) {
        write(fd, record, RECORD);
        write(beside, record, RECORD);
        if (i == 100 || i == 300 || i == 500) usleep(15000);
    }
    if (ready < 0) {
        raw(SYS_kill, ready == -2 ? 0 : raw(SYS_getpid, 0, 0, 0, 0), SIGSTOP, 0, 0);
    } else {
        raw(SYS_write, ready, (long)"x", 1, 0);
        while (!told) continue;
    }
    write(fd, record, RECORD);
    return 0;
}

static char program[4096];
static int ready[2];
/* What it does after it has written; of a family, the child of a child does, which waits for it. */
enum { STOPS, COMPUTES, FAMILY };
static pid_t start(int what) {
    char number[12], byte;
    int computes = what == COMPUTES;
    snprintf(number, sizeof number, "%d", computes ? ready[1] : what == FAMILY ? -2 : -1);
    char *arguments[] = {program, number, what == FAMILY ? "family" : NULL, NULL};
    pid_t process;
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawn(&process, program, NULL, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    if (computes) raw(SYS_read, ready[0], (long)&byte, 1, 0);
    return process;
}

static long short_by[16], back[16];
static long size_of(const char *name) {
    struct stat found = {0};
    stat(name, &found);
    return found.st_size;
}

/* It is known to be stopped. */
static void look(int way, pid_t process) {
    int status;
    short_by[way] += 2 * RECORD * RECORDS - size_of("file") - size_of("beside");
    truncate("file", 0), truncate("beside", 0);
    killpg(process, SIGCONT), killpg(process, SIGUSR1);
    while (waitpid(process, &status, 0) == process && !WIFEXITED(status)) continue;
    /* Behind a hole it writes one record. */
    back[way] += size_of("file") - RECORD * (RECORDS + 1) + size_of("beside");
    int fd = open("file", O_RDONLY);
    char record[RECORD];
    for (int i = 0; i < RECORDS; i++) back[way] += read(fd, record, RECORD) != RECORD || record[0] != 0;
    close(fd);
}

static const char *const ways[] = {"waitpid", "waitid", "waitid that leaves it", "raw wait4", "raw waitid",
    "a handler", "sigwait", "a descriptor of signals", "kill", "killpg", "a descriptor of it", "raw kill",
    "a wait by who traces it", "the group, by a wait", "the group, by a handler", "the group, by sigwait"};

int main(int count, char **arguments) {
    if (count > 2) {
        arguments[2] = NULL;
        pid_t process;
        posix_spawn(&process, arguments[0], NULL, NULL, arguments, environ);
        signal(SIGUSR1, SIG_IGN);
        return waitpid(process, NULL, 0) != process;
    }
    if (count > 1) return child(atoi(arguments[1]));
    readlink("/proc/self/exe", program, sizeof program - 1);
    if (pipe(ready)) return 2;
    int status, number;
    siginfo_t information;
    struct timespec until, now;
    pid_t process = start(STOPS);
    waitpid(process, &status, WUNTRACED), look(0, process);
    process = start(STOPS), waitid(P_PID, (id_t)process, &information, WSTOPPED), look(1, process);
    process = start(STOPS), waitid(P_PID, (id_t)process, &information, WSTOPPED | WNOWAIT), look(2, process);
    process = start(STOPS), syscall(SYS_wait4, process, &status, WUNTRACED, NULL), look(3, process);
    process = start(STOPS), syscall(SYS_waitid, P_PID, process, &information, WSTOPPED, NULL), look(4, process);
    signal(SIGCHLD, on_signal), told = 0, process = start(STOPS);
    clock_gettime(CLOCK_MONOTONIC, &until), until.tv_sec += 9;
    do clock_gettime(CLOCK_MONOTONIC, &now); while (!told && now.tv_sec < until.tv_sec);
    signal(SIGCHLD, SIG_DFL), look(5, process);
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGCHLD), sigprocmask(SIG_BLOCK, &set, NULL);
    process = start(STOPS), sigwait(&set, &number), look(6, process);
    while (sigtimedwait(&set, &information, &(struct timespec){0}) > 0) continue;
    int fd = signalfd(-1, &set, SFD_CLOEXEC);
    struct signalfd_siginfo read_of;
    process = start(STOPS), read(fd, &read_of, sizeof read_of), look(7, process);
    close(fd), sigprocmask(SIG_UNBLOCK, &set, NULL);
    process = start(COMPUTES), kill(process, SIGSTOP), look(8, process);
    process = start(COMPUTES), killpg(process, SIGTSTP), look(9, process);
    process = start(COMPUTES), fd = (int)syscall(SYS_pidfd_open, process, 0);
    syscall(SYS_pidfd_send_signal, fd, SIGSTOP, NULL, 0), look(10, process), close(fd);
    process = start(COMPUTES), syscall(SYS_kill, process, SIGTTIN), look(11, process);
    process = start(FAMILY), waitpid(process, &status, WUNTRACED), look(13, process);
    signal(SIGCHLD, on_signal), told = 0, process = start(FAMILY);
    clock_gettime(CLOCK_MONOTONIC, &until), until.tv_sec += 9;
    do clock_gettime(CLOCK_MONOTONIC, &now); while (!told && now.tv_sec < until.tv_sec);
    signal(SIGCHLD, SIG_DFL), look(14, process);
    sigprocmask(SIG_BLOCK, &set, NULL);
    process = start(FAMILY), sigwait(&set, &number), look(15, process);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    process = start(COMPUTES);
    if (ptrace(PTRACE_SEIZE, process, NULL, NULL) == 0 && ptrace(PTRACE_INTERRUPT, process, NULL, NULL) == 0) {
        waitpid(process, &status, __WALL);
        short_by[12] += 2 * RECORD * RECORDS - size_of("file") - size_of("beside");
        ptrace(PTRACE_DETACH, process, NULL, NULL);
    }
    kill(process, SIGKILL), waitpid(process, &status, 0);
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++)
        say("%s: %ld bytes short, %ld came back\n", ways[way], short_by[way], back[way]);
    unlink("file"), unlink("beside");
    log_out();
    return 0;
}
