/* Descriptors that one thread closes, or a stream reopens, while others use them: what was accepted is in a file once,
 * and nothing is read twice.
 *   reads     until the descriptor is closed
 *   writes    likewise, some of them vectors
 *   asks      where the position is, which others move on: it does not go back
 *   reopened  a stream gets another file, as for a log that is rotated
 *   handler   the same without a thread: a handler writes */
#include "log.h"
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/uio.h>

enum { THREADS = 3, RECORD = 32, RECORDS = 60000, ROUNDS = 12, BURST = 20 };

static int fd, wrong;
static volatile int is_over, next_record;
static unsigned char seen[THREADS][RECORDS];
static long accepted[THREADS];

static void format(char *text, long thread, int record) { sprintf(text, "%05ld:%09d:abcdefghijklmn\n", thread, record); }

static void note(const char *text) {
    long thread;
    int record;
    if (sscanf(text, "%ld:%d:", &thread, &record) != 2 || thread >= THREADS || record >= RECORDS) wrong++;
    else __atomic_fetch_add(&seen[thread][record], 1, __ATOMIC_RELAXED);
}

static void *read_until_closed(void *unused) {
    char text[RECORD] = "";
    while (read(fd, text, RECORD - 1) == RECORD - 1) note(text);
    return unused;
}

static void *write_until_closed(void *thread) {
    char text[RECORD];
    for (int i = 0; i < RECORDS; i++) {
        format(text, (long)thread, i);
        struct iovec pieces[2] = {{text, 10}, {text + 10, RECORD - 11}};
        if ((i % 3 ? write(fd, text, RECORD - 1) : writev(fd, pieces, 2)) != RECORD - 1) break;
        accepted[(long)thread] = i + 1;
    }
    return NULL;
}

/* Without end: while a stream is reopened there is always a file. */
static void *write_all(void *thread) {
    char text[RECORD];
    for (int i = 0; i < RECORDS / 3; i++) {
        format(text, (long)thread, i);
        if (write(fd, text, RECORD - 1) != RECORD - 1) say("errno %d\n", errno);
        accepted[(long)thread] = i + 1;
    }
    return NULL;
}

static void *read_vectors(void *unused) {
    char text[RECORD];
    struct iovec pieces[2] = {{text, 10}, {text + 10, RECORD - 11}};
    while (readv(fd, pieces, 2) > 0) continue;
    return unused;
}

static void *ask(void *unused) {
    for (off_t last = 0, now; !is_over; last = now) {
        now = lseek(fd, 0, SEEK_CUR);
        wrong += now < last;
    }
    return unused;
}

static void count(const char *name) {
    char text[RECORD];
    FILE *file = fopen(name, "r");
    while (file && fgets(text, sizeof text, file)) note(text);
    if (file) fclose(file);
}

/* Of the records of each thread up to the last accepted one each is seen once, and no other. */
static void check(void) {
    for (int thread = 0; thread < THREADS; thread++) {
        for (int i = 0; i < RECORDS; i++) wrong += seen[thread][i] != (i < accepted[thread]);
        accepted[thread] = 0;
    }
    memset(seen, 0, sizeof seen);
}

static void begin(pthread_t *threads, void *(*what)(void *)) {
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, what, (void *)i);
}

static void end(pthread_t *threads) {
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

static void make_input(void) {
    char text[RECORD];
    FILE *file = fopen("in", "w");
    for (int i = 0; i < RECORDS; i++) format(text, 0, i), fputs(text, file);
    fclose(file);
}

static void reads(void) {
    pthread_t threads[THREADS];
    for (int round = 0; round < ROUNDS; round++) {
        fd = open("in", O_RDONLY);
        begin(threads, read_until_closed);
        usleep(1000 + 500 * (round % 5)), close(fd);
        end(threads);
        for (int i = 0; i < RECORDS; i++) wrong += seen[0][i] > 1;
        memset(seen, 0, sizeof seen);
    }
}

static void writes(void) {
    pthread_t threads[THREADS];
    for (int round = 0; round < ROUNDS; round++) {
        fd = open("out", O_RDWR | O_CREAT | O_TRUNC, 0644);
        begin(threads, write_until_closed);
        usleep(2000 + 1000 * (round % 3)), close(fd);
        end(threads);
        count("out"), check();
    }
}

static void asks(void) {
    pthread_t threads[THREADS];
    for (int round = 0; round < ROUNDS; round++) {
        fd = open("in", O_RDONLY), is_over = 0;
        pthread_create(&threads[0], NULL, read_until_closed, NULL);
        pthread_create(&threads[1], NULL, read_vectors, NULL);
        pthread_create(&threads[2], NULL, ask, NULL);
        pthread_join(threads[0], NULL), pthread_join(threads[1], NULL);
        is_over = 1, pthread_join(threads[2], NULL), close(fd);
    }
}

static const char *log_name(int number) {
    static char name[20];
    snprintf(name, sizeof name, "log%d", number);
    return name;
}

static int logs;

static void rotate(FILE *stream) {
    if (!freopen(log_name(++logs), "w", stream)) say("errno %d\n", errno);
    for (volatile int i = 0; i < 20000; i++) continue;
}

static FILE *first_log(void) {
    FILE *stream = fopen(log_name(0), "w");
    fd = fileno(stream);
    return stream;
}

static void reopened(void) {
    pthread_t threads[THREADS];
    FILE *stream = first_log();
    begin(threads, write_all);
    while (accepted[0] + accepted[1] + accepted[2] < RECORDS) rotate(stream);
    end(threads), fclose(stream);
}

static void on_alarm(int unused) {
    (void)unused;
    char text[RECORD];
    for (int i = 0; i < BURST && next_record < RECORDS; i++) {
        format(text, 0, next_record);
        if (write(fd, text, RECORD - 1) != RECORD - 1) wrong++;
        accepted[0] = ++next_record;
    }
}

static void handler(void) {
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    FILE *stream = first_log();
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    while (next_record < RECORDS / 2) rotate(stream);
    setitimer(ITIMER_REAL, &never, NULL);
    fclose(stream);
}

int main(int words, char **word) {
    const char *way = words > 1 ? word[1] : "";
    make_input();
    if (!strcmp(way, "reads")) reads();
    if (!strcmp(way, "writes")) writes();
    if (!strcmp(way, "asks")) memset(seen, 0, sizeof seen), asks();
    if (!strcmp(way, "reopened")) reopened();
    if (!strcmp(way, "handler")) handler();
    if (!strcmp(way, "reopened") || !strcmp(way, "handler")) {
        for (int i = 0; i <= logs; i++) count(log_name(i)), unlink(log_name(i));
        check();
    }
    say("%s: %d wrong\n", way, wrong);
    unlink("out");
    log_out();
    return 0;
}
