/* Writes and reads, allows itself fewer system calls than before, and goes on: a call of anybody else's under
 * that filter is its end. Each thing it does is tried with each call that it does not make. */
#include "log.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;
enum { RECORDS = 1000 };

static void forbid(long call, unsigned how) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, how),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) _exit(90);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(91);
}

static void write_and_read(void) {
    int out = open("out", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), in = open("out", O_RDONLY | O_CLOEXEC);
    char word[14];
    for (int i = 0; i < RECORDS; i++) {
        if (i > 65 && i < 400) give_time(out);
        if (write(out, "a record here\n", 14) != 14) _exit(92);
    }
    for (int i = 0; i < 300; i++)
        if (read(in, word, sizeof word) != sizeof word) _exit(93);
}

static void on_signal(int signal) { (void)signal; }

static void crash(void) { raise(SIGSEGV); }
static void fault(void) {
    volatile int *volatile nowhere = NULL;
    *nowhere = 1;
}
static void handle(void) {
    struct sigaction action = {.sa_handler = on_signal}, old;
    if (sigaction(SIGUSR1, &action, &old) || old.sa_handler != SIG_DFL) _exit(94);
    if (sigaction(SIGSEGV, NULL, &old) || old.sa_handler != SIG_DFL) _exit(95);
    if (signal(SIGCHLD, on_signal) != SIG_DFL) _exit(96);
}
static void become(void) {
    char *words[] = {"true", NULL};
    execve("/bin/true", words, environ);
    _exit(97);
}

static void await(pid_t child, int otherwise) {
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) _exit(otherwise);
}
static void borrow(void) {
    char *words[] = {"true", NULL};
    pid_t child = vfork();
    if (child == 0) execve("/bin/true", words, environ), _exit(97);
    await(child, 98);
}
static void spawn(void) {
    char *words[] = {"true", NULL};
    pid_t child = -1;
    if (posix_spawn(&child, "/bin/true", NULL, NULL, words, environ)) _exit(97);
    await(child, 98);
}
static void shell(void) {
    if (system("true")) _exit(97);
}
static void copy(void) {
    pid_t child = fork();
    if (child == 0) _exit(0);
    await(child, 98);
}
static void detach(void) {
    if (daemon(1, 1)) _exit(97);
}
/* The child of a vfork allows itself less, and goes on. */
static void child_forbids(long call, unsigned how) {
    int status;
    pid_t child = vfork();
    if (child == 0) {
        forbid(call, how);
        if (access("out", R_OK)) _exit(98);
        become();
    }
    waitpid(child, &status, 0);
    say("its child, without %ld: %x\n", call, (unsigned)(status & ~0x80));
    child = vfork();
    if (child == 0) {
        forbid(call, how);
        pid_t own = fork();
        if (own == 0) _exit(access("out", R_OK));
        await(own, 99);
        borrow();
        _exit(7);
    }
    waitpid(child, &status, 0);
    say("its child with children, without %ld: %x\n", call, (unsigned)(status & ~0x80));
}

int main(void) {
    static const struct {
        const char *name;
        void (*act)(void);
        long calls[4];
    } things[] = {
        {"a signal that is sent", crash, {SYS_rt_sigaction, SYS_rt_sigreturn, SYS_mmap, 0}},
        {"a fault", fault, {SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, 0}},
        {"handlers", handle, {SYS_rt_sigprocmask, SYS_gettid, SYS_futex, 0}},
        {"another program", become, {SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_geteuid, SYS_statx}},
        {"a vfork", borrow, {SYS_getpid, SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_gettid}},
        {"a spawn", spawn, {SYS_getpid, SYS_gettid, SYS_statx, 0}},
        {"a shell", shell, {SYS_gettid, SYS_statx, 0}},
        {"a fork", copy, {SYS_getpid, SYS_mmap, SYS_rt_sigaction, SYS_munmap}},
        {"a daemon", detach, {SYS_getpid, SYS_mmap, 0}},
    };
    static const unsigned hows[] = {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ERRNO | EPERM};
    for (size_t i = 0; i < sizeof things / sizeof *things; i++) {
        for (int j = 0; j < 8; j++) {
            long call = things[i].calls[j / 2];
            if (call == 0) continue;
            pid_t child = fork();
            if (child == 0) {
                alarm(20);
                /* With a handler, of which something of ours could be kept. */
                signal(SIGUSR2, on_signal);
                write_and_read();
                forbid(call, hows[j % 2]);
                /* A second time, under the first one. */
                forbid(SYS_acct, hows[j % 2]);
                things[i].act();
                _exit(7);
            }
            int status = -1;
            waitpid(child, &status, 0);
            say("%s, without %d: %x\n", things[i].name, j, (unsigned)(status & ~0x80));
        }
    }
    write_and_read();
    for (int handlers = 0; handlers < 2; handlers++) {
        static const long calls[] = {SYS_getpid, SYS_mmap, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_statx};
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) child_forbids(calls[i], hows[0]);
        signal(SIGUSR1, on_signal);
    }
    log_out();
    return 0;
}
