/* Two processes change the same file, at times that leave no doubt which came first, and without a word to
 * each other: the first one writes records and then waits for nothing; the second one cuts the file, writes
 * over the records, moves the offset that both share, sets what is known of the file, or makes it durable. There are two for each way to do so, since whatever has one file written
 * has all of its process written. Where the file is held early, or was left, the second one is nobody's child any more. */
#include <aio.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include "log.h"

enum { RECORDS = 300, PARTS = 3, RECORD_BYTES = 10, OVER_AT = 2000 };
enum { START_MS = 200, AGAIN_MS = 100, SECOND_MS = 300, SPAWN_MS = 450 };

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
    "left stream", "left raw",        "left map",        "left aio",     "held map, appending", "held map, read",
    "times",       "times by raw",    "capability",      "fsync",        "shared seek",  "shared flags",
};
enum { NAMES = sizeof names / sizeof *names };

static void put(int fd, const char *bytes, size_t len) {
    if (write(fd, bytes, len) != (ssize_t)len) say("short\n");
}

static int is_left(const char *name) { return strncmp(name, "left ", 5) == 0; }
static int is_held(const char *name) { return strncmp(name, "held ", 5) == 0 || is_left(name); }
static int is_shared(const char *name) { return strncmp(name, "shared ", 7) == 0; }
/* Standard input is the file from the start on, by a description that no process here has opened. */
static int is_given(const char *name) { return strstr(name, "given") != NULL; }
static int is_given_to_second(const char *name) { return strstr(name, "given second") != NULL; }

/* Where each process says that it is ready, and where it is told the time at which all begin: by then all have
 * started, however busy the machine is. */
static int ready[2], go[2];

static double begin(void) {
    double begun_ms = 0;
    put(ready[1], "r", 1);
    if (read(go[0], &begun_ms, sizeof begun_ms) != sizeof begun_ms) say("no time\n");
    return begun_ms;
}

static void let_begin(int processes) {
    char byte;
    double begun_ms;
    for (int i = 0; i < processes; i++)
        if (read(ready[0], &byte, 1) != 1) say("not ready\n");
    begun_ms = now_ms() + START_MS;
    for (int i = 0; i < processes; i++) put(go[1], (char *)&begun_ms, sizeof begun_ms);
}

/* How far both have come, where no library sees it: the offset of a file that both have. */
static int steps;
enum { WRITTEN = 1, CHANGED = 2 };

static void wait_for_step(int step) {
    while (kernel_position(steps) < step) wait_until(now_ms() + 2);
}

/* What is shared is standard input of both. */
static void first(const char *name) {
    int has_it = is_shared(name) || (is_given(name) && !is_given_to_second(name));
    int fd = has_it ? 0 : open(name, O_WRONLY | (strstr(name, "appending") ? O_APPEND : 0));
    double begun_ms = begin();
    wait_until(begun_ms);
    for (int part = 1; part <= PARTS; part++) {
        for (int i = 0; i < RECORDS / PARTS; i++) put(fd, "first.....", RECORD_BYTES);
        if (part < PARTS) wait_until(begun_ms + part * AGAIN_MS);
    }
    kernel_seek(steps, WRITTEN, SEEK_SET);
    wait_for_step(CHANGED);
    close(fd);
}

/* What only who looks at this process from outside can know before it happens. */
static FILE *held_stream;
static char *held_map;

static void act_unseen(const char *name, int before) {
    char *words[] = {"true", NULL};
    pid_t child = 0;
    if (strstr(name, " stream") && held_stream) {
        fseek(held_stream, OVER_AT, SEEK_SET);
        fputs("second", held_stream);
        fclose(held_stream);
    }
    if (strstr(name, " raw") && before >= 0 && syscall(SYS_pwrite64, before, "second", 6, OVER_AT) != 6)
        say("short\n");
    if (strcmp(name, "held map, appending") == 0)
        held_map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, before, 0);
    if (strstr(name, "read") && held_map && mprotect(held_map, 4096, PROT_READ | PROT_WRITE)) say("mprotect\n");
    if (strstr(name, " map")) memcpy(held_map + OVER_AT, "second", 6);
    if (strcmp(name, "left aio") == 0) {
        struct aiocb block = {.aio_fildes = before, .aio_buf = "second", .aio_nbytes = 6, .aio_offset = OVER_AT};
        const struct aiocb *list[] = {&block};
        if (aio_write(&block)) say("aio\n");
        while (aio_error(&block) == EINPROGRESS) aio_suspend(list, 1, NULL);
    }
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

/* A program without the library, which sees what is in the file. */
static void say_size_outside(const char *name) {
    char *words[] = {"stat", "-c", "%n %s", (char *)name, NULL}, *nothing[] = {"PATH=/usr/bin:/bin", NULL};
    pid_t child;
    if (posix_spawnp(&child, words[0], NULL, NULL, words, nothing)) say("not started\n");
    else waitpid(child, NULL, 0);
}

/* What is not content. */
static void act_beside(const char *name) {
    struct timespec times[2] = {{1000000000, 0}, {1000000000, 0}};
    unsigned char capability[20] = {1, 0, 0, 2, 0x20};
    if (strcmp(name, "times") == 0) utimensat(AT_FDCWD, name, times, 0);
    if (strcmp(name, "times by raw") == 0) syscall(SYS_utimensat, AT_FDCWD, name, times, 0);
    /* Only root may. */
    if (strcmp(name, "capability") == 0) setxattr(name, "security.capability", capability, sizeof capability, 0);
    if (strcmp(name, "fsync") == 0) {
        int fd = open(name, O_RDONLY);
        if (fsync(fd)) say("fsync\n");
        close(fd);
    }
    if (strcmp(name, "sync") == 0) sync();
    if (strstr(name, "sync")) say_size_outside(name);
    if (strcmp(name, "shared seek") == 0) lseek(0, 5, SEEK_SET);
    if (strcmp(name, "shared flags") == 0) fcntl(0, F_SETFL, O_APPEND);
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
    act_beside(name);
    if (fd >= 0 && strcmp(name, "open") != 0) put(fd, "second", 6);
    if (fd >= 0) close(fd);
}

static int is_early(const char *name) { return strncmp(name, "early ", 6) == 0; }

static void second(const char *name) {
    int more = strstr(name, "appending") ? O_APPEND : 0;
    int before = is_given_to_second(name) ? dup(0) : is_early(name) || is_held(name) ? open(name, O_RDWR | more) : -1;
    if (before >= 0) lseek(before, OVER_AT, SEEK_SET);
    if (before >= 0 && strstr(name, " stream")) held_stream = fopen(name, "r+");
    if (strstr(name, " map") && !more) {
        held_map = mmap(NULL, 4096, PROT_READ | (strstr(name, "read") ? 0 : PROT_WRITE), MAP_SHARED, before, 0);
        close(before);
        if (is_given(name)) close(0);
    }
    /* A spawn that opens files has whatever waits anywhere written first. So has "sync", which is apart. */
    begin();
    wait_for_step(WRITTEN);
    wait_until(now_ms() + (strcmp(name, "cut by spawn") == 0 ? SPAWN_MS : SECOND_MS));
    act(name, before);
    kernel_seek(steps, CHANGED, SEEK_SET);
}

static void start(char *program, const char *what, const char *name) {
    pid_t child;
    char numbers[3][12];
    sprintf(numbers[0], "%d", ready[1]);
    sprintf(numbers[1], "%d", go[0]);
    sprintf(numbers[2], "%d", steps);
    char *words[] = {program, (char *)what, (char *)name, numbers[0], numbers[1], numbers[2], NULL};
    if (posix_spawn(&child, program, NULL, NULL, words, environ)) say("not started\n");
}

/* Both, for one way to do so. */
static int start_two(char *program, const char *name) {
    int own = -1;
    if (!is_given(name)) close(open(name, O_WRONLY | O_CREAT, 0644));
    if ((steps = open("steps", O_RDWR | O_CREAT, 0644)) < 0 || unlink("steps")) say("no steps\n");
    if (is_shared(name)) {
        int fd = open(name, O_RDWR);
        own = dup(0);
        dup2(fd, 0);
        close(fd);
    }
    start(program, "first", name);
    if (!is_early(name) && !is_left(name)) start(program, "second", name);
    else if (fork() == 0) {
        start(program, "second", name);
        _exit(0);
    }
    if (own >= 0) {
        dup2(own, 0);
        close(own);
    }
    close(steps);
    return 2;
}

static void say_known(const char *name) {
    struct stat status;
    if (strncmp(name, "times", 5) == 0 && stat(name, &status) == 0) say("%s: %ld\n", name, status.st_mtime);
    if (strcmp(name, "capability") == 0)
        say("%s: %zd\n", name, getxattr(name, "security.capability", NULL, 0));
}

int main(int count, char **words) {
    int ends[2], processes = 0;
    if (count > 5) {
        ready[1] = atoi(words[3]);
        go[0] = atoi(words[4]);
        steps = atoi(words[5]);
        (strcmp(words[1], "first") == 0 ? first : second)(words[2]);
        log_out();
        return 0;
    }
    int source = open("source", O_WRONLY | O_CREAT, 0644);
    put(source, "second", 6);
    close(source);
    /* By the end of a pipe the end of all is known. */
    if (pipe(ends) || pipe(ready) || pipe(go)) say("pipe\n");
    for (int i = 0; i < NAMES; i++)
        if (count == 1 || strcmp(words[1], names[i]) == 0) processes += start_two(words[0], names[i]);
    if (processes == 0) processes += start_two(words[0], words[1]);
    let_begin(processes);
    close(ends[1]);
    while (wait(NULL) > 0) continue;
    if (read(ends[0], &(char){0}, 1) != 0) say("a word\n");
    for (int i = 0; i < NAMES && count == 1; i++) say_known(names[i]);
    log_out();
    return 0;
}
