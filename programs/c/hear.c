/* A reader that answers itself from a window, and hears in every way that another process has just
 * written a record that the window holds: it must then see the new one. Between its last look and what
 * it hears it makes no call, so that nothing but the hearing itself can make the window ask again. */
#include "log.h"
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#define ROUNDS 12
#define RECORD 32
#define RECORDS 200
#define PLACE 100

static const char *const ways[] = {"read", "readv", "poll", "select", "epoll", "eventfd", "recv",
                                   "fgetc", "sigwait", "pause", "msgrcv", "semop", "access",
                                   "readlink", "open", "stat", "opendir", "read a file", "flock",
                                   "getrlimit", "getdtablesize", "sysconf", "sched_getscheduler",
                                   "sched_getaffinity", "pthread_getaffinity_np", "raw sched_getaffinity"};
#define WAYS (int)(sizeof ways / sizeof *ways)
/* Limits that the writer sets for the reader, and processors: all that there are, or the first of them. */
#define LIMIT(way, round) (unsigned long)(20 * (way) + (round))
static cpu_set_t processors[2];
static int told[2], sockets[2], event, epoll, semaphores, messages;
static FILE *stream;
static volatile sig_atomic_t heard;
static void on_signal(int number) { (void)number; heard++; }

static void nap(long us) {
    struct timespec time = {0, us * 1000};
    nanosleep(&time, NULL);
}

static void tell(int way, long round) {
    char name[32];
    long one = 1;
    struct { long type; char text[4]; } message = {1, "go"};
    struct sembuf up = {0, 1, 0};
    cpu_set_t may;
    snprintf(name, sizeof name, "heard-%ld", round);
    switch (way) {
    case 5: write(event, &one, 8); break;
    case 6: send(sockets[1], "x", 1, 0); break;
    case 8: case 9: sigqueue(getppid(), SIGRTMIN, (union sigval){0}); break;
    case 10: msgsnd(messages, &message, 4, 0); break;
    case 11: semop(semaphores, &up, 1); break;
    case 12: case 14: case 15: case 16: mkdir(name, 0755); break;
    case 13: symlink("x", name); break;
    case 17: {
        int fd = open("told", O_WRONLY | O_APPEND | O_CREAT, 0644);
        write(fd, "x", 1);
        close(fd);
        break;
    }
    case 18: break;
    case 19: case 20: case 21: {
        struct rlimit limit;
        prlimit(getppid(), RLIMIT_NOFILE, NULL, &limit);
        limit.rlim_cur = LIMIT(way, round);
        prlimit(getppid(), RLIMIT_NOFILE, &limit, NULL);
        break;
    }
    case 22: {
        while (sched_getscheduler(getppid()) != SCHED_OTHER) nap(100);
        sched_setscheduler(getppid(), SCHED_BATCH, &(struct sched_param){0});
        break;
    }
    case 23: case 24: case 25:
        do sched_getaffinity(getppid(), sizeof may, &may); while (!CPU_EQUAL(&may, &processors[1]));
        sched_setaffinity(getppid(), sizeof may, &processors[0]);
        break;
    default: write(told[1], "x", 1);
    }
}

static void hear(int way, long round, int file) {
    char byte, name[32];
    long value;
    struct iovec part = {&byte, 1};
    struct pollfd poll_in = {told[0], POLLIN, 0};
    struct epoll_event one;
    struct { long type; char text[4]; } message;
    struct sembuf down = {0, -1, 0};
    struct stat data;
    fd_set set;
    sigset_t signals;
    int number;
    struct rlimit limit;
    cpu_set_t may;
    snprintf(name, sizeof name, "heard-%ld", round);
    switch (way) {
    case 0: read(told[0], &byte, 1); break;
    case 1: readv(told[0], &part, 1); break;
    case 2: poll(&poll_in, 1, -1); break;
    case 3: FD_ZERO(&set); FD_SET(told[0], &set); select(told[0] + 1, &set, NULL, NULL, NULL); break;
    case 4: epoll_wait(epoll, &one, 1, -1); break;
    case 5: read(event, &value, 8); break;
    case 6: recv(sockets[0], &byte, 1, 0); break;
    case 7: fgetc(stream); break;
    case 8: sigemptyset(&signals); sigaddset(&signals, SIGRTMIN); sigwait(&signals, &number); break;
    case 9: sigemptyset(&signals); while (heard <= round) sigsuspend(&signals); break;
    case 10: msgrcv(messages, &message, 4, 0, 0); break;
    case 11: while (semop(semaphores, &down, 1)) {} break;
    case 12: while (access(name, F_OK)) {} break;
    case 13: while (readlink(name, &byte, 1) != 1) {} break;
    case 14: while ((number = open(name, O_RDONLY)) < 0) {} close(number); break;
    case 15: while (stat(name, &data)) {} break;
    case 16: for (DIR *all; (all = opendir(name)) == NULL;) {} break;
    case 17: while (pread(file, &byte, 1, round) != 1) {} break;
    case 18: flock(told[0], LOCK_SH); flock(told[0], LOCK_UN); break;
    case 19: do getrlimit(RLIMIT_NOFILE, &limit); while (limit.rlim_cur < LIMIT(way, round)); break;
    case 20: while (getdtablesize() < (int)LIMIT(way, round)) {} break;
    case 21: while (sysconf(_SC_OPEN_MAX) < (long)LIMIT(way, round)) {} break;
    case 22: while (sched_getscheduler(0) != SCHED_BATCH) {} break;
    case 23: do sched_getaffinity(0, sizeof may, &may); while (!CPU_EQUAL(&may, &processors[0])); break;
    case 24: do pthread_getaffinity_np(pthread_self(), sizeof may, &may);
        while (!CPU_EQUAL(&may, &processors[0]));
        break;
    case 25: do {
            CPU_ZERO(&may);
            syscall(SYS_sched_getaffinity, 0, sizeof may, &may);
        } while (!CPU_EQUAL(&may, &processors[0]));
        break;
    }
}

/* What is left of the telling, when the record was looked at. */
static void tidy(int way) {
    char byte;
    if (way >= 2 && way <= 4) read(told[0], &byte, 1);
    if (way == 22) sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
    if (way >= 23) sched_setaffinity(0, sizeof *processors, &processors[1]);
}

static void write_rounds(int way) {
    char record[RECORD];
    int fd = open("data", O_WRONLY), lock = way == 18 ? open("lock", O_RDWR) : -1;
    for (long round = 0; round < ROUNDS; round++) {
        if (way == 18) flock(lock, LOCK_EX);
        /* The reader looks meanwhile, and begins to wait. */
        nap(3000);
        snprintf(record, sizeof record, "%030ld\n", round + 1);
        if (pwrite(fd, record, RECORD, PLACE * RECORD) != RECORD) _exit(9);
        if (way == 18) flock(lock, LOCK_UN), nap(500);
        tell(way, round);
    }
    _exit(0);
}

/* The record's number, by a positioned read and by a plain one in turns. */
static long value_at(int fd) {
    char record[RECORD] = "";
    static int turn;
    if (turn++ % 2) {
        lseek(fd, PLACE * RECORD, SEEK_SET);
        return read(fd, record, RECORD - 1) == RECORD - 1 ? atol(record) : -1;
    }
    return pread(fd, record, RECORD - 1, PLACE * RECORD) == RECORD - 1 ? atol(record) : -1;
}

static void hear_all(int way) {
    char record[RECORD];
    int old = 0, status, file = -1;
    if (pipe(told) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets)) exit(3);
    /* What is told twice is heard twice. */
    event = eventfd(0, EFD_SEMAPHORE);
    epoll = epoll_create1(0);
    struct epoll_event one = {EPOLLIN, {0}};
    epoll_ctl(epoll, EPOLL_CTL_ADD, told[0], &one);
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    messages = msgget(IPC_PRIVATE, 0600);
    stream = fdopen(dup(told[0]), "r");
    heard = 0;
    make_file("data", RECORD * RECORDS);
    make_file("lock", 1);
    make_file("told", 0);
    pid_t writer = fork();
    if (writer == 0) write_rounds(way);
    /* Opened by nobody else: it keeps its window. */
    int fd = open("data", O_RDONLY);
    if (way == 17) file = open("told", O_RDONLY);
    if (way == 18) close(told[0]), told[0] = open("lock", O_RDWR);
    for (int i = 0; i < 60; i++) read(fd, record, RECORD);
    for (long round = 0; round < ROUNDS; round++) {
        if (way == 18) nap(1000);
        for (int i = 0; i < 20 + round % 2; i++) value_at(fd);
        hear(way, round, file);
        old += value_at(fd) < round + 1;
        tidy(way);
    }
    waitpid(writer, &status, 0);
    say("%s: old %d, status %x\n", ways[way], way == 18 ? 0 : old, status);
    if (way == 18) say("last %ld\n", value_at(fd));
    semctl(semaphores, 0, IPC_RMID);
    msgctl(messages, IPC_RMID, NULL);
    close(fd); close(file); close(event); close(epoll); fclose(stream);
    close(told[0]); close(told[1]); close(sockets[0]); close(sockets[1]);
    for (long round = 0; round < ROUNDS; round++) {
        snprintf(record, sizeof record, "heard-%ld", round);
        remove(record);
    }
}

int main(void) {
    sigset_t signals;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 100;
    setrlimit(RLIMIT_NOFILE, &limit);
    sched_getaffinity(0, sizeof *processors, &processors[1]);
    for (int cpu = 0; CPU_COUNT(&processors[0]) == 0; cpu++)
        if (CPU_ISSET(cpu, &processors[1])) CPU_SET(cpu, &processors[0]);
    signal(SIGRTMIN, on_signal);
    sigemptyset(&signals);
    sigaddset(&signals, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    for (int way = 0; way < WAYS; way++) {
        /* Where there is one processor, nobody can be told by it. */
        if (way >= 23 && CPU_EQUAL(&processors[0], &processors[1])) continue;
        hear_all(way);
    }
    log_out();
    return 0;
}
