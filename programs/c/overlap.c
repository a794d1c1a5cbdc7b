/* Two processes change the same bytes of a file, at times that leave no doubt which came first, and without
 * a word to each other: the first one writes records and then waits for nothing; the second one cuts the
 * file, or writes over the records. There are two for each way to do so, since whatever has one file written
 * has all of its process written. Where the file is held early, the second one is nobody's child any more. */
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include "log.h"

enum { RECORDS = 300, PARTS = 3, RECORD_BYTES = 10, AGAIN_MS = 100, SECOND_MS = 700, SPAWN_MS = 850, END_MS = 950, OVER_AT = 2000 };

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
    "held stream", "held raw",        "held map",        "cut to read",  "cut by vfork", "cut by spawn",
};
enum { NAMES = sizeof names / sizeof *names };

static void put(int fd, const char *bytes, size_t len) {
    if (write(fd, bytes, len) != (ssize_t)len) say("short\n");
}

static void first(const char *name, double begun_ms) {
    int fd = open(name, O_WRONLY | (strstr(name, "appending") ? O_APPEND : 0));
    for (int part = 1; part <= PARTS; part++) {
        for (int i = 0; i < RECORDS / PARTS; i++) put(fd, "first.....", RECORD_BYTES);
        wait_until(begun_ms + (part < PARTS ? part * AGAIN_MS : END_MS));
    }
    close(fd);
}

/* What only who looks at this process from outside can know before it happens. */
static FILE *held_stream;
static char *held_map;

static void act_unseen(const char *name, int before) {
    char *words[] = {"true", NULL};
    pid_t child = 0;
    if (strcmp(name, "held stream") == 0) {
        fseek(held_stream, OVER_AT, SEEK_SET);
        fputs("second", held_stream);
        fclose(held_stream);
    }
    if (strcmp(name, "held raw") == 0 && syscall(SYS_pwrite64, before, "second", 6, OVER_AT) != 6) say("short\n");
    if (strcmp(name, "held map") == 0) memcpy(held_map + OVER_AT, "second", 6);
    if (strcmp(name, "cut to read") == 0) close(open(name, O_RDONLY | O_TRUNC));
    if (strcmp(name, "cut by vfork") == 0 && (child = vfork()) == 0) {
        dup2(open(name, O_WRONLY | O_TRUNC), 1);
        execvp(words[0], words);
        _exit(1);
    }
    if (strcmp(name, "cut by spawn") == 0) {
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 1, name, O_WRONLY | O_TRUNC, 0644);
        if (posix_spawnp(&child, words[0], &actions, NULL, words, environ)) say("not started\n");
        posix_spawn_file_actions_destroy(&actions);
    }
    if (child > 0) waitpid(child, NULL, 0);
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
    act_unseen(name, before);
    if (fd >= 0 && strcmp(name, "open") != 0) put(fd, "second", 6);
    if (fd >= 0) close(fd);
}

static int is_early(const char *name) { return strncmp(name, "early ", 6) == 0; }

static void second(const char *name, double begun_ms) {
    int before = is_early(name) || strncmp(name, "held ", 5) == 0 ? open(name, O_RDWR) : -1;
    if (before >= 0) lseek(before, OVER_AT, SEEK_SET);
    if (strcmp(name, "held stream") == 0) held_stream = fopen(name, "r+");
    if (strcmp(name, "held map") == 0) {
        held_map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, before, 0);
        close(before);
    }
    /* A spawn that opens files has whatever waits anywhere written first. */
    wait_until(begun_ms + (strcmp(name, "cut by spawn") == 0 ? SPAWN_MS : SECOND_MS));
    act(name, before);
}

static void start(char *program, const char *what, const char *name, char *begun) {
    pid_t child;
    char *words[] = {program, (char *)what, (char *)name, begun, NULL};
    if (posix_spawn(&child, program, NULL, NULL, words, environ)) say("not started\n");
}

int main(int count, char **words) {
    char begun[32];
    int ends[2];
    if (count > 3) {
        (strcmp(words[1], "first") == 0 ? first : second)(words[2], atof(words[3]));
        log_out();
        return 0;
    }
    int source = open("source", O_WRONLY | O_CREAT, 0644);
    put(source, "second", 6);
    close(source);
    for (int i = 0; i < NAMES; i++) close(open(names[i], O_WRONLY | O_CREAT, 0644));
    /* By the end of a pipe the end of all is known. */
    if (pipe(ends)) say("pipe\n");
    sprintf(begun, "%.3f", now_ms());
    for (int i = 0; i < NAMES; i++) {
        start(words[0], "first", names[i], begun);
        if (!is_early(names[i])) start(words[0], "second", names[i], begun);
        else if (fork() == 0) {
            start(words[0], "second", names[i], begun);
            _exit(0);
        }
    }
    close(ends[1]);
    while (wait(NULL) > 0) continue;
    if (read(ends[0], begun, 1) != 0) say("a word\n");
    log_out();
    return 0;
}
