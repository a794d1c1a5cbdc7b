/* What others see, and when: two processes that tell each other things by pipes, files, names, signals,
 * locks and shared memory while one of them writes a file. Each says what it found. */
#include "log.h"
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <semaphore.h>
#include <time.h>

#define ROUNDS 12
#define RECORDS 300
static int wake[2], answer[2];
static char record[32];

static long size_of(const char *name) {
    struct stat data;
    return stat(name, &data) ? -errno : (long)data.st_size;
}
static void records(int fd, int round) {
    for (int i = 0; i < RECORDS; i++) {
        int n = snprintf(record, sizeof record, "%03d %05d\n", round, i);
        if (write(fd, record, (size_t)n) != n) say("short\n");
    }
}
static void check(const char *how, int round, int in) {
    /* Everything of all rounds so far must be there, through the name and through an old window. */
    long expected = (long)(round + 1) * RECORDS * 10, lines = 0, got = 0;
    ssize_t n;
    say("%s %d: size %s", how, round, size_of("data") >= expected ? "enough" : "SHORT");
    while ((n = read(in, record, 10)) == 10) {
        got += n;
        lines++;
        if (lines == RECORDS) break;
    }
    say(" got %ld of %.9s\n", got, record);
}

static const char *const ways[] = {"pipe", "flag", "signal", "mkdir", "symlink", "eventfd",
                                   "semaphore", "semop", "message", "shared-memory", "log", "stamp",
                                   "position", "read", "write", "flags", "outside-position", "outside-read",
                                   "outside-write"};
#define WAYS (int)(sizeof ways / sizeof *ways)
static sem_t *semaphore;
static volatile int *shared;
static volatile sig_atomic_t signalled;
static void on_signal(int number) { (void)number; signalled++; }
static int event, semaphores, messages, common;

static void tell(int how, int round, int data) {
    (void)data;
    switch (how) {
    case 0: write(wake[1], "x", 1); break;
    case 1: { int fd = open("flag", O_WRONLY | O_CREAT, 0644); write(fd, "x", 1); close(fd); rename("flag", "ready"); break; }
    case 2: kill(getppid(), SIGUSR1); break;
    case 3: mkdir("ready", 0755); break;
    case 4: symlink("x", "ready"); break;
    case 5: { long one = 1; write(event, &one, 8); break; }
    case 6: sem_post(semaphore); break;
    case 7: { struct sembuf up = {0, 1, 0}; semop(semaphores, &up, 1); break; }
    case 8: { struct { long type; char text[4]; } message = {1, "go"}; msgsnd(messages, &message, 4, 0); break; }
    case 9: __atomic_store_n(shared, round + 1, __ATOMIC_SEQ_CST); break;
    case 10: { int fd = open("log", O_WRONLY | O_CREAT | O_APPEND, 0644); write(fd, "ready\n", 6); close(fd); break; }
    case 11: { struct timespec times[2] = {{round + 1, 0}, {round + 1, 0}}; utimensat(AT_FDCWD, "stamp", times, 0); break; }
    /* A description that both have: where it is, and how it is open. */
    case 12: case 16: lseek(common, round + 1, SEEK_SET); break;
    case 13: case 17: { char byte; read(common, &byte, 1); break; }
    case 14: case 18: write(common, "x", 1); break;
    case 15: fcntl(common, F_SETFL, round % 2 ? 0 : O_NONBLOCK); break;
    }
}
static void nap(void) {
    struct timespec little = {0, 200000};
    nanosleep(&little, NULL);
}
static void learn(int how, int round) {
    struct stat data;
    char byte;
    long value;
    switch (how) {
    case 0: if (read(wake[0], &byte, 1) != 1) say("closed\n"); break;
    case 1: while (access("ready", F_OK)) nap(); unlink("ready"); break;
    case 2: while (signalled <= round) nap(); break;
    case 3: while (stat("ready", &data)) nap(); rmdir("ready"); break;
    case 4: while (readlink("ready", &byte, 1) != 1) nap(); unlink("ready"); break;
    case 5: if (read(event, &value, 8) != 8) say("closed\n"); break;
    case 6: sem_wait(semaphore); break;
    case 7: { struct sembuf down = {0, -1, 0}; while (semop(semaphores, &down, 1)) {} break; }
    case 8: { struct { long type; char text[4]; } message; while (msgrcv(messages, &message, 4, 0, 0) < 0) {} break; }
    case 9: while (__atomic_load_n(shared, __ATOMIC_SEQ_CST) <= round) sched_yield(); break;
    case 10: while (size_of("log") < 6 * (round + 1)) nap(); break;
    case 11: while (stat("stamp", &data) || data.st_mtim.tv_sec <= round || data.st_mtim.tv_sec > 1000) nap(); break;
    case 15: while (!(fcntl(common, F_GETFL) & O_NONBLOCK) == !(round % 2)) nap(); break;
    default: while (lseek(common, 0, SEEK_CUR) <= round) nap();
    }
}

/* For as long as the other one takes to learn of it, without a call: the next one may be a release point,
 * too. */
static void compute(void) {
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec < 5000000L);
}

static int run(int how) {
    char *page = NULL;
    if (how == 6 || how == 9) {
        /* Only here: memory that is shared is a channel of its own, and may end all buffering. */
        page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        shared = (volatile int *)page;
        semaphore = (sem_t *)(page + 1024);
        sem_init(semaphore, 1, 0);
    }
    signal(SIGUSR1, on_signal);
    event = eventfd(0, 0);
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    messages = msgget(IPC_PRIVATE, 0600);
    make_file("stamp", 100);
    unlink("log");
    int data = open("data", O_RDWR | O_CREAT | O_TRUNC, 0644), in = open("data", O_RDONLY);
    if (pipe(wake) || pipe(answer)) return 1;
    common = how < 16 ? dup(open("stamp", O_RDWR)) : 0;
    /* What came from outside is known by its writes. */
    for (int i = 0; how >= 16 && i < 200; i++) write(common, "x", 1), give_time(common);
    lseek(common, 0, SEEK_SET);
    /* Buffering is on before there are two processes. */
    if (how % 2) say("before %zd\n", read(in, record, 1));
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(data);
        data = open("data", O_RDWR);
        for (int round = 0; round < ROUNDS; round++) {
            records(data, round);
            tell(how, round, data);
            compute();
            if (read(answer[0], &byte, 1) != 1) _exit(1);
        }
        _exit(0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        learn(how, round);
        check(ways[how], round, in);
        write(answer[1], "x", 1);
    }
    int status;
    waitpid(child, &status, 0);
    say("status %x\n", status);
    close(data); close(in); close(wake[0]); close(wake[1]); close(answer[0]); close(answer[1]);
    if (common) close(common);
    semctl(semaphores, 0, IPC_RMID);
    msgctl(messages, IPC_RMID, NULL);
    return 0;
}

static void count_under_locks(void) {
    /* Counters under every kind of lock: read, add, write back, by four processes. */
    for (int how = 0; how < 4; how++) {
        make_file("counter", 0);
        int fd = open("counter", O_RDWR);
        for (int i = 0; i < 400; i++) write(fd, "00000000\n", 9);
        close(fd);
        for (int me = 0; me < 4; me++)
            if (fork() == 0) {
                fd = open("counter", O_RDWR);
                for (int i = 0; i < 100; i++) {
                    struct flock all = {F_WRLCK, SEEK_SET, 0, 0, 0};
                    if (how == 0) fcntl(fd, F_SETLKW, &all);
                    if (how == 1) fcntl(fd, F_OFD_SETLKW, &all);
                    if (how == 2) flock(fd, LOCK_EX);
                    if (how == 3) { lseek(fd, 0, SEEK_SET); if (lockf(fd, F_LOCK, 0)) _exit(9); }
                    lseek(fd, 0, SEEK_SET);
                    for (int k = 0; k < 40; k++) {
                        char number[24] = "";
                        if (read(fd, number, 9) != 9) _exit(8);
                        snprintf(number, sizeof number, "%08d", atoi(number) + 1);
                        number[8] = '\n';
                        lseek(fd, -9, SEEK_CUR);
                        if (write(fd, number, 9) != 9) _exit(7);
                    }
                    all.l_type = F_UNLCK;
                    if (how == 0) fcntl(fd, F_SETLK, &all);
                    if (how == 1) fcntl(fd, F_OFD_SETLK, &all);
                    if (how == 2) flock(fd, LOCK_UN);
                    if (how == 3) { lseek(fd, 0, SEEK_SET); if (lockf(fd, F_ULOCK, 0)) _exit(9); }
                }
                _exit(0);
            }
        int status, bad = 0;
        while (wait(&status) > 0) bad += status != 0;
        say("locks %d: bad %d ", how, bad);
        say_file("counter");
    }
}

/* Usage: order WAY, or order locks */
int main(int argc, char **argv) {
    if (argc < 2) return 2;
    if (!strcmp(argv[1], "locks")) count_under_locks();
    for (int how = 0; how < WAYS; how++)
        if (!strcmp(argv[1], ways[how]) && run(how)) return 1;
    if (log_length == 0) return 2;
    log_out();
    return 0;
}
