/* Sixteen threads write numbered records through shared descriptors, each interrupted by a timer
 * whose handler writes records of its own through the same descriptors, while others read. In rounds:
 * at the end of each every record must be there once, whole, and in the order of its writer.
 * Usage: storm SECONDS SEED      says rounds and records, and size and hash of each file at the end */
#include "log.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#define THREADS 16
#define LANES (2 * THREADS)
#define FILES 3
#define MAGIC 0x73746f72u
#define RECORD_MAX 120
#define ROUND_MS 400
#define ALONE 200
#define READ_RECORD 64
#define READ_RECORDS 4096
#define ROUND_BYTES_MAX (24 << 20)

struct head {
    unsigned magic, lane, sequence, length;
};
static int fds[FILES][2], in;
static unsigned written[LANES][FILES];
static atomic_long round_bytes, wrong;
static atomic_int running, over;
static pthread_barrier_t barrier;
static long records, signals;
static const char *const names[FILES] = {"storm-0", "storm-1", "storm-2"};
static __thread unsigned long number;
static __thread unsigned thread_number;
static __thread volatile sig_atomic_t storms;

static unsigned long next_of(unsigned long *state) {
    *state = *state * 6364136223846793005ul + 1442695040888963407ul;
    return *state >> 33;
}

static unsigned char filling(unsigned lane, unsigned sequence, unsigned index) {
    return (unsigned char)(lane * 31 + sequence * 7 + index);
}

/* Writes the next record of a lane, on its thread. */
static void write_record(unsigned lane, unsigned long choice) {
    unsigned char bytes[RECORD_MAX];
    /* All are at the same file for a while: what goes here and there waits nowhere. */
    unsigned file = (unsigned)(round_bytes >> 18) % FILES;
    unsigned length = 16 + (unsigned)(choice / FILES % (RECORD_MAX - 16));
    struct head head = {MAGIC, lane, written[lane][file], length};
    memcpy(bytes, &head, sizeof head);
    for (unsigned i = sizeof head; i < length; i++) bytes[i] = filling(lane, head.sequence, i);
    if (write(fds[file][choice / 64 % 2], bytes, length) != (ssize_t)length) wrong++;
    written[lane][file]++;
    round_bytes += length;
}

static void on_timer(int signal_number) {
    static __thread unsigned long state;
    int saved = errno;
    (void)signal_number;
    if (running) {
        storms++;
        write_record(THREADS + thread_number, next_of(&state));
    }
    errno = saved;
}

static timer_t start_timer(void) {
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    event._sigev_un._tid = (int)syscall(SYS_gettid);
    struct itimerspec every = {.it_value.tv_nsec = 900000 + thread_number * 37000,
                               .it_interval.tv_nsec = 700000 + thread_number * 61000};
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &every, NULL)) wrong++;
    return timer;
}

/* A record of the file that is only read: whole, wherever it is from. */
static void read_record(unsigned long choice) {
    unsigned char bytes[READ_RECORD];
    long at = (long)(choice % READ_RECORDS);
    ssize_t n = choice & 4096 ? pread(in, bytes, READ_RECORD, at * READ_RECORD)
                              : read(in, bytes, READ_RECORD);
    if (n == 0) {
        lseek(in, 0, SEEK_SET);
        return;
    }
    for (int i = 1; i < READ_RECORD; i++)
        if (n != READ_RECORD || bytes[i] != (unsigned char)(bytes[0] + i)) {
            wrong++;
            return;
        }
}

static void work(void) {
    while (running && round_bytes < ROUND_BYTES_MAX) {
        unsigned long choice = next_of(&number);
        if (choice % 512 == 0) read_record(choice / 512);
        else write_record(thread_number, choice / 8);
    }
}

/* Checks one file against what was written; returns its size. */
static long check_file(unsigned file) {
    static unsigned char bytes[ROUND_BYTES_MAX * 2];
    unsigned seen[LANES] = {0};
    int fd = open(names[file], O_RDONLY);
    long size = 0, n;
    while ((n = read(fd, bytes + size, sizeof bytes - (size_t)size)) > 0) size += n;
    close(fd);
    for (long at = 0; at < size;) {
        struct head head;
        memcpy(&head, bytes + at, sizeof head);
        if (head.magic != MAGIC || head.lane >= LANES || head.length < 16 || head.length > RECORD_MAX ||
            head.sequence != seen[head.lane] || at + (long)head.length > size) {
            say("%s: at %ld of %ld: lane %u, record %u\n", names[file], at, size, head.lane, head.sequence);
            wrong++;
            return size;
        }
        for (unsigned i = sizeof head; i < head.length; i++)
            if (bytes[at + i] != filling(head.lane, head.sequence, i)) wrong++;
        seen[head.lane]++;
        at += head.length;
    }
    for (unsigned lane = 0; lane < LANES; lane++)
        if (seen[lane] != written[lane][file]) {
            say("%s: lane %u: %u records, %u written\n", names[file], lane, seen[lane], written[lane][file]);
            wrong++;
        }
    return size;
}

/* Beside threads only what has one descriptor is buffered: the first file. */
static void open_file(unsigned file) {
    fds[file][0] = open(names[file], O_RDWR | O_CREAT | O_TRUNC, 0644);
    fds[file][1] = file ? dup(fds[file][0]) : fds[file][0];
}

static void close_file(unsigned file) {
    for (int i = 0; i < 2 && (i == 0 || file); i++)
        if (close(fds[file][i])) wrong++;
}

/* Between rounds, alone: what was written is there; then all begins anew. */
static void check_round(int is_last) {
    for (unsigned file = 0; file < FILES; file++) {
        check_file(file);
        for (unsigned lane = 0; lane < LANES; lane++) records += written[lane][file];
        if (is_last) continue;
        close_file(file);
        open_file(file);
    }
    if (is_last) return;
    memset(written, 0, sizeof written);
    /* Waiting begins while nobody else is at it. */
    for (int i = 0; i < ALONE * FILES; i++) {
        if (i % (ALONE / 2) == 0) usleep(1500);
        round_bytes = i / ALONE << 18;
        write_record(thread_number, (unsigned long)i * 6337 + 1);
    }
    round_bytes = 0;
}

static void *thread(void *argument) {
    sigset_t set;
    thread_number = (unsigned)(long)argument;
    number += thread_number + 1;
    timer_t timer = start_timer();
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    while (!over) {
        pthread_barrier_wait(&barrier);
        work();
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
    }
    timer_delete(timer);
    __atomic_fetch_add(&signals, storms, __ATOMIC_SEQ_CST);
    return NULL;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    sigset_t set;
    if (argc != 3) return 2;
    double end = now() + atof(argv[1]);
    long rounds = 0;
    number = strtoul(argv[2], NULL, 10) * 977;
    unsigned char *bytes = malloc(READ_RECORD * READ_RECORDS);
    for (int i = 0; i < READ_RECORD * READ_RECORDS; i++) bytes[i] = (unsigned char)(i / READ_RECORD * 5 + i % READ_RECORD);
    in = open("storm-in", O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (write(in, bytes, READ_RECORD * READ_RECORDS) < 0 || lseek(in, 0, SEEK_SET)) return 3;
    for (unsigned file = 0; file < FILES; file++) open_file(file);
    /* Threads begin with the signal blocked, so that its first comes to one that knows its number. */
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    sigaction(SIGUSR1, &action, NULL);
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    unsigned long mine = number;
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, thread, (void *)i);
    number = mine;
    check_round(0);
    while (!over) {
        running = 1;
        pthread_barrier_wait(&barrier);
        struct timespec pause = {0, ROUND_MS * 1000000l};
        nanosleep(&pause, NULL);
        running = 0;
        pthread_barrier_wait(&barrier);
        over = now() > end;
        check_round(over);
        rounds++;
        pthread_barrier_wait(&barrier);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (unsigned file = 0; file < FILES; file++) close_file(file);
    for (int file = 0; file < FILES; file++) say_file(names[file]);
    say("rounds %ld records %ld signals %ld wrong %ld\n", rounds, records, signals, (long)wrong);
    log_out();
    return wrong != 0;
}
