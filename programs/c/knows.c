/* A program that knows of us, by sweetspot.h: what the three functions answer, and do.
 * Usage: knows seen|full|limit|status|sizes|off|everywhere FILE */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <sys/wait.h>
#include "../../crates/sweetspot-preload/include/sweetspot.h"
#include "log.h"
#include "raw.h"

static char record[200];

/* By instructions of its own, which nobody sees. */
static long long size_of(int fd) {
    struct stat data;
    return raw(SYS_fstat, fd, (long)&data, 0, 0) ? -1 : data.st_size;
}

/* Without a word to anyone. */
static void nap(long nanoseconds) {
    struct timespec time = {0, nanoseconds};
    raw(SYS_nanosleep, (long)&time, 0, 0, 0);
}

static void write_records(int fd, int count) {
    for (int i = 0; i < count; i++)
        if (write(fd, record, sizeof record) != sizeof record) say("write errno %d\n", errno);
}

/* Writes until something waits: the guard may take its time on a busy machine. */
static void write_until_it_waits(int fd) {
    int is_loaded = sweetspot_status(fd) != SWEETSPOT_ABSENT;
    for (int i = 0; is_loaded && i < 20000 && !(sweetspot_status(fd) & SWEETSPOT_WRITES); i++) {
        write_records(fd, 1);
        if (i > 70) nap(100000);
    }
    write_records(fd, 100);
}

static void say_flush(void) {
    errno = 0;
    say("flush %d", sweetspot_flush()), say(" errno %d\n", errno);
}

static void say_advice(const char *what, int fd, long long size) {
    errno = 0;
    say("advise %s %d", what, sweetspot_advise(fd, size)), say(" errno %d\n", errno);
}

static void seen(int fd) {
    write_until_it_waits(fd);
    say("waits %d\n", lseek(fd, 0, SEEK_CUR) > size_of(fd));
    say_flush();
    say("missing %lld\n", (long long)(lseek(fd, 0, SEEK_CUR) - size_of(fd)));
}

/* Each call that is to fail as it does without a flush in front. */
static void say_errors(int fd) {
    say_flush();
    errno = 0;
    say("fsync %d", fsync(fd)), say(" errno %d\n", errno);
    say_flush();
}

static void full(int fd) {
    write_until_it_waits(fd);
    static char zeros[1 << 16];
    long filler = raw(SYS_openat, AT_FDCWD, (long)"filler", O_WRONLY | O_CREAT, 0644);
    for (int bytes = sizeof zeros; bytes; bytes /= 2)
        while (raw(SYS_write, filler, (long)zeros, bytes, 0) == bytes) {}
    say_errors(fd);
    raw(SYS_ftruncate, filler, 0, 0, 0);
    say_errors(fd);
    say("missing %lld\n", (long long)(lseek(fd, 0, SEEK_CUR) - size_of(fd)));
}

static void limit(int fd) {
    signal(SIGXFSZ, SIG_IGN);
    write_until_it_waits(fd);
    struct rlimit is, was;
    is.rlim_cur = (rlim_t)size_of(fd), is.rlim_max = RLIM_INFINITY;
    raw(SYS_prlimit64, 0, RLIMIT_FSIZE, (long)&is, (long)&was);
    say_errors(fd);
    raw(SYS_prlimit64, 0, RLIMIT_FSIZE, (long)&was, 0);
    say_errors(fd);
}

static void status(int fd) {
    int pipes[2], other = open("/dev/null", O_WRONLY);
    if (pipe(pipes)) exit(97);
    say("absent or off %d\n", sweetspot_status(fd) < SWEETSPOT_UNKNOWN ? sweetspot_status(fd) : -1);
    say("new %d\n", sweetspot_status(fd));
    say("pipe %d, closed %d, none %d, beyond %d\n", sweetspot_status(pipes[0]), sweetspot_status(999),
        sweetspot_status(-1), sweetspot_status(1 << 20));
    write_until_it_waits(fd);
    say("writes %d\n", sweetspot_status(fd));
    char byte;
    lseek(fd, 0, SEEK_SET);
    for (int i = 0; i < 200; i++)
        if (read(fd, &byte, 1) != 1) say("read\n");
    say("and reads %d\n", sweetspot_status(fd));
    int second = dup(fd);
    say("duplicate %d\n", sweetspot_status(second));
    if (mmap(NULL, 100, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED) say("mmap\n");
    say("mapped %d\n", sweetspot_status(fd));
    say_advice("mapped", fd, 4096);
    say_advice("pipe", pipes[0], 4096);
    say_advice("off, a pipe", pipes[0], -1);
    say_advice("a device", other, 4096);
    say_advice("closed", 999, 4096);
    say_advice("too much", fd, (1ll << 30) + 1);
}

/* Sizes for one open file, one after the other: how much had waited when it was written shows in the
 * file's growth. */
static void sizes(int fd) {
    long long steps[] = {8192, 100000, 1000, 0};
    for (int step = 0; step < 4; step++) {
        write_until_it_waits(fd);
        say_advice("size", fd, steps[step]);
        say("missing %lld\n", (long long)(lseek(fd, 0, SEEK_CUR) - size_of(fd)));
        say("now %d\n", sweetspot_status(fd));
        write_until_it_waits(fd);
        say_flush();
        long long before = size_of(fd), most = 0;
        for (int i = 0; i < 3000; i++) {
            if (write(fd, record, sizeof record) != sizeof record) say("write\n");
            long long now = size_of(fd);
            if (now - before > most) most = now - before;
            before = now;
        }
        /* The last one is auto: what that takes depends on the machine, but 1000 bytes it is not. */
        long long wanted = steps[step] ? steps[step] : 1 << 18, least = steps[step] ? wanted / 4 : 8192;
        say("at most %d, at least %d\n", most <= wanted, most > least);
    }
    say("all %d\n", lseek(fd, 0, SEEK_CUR) == lseek(fd, 0, SEEK_END));
}

static void off(int fd) {
    write_until_it_waits(fd);
    say_advice("off", fd, -1);
    say("missing %lld\n", (long long)(lseek(fd, 0, SEEK_CUR) - size_of(fd)));
    write_records(fd, 500);
    say("off for good %d\n", sweetspot_status(fd));
    say_advice("on", fd, 4096);
    say_advice("off again", fd, -1);
    say("missing %lld\n", (long long)(lseek(fd, 0, SEEK_CUR) - size_of(fd)));
}

static int shared;
static volatile sig_atomic_t turn;

/* Another thing at each signal. */
static void handler(int number) {
    (void)number;
    int before = errno;
    long long bytes[] = {4096, 0, 65536, 300};
    switch (turn++ % 8) {
    case 3: sweetspot_advise(shared, bytes[turn / 8 % 4]); break;
    case 5: sweetspot_status(shared); break;
    default: sweetspot_flush();
    }
    if (errno != before) abort();
}

static void *beside(void *wrong) {
    for (int i = 0; i < 300; i++) {
        nap(50000);
        if (sweetspot_flush() != 0) ++*(int *)wrong;
        if (i % 10 == 0 && sweetspot_advise(shared, 1000 + i * 10) != 0) ++*(int *)wrong;
        if (sweetspot_status(shared) < 0) ++*(int *)wrong;
    }
    return NULL;
}

/* In handlers, threads, and the children of fork and vfork: nothing but bytes comes out, and they are
 * the same with sweetspot and without. */
static void everywhere(int fd) {
    enum { COUNT = 10000, BYTES = 2000, ROUNDS = 4 };
    static char written[BYTES], found[BYTES];
    shared = fd;
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 100}, {0, 100}};
    setitimer(ITIMER_REAL, &often, NULL);
    int wrong = 0;
    /* volatile: a vfork returns twice. */
    for (volatile int round = 0; round < ROUNDS; round++) {
        pthread_t thread;
        if (round == 2) pthread_create(&thread, NULL, beside, &wrong);
        wrong += lseek(fd, 0, SEEK_SET) != 0;
        for (int i = 0; i < COUNT; i++) {
            memset(written, (i + round) % 251, BYTES);
            if (write(fd, written, BYTES) != BYTES) wrong++;
        }
        if (round == 2) pthread_join(thread, NULL);
        int child = vfork();
        if (child == 0) {
            int bad = sweetspot_flush() || sweetspot_status(fd) < 0 || sweetspot_advise(fd, 4096);
            _exit(bad);
        }
        int ended = 1;
        waitpid(child, &ended, 0);
        wrong += ended != 0;
        for (int i = 0; i < COUNT; i++) {
            memset(written, (i + round) % 251, BYTES);
            wrong += pread(fd, found, BYTES, (long)i * BYTES) != BYTES || memcmp(found, written, BYTES);
        }
    }
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    int child = fork();
    if (child == 0) {
        int bad = sweetspot_flush();
        int own = open("child", O_WRONLY | O_CREAT | O_TRUNC, 0644);
        bad |= sweetspot_advise(own, 10000);
        write_records(own, 3000);
        bad |= sweetspot_flush();
        _exit(bad);
    }
    int ended = 1;
    waitpid(child, &ended, 0);
    say("wrong %d, child %d\n", wrong, ended);
    say_file("child");
    wrong += ftruncate(fd, 1000);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    int fd = open(argv[2], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    struct { const char *name; void (*act)(int); } acts[] = {
        {"seen", seen},   {"full", full}, {"limit", limit},          {"status", status},
        {"sizes", sizes}, {"off", off},   {"everywhere", everywhere}};
    memset(record, 'r', sizeof record);
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        if (!strcmp(argv[1], acts[i].name)) acts[i].act(fd);
    errno = 0;
    say("close %d", close(fd)), say(" errno %d\n", errno);
    log_out();
    return 0;
}
