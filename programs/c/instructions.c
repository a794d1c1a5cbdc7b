/* Makes the same calls again and again, so that their instructions can be counted: those of the second
 * `measured` less those of the first, which is as much shorter.
 * Usage: instructions CALLS SHORT LONG     CALLS: one of the names below
 * In the present folder: `large`, which is read, `small`, and folders `aa` to `hh`, each with small files `a` to
 * `p`; `out` and `new` are written. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FAR 1000003
#define SPAN (16 << 20)

static int fd;
static FILE *stream;
static char bytes[256];
static long turn;

static void failed(void) {
    perror("instructions");
    _exit(9);
}

static void read8(void) {
    if (read(fd, bytes, 8) != 8) failed();
}

static void read200(void) {
    if (read(fd, bytes, 200) != 200) failed();
}

static void write200(void) {
    if (write(fd, bytes, 200) != 200) failed();
}

/* Each record is looked at, so that no buffer pays. */
static void shown_write(void) {
    struct stat status;
    write200();
    if (fstat(fd, &status) != 0) failed();
}

static void fread8(void) {
    if (fread(bytes, 1, 8, stream) != 8) failed();
}

static void fread200(void) {
    if (fread(bytes, 1, 200, stream) != 200) failed();
}

static void fwrite200(void) {
    if (fwrite(bytes, 1, 200, stream) != 200) failed();
}

static void random_pread(void) {
    if (pread(fd, bytes, 200, ++turn * FAR % SPAN) != 200) failed();
}

static void random_seek_and_read(void) {
    if (lseek(fd, ++turn * FAR % SPAN, SEEK_SET) < 0 || read(fd, bytes, 200) != 200) failed();
}

static void read_small(const char *path) {
    int small = open(path, O_RDONLY);
    if (read(small, bytes, sizeof bytes) != 100 || read(small, bytes, sizeof bytes) != 0) failed();
    if (close(small) != 0) failed();
}

static void small_file(void) { read_small("small"); }

/* Files that end soon after others have earned a buffer by as many reads, or before they earn one. */
static void file_of_reads(void) {
    int small = open("small", O_RDONLY);
    for (int reads = 0; reads < 20; reads++)
        if (read(small, bytes, 5) != 5) failed();
    if (close(small) != 0) failed();
}

static void file_of_writes(void) {
    int new = open("new", O_CREAT | O_TRUNC | O_WRONLY, 0600);
    for (int writes = 0; writes < 60; writes++)
        if (write(new, bytes, 200) != 200) failed();
    if (close(new) != 0) failed();
}

/* All files of a folder, then those of the next one. */
static void file_of_tree(void) {
    static int turn;
    char path[] = {(char)('a' + turn / 128 % 8), (char)('a' + turn / 16 % 8), '/', (char)('a' + turn % 16), 0};
    turn++;
    read_small(path);
}

static void one_fstat(void) {
    struct stat status;
    if (fstat(fd, &status) != 0) failed();
}

/* As a shell does around each of its children. */
static void masks_signals(void) {
    sigset_t one, before;
    sigemptyset(&one), sigaddset(&one, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &one, &before) != 0 || sigprocmask(SIG_SETMASK, &before, NULL) != 0) failed();
}

/* Rights are given up once, so nothing is buffered from then on. */
static void unbuffered_read(void) {
    static int confined;
    if (!confined) confined = setreuid(-1, -1) == 0;
    read200();
}

static void nothing(void) {}

static const struct {
    const char *name;
    void (*call)(void);
    const char *file;
    const char *stream;
} all[] = {
    {"read8", read8, "large", NULL},
    {"read200", read200, "large", NULL},
    {"write200", write200, "out", NULL},
    {"shown", shown_write, "out", NULL},
    {"pread", random_pread, "large", NULL},
    {"seek", random_seek_and_read, "large", NULL},
    {"small", small_file, "large", NULL},
    {"reads", file_of_reads, "large", NULL},
    {"writes", file_of_writes, "large", NULL},
    {"tree", file_of_tree, "large", NULL},
    {"fstat", one_fstat, "large", NULL},
    {"masks", masks_signals, "large", NULL},
    {"unbuffered", unbuffered_read, "large", NULL},
    {"fread8", fread8, "large", "r"},
    {"fread200", fread200, "large", "r"},
    {"fwrite200", fwrite200, "out", "w"},
    {"nothing", nothing, "large", NULL},
};

/* The name by which callgrind is told what to count. */
static __attribute__((noinline)) void measured(void (*call)(void), long calls) {
    for (long i = 0; i < calls; i++) call();
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(all[i].name, arguments[1]) != 0) continue;
        int is_output = strcmp(all[i].file, "out") == 0;
        fd = open(all[i].file, is_output ? O_CREAT | O_TRUNC | O_WRONLY : O_RDONLY, 0600);
        if (fd < 0) failed();
        if (all[i].stream && !(stream = fdopen(fd, all[i].stream))) failed();
        /* A buffer is earned by then, and what is asked for has been answered. */
        for (int warm = 0; warm < 100; warm++) all[i].call();
        usleep(200000);
        for (int warm = 0; warm < 100; warm++) all[i].call();
        measured(all[i].call, atol(arguments[2]));
        measured(all[i].call, atol(arguments[3]));
        return 0;
    }
    return 2;
}
