// Starts a program in every way that there is, as itself or (argument "nobody") as a user who may
// read less, or with more variables than fit on a small stack ("many"), or when it has had a thread ("thread"), and
// in which closing a descriptor would be noticed ("queue"), or under a filter of system calls ("filter", "filter-many").
#include "common.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mqueue.h>
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
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
    /* The path may be empty, and is not. */
    case 15: execveat(AT_FDCWD, program, arguments, environ, AT_EMPTY_PATH); break;
    case 16: fd = open(".", O_RDONLY); execveat(fd, "target", arguments, environ, AT_EMPTY_PATH); break;
    case 17: syscall(SYS_execveat, AT_FDCWD, program, arguments, environ, AT_EMPTY_PATH); break;
    }
    _exit(errno);
}

/* A queue tells this process of messages until any thread of it closes the queue, in whatever table. */
static void be_told(void) {
    char name[32];
    snprintf(name, sizeof name, "/starts-%d", getpid());
    struct mq_attr sizes = {.mq_maxmsg = 4, .mq_msgsize = 32};
    struct sigevent nothing = {.sigev_notify = SIGEV_NONE};
    mqd_t queue = mq_open(name, O_CREAT | O_RDWR, 0600, &sizes);
    if (queue < 0 || mq_notify(queue, &nothing)) abort();
    mq_unlink(name);
}

/* One by which a question that changes nothing would be the end: how memory is asked whether it can be read. */
static void filter(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)-1, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) abort();
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) abort();
}

int main(int count, char **words) {
    const char *word = count > 1 ? words[1] : "";
    int status = 0;
    pid_t child = 0;
    program = "./target";
    setenv("PATH", "/no/such:.:/bin:/usr/bin", 1);
    for (int i = 0; strstr(word, "many") && i < 2000; i++) {
        char name[32];
        snprintf(name, sizeof name, "MANY_%d", i);
        setenv(name, "x", 1);
    }
    pthread_t thread;
    bool has_threads = !strcmp(word, "thread") || !strcmp(word, "queue");
    if (has_threads && !pthread_create(&thread, NULL, nothing, NULL)) pthread_join(thread, NULL);
    if (!strcmp(word, "queue")) be_told();
    if (!strncmp(word, "filter", 6)) filter();
    if (!strcmp(word, "nobody") && setuid(65534)) return 1;
    for (int way = 0; way < 18; way++) {
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
