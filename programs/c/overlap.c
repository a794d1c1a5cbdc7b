/* Two processes change the same bytes of a file, at times that leave no doubt which came first, and without
 * a word to each other: the first one writes records and then waits for nothing; the second one cuts the
 * file, or writes over the records. */
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include "log.h"

enum { RECORDS = 300, PARTS = 3, RECORD_BYTES = 10, AGAIN_MS = 100, SECOND_MS = 700, END_MS = 950, OVER_AT = 2000 };

extern char **environ;

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

/* Waits, as a thread does for another one: nobody else learns of it. */
static void wait_until(double ms) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    struct timespec until;
    double left_ms = ms - now_ms();
    if (left_ms <= 0) return;
    clock_gettime(CLOCK_REALTIME, &until);
    long long ns = until.tv_sec * 1000000000LL + until.tv_nsec + (long long)(left_ms * 1e6);
    until.tv_sec = ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    pthread_mutex_lock(&mutex);
    while (pthread_cond_timedwait(&never, &mutex, &until) == 0) continue;
    pthread_mutex_unlock(&mutex);
}

static const char *const names[] = {
    "open",        "open and write",  "open, appending", "creat",        "raw",          "truncate",   "fopen", "over",
    "over stream", "early ftruncate", "early write",     "early pwrite", "early writev", "early copy", "early many",
};
enum { NAMES = sizeof names / sizeof *names };

static void put(int fd, const char *bytes, size_t len) {
    if (write(fd, bytes, len) != (ssize_t)len) say("short\n");
}

static void first(double begun_ms) {
    int fds[NAMES];
    for (int i = 0; i < NAMES; i++) {
        int more = strstr(names[i], "appending") ? O_APPEND : 0;
        fds[i] = open(names[i], O_WRONLY | more);
    }
    /* The first ones earn it that others wait, and whatever does not wait writes out all that does. */
    for (int part = 1; part <= PARTS; part++) {
        for (int i = 0; i < NAMES; i++)
            for (int j = 0; j < RECORDS / PARTS; j++) put(fds[i], "first.....", RECORD_BYTES);
        wait_until(begun_ms + (part < PARTS ? part * AGAIN_MS : END_MS));
    }
    for (int i = 0; i < NAMES; i++) close(fds[i]);
}

static void act(const char *name, int before) {
    struct iovec vector = {.iov_base = "second", .iov_len = 6};
    int fd = -1;
    if (strncmp(name, "open", 4) == 0) fd = open(name, O_WRONLY | O_TRUNC);
    if (strcmp(name, "creat") == 0) fd = creat(name, 0644);
    if (strcmp(name, "raw") == 0) fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_TRUNC);
    if (strcmp(name, "truncate") == 0 && truncate(name, 25)) say("truncate\n");
    if (strcmp(name, "fopen") == 0) fclose(fopen(name, "w"));
    if (strcmp(name, "over") == 0) fd = open(name, O_WRONLY), lseek(fd, OVER_AT, SEEK_SET);
    if (strcmp(name, "over stream") == 0) {
        FILE *stream = fopen(name, "r+");
        fseek(stream, OVER_AT, SEEK_SET);
        fputs("second", stream);
        fclose(stream);
    }
    if (strcmp(name, "early ftruncate") == 0 && ftruncate(before, 25)) say("ftruncate\n");
    if (strcmp(name, "early write") == 0) put(before, "second", 6);
    if (strcmp(name, "early pwrite") == 0 && pwrite(before, "second", 6, 2500) != 6) say("short\n");
    if (strcmp(name, "early writev") == 0 && writev(before, &vector, 1) != 6) say("short\n");
    if (strcmp(name, "early copy") == 0) {
        int from = open("source", O_RDONLY);
        if (sendfile(before, from, NULL, 6) != 6) say("short\n");
        close(from);
    }
    if (strcmp(name, "early many") == 0)
        for (int i = 0; i < RECORDS; i++) put(before, "second....", RECORD_BYTES);
    if (fd >= 0 && strcmp(name, "open") != 0) put(fd, "second", 6);
    if (fd >= 0) close(fd);
}

static void second(double begun_ms) {
    int before[NAMES];
    for (int i = 0; i < NAMES; i++) {
        before[i] = strncmp(names[i], "early ", 6) == 0 ? open(names[i], O_WRONLY) : -1;
        if (before[i] >= 0) lseek(before[i], OVER_AT, SEEK_SET);
    }
    wait_until(begun_ms + SECOND_MS);
    for (int i = 0; i < NAMES; i++) act(names[i], before[i]);
    for (int i = 0; i < NAMES; i++)
        if (before[i] >= 0) close(before[i]);
}

int main(int count, char **words) {
    pid_t child;
    char begun[32];
    if (count > 2) {
        double begun_ms = atof(words[2]);
        if (strcmp(words[1], "first") == 0) first(begun_ms);
        else second(begun_ms);
        log_out();
        return 0;
    }
    int source = open("source", O_WRONLY | O_CREAT, 0644);
    put(source, "second", 6);
    close(source);
    for (int i = 0; i < NAMES; i++) close(open(names[i], O_WRONLY | O_CREAT, 0644));
    sprintf(begun, "%.3f", now_ms());
    for (int i = 0; i < 2; i++) {
        char *own[] = {words[0], i ? "second" : "first", begun, NULL};
        if (posix_spawn(&child, words[0], NULL, NULL, own, environ)) say("not started\n");
    }
    while (wait(NULL) > 0) continue;
    log_out();
    return 0;
}
