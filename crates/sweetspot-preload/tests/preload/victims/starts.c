// Starts a program in every way that there is, as itself or (argument "nobody") as a user who may
// read less, or with more variables than fit on a small stack ("many"), or when it has had a thread ("thread").
#include "common.h"
#include <pthread.h>
#include <spawn.h>
#include <sys/syscall.h>

extern char **environ;
static const char *program;
static char *arguments[] = {"name", NULL};

static void become_open(const char *format) {
    char path[64];
    snprintf(path, sizeof path, format, open(program, O_RDONLY | O_CLOEXEC));
    execv(path, arguments);
}

static void *nothing(void *unused) {
    return unused;
}

static void become(int way) {
    int fd;
    switch (way) {
    case 0: execve(program, arguments, environ); break;
    case 1: execv(program, arguments); break;
    case 2: execvp("target", arguments); break;
    case 3: execvpe("target", arguments, environ); break;
    case 4: execl(program, "name", "1", "2", "3", "4", "5", "6", "7", (char *)NULL); break;
    case 5: execle(program, "name", "1", "2", "3", "4", "5", "6", (char *)NULL, environ); break;
    case 6: execlp("target", "name", (char *)NULL); break;
    case 7: fd = open(program, O_RDONLY | O_CLOEXEC); fexecve(fd, arguments, environ); break;
    case 8: fd = open(program, O_PATH); execveat(fd, "", arguments, environ, AT_EMPTY_PATH); break;
    case 9: fd = open(".", O_RDONLY); execveat(fd, "target", arguments, environ, 0); break;
    case 10: syscall(SYS_execve, program, arguments, environ); break;
    case 11: syscall(SYS_execveat, AT_FDCWD, program, arguments, environ, 0); break;
    case 12: become_open("/proc/thread-self/fd/%d"); break;
    case 13: become_open("/proc/self/fd/%d"); break;
    case 14: become_open("/dev/fd/%d"); break;
    }
    _exit(errno);
}

int main(int count, char **words) {
    int status = 0;
    pid_t child = 0;
    program = "./target";
    setenv("PATH", "/no/such:.:/bin:/usr/bin", 1);
    for (int i = 0; count > 1 && !strcmp(words[1], "many") && i < 2000; i++) {
        char name[32];
        snprintf(name, sizeof name, "MANY_%d", i);
        setenv(name, "x", 1);
    }
    pthread_t thread;
    if (count > 1 && !strcmp(words[1], "thread") && !pthread_create(&thread, NULL, nothing, NULL))
        pthread_join(thread, NULL);
    if (count > 1 && !strcmp(words[1], "nobody") && setuid(65534)) return 1;
    for (int way = 0; way < 15; way++) {
        say("way %d", way);
        child = fork();
        if (child == 0) become(way);
        waitpid(child, &status, 0);
        say("by fork %x", status);
        // volatile: the child of a vfork must not change what is kept in registers
        int volatile same = way;
        child = vfork();
        if (child == 0) become(same);
        waitpid(child, &status, 0);
        say("by vfork %x", status);
    }
    for (int way = 0; way < 2; way++) {
        int (*spawn)() = way ? (int (*)())posix_spawnp : (int (*)())posix_spawn;
        int answer = spawn(&child, way ? "target" : program, NULL, NULL, arguments, environ);
        waitpid(child, &status, 0);
        say("spawn %d gave %x", answer, status);
    }
    say("system %x", system(program));
    FILE *stream = popen(program, "r");
    static char text[1 << 20];
    say("popen %zu bytes", fread(text, 1, sizeof text, stream));
    say("pclose %x", pclose(stream));
    return 0;
}
