/* A handler reads or writes by a descriptor while the program does something with it that the library cannot follow step
 * by step: what was accepted is in a file once, and nothing is read twice.
 *   close      while the handler reads
 *   duplicate  one of two descriptors is closed, and made anew by F_DUPFD
 *   replace    another log is put in the place of the one that the handler writes
 *   sendfile   the kernel moves bytes to the position (likewise copy, splice, pwritev2, writev: by `syscall`)
 *   preadv2    the kernel reads at the position (likewise readv: by `syscall`, and send: by sendfile) */
#include "log.h"
#include <signal.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>

enum { RECORD = 32, RECORDS = 40000, SOURCE = 20000, BURST = 20, OWN = 0, HANDLERS = 1, HIGH = 60, LOGS_MAX = 200 };

static volatile int fd = -1, is_reading, is_on, wrong, used[2];
static unsigned char seen[2][RECORDS];
static int pipes[2], source;
static long operations;

static void format(char *text, int whose, int record) { sprintf(text, "%d:%09d:abcdefghijklmnopqrst", whose, record), text[RECORD - 1] = '\n'; }

static void note(const char *text) {
    int whose = text[0] - '0', record = atoi(text + 2);
    if (whose < 0 || whose > 1 || record < 0 || record >= RECORDS) wrong++;
    else seen[whose][record]++;
}

static void write_one(int whose) {
    char text[RECORD + 1];
    if (used[whose] >= RECORDS) return;
    format(text, whose, used[whose]);
    if (write(fd, text, RECORD) != RECORD) wrong++;
    used[whose]++;
}

static void on_alarm(int unused) {
    (void)unused;
    int saved = errno;
    char text[RECORD];
    for (int i = 0; is_on && i < BURST; i++) {
        if (!is_reading) write_one(HANDLERS);
        else if (read(fd, text, RECORD) == RECORD) note(text);
    }
    errno = saved;
}

static void often(int microseconds) {
    struct itimerval time = {{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &time, NULL);
}

static void begin(void) { memset(seen, 0, sizeof seen), used[OWN] = used[HANDLERS] = 0; }

static void read_some(int count) {
    char text[RECORD];
    for (int i = 0; i < count; i++)
        if (read(fd, text, RECORD) == RECORD) note(text);
}

static void nothing_twice(void) {
    for (int i = 0; i < RECORDS; i++) wrong += seen[OWN][i] > 1;
}

static void closes(void) {
    is_reading = 1;
    for (int round = 0; round < 1500; round++) {
        begin(), fd = open("source", O_RDONLY);
        read_some(150);
        is_on = 1, close(fd), is_on = 0;
        nothing_twice();
    }
}

/* The handler reads by number 60 whatever is there. */
static void duplicates(void) {
    is_reading = 1;
    for (int round = 0; round < 60; round++) {
        begin(), fd = open("source", O_RDONLY);
        int own = fd;
        fd = HIGH, is_on = 1;
        for (int i = 0; i < 50; i++) {
            char text[RECORD];
            for (int k = 0; k < 30; k++)
                if (read(own, text, RECORD) == RECORD) note(text);
            if (fcntl(own, F_DUPFD, HIGH) != HIGH) wrong++;
            for (volatile int k = 0; k < 3000; k++) continue;
            close(HIGH);
        }
        is_on = 0, close(own);
        nothing_twice();
    }
}

static void count(const char *name) {
    char text[RECORD];
    FILE *file = fopen(name, "r");
    while (file && fread(text, 1, RECORD, file) == RECORD) note(text);
    if (file) fclose(file);
    unlink(name);
}

static void everything_once(void) {
    for (int whose = 0; whose < 2; whose++)
        for (int i = 0; i < RECORDS; i++) wrong += seen[whose][i] != (i < used[whose]);
}

static void put_in_place(int log) {
    char name[20];
    snprintf(name, sizeof name, "log%d", log);
    int other = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    dup2(other, HIGH), close(other);
}

static void replaces(void) {
    begin(), fd = HIGH, put_in_place(0), is_on = 1;
    for (int log = 1; log < LOGS_MAX; log++) {
        for (int i = 0; i < 150; i++) {
            write_one(OWN);
            if (i == 80) for (volatile int k = 0; k < 400000; k++) continue;
        }
        put_in_place(log);
    }
    is_on = 0;
    for (int log = 0; log < LOGS_MAX; log++) {
        char name[20];
        snprintf(name, sizeof name, "log%d", log), count(name);
    }
    everything_once(), close(HIGH);
}

/* Moves one record to the position. */
static void move(const char *way) {
    char text[RECORD + 1];
    off_t at = (off_t)used[OWN] * RECORD;
    struct iovec piece = {text, RECORD};
    ssize_t moved = -1;
    format(text, OWN, used[OWN]);
    do {
        if (!strcmp(way, "sendfile")) moved = sendfile(fd, source, &at, RECORD);
        if (!strcmp(way, "copy")) moved = copy_file_range(source, &at, fd, NULL, RECORD, 0);
        if (!strcmp(way, "pwritev2")) moved = pwritev2(fd, &piece, 1, -1, 0);
        if (!strcmp(way, "writev")) moved = syscall(SYS_writev, fd, &piece, 1);
        if (!strcmp(way, "splice")) {
            if (write(pipes[1], text, RECORD) != RECORD) wrong++;
            while ((moved = splice(pipes[0], NULL, fd, NULL, RECORD, 0)) < 0 && errno == EINTR) continue;
        }
    } while (moved < 0 && errno == EINTR);
    wrong += moved != RECORD, used[OWN]++, operations++;
}

static void moves(const char *way) {
    for (int round = 0; round < 12; round++) {
        begin(), fd = open("out", O_RDWR | O_CREAT | O_TRUNC, 0644), is_on = 1;
        for (int i = 0; i < 100; i++) write_one(OWN);
        for (int i = 0; i < 1500; i++) move(way);
        is_on = 0, close(fd), count("out"), everything_once();
    }
}

/* Takes one record from the position; false at the end. */
static int take(const char *way) {
    char text[RECORD];
    struct iovec piece = {text, RECORD};
    ssize_t taken = -1;
    do {
        if (!strcmp(way, "preadv2")) taken = preadv2(fd, &piece, 1, -1, 0);
        if (!strcmp(way, "readv")) taken = syscall(SYS_readv, fd, &piece, 1);
        if (!strcmp(way, "send")) taken = sendfile(pipes[1], fd, NULL, RECORD);
    } while (taken < 0 && errno == EINTR);
    if (taken == RECORD && !strcmp(way, "send") && read(pipes[0], text, RECORD) != RECORD) wrong++;
    if (taken == RECORD) note(text), operations++;
    return taken == RECORD;
}

static void takes(const char *way) {
    is_reading = 1;
    for (int round = 0; round < 4; round++) {
        begin(), fd = open("source", O_RDONLY), is_on = 1;
        do read_some(30);
        while (take(way));
        is_on = 0, close(fd), nothing_twice();
    }
}

static void make_source(void) {
    char text[RECORD + 1];
    FILE *file = fopen("source", "w");
    for (int i = 0; i < SOURCE; i++) format(text, OWN, i), fwrite(text, 1, RECORD, file);
    fclose(file);
    source = open("source", O_RDONLY);
}

int main(int words, char **word) {
    const char *way = words > 1 ? word[1] : "";
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    make_source();
    if (pipe(pipes)) return 1;
    sigaction(SIGALRM, &action, NULL);
    often(100);
    if (!strcmp(way, "close")) closes();
    else if (!strcmp(way, "duplicate")) duplicates();
    else if (!strcmp(way, "replace")) replaces();
    else if (strchr("pr", way[0]) && strcmp(way, "pwritev2")) takes(way);
    else if (!strcmp(way, "send")) takes(way);
    else moves(way);
    often(0);
    say("%s: %d wrong\n", way, wrong);
    log_out();
    return 0;
}
