/* How much of a small alternate stack it takes to start a script whose interpreter is a script: with
 * libc's own function, found in libc itself, and with the one that the program is linked with. */
#include "log.h"
#include <dlfcn.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

extern char **environ;
enum { STACK_BYTES = 1 << 16, MORE_BYTES_MAX = 1024 };
typedef int Spawn(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                  char *const *, char *const *);
static Spawn *spawn;

static void on_signal(int number) {
    (void)number;
    char *arguments[] = {"./one", NULL};
    pid_t child;
    if (spawn(&child, "./one", NULL, NULL, arguments, environ) == 0) waitpid(child, NULL, 0);
}

static void script(const char *name, const char *text) {
    int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0755);
    write(fd, text, strlen(text)), close(fd);
}

/* What is used of the stack; the first time some of it goes into looking up functions. */
static long used(unsigned char *stack) {
    long unused = 0;
    for (int turn = 0; turn < 2; turn++) {
        memset(stack, 0x5a, STACK_BYTES);
        raise(SIGUSR1);
    }
    while (stack[unused] == 0x5a) unused++;
    return STACK_BYTES - unused;
}

int main(void) {
    script("two", "#!/bin/true\n"), script("one", "#!./two\n");
    unsigned char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = STACK_BYTES}, NULL);
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_signal, .sa_flags = SA_ONSTACK}, NULL);
    spawn = posix_spawn;
    long linked = used(stack);
    spawn = (Spawn *)dlsym(dlopen("libc.so.6", RTLD_NOW), "posix_spawn");
    long own = used(stack);
    say("at most %d bytes more: %s\n", MORE_BYTES_MAX, linked - own <= MORE_BYTES_MAX ? "yes" : "no");
    log_out();
    return 0;
}
