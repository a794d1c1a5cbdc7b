/* What signals do is a process's own, also where it shares the memory of another one; and it is what the kernel
 * makes of it.
 *
 *   memory, waiting   a process that shares the memory sets a handler; the other one waits for it, or not
 *   fault             the child of a vfork meets a fault, for which there is a handler for one time
 *   once              a handler for one time has run */
#include "log.h"
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>

enum { RECORDS = 600 };

static void records(void) {
    int fd = open("data", O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < RECORDS; i++) {
        write(fd, "0123456789", 10);
        if (i > 60 && i < 400) give_time(fd);
    }
}

static volatile sig_atomic_t ours, others;
static void on_ours(int signal) { (void)signal, ours++; }
static void on_others(int signal) { (void)signal, others++; }

static void set(int signal, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(signal, &action, NULL);
}

static char stack[1 << 16] __attribute__((aligned(16)));

static int sets_handlers(void *unused) {
    (void)unused;
    set(SIGUSR1, on_others, 0), set(SIGCHLD, SIG_DFL, 0), set(SIGSEGV, on_others, 0);
    return 0;
}

static void memory(int flags) {
    static const int signals[] = {SIGUSR1, SIGSEGV, SIGCHLD};
    int status = -1;
    for (int i = 0; i < 3; i++) set(signals[i], on_ours, 0);
    records();
    pid_t child = clone(sets_handlers, stack + sizeof stack, CLONE_VM | flags, NULL);
    waitpid(child, &status, __WALL);
    say("status %x:", status);
    for (int i = 0; i < 3; i++) {
        struct sigaction now;
        sigaction(signals[i], NULL, &now), raise(signals[i]);
        say(" %d", now.sa_handler == on_ours);
    }
    say(", ours %d, others %d\n", ours, others);
}

static sigjmp_buf back;
static volatile pid_t parent;

static void on_fault(int signal) {
    (void)signal;
    if (getpid() != parent) _exit(40);
    ours++, siglongjmp(back, 1);
}

static void meet_fault(void) {
    char *volatile nowhere = (char *)8;
    *nowhere = 1;
}

static void fault(void) {
    int status = -1;
    struct sigaction now;
    parent = getpid();
    set(SIGSEGV, on_fault, SA_RESETHAND);
    records();
    pid_t child = vfork();
    if (child == 0) meet_fault(), _exit(1);
    waitpid(child, &status, 0);
    sigaction(SIGSEGV, NULL, &now);
    say("status %x, ours %d, flags %x\n", status, now.sa_handler == on_fault, (unsigned)now.sa_flags & ~0x4000000U);
    if (sigsetjmp(back, 1) == 0) meet_fault();
    say("handled %d\n", ours);
}

/* What the kernel leaves of an action that is over: the flags, but for that of restoring, which is libc's. */
static void once(void) {
    static const int signals[] = {SIGUSR1, SIGCHLD, SIGSEGV, SIGBUS};
    static const int flags[] = {0, SA_NODEFER, SA_RESTART, SA_SIGINFO};
    records();
    for (int i = 0; i < 16; i++) {
        struct sigaction now;
        set(signals[i / 4], on_ours, SA_RESETHAND | flags[i % 4]);
        raise(signals[i / 4]);
        sigaction(signals[i / 4], NULL, &now);
        say("%d: %d %x\n", signals[i / 4], now.sa_handler == SIG_DFL, (unsigned)now.sa_flags & ~0x4000000U);
        set(signals[i / 4], SIG_DFL, 0);
    }
    say("heard %d\n", ours);
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "";
    if (!strcmp(way, "memory")) memory(SIGCHLD);
    if (!strcmp(way, "waiting")) memory(CLONE_VFORK | SIGCHLD);
    if (!strcmp(way, "fault")) fault();
    if (!strcmp(way, "once")) once();
    say_file("data");
    log_out();
    return 0;
}
