/* A reader that answers itself from a window, and learns in every way that another process has just
 * written a record that the window holds: it must then see the new one. It makes no call between its last
 * look and the acquire point, so that only the acquire point itself can make the window ask again. */
#include "log.h"
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
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
                                   "sched_getaffinity", "pthread_getaffinity_np", "raw sched_getaffinity",
                                   "lseek to the end", "lseek to a hole", "shared flags", "shared position",
                                   "position from outside", "mmap", "another's rights", "isatty",
                                   "another's clock"};
/* From the clock on no window answers: it comes last. */
#define WAYS (int)(sizeof ways / sizeof *ways)
/* Limits that the writer sets for the reader, and processors: all that there are, or the first of them. */
#define OF_PROCESSORS(way) ((way) >= 23 && (way) <= 25)
#define LIMIT(way, round) (unsigned long)(20 * (way) + (round))
/* What is told is a state, and no count. */
#define IS_STATE(way) ((way) == 28 || (way) == 32)
static cpu_set_t processors[2];
static int told[2], sockets[2], event, epoll, semaphores, messages, shared;
static int masters[ROUNDS], terminals[ROUNDS];
static FILE *stream;
static volatile sig_atomic_t heard;
static pid_t writer;
/* The processor's time that a process has taken after a round: much more than it takes until then, also
 * where the machine is emulated. If it is not, because the emulator itself waits, there is another try. */
#define TAKEN_NS(round) (((round) + 1) * 50000000l)
#define TOLD_EARLY 7
static long taken_ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000l + time.tv_nsec;
}
/* A right that nobody here needs (CAP_MKNOD), which a process lays down and takes up again in turns. */
#define SPARE_RIGHT (1u << 27)
struct rights { unsigned effective, permitted, inheritable; };
struct whose { unsigned version; int process; };
extern int capget(struct whose *, struct rights *), capset(struct whose *, struct rights *);
static int has_spare_right(pid_t process) {
    struct rights rights[2] = {{0}};
    capget(&(struct whose){0x20080522, process}, rights);
    return (rights->effective & SPARE_RIGHT) != 0;
}
static void lay_down_or_take_up(void) {
    struct rights rights[2];
    capget(&(struct whose){0x20080522, 0}, rights);
    rights->effective ^= SPARE_RIGHT;
    capset(&(struct whose){0x20080522, 0}, rights);
}
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
    case 17: case 26: case 27: {
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
    case 28: fcntl(shared, F_SETFL, round % 2 ? 0 : O_NONBLOCK); break;
    case 29: case 30: lseek(shared, round + 1, SEEK_SET); break;
    case 31: {
        int fd = open("lock", O_WRONLY);
        pwrite(fd, "x", 1, round);
        close(fd);
        break;
    }
    case 32: lay_down_or_take_up(); break;
    case 33: close(masters[round]); break;
    case 34: while (taken_ns(CLOCK_PROCESS_CPUTIME_ID) < TAKEN_NS(round)) {} break;
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
    case 26: while (lseek(file, 0, SEEK_END) <= round) {} break;
    case 27: while (lseek(file, 0, SEEK_HOLE) <= round) {} break;
    case 28: while (!(fcntl(shared, F_GETFL) & O_NONBLOCK) == !(round % 2)) {} break;
    case 29: case 30: while (lseek(shared, 0, SEEK_CUR) <= round) {} break;
    case 32: while (has_spare_right(writer) == !(round % 2)) {} break;
    case 33: while (isatty(terminals[round])) {} break;
    case 34: {
        static clockid_t clock;
        if (round == 0) clock_getcpuclockid(writer, &clock);
        while (taken_ns(clock) < TAKEN_NS(round)) {}
        break;
    }
    case 31: {
        int is_told = 0;
        while (!is_told) {
            char *map = mmap(NULL, ROUNDS, PROT_READ, MAP_PRIVATE, file, 0);
            is_told = map[round] == 'x';
            munmap(map, ROUNDS);
        }
        break;
    }
    }
}

/* What is left of the telling, when the record was looked at. */
static void tidy(int way) {
    char byte;
    if (way >= 2 && way <= 4) read(told[0], &byte, 1);
    if (way == 22) sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
    if (IS_STATE(way)) send(sockets[0], "x", 1, 0); /* What is not a count may not be missed. */
    if (OF_PROCESSORS(way)) sched_setaffinity(0, sizeof *processors, &processors[1]);
}

static void write_rounds(int way) {
    char record[RECORD];
    int fd = open("data", O_WRONLY), lock = way == 18 ? open("lock", O_RDWR) : -1, early = 0;
    for (long round = 0; round < ROUNDS; round++) {
        if (way == 18) flock(lock, LOCK_EX);
        if (IS_STATE(way) && round > 0) recv(sockets[1], record, 1, 0);
        /* The reader looks meanwhile, and begins to wait. */
        nap(3000);
        snprintf(record, sizeof record, "%030ld\n", round + 1);
        if (pwrite(fd, record, RECORD, PLACE * RECORD) != RECORD) _exit(9);
        if (way == 18) flock(lock, LOCK_UN), nap(500);
        if (way == 34) early |= taken_ns(CLOCK_PROCESS_CPUTIME_ID) >= TAKEN_NS(round);
        tell(way, round);
    }
    _exit(early ? TOLD_EARLY : 0);
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

static void open_terminal(int number) {
    masters[number] = posix_openpt(O_RDWR | O_NOCTTY);
    if (grantpt(masters[number]) || unlockpt(masters[number])) exit(3);
    terminals[number] = open(ptsname(masters[number]), O_RDWR | O_NOCTTY);
}

/* Returns whether nothing was told before it was written. */
static int hear_all(int way) {
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
    make_file("lock", ROUNDS);
    make_file("told", 0);
    /* One that came from outside has been written to, and what it means is known. */
    shared = way == 30 ? 0 : open("shared", O_RDWR | O_CREAT, 0644);
    for (int i = 0; way == 30 && i < 200; i++) write(shared, "x", 1), give_time(shared);
    lseek(shared, 0, SEEK_SET);
    for (int i = 0; way == 33 && i < ROUNDS; i++) open_terminal(i);
    writer = fork();
    if (writer == 0) write_rounds(way);
    /* A terminal has ended when nobody holds its other side. */
    for (int i = 0; way == 33 && i < ROUNDS; i++) close(masters[i]);
    /* Opened by nobody else: it keeps its window. */
    int fd = open("data", O_RDONLY);
    if (way == 17 || way == 26 || way == 27) file = open("told", O_RDONLY);
    if (way == 31) file = open("lock", O_RDONLY);
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
    for (int i = 0; way == 33 && i < ROUNDS; i++) close(terminals[i]);
    int is_told = !WIFEXITED(status) || WEXITSTATUS(status) != TOLD_EARLY;
    if (is_told) say("%s: old %d, status %x\n", ways[way], way == 18 ? 0 : old, status);
    if (way == 18) say("last %ld\n", value_at(fd));
    semctl(semaphores, 0, IPC_RMID);
    msgctl(messages, IPC_RMID, NULL);
    if (shared) close(shared);
    close(fd); close(file); close(event); close(epoll); fclose(stream);
    close(told[0]); close(told[1]); close(sockets[0]); close(sockets[1]);
    for (long round = 0; round < ROUNDS; round++) {
        snprintf(record, sizeof record, "heard-%ld", round);
        remove(record);
    }
    return is_told;
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
        if (OF_PROCESSORS(way) && CPU_EQUAL(&processors[0], &processors[1])) continue;
        if (way == 32 && !has_spare_right(0)) continue;
        while (!hear_all(way)) continue;
    }
    log_out();
    return 0;
}
