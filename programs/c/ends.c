/* Every way to end, with bytes written just before. Usage: ends HOW [MODE]
 * The file is written before by many small calls; nothing is said before the end. */
#include "log.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

static int fd;
static void last_words(void) { write(fd, "atexit;", 7); }
static void on_signal(int number) {
    write(fd, "handler;", 8);
    if (number == SIGTERM) _exit(6);
}
static sigjmp_buf back;
static void on_fault(int number) { (void)number; write(fd, "fault;", 6); siglongjmp(back, 1); }
static void *thread_exit(void *argument) {
    for (int i = 0; i < 300; i++) write(fd, "thread;", 7);
    exit(argument ? 8 : 0);
}
static void *thread_waits(void *argument) {
    while (argument == NULL) pause();
    return NULL;
}
__attribute__((destructor)) static void destructor(void) { if (fd > 2) write(fd, "destructor;", 11); }
static volatile int *nowhere;

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "return";
    int flags = argc > 2 && !strcmp(argv[2], "append") ? O_APPEND : 0;
    if (argc > 2 && !strcmp(argv[2], "stdout")) fd = 1;
    else fd = open("out", O_RDWR | O_CREAT | flags, 0644);
    pthread_t thread;
    char line[20];
    for (int i = 0; i < 1000; i++) {
        if (i >= 70 && i < 900) give_time(fd);
        int n = snprintf(line, sizeof line, "record %06d\n", i);
        if (write(fd, line, (size_t)n) != n) return 99;
    }
    if (argc > 2 && !strcmp(argv[2], "rewrite"))
        for (int i = 0; i < 500; i++) {
            lseek(fd, i * 14, SEEK_SET);
            if (read(fd, line, 14) != 14) return 98;
            lseek(fd, -14, SEEK_CUR);
            line[0] = 'R';
            write(fd, line, 14);
        }
    /* The last thing before the end are small writes: what waits for a window is still to be written. */
    lseek(fd, 0, SEEK_END);
    for (int i = 0; i < 1000; i++) {
        int n = snprintf(line, sizeof line, "final %06d\n", i);
        if (write(fd, line, (size_t)n) != n) return 99;
    }
#define IS(name) if (!strcmp(how, name))
    IS("return") return 3;
    IS("exit") { atexit(last_words); exit(4); }
    IS("_exit") { atexit(last_words); _exit(5); }
    IS("_Exit") _Exit(5);
    IS("quick_exit") { at_quick_exit(last_words); quick_exit(6); }
    IS("abort") abort();
    IS("abort-handled") { signal(SIGABRT, on_signal); abort(); }
    IS("segv") *nowhere = 1;
    IS("bus") { int other = open("short", O_RDWR | O_CREAT, 0644); volatile char *view = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0); view[0] = 1; }
    IS("trap") __builtin_trap();
    IS("fpe") { volatile int five = 5, zero = 0; return five / zero; }
    IS("segv-handled") {
        signal(SIGSEGV, on_fault);
        if (sigsetjmp(back, 1) == 0) *nowhere = 1;
        for (int i = 0; i < 300; i++) write(fd, "went on;", 8);
        return 7;
    }
    IS("kill") kill(getpid(), SIGKILL);
    IS("term") kill(getpid(), SIGTERM);
    IS("raise-hup") raise(SIGHUP);
    IS("term-handled") { signal(SIGTERM, on_signal); raise(SIGTERM); }
    IS("usr1-handled") { signal(SIGUSR1, on_signal); for (int i = 0; i < 300; i++) { raise(SIGUSR1); write(fd, "main;", 5); } return 8; }
    IS("alarm") { struct itimerval soon = {{0, 0}, {0, 50000}}; setitimer(ITIMER_REAL, &soon, NULL); for (;;) pause(); }
    IS("timer") {
        /* The handler comes anywhere in the writes; each of its records is whole and there. */
        static volatile sig_atomic_t count;
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
        sigaction(SIGPROF, &action, NULL);
        pid_t child = fork(), parent = getppid();
        if (child == 0) { (void)parent; for (int i = 0; i < 100; i++) { kill(getppid(), SIGPROF); usleep(100); } _exit(0); }
        for (int i = 0; i < 20000; i++) write(fd, "main\n", 5);
        while (waitpid(child, NULL, 0) < 0) {}
        (void)count;
        /* How many handlers ran is chance (pending signals merge): only whole records remain. */
        lseek(fd, 0, SEEK_SET);
        long mains = 0, others = 0, bad = 0;
        FILE *in = fopen("out", "r");
        char *text = NULL; size_t room = 0;
        while (getline(&text, &room, in) > 0) {
            char *start = text;
            while (!strncmp(start, "handler;", 8)) start += 8, others++;
            if (!strcmp(start, "main\n")) mains++;
            else if (*start && strncmp(start + 1, "ecord ", 6) && strncmp(start, "final ", 6)) bad++;
        }
        fclose(in); close(fd); unlink("out");
        say("mains %ld handlers %s bad %ld\n", mains, others > 0 && others <= 101 ? "some" : "WRONG", bad);
        log_out();
        return 0;
    }
    IS("exec") { execlp("sh", "sh", "-c", "wc -c < out; echo more >> out; exit 9", NULL); }
    IS("exec-keeps") { dup2(fd, 9); execlp("sh", "sh", "-c", "echo more >&9; wc -c < out; exit 9", NULL); }
    IS("exec-fails") { execl("/nonexistent", "x", NULL); for (int i = 0; i < 300; i++) write(fd, "failed;", 7); return 10; }
    IS("thread-exit") { pthread_create(&thread, NULL, thread_exit, fd ? &fd : NULL); pthread_join(thread, NULL); }
    IS("main-thread-ends") { pthread_create(&thread, NULL, thread_exit, &fd); pthread_exit(NULL); }
    IS("exit-beside-thread") { pthread_create(&thread, NULL, thread_waits, NULL); return 11; }
    IS("cancel") {
        pthread_create(&thread, NULL, thread_waits, NULL);
        pthread_cancel(thread);
        pthread_join(thread, NULL);
        for (int i = 0; i < 300; i++) write(fd, "cancelled;", 10);
        return 12;
    }
    IS("raw-exit") syscall(SYS_exit_group, 13);
    IS("raw-exit-thread") { pthread_create(&thread, NULL, thread_waits, NULL); syscall(SYS_exit_group, 14); }
    IS("child-killed") {
        pid_t child = fork();
        if (child == 0) {
            int other = open("child", O_RDWR | O_CREAT, 0644);
            for (int i = 0; i < 1000; i++) write(other, "child of a parent;", 18);
            *nowhere = 1;
        }
        int status;
        waitpid(child, &status, 0);
        say_file("child");
        say("status %x\n", status);
        write(fd, log_text, log_length);
        return 15;
    }
    IS("daemon") {
        if (fork() == 0) {
            setsid();
            if (fork()) _exit(0);
            for (int i = 0; i < 1000; i++) write(fd, "daemon;", 7);
            int done = open("done", O_WRONLY | O_CREAT, 0644);
            close(done);
            _exit(0);
        }
        wait(NULL);
        while (access("done", F_OK)) usleep(1000);
        return 16;
    }
    IS("setuid") {
        if (setgid(65534) || setuid(65534)) say("not allowed %d\n", errno);
        for (int i = 0; i < 300; i++) write(fd, "as nobody;", 10);
        say("%d\n", open("/etc/shadow", O_RDONLY) >= 0);
        log_out();
        return 17;
    }
    IS("chroot") {
        /* Only root may: what is said is the same either way. */
        int allowed = chroot(".");
        for (int i = 0; i < 300; i++) write(fd, allowed == 0 ? "in a root of its own;" : "not allowed;", 12);
        return 18;
    }
    IS("limits") {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_NOFILE, &none);
        setrlimit(RLIMIT_NPROC, &none);
        for (int i = 0; i < 300; i++) write(fd, "no descriptors;", 15);
        return 19;
    }
    IS("memory") {
        struct rlimit some = {64 << 20, 64 << 20};
        setrlimit(RLIMIT_AS, &some);
        int other = open("other", O_RDWR | O_CREAT, 0644);
        for (int i = 0; i < 3000; i++) { write(fd, "little memory;", 14); write(other, "other;", 6); }
        return 20;
    }
    IS("seccomp-strict") {
        /* From here on only read, write and exit are allowed; anything else kills. */
        prctl(PR_SET_SECCOMP, 1);
        for (int i = 0; i < 300; i++) write(fd, "strictly;", 9);
        syscall(SYS_exit, 23);
    }
    IS("seccomp-filter") {
        /* A list of calls; any other kills the process. */
        static const int allowed[] = {SYS_read, SYS_write, SYS_lseek, SYS_exit_group, SYS_rt_sigreturn};
        struct sock_filter filter[16] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
        unsigned n = 1, count = sizeof allowed / sizeof *allowed;
        for (unsigned i = 0; i < count; i++)
            filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], (unsigned char)(count - i), 0);
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        struct sock_fprog program = {(unsigned short)n, filter};
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 96;
        for (int i = 0; i < 300; i++) write(fd, "filtered;", 9);
        lseek(fd, 0, SEEK_SET);
        for (int i = 0; i < 300; i++) read(fd, line, 5);
        _exit(24);
    }
    IS("stop") {
        /* Told to go on until it does: told once, it might be so before it stops. */
        pid_t child = fork();
        if (child == 0) for (;;) { usleep(50000); kill(getppid(), SIGCONT); }
        raise(SIGSTOP);
        write(fd, "continued;", 10);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        return 21;
    }
    IS("no-new-privileges") { prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); prctl(PR_SET_DUMPABLE, 0); for (int i = 0; i < 300; i++) write(fd, "dumpable;", 9); return 22; }
    return 97;
}
