// Bad addresses, and the handlers of SIGSEGV and SIGBUS as the program sees them.
#include "common.h"
#include <setjmp.h>

static sigjmp_buf back;
static volatile int handled, code, on_stack, mask_had_usr1, mask_had_own;
static char *alternate;

static void look(int signal) {
    char here;
    sigset_t mask;
    handled = signal;
    on_stack = &here >= alternate && &here < alternate + 65536;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    mask_had_usr1 = sigismember(&mask, SIGUSR1);
    mask_had_own = sigismember(&mask, signal);
}
static void jump(int signal) { look(signal); siglongjmp(back, 1); }
static void jump_with_information(int signal, siginfo_t *information, void *context) {
    (void)context;
    code = information->si_code;
    look(signal);
    siglongjmp(back, 1);
}
static void only_look(int signal) { look(signal); }

static void say_action(const char *what, int signal) {
    struct sigaction now;
    int answer = sigaction(signal, NULL, &now);
    const char *name = now.sa_handler == SIG_DFL ? "default"
        : now.sa_handler == SIG_IGN ? "ignore"
        : now.sa_handler == jump ? "jump"
        : now.sa_handler == only_look ? "look"
        : now.sa_sigaction == jump_with_information ? "information" : "another";
    say("%s: signal %d %d %s flags %x usr1 %d own %d", what, signal, answer, name, now.sa_flags,
        sigismember(&now.sa_mask, SIGUSR1), sigismember(&now.sa_mask, signal));
}

static void set(int signal, void (*handler)(int), int flags, int mask) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags}, old;
    sigemptyset(&action.sa_mask);
    if (mask) sigaddset(&action.sa_mask, mask);
    say("set %d", sigaction(signal, &action, &old));
    say_action("now", signal);
}

static volatile char *nowhere = (char *)16;

static void fault(const char *what) {
    handled = code = on_stack = mask_had_usr1 = mask_had_own = 0;
    if (sigsetjmp(back, 1) == 0) *nowhere = 1;
    say("%s: handled %d code %d on its stack %d usr1 %d own %d", what, handled, code, on_stack,
        mask_had_usr1, mask_had_own);
    say_action(" then", SIGSEGV);
}

static void in_child(const char *what, int way) {
    pid_t child = fork();
    int status = 0;
    if (child == 0) {
        if (way == 0) *nowhere = 1;
        if (way == 1) kill(getpid(), SIGSEGV);
        if (way == 2) raise(SIGBUS);
        if (way == 3) { signal(SIGSEGV, SIG_IGN); kill(getpid(), SIGSEGV); _exit(7); }
        if (way == 4) { signal(SIGSEGV, SIG_IGN); *nowhere = 1; }
        if (way == 5) {
            signal(SIGSEGV, SIG_IGN);
            execl("/bin/sh", "sh", "-c", "kill -SEGV $$; exit 8", (char *)NULL);
        }
        if (way == 6) { set(SIGSEGV, only_look, SA_RESETHAND, 0); *nowhere = 1; }
        if (way == 7) execl("/bin/sh", "sh", "-c", "kill -SEGV $$; exit 8", (char *)NULL);
        if (way == 8) {
            signal(SIGSEGV, SIG_IGN);
            pid_t grandchild = vfork();
            if (grandchild == 0) { execl("/bin/sh", "sh", "-c", "kill -SEGV $$; exit 8", (char *)NULL); _exit(1); }
            waitpid(grandchild, &status, 0);
            _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status));
        }
        _exit(6);
    }
    waitpid(child, &status, 0);
    say("%s: exited %d %d killed by %d", what, WIFEXITED(status), WEXITSTATUS(status),
        WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

int main(void) {
    char *page = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(page + 4096, 4096, PROT_NONE);
    alternate = malloc(65536);
    stack_t stack = {.ss_sp = alternate, .ss_size = 65536};
    sigaltstack(&stack, NULL);

    // One handler is there before any window.
    set(SIGBUS, only_look, SA_RESTART, SIGUSR1);
    int fd = open_warm("data", O_RDWR);
    say_action("after the window", SIGSEGV);
    say_action("after the window", SIGBUS);
    raise(SIGBUS);
    say("raised: %d own %d", handled, mask_had_own);

    TRY(read(fd, page + 4096, 8));
    TRY(read(fd, NULL, 8));
    TRY(read(fd, (void *)-4096L, 100));
    read_small(fd, 500, 8000);
    TRY(pread(fd, page + 4096, 100, 8000));
    read_small(fd, 500, 12000);
    struct iovec bad[2] = {{page, 8}, {page + 4096, 8}};
    TRY(readv(fd, bad, 2));
    say("at %lld", (long long)lseek(fd, 0, SEEK_CUR));
    TRY(readv(fd, (struct iovec *)(page + 4096), 2));
    read_small(fd, 500, lseek(fd, 0, SEEK_CUR));
    TRY(read(fd, page + 4096 - 4, 8));
    say("at %lld", (long long)lseek(fd, 0, SEEK_CUR));
    TRY(write(fd, page + 4096, 8));
    TRY(write(fd, NULL, 8));
    say("at %lld", (long long)lseek(fd, 0, SEEK_CUR));
    say_action("after bad addresses", SIGSEGV);

    set(SIGSEGV, jump, 0, SIGUSR1);
    fault("plain");
    read_small(fd, 500, lseek(fd, 0, SEEK_CUR));
    TRY(read(fd, page + 4096, 8));
    set(SIGSEGV, jump, SA_ONSTACK | SA_NODEFER, 0);
    fault("alternate stack, not deferred");
    set(SIGSEGV, (void (*)(int))(void (*)(void))jump_with_information, SA_SIGINFO, 0);
    fault("with information");
    set(SIGSEGV, jump, SA_RESETHAND, 0);
    fault("reset");
    say("signal %d", signal(SIGSEGV, jump) == SIG_DFL);
    fault("by signal");
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    TRY(siginterrupt(SIGSEGV, 1));
    say_action("siginterrupt", SIGSEGV);
    say("sysv_signal %d", sysv_signal(SIGSEGV, only_look) == jump);
    say_action("sysv_signal", SIGSEGV);
    read_small(fd, 500, lseek(fd, 0, SEEK_CUR));
    TRY(read(fd, page + 4096, 8));
    TRY(sigaction(SIGSEGV, NULL, NULL));
    TRY(sigaction(99, NULL, NULL));
    say("signal %d", signal(SIGSEGV, SIG_DFL) == only_look);

    in_child("fault by default", 0);
    in_child("killed by default", 1);
    signal(SIGBUS, SIG_DFL);
    in_child("raised by default", 2);
    in_child("killed, ignored", 3);
    in_child("fault, ignored", 4);
    in_child("ignored across exec", 5);
    in_child("reset, then default", 6);
    in_child("default across exec", 7);
    in_child("ignored across vfork and exec", 8);
    return 0;
}
