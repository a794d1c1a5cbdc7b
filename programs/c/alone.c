/* A program in which nobody comes in between: its short ways, and what becomes of them when somebody does.
 * Usage: alone addresses | window | handler | threads */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include "log.h"

enum { NUMBERS = 200000, PAGE = 4096, LONGEST = 600 };

/* The last bytes of a page behind which there is none that may be touched. */
static char *before_nothing(long bytes) {
    static char *pages;
    if (!pages) {
        pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED || mprotect(pages + PAGE, PAGE, PROT_NONE)) exit(1);
    }
    return pages + PAGE - bytes;
}

static void warm(int in, int out) {
    char bytes[20];
    for (int i = 0; i < 400; i++) {
        if (read(in, bytes, 8) != 8) exit(2);
        pattern(bytes, sizeof bytes, i);
        if (write(out, bytes, sizeof bytes) != sizeof bytes) exit(3);
        give_time(out);
    }
}

/* Each length of a copy, with a buffer of which all, some, one, or no byte is there. */
static void addresses(void) {
    make_file("in", 1 << 20);
    int in = open("in", O_RDONLY), out = open("out", O_RDWR | O_CREAT | O_TRUNC, 0644);
    warm(in, out);
    for (long length = 0; length <= LONGEST; length += length < 300 ? 1 : 50) {
        const long there[] = {length, length - 1, length / 2, 1, 0};
        for (unsigned i = 0; i < sizeof there / sizeof *there; i++) {
            if (there[i] < 0) continue;
            char *bytes = before_nothing(there[i]);
            memset(bytes, '-', (size_t)there[i]);
            long answer = read(in, bytes, (size_t)length);
            say("read %ld of %ld: %ld %s at %ld, %lx\n", there[i], length, answer,
                answer < 0 ? strerror(errno) : "", (long)lseek(in, 0, SEEK_CUR),
                hash_of(bytes, (size_t)there[i]));
            answer = write(out, bytes, (size_t)length);
            say("write: %ld %s at %ld\n", answer, answer < 0 ? strerror(errno) : "",
                (long)lseek(out, 0, SEEK_CUR));
            /* What was found out may have ended a buffer. */
            char again[32];
            for (int turn = 0; turn < 20; turn++)
                if (read(in, again, 8) != 8 || write(out, again, 8) != 8) exit(4);
        }
        if (lseek(in, 0, SEEK_CUR) > 900000) lseek(in, 0, SEEK_SET);
    }
    for (unsigned i = 0; i < 4; i++) {
        char *volatile nowhere[] = {NULL, (char *)-4096, (char *)(1ul << 63), (char *)-1};
        long answer = read(in, nowhere[i], 8), kept = write(out, nowhere[i], 8);
        say("nowhere %u: %ld %ld at %ld %ld\n", i, answer, kept, (long)lseek(in, 0, SEEK_CUR),
            (long)lseek(out, 0, SEEK_CUR));
        volatile size_t length = (size_t)-1 - i;
        answer = read(in, before_nothing(8), length);
        say("endless: %ld at %ld\n", answer, (long)lseek(in, 0, SEEK_CUR));
    }
    close(in);
    close(out);
    say_file("out");
}

enum { SIZE = 1 << 20, STEP = 8000, RECORD = 20, MANY = 200 };
static char mirror[SIZE];

static void change(int fd, long *at) {
    char record[RECORD];
    pattern(record, sizeof record, *at * 7 + 1);
    if (write(fd, record, sizeof record) != sizeof record) exit(10);
    memcpy(mirror + *at, record, sizeof record);
    *at += RECORD;
}

/* A window comes to lie where the next writes go, while earlier ones wait before it. */
static void window(void) {
    make_file("in", SIZE);
    pattern(mirror, SIZE, 0);
    int fd = open("in", O_RDWR);
    long wrong = 0;
    for (long from = 0; from + STEP < SIZE; from += STEP) {
        long at = lseek(fd, from, SEEK_SET), behind = from + MANY * RECORD + 100;
        char bytes[16];
        for (int i = 0; i < MANY; i++) change(fd, &at);
        for (long i = 0; i < 20; i++, behind += sizeof bytes) {
            if (pread(fd, bytes, sizeof bytes, behind) != sizeof bytes) exit(11);
            wrong += memcmp(bytes, mirror + behind, sizeof bytes) != 0;
        }
        while (at < behind + 200) {
            change(fd, &at);
            if (pread(fd, bytes, sizeof bytes, at - 18) != sizeof bytes) exit(11);
            wrong += memcmp(bytes, mirror + at - 18, sizeof bytes) != 0;
        }
    }
    say("wrong: %ld\n", wrong);
    close(fd);
    say_file("in");
}

static int numbers, records, straight;
static volatile long turns; // of the loops in which somebody comes in between
static struct itimerval often = {{0, 30}, {0, 30}};
static char times_read[NUMBERS];

/* Takes the next number of the file; each is there once. 0: there is none. */
static int take(int fd) {
    long number;
    if (read(fd, &number, sizeof number) != sizeof number) return 0;
    if (number < 0 || number >= NUMBERS) abort();
    __atomic_fetch_add(&times_read[number], 1, __ATOMIC_RELAXED);
    return 1;
}

static void put(char what) {
    char record[48];
    memset(record, what, sizeof record);
    record[sizeof record - 1] = '\n';
    if (write(records, record, sizeof record) != sizeof record) abort();
}

/* Somebody comes in between: reads, writes, and reads of a file that passes through. Less often, where the
 * machine does nothing else any more. */
static void on_signal(int signal) {
    static long before;
    (void)signal;
    int saved = errno;
    if (turns == before && often.it_interval.tv_usec < 100000) {
        often.it_interval.tv_usec *= 2;
        often.it_value = often.it_interval;
        setitimer(ITIMER_REAL, &often, NULL);
    }
    before = turns;
    take(numbers);
    put('s');
    char bytes[16];
    for (int i = 0; i < 20; i++)
        if (read(straight, bytes, sizeof bytes) < 0) abort();
    errno = saved;
}

enum { THREADS = 3 };
static volatile int ready;

/* All begin in one moment: before the first of them has looked at the time. */
static void wait_for_all(void) {
    for (__sync_fetch_and_add(&ready, 1); ready <= THREADS;) continue;
}

static void *in_thread(void *unused) {
    (void)unused;
    wait_for_all();
    for (int i = 0; i < 20000; i++) {
        take(numbers);
        put('t');
    }
    return NULL;
}

/* Counts what was read and written by all: nothing twice, nothing never, nothing in parts. */
static void count(long puts_of_others) {
    long never = 0, twice = 0, torn = 0, size = lseek(records, 0, SEEK_END);
    for (int i = 0; i < NUMBERS; i++) never += times_read[i] == 0, twice += times_read[i] > 1;
    char *all = malloc((size_t)size);
    if (pread(records, all, (size_t)size, 0) != size) exit(5);
    long mine = 0, theirs = 0;
    for (long at = 0; at + 48 <= size; at += 48) {
        for (int i = 1; i < 47; i++) torn += all[at + i] != all[at];
        torn += all[at + 47] != '\n';
        all[at] == 'm' ? mine++ : theirs++;
    }
    say("never read %ld, twice %ld, torn %ld, odd bytes %ld, mine %ld\n", never, twice, torn, size % 48, mine);
    if (puts_of_others >= 0) say("theirs %ld\n", theirs - puts_of_others);
    free(all);
}

static void until_somebody_does(int with_threads) {
    static long all[NUMBERS];
    for (long i = 0; i < NUMBERS; i++) all[i] = i;
    int made = open("numbers", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (write(made, all, sizeof all) != sizeof all) exit(6);
    close(made);
    make_file("straight", 8 << 20);
    numbers = open("numbers", O_RDONLY);
    straight = open("straight", O_RDONLY);
    records = open("records", O_RDWR | O_CREAT | O_TRUNC, 0644);
    /* Alone: a window, bytes that wait, and a file that is read here and there. */
    for (int i = 0; i < 1000; i++) {
        char bytes[16];
        take(numbers);
        put('m');
        give_time(records);
        lseek(straight, i * 7919 % (8 << 20), SEEK_SET);
        if (read(straight, bytes, sizeof bytes) != sizeof bytes) exit(7);
    }
    pthread_t threads[THREADS];
    if (with_threads) {
        for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, in_thread, NULL);
        wait_for_all();
    } else {
        signal(SIGALRM, on_signal);
        setitimer(ITIMER_REAL, &often, NULL);
    }
    for (int i = 0; i < 20000; i++, turns++) take(numbers), put('m');
    if (with_threads) {
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    } else {
        for (long i = 0; i < 20000; i++, turns++) {
            char bytes[200], expected[200];
            long at = i * 1000003 % (7 << 20);
            if (pread(straight, bytes, sizeof bytes, at) != sizeof bytes) exit(8);
            pattern(expected, sizeof expected, at);
            if (memcmp(bytes, expected, sizeof bytes)) say("wrong bytes at %ld\n", at);
        }
        setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    }
    while (take(numbers)) {}
    count(with_threads ? 60000 : -1);
    /* How often somebody came is not the same in two runs. */
    if (!with_threads) unlink("records");
    else if (truncate("records", 0)) exit(9);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "addresses") == 0) addresses();
    else if (strcmp(what, "window") == 0) window();
    else if (strcmp(what, "handler") == 0) until_somebody_does(0);
    else if (strcmp(what, "threads") == 0) until_somebody_does(1);
    else return 1;
    log_out();
    return 0;
}
