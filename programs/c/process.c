/* What a process can learn about itself: nothing of it may change because it is buffered. The
 * environment and the memory map are not asked: that a library is loaded can be seen there. */
#include "log.h"
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

static void entries(const char *name) {
    DIR *folder = opendir(name);
    struct dirent *entry;
    int count = 0, numbers[100];
    while (folder && (entry = readdir(folder)))
        if (entry->d_name[0] != '.' && count < 100) numbers[count++] = atoi(entry->d_name);
    closedir(folder);
    say("%s: %d:", name, count);
    if (strstr(name, "task") == NULL)
        for (int i = 0; i < count; i++) say(" %d", numbers[i]);
    say("\n");
}

static void about(void) {
    say("pid is group leader %d, session leader %d, parent %s, terminal %s\n", getpgrp() == getpid(),
        getsid(0) == getpid(), getppid() > 1 ? "there" : "gone", isatty(0) ? "yes" : "no");
    entries("/proc/self/fd");
    entries("/proc/self/task");
    for (int fd = 0; fd < 10; fd++) {
        int flags = fcntl(fd, F_GETFD);
        say("fd %d: %d %o\n", fd, flags, flags < 0 ? 0 : fcntl(fd, F_GETFL) & ~O_LARGEFILE);
    }
    int status, null = open("/dev/null", O_RDWR);
    pid_t child = waitpid(-1, &status, WNOHANG);
    say("lowest number %d, child %d errno %d\n", null, child, errno);
    close(null);
    sigset_t set;
    sigprocmask(SIG_BLOCK, NULL, &set);
    for (int number = 1; number < 65; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action)) continue;
        if (action.sa_handler != SIG_DFL || sigismember(&set, number))
            say("signal %d handler %d blocked %d flags %x\n", number, action.sa_handler != SIG_IGN, sigismember(&set, number), action.sa_flags);
    }
    stack_t stack;
    sigaltstack(NULL, &stack);
    say("alternative stack %x\n", stack.ss_flags);
    for (int kind = 0; kind < RLIM_NLIMITS; kind++) {
        struct rlimit limit;
        getrlimit(kind, &limit);
        say("limit %d: %lx %lx\n", kind, (long)limit.rlim_cur, (long)limit.rlim_max);
    }
    mode_t mask = umask(0);
    umask(mask);
    say("mask %o dumpable %d privileges %d slack %d nice %d scheduler %d\n", mask, prctl(PR_GET_DUMPABLE),
        prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), prctl(PR_GET_TIMERSLACK), getpriority(PRIO_PROCESS, 0), sched_getscheduler(0));
    int death = -1, reaper = -1;
    prctl(PR_GET_PDEATHSIG, &death);
    prctl(PR_GET_CHILD_SUBREAPER, &reaper);
    say("death signal %d reaper %d seccomp %d\n", death, reaper, prctl(PR_GET_SECCOMP));
    char text[400] = "";
    int fd = open("/proc/self/cmdline", O_RDONLY);
    long n = 0;
    while (read(fd, text + n, 1) == 1) n++;
    close(fd);
    say("command line %ld %s\n", n, text + (strrchr(text, '/') ? strrchr(text, '/') - text : 0));
    fd = open("/proc/self/comm", O_RDONLY);
    memset(text, 0, sizeof text);
    if (read(fd, text, 100) < 0) say("comm\n");
    close(fd);
    say("comm %s", text);
    n = readlink("/proc/self/exe", text, sizeof text - 1);
    text[n < 0 ? 0 : n] = 0;
    say("exe %s umask\n", strrchr(text, '/') ? strrchr(text, '/') : text);
    struct itimerval timer;
    say("alarm %u interval %d\n", alarm(0), getitimer(ITIMER_REAL, &timer));
}

int main(void) {
    about();
    int fd = open("busy", O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < 1000; i++) write(fd, "busy busy\n", 10);
    lseek(fd, 0, SEEK_SET);
    char record[10];
    for (int i = 0; i < 900; i++)
        if (read(fd, record, 10) != 10) say("short\n");
    about();
    log_out();
    pid_t child = fork();
    if (child == 0) {
        say("the child\n");
        about();
        log_out();
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return 0;
}
