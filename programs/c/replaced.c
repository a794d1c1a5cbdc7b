/* Descriptors that one thread replaces while two others use them. The kernel does so in one step: each record is
 * written, or read, once.
 *   capture [append]  the output goes to another file and back, as a test framework does it
 *   dup2 [append]     one of three open files after the other
 *   moved             the same by a close and F_DUPFD
 *   reads             two files that are read, one after the other
 *   handler           a handler writes, and no thread is there */
#include "log.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/time.h>

enum { WRITERS = 2, RECORDS = 20000, RECORD = 32, FILES = 3, USED = 40, ROUNDS = 400000 };

static int used, append, files[FILES];
static volatile int is_over;
static unsigned char seen[WRITERS + 1][RECORDS];

static void write_record(long writer, int record) {
    char text[RECORD + 1];
    snprintf(text, sizeof text, "%09ld:%09d:abcdefghij\n", writer, record % RECORDS);
    /* Between a close and an open the number is nobody's. */
    while (write(used, text, RECORD - 1) != RECORD - 1 && errno == EBADF) sched_yield();
}

static void *write_records(void *writer) {
    for (int i = 0; i < RECORDS; i++) write_record((long)writer, i);
    return NULL;
}

/* To each of two files belongs a row of `seen`. */
static void *read_records(void *unused) {
    char text[RECORD + 1] = "";
    for (int idle = 0; idle < 2000 && !is_over;) {
        int file, record, len = (int)read(used, text, RECORD - 1);
        if (len == 0) idle++, sched_yield();
        else if (len != RECORD - 1 || sscanf(text, "%d:%d:", &file, &record) != 2) say("no record\n");
        else __atomic_fetch_add(&seen[file][record], 1, __ATOMIC_RELAXED);
    }
    return unused;
}

static int opened(const char *name, int i) {
    char path[20];
    snprintf(path, sizeof path, "%s%d", name, i);
    return open(path, O_RDWR | O_CREAT | append, 0644);
}

static void wait_a_little(int turn) {
    for (volatile int i = 0; i < turn % 7 * 300; i++) continue;
}

static void *capture(void *unused) {
    int other = opened("other", 0);
    for (int turn = 0; !is_over; turn++) {
        int saved = dup(used);
        dup2(other, used);
        wait_a_little(turn), wait_a_little(6);
        dup2(saved, used), close(saved);
        wait_a_little(turn + 3), wait_a_little(6);
    }
    return unused;
}

static void *replace(void *unused) {
    for (int turn = 0; !is_over; turn++) {
        dup2(files[turn % FILES], used);
        wait_a_little(turn);
    }
    return unused;
}

static void *move(void *unused) {
    for (int turn = 0; !is_over; turn++) {
        close(used);
        int fd = fcntl(files[turn % FILES], F_DUPFD, used);
        if (fd != used) dup2(fd, used), close(fd);
        wait_a_little(turn);
    }
    return unused;
}

static volatile int next_record;

static void on_alarm(int unused) {
    (void)unused;
    if (next_record < RECORDS) write_record(WRITERS, next_record++);
}

/* What is kept for the first file while the second one stands at its number, and the other way round. */
static void with_a_handler(void) {
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int turn = 0; turn < ROUNDS; turn++) dup2(files[turn % 2], used);
    setitimer(ITIMER_REAL, &never, NULL);
    for (int i = next_record; i < RECORDS; i++) seen[WRITERS][i]++;
}

static void begin_and_end(void *(*replaces)(void *), void *(*uses)(void *)) {
    pthread_t replacing, using[WRITERS];
    pthread_create(&replacing, NULL, replaces, NULL);
    for (long i = 0; i < WRITERS; i++) pthread_create(&using[i], NULL, uses, (void *)i);
    for (int i = 0; i < WRITERS; i++) pthread_join(using[i], NULL);
    is_over = 1;
    pthread_join(replacing, NULL);
}

static void count_file(const char *name, int i) {
    char path[20], text[RECORD];
    snprintf(path, sizeof path, "%s%d", name, i);
    FILE *file = fopen(path, "r");
    while (file && fgets(text, sizeof text, file)) {
        long writer;
        int record;
        if (sscanf(text, "%ld:%d:", &writer, &record) != 2 || strlen(text) != RECORD - 1) say("no record\n");
        else seen[writer][record]++;
    }
    if (file) fclose(file);
    unlink(path);
}

static void say_seen(int from, int to) {
    int missing = 0, twice = 0;
    for (int writer = from; writer < to; writer++)
        for (int i = 0; i < RECORDS; i++) missing += !seen[writer][i], twice += seen[writer][i] > 1;
    say("%d missing, %d twice\n", missing, twice);
}

int main(int count, char **words) {
    const char *way = count > 1 ? words[1] : "";
    int is_read = !strcmp(way, "reads");
    append = count > 2 ? O_APPEND : 0;
    used = USED;
    for (int i = 0; i < FILES; i++) files[i] = opened("file", i);
    if (is_read)
        for (used = files[0]; used <= files[1]; used++)
            for (int i = 0; i < RECORDS; i++) write_record(used - files[0], i);
    used = USED;
    for (int i = 0; i < FILES; i++) lseek(files[i], 0, SEEK_SET);
    int first = opened("first", 0);
    dup2(is_read ? files[0] : first, used), close(first);
    if (!strcmp(way, "capture")) begin_and_end(capture, write_records);
    if (!strcmp(way, "dup2")) begin_and_end(replace, write_records);
    if (!strcmp(way, "moved")) begin_and_end(move, write_records);
    if (!strcmp(way, "handler")) with_a_handler();
    if (is_read) {
        files[2] = files[0];
        begin_and_end(replace, read_records);
        for (int file = 0; file < 2; file++)
            for (dup2(files[file], used); lseek(used, 0, SEEK_CUR) < RECORDS * (RECORD - 1L);) {
                char text[RECORD] = "";
                int record;
                if (read(used, text, RECORD - 1) <= 0 || sscanf(text + 10, "%d:", &record) != 1) break;
                seen[file][record]++;
            }
    } else {
        close(used);
        count_file("first", 0), count_file("other", 0);
        for (int i = 0; i < FILES; i++) count_file("file", i);
    }
    say_seen(!strcmp(way, "handler") ? WRITERS : 0, !strcmp(way, "handler") ? WRITERS + 1 : WRITERS);
    log_out();
    return 0;
}
