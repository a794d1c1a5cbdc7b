/* Makes calls that follow from a seed until it is killed or told to stop, and counts each that was
 * accepted in its own memory, at an address that the tester knows: it never says a word.
 * Usage: kill_victim SEED MODE      MODE: calls, threads, shared, forks, log or steps
 *
 * A lane is a sequence of calls on two files of its own, LANE-0 and LANE-1; `calls` and `steps` have
 * one lane, `threads` a thread for each of four, `forks` a process for each. In `shared` four
 * threads write numbered records through one descriptor of the file `shared`, in `log` four processes
 * through one each, which appends. With an odd seed the second file of a lane is open for appending;
 * that of lane 0 is descriptor 0, where that is a file and so came from outside.
 * Which call comes, and what it writes, is told again in crates/xtask/src/fuzz/model.rs. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define LANES 4
#define FILES 2
#define WRITE_BYTES_MAX 60000
#define SIZE_MAX_BYTES (1 << 20)
#define SHARED_ALONE 500
#define STEPS_FROM 300
#define STEPS_TO 324

struct page {
    volatile unsigned long ready, stop, go, ended;
    volatile unsigned long done[LANES];
    volatile unsigned long pids[LANES];
};
static struct page *const page = (struct page *)0x200000000ul;
static unsigned long seed;
static int is_steps, is_outside;

static unsigned long mixed(unsigned long number) {
    number += 0x9e3779b97f4a7c15ul;
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9ul;
    number = (number ^ (number >> 27)) * 0x94d049bb133111ebul;
    return number ^ (number >> 31);
}

static unsigned long number_of(long lane, unsigned long call) {
    return mixed(seed * 1000003 + mixed((unsigned long)lane << 56 | call));
}

static void fill(char *bytes, long length, unsigned long number) {
    for (long i = 0; i < length; i += 8, number += 0x9e3779b97f4a7c15ul)
        memcpy(bytes + i, &number, 8);
}

static void failed(const char *what) {
    perror(what);
    _exit(9);
}

static int open_new(const char *name, int flags) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | flags, 0644);
    if (fd < 0) failed(name);
    return fd;
}

static void write_all(ssize_t n, long length) {
    if (n != length) failed("write");
}

static void live(long lane) {
    char *bytes = malloc(WRITE_BYTES_MAX + 8), *other = malloc(WRITE_BYTES_MAX + 8), name[16];
    int fds[FILES], copies[FILES], pipes[2];
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "%ld-%d", lane, i);
        fds[i] = i && !lane && is_outside ? 0 : open_new(name, i && seed % 2 ? O_APPEND : 0);
        copies[i] = dup(fds[i]);
    }
    if (pipe(pipes)) failed("pipe");
    page->ready = 1;
    for (unsigned long call = 0; !page->stop; page->done[lane] = ++call) {
        if (is_steps && call % 70 == 69 && call < STEPS_FROM) usleep(2000);
        if (is_steps && call == STEPS_FROM)
            for (page->ready = 2; !page->go;) {}
        if (is_steps && call == STEPS_TO) {
            page->ended = 1;
            pause();
        }
        unsigned long number = number_of(lane, call);
        int file = (int)(number_of(lane, (call / 8) | 1ul << 40) % FILES), fd = fds[file];
        /* Mostly plain writes: what is disturbed all the time does not wait. */
        long kind = (number >> 48) % 8 && !(is_steps && call >= STEPS_FROM) ? 63 : (long)(number % 64);
        long length = 1 + (long)((number >> 8) % 300);
        long at = (long)((number >> 24) % 70000);
        /* With append placement, asking makes all that waits go out. */
        int is_append = file && (seed % 2 || (!lane && is_outside));
        int asks = !is_append || call % 256 == 0;
        if (asks && lseek(fd, 0, SEEK_CUR) >= SIZE_MAX_BYTES) {
            lseek(fd, 0, SEEK_SET);
            continue;
        }
        if (kind == 6) length = (number >> 40) % 4 ? 5000 : WRITE_BYTES_MAX;
        fill(bytes, length, number);
        switch (kind) {
        case 0:
            if (lseek(fd, at, SEEK_SET) != at) failed("lseek");
            break;
        case 1:
            if (lseek(fd, 0, SEEK_END) < 0) failed("lseek");
            break;
        case 2:
            write_all(pwrite(fd, bytes, (size_t)length, at), length);
            break;
        case 3: case 4:
            write_all(write(copies[file], bytes, (size_t)length), length);
            break;
        case 5: {
            struct iovec parts[2] = {{bytes, (size_t)length / 2},
                                     {bytes + length / 2, (size_t)(length - length / 2)}};
            write_all(writev(fd, parts, 2), length);
            break;
        }
        case 7: case 8:
            if (read(fd, other, (size_t)length) < 0) failed("read");
            break;
        case 9:
            if ((number >> 40) % 8 == 0 && ftruncate(fd, at)) failed("ftruncate");
            break;
        case 10:
            if ((number >> 40) % 64 == 0) fsync(fd);
            break;
        case 11:
            if ((number >> 40) % 4 == 0) usleep(50);
            break;
        case 12:
            if (write(pipes[1], bytes, 1) != 1 || read(pipes[0], other, 1) != 1) failed("pipe");
            break;
        default:
            write_all(write(fd, bytes, (size_t)length), length);
        }
    }
    for (int i = 0; i < FILES; i++) {
        close(copies[i]);
        if (close(fds[i])) failed("close");
    }
}

static int shared_fd;

static void share(long lane) {
    char bytes[512];
    /* Waiting begins while nobody else is at it. */
    while (lane && page->done[0] < SHARED_ALONE && !page->stop) usleep(100);
    for (unsigned long call = 0; !page->stop; page->done[lane] = ++call) {
        unsigned long number = number_of(lane, call);
        /* With every other seed the others begin just when waiting does. */
        if (!lane && seed % 2 && (call == 100 || call == 200)) usleep(2000);
        unsigned length = 16 + (unsigned)(number >> 8) % 300;
        unsigned head[4] = {0x6b696c6c, (unsigned)lane, (unsigned)call, length};
        fill(bytes, length, number);
        memcpy(bytes, head, sizeof head);
        write_all(write(shared_fd, bytes, length), length);
    }
}

static void *thread(void *argument) {
    long lane = (long)argument;
    if (shared_fd) share(lane);
    else live(lane);
    return NULL;
}

/* What a process of a family does. */
static void live_in_family(long lane, int is_log) {
    if (!is_log) {
        live(lane);
        return;
    }
    shared_fd = open("shared", O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (shared_fd < 0) failed("shared");
    page->done[0] = lane ? SHARED_ALONE : 0;
    page->ready = 1;
    share(lane);
    close(shared_fd);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    int is_log = !strcmp(argv[2], "log");
    seed = strtoul(argv[1], NULL, 10);
    if (mmap(page, 4096, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != page)
        failed("mmap");
    page->pids[0] = (unsigned long)getpid();
    struct stat from;
    is_outside = fstat(0, &from) == 0 && S_ISREG(from.st_mode);
    is_steps = !strcmp(argv[2], "steps");
    if (!strcmp(argv[2], "threads") || !strcmp(argv[2], "shared")) {
        pthread_t threads[LANES];
        if (argv[2][0] == 's') shared_fd = open_new("shared", seed % 3 ? 0 : O_APPEND);
        for (long lane = 0; lane < LANES; lane++)
            pthread_create(&threads[lane], NULL, thread, (void *)lane);
        page->ready = 1;
        for (long lane = 0; lane < LANES; lane++) pthread_join(threads[lane], NULL);
        if (shared_fd) close(shared_fd);
    } else if (is_log || !strcmp(argv[2], "forks")) {
        for (long lane = 1; lane < LANES; lane++) {
            pid_t child = fork();
            if (child == 0) {
                live_in_family(lane, is_log);
                return 0;
            }
            page->pids[lane] = (unsigned long)child;
        }
        live_in_family(0, is_log);
        while (wait(NULL) > 0) {}
    } else {
        live(0);
    }
    return 0;
}
