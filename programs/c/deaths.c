/* A child is killed while it writes, by a system call that no library sees; however its parent learns
 * of that, the file then holds all that the child had written. */
#include "log.h"
#include "raw.h"
#include <mqueue.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;
enum { RECORD = 100, RECORDS = 1200 };

static const struct sigevent silent = {.sigev_notify = SIGEV_NONE};

/* Writes, and is killed. With a queue it asks to be told of messages first. */
static int child(const char *queue) {
    char record[RECORD];
    if (queue) mq_notify(atoi(queue), &silent), close(open("asked", O_CREAT | O_WRONLY, 0644));
    memset(record, 'x', RECORD);
    int fd = open("file", O_CREAT | O_TRUNC | O_WRONLY, 0644);
    for (int i = 0; i < RECORDS; i++) {
        write(fd, record, RECORD);
        if (i == 100 || i == 300 || i == 500) usleep(15000);
    }
    raw(SYS_kill, raw(SYS_getpid, 0, 0, 0, 0), SIGKILL, 0, 0);
    return 1;
}

static char program[4096];
static pid_t start_with(char *queue) {
    char *arguments[] = {program, "child", queue, NULL};
    pid_t process;
    posix_spawn(&process, program, NULL, NULL, arguments, environ);
    return process;
}

static pid_t start(void) { return start_with(NULL); }

static volatile sig_atomic_t told;
static void on_child(int number) { (void)number, told = 1; }
static long short_by[18];

static void look(int way) {
    struct stat stat_of = {0};
    stat("file", &stat_of);
    short_by[way] += RECORD * RECORDS - stat_of.st_size;
    unlink("file");
}

static const char *const ways[] = {"system", "pclose", "waitid that leaves it", "a descriptor of it",
    "the same by epoll", "a handler", "waitpid that does not wait", "ignored", "raw wait4", "raw waitid",
    "sigwait", "a descriptor of signals", "kill", "sigpending", "send", "recv",
    "a descriptor of signals, kept over an exec", "a queue of messages"};

/* Learns of it since nobody else asks any more to be told of messages. */
static pid_t left_a_queue(void) {
    char name[40], number_of[12];
    snprintf(name, sizeof name, "/deaths-%d", (int)getpid());
    mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, NULL);
    mq_unlink(name), fcntl(queue, F_SETFD, 0);
    snprintf(number_of, sizeof number_of, "%d", queue);
    pid_t process = start_with(number_of);
    while (unlink("asked") != 0) usleep(100);
    while (mq_notify(queue, &silent) != 0 && errno == EBUSY) usleep(100);
    look(17), mq_close(queue);
    return process;
}

/* Learns of it by a descriptor that was made before it became what it is. */
static int kept(int fd) {
    struct signalfd_siginfo read_of;
    struct stat stat_of = {0};
    read(fd, &read_of, sizeof read_of);
    stat("file", &stat_of);
    return stat_of.st_size != RECORD * RECORDS;
}

int main(int count, char **arguments) {
    if (count > 1 && !strcmp(arguments[1], "child")) return child(arguments[2]);
    if (count > 2 && !strcmp(arguments[1], "kept")) return kept(atoi(arguments[2]));
    readlink("/proc/self/exe", program, sizeof program - 1);
    char command[5000];
    int status, number;
    pid_t process;
    siginfo_t information;
    struct timespec until, now;
    snprintf(command, sizeof command, "exec '%s' child", program);
    for (int round = 0; round < 3; round++) {
        status = system(command), look(0);
        FILE *stream = popen(command, "r");
        while (fgetc(stream) != EOF) continue;
        pclose(stream), look(1);
        process = start(), waitid(P_PID, (id_t)process, &information, WEXITED | WNOWAIT), look(2);
        waitpid(process, &status, 0);
        for (int by_epoll = 0; by_epoll < 2; by_epoll++) {
            process = start();
            int fd = (int)syscall(SYS_pidfd_open, process, 0), epoll = epoll_create1(EPOLL_CLOEXEC);
            struct pollfd waited = {fd, POLLIN, 0};
            struct epoll_event event = {.events = EPOLLIN};
            epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
            if (by_epoll) epoll_wait(epoll, &event, 1, 9000); else poll(&waited, 1, 9000);
            look(3 + by_epoll), close(fd), close(epoll);
            waitpid(process, &status, 0);
        }
        signal(SIGCHLD, on_child), told = 0, process = start();
        clock_gettime(CLOCK_MONOTONIC, &until), until.tv_sec += 9;
        do clock_gettime(CLOCK_MONOTONIC, &now); while (!told && now.tv_sec < until.tv_sec);
        look(5), signal(SIGCHLD, SIG_DFL), waitpid(process, &status, 0);
        process = start();
        while (waitpid(process, &status, WNOHANG) == 0) usleep(100);
        look(6);
        signal(SIGCHLD, SIG_IGN), process = start();
        while (wait(&status) > 0 || errno != ECHILD) continue;
        look(7), signal(SIGCHLD, SIG_DFL);
        process = start(), syscall(SYS_wait4, process, &status, 0, NULL), look(8);
        process = start(), syscall(SYS_waitid, P_PID, process, &information, WEXITED, NULL), look(9);
        sigset_t set;
        sigemptyset(&set), sigaddset(&set, SIGCHLD), sigprocmask(SIG_BLOCK, &set, NULL);
        process = start(), sigwait(&set, &number), look(10), waitpid(process, &status, 0);
        int fd = signalfd(-1, &set, SFD_CLOEXEC);
        struct signalfd_siginfo read_of;
        process = start(), read(fd, &read_of, sizeof read_of), look(11);
        waitpid(process, &status, 0), close(fd), sigprocmask(SIG_UNBLOCK, &set, NULL);
        signal(SIGCHLD, SIG_IGN), process = start();
        while (kill(process, 0) == 0) usleep(100);
        look(12), signal(SIGCHLD, SIG_DFL);
        sigprocmask(SIG_BLOCK, &set, NULL), process = start();
        sigset_t pending;
        do sigpending(&pending); while (!sigismember(&pending, SIGCHLD));
        look(13), waitpid(process, &status, 0), sigprocmask(SIG_UNBLOCK, &set, NULL);
        for (int receives = 0; receives < 2; receives++) {
            int pair[2];
            char byte = 0;
            socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
            fcntl(pair[0], F_SETFD, FD_CLOEXEC);
            process = start(), close(pair[1]);
            if (receives) recv(pair[0], &byte, 1, 0);
            else while (send(pair[0], &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 || errno == EAGAIN) usleep(100);
            look(14 + receives), close(pair[0]), waitpid(process, &status, 0);
        }
        process = fork();
        if (process == 0) {
            char number_of[12];
            sigprocmask(SIG_BLOCK, &set, NULL);
            snprintf(number_of, sizeof number_of, "%d", signalfd(-1, &set, 0));
            start(), execl(program, program, "kept", number_of, NULL);
            _exit(9);
        }
        waitpid(process, &status, 0), short_by[16] += status, unlink("file");
        process = left_a_queue(), waitpid(process, &status, 0);
    }
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++)
        say("%s: %ld bytes short\n", ways[way], short_by[way]);
    log_out();
    return 0;
}
