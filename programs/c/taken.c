/* A write to a FIFO or a terminal, opened by its path, waits until somebody has taken what was written before;
 * who takes it changes a file first. So the file is not older than what was taken.
 *
 *   fifo, both       opened for writing, or for both
 *   again, vector    by a duplicate, or from several places
 *   handed, owned    it was handed on to a child, or has an owner
 *   terminal         the second end of a pseudoterminal
 *   open             an open that waits for the one of the other end */
#include "log.h"
#include "raw.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>

enum { TAKEN = 4096, PART = 16 * TAKEN, ROUNDS = 100, SLACK = 4 * PART };

/* Counts in the file how often it has taken something, by calls that no library sees. */
static void take(int from) {
    static char bytes[TAKEN];
    int file = open("count", O_RDWR);
    for (long count = 1;; count++) {
        raw(SYS_pwrite64, file, (long)&count, sizeof count, 0);
        if (raw(SYS_read, from, (long)bytes, TAKEN, 0) <= 0) _exit(0);
    }
}

static long count_now(int file) {
    long count = 0, other;
    lseek(file, 0, SEEK_SET);
    read(file, &count, sizeof count);
    for (int i = 0; i < 20; i++) read(file, &other, sizeof other);
    return count;
}

static long put(int fd, const char *way) {
    static char bytes[PART];
    struct iovec parts[2] = {{bytes, 100}, {bytes, PART - 100}};
    return strcmp(way, "vector") ? write(fd, bytes, PART) : writev(fd, parts, 2);
}

static int end_of(const char *way, int *from, const char **name) {
    struct termios plain;
    int is_terminal = !strcmp(way, "terminal");
    static char path[64] = "fifo";
    *name = path;
    if (!is_terminal) {
        mkfifo(path, 0600), *from = open(path, O_RDWR);
        return 0;
    }
    *from = posix_openpt(O_RDWR | O_NOCTTY);
    if (grantpt(*from) || unlockpt(*from) || ptsname_r(*from, path, sizeof path)) exit(2);
    int second = open(path, O_RDWR | O_NOCTTY);
    tcgetattr(second, &plain), cfmakeraw(&plain), tcsetattr(second, TCSANOW, &plain);
    /* It stays open until the other one is. */
    return second;
}

/* Counts in the file how often it has met the one who opens the other end. */
static void meet(void) {
    int file = open("count", O_RDWR);
    for (long count = 1; count <= ROUNDS; count++) {
        raw(SYS_pwrite64, file, (long)&count, sizeof count, 0);
        raw(SYS_close, (int)raw(SYS_openat, AT_FDCWD, (long)"fifo", O_WRONLY, 0), 0, 0, 0);
        /* The other one has gone before the next meeting. */
        int gone = (int)raw(SYS_openat, AT_FDCWD, (long)"gone", O_RDONLY, 0);
        raw(SYS_close, gone, 0, 0, 0);
    }
    _exit(0);
}

static int opens(void) {
    int old = 0, status;
    mkfifo("fifo", 0600), mkfifo("gone", 0600), make_file("count", 100000);
    pid_t other = fork();
    if (other == 0) meet();
    int file = open("count", O_RDONLY);
    for (int i = 0; i < 300; i++) count_now(file);
    for (int round = 1; round <= ROUNDS; round++) {
        int met = open("fifo", O_RDONLY);
        old += count_now(file) < round;
        close(met), close((int)raw(SYS_openat, AT_FDCWD, (long)"gone", O_WRONLY, 0));
    }
    waitpid(other, &status, 0);
    say("open: %d of %d times old\n", old, ROUNDS);
    unlink("fifo"), unlink("gone");
    log_out();
    return 0;
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "", *name;
    if (!strcmp(way, "open")) return opens();
    int from, kept = end_of(way, &from, &name), old = 0, status;
    make_file("count", 100000);
    pid_t taker = fork();
    if (taker == 0) take(from);
    /* What it has, too, would be without a buffer. */
    int file = open("count", O_RDONLY);
    int to = open(name, (strcmp(way, "both") ? O_WRONLY : O_RDWR) | O_NOCTTY);
    if (!strcmp(way, "again")) to = dup(to);
    if (!strcmp(way, "handed")) status = system("true");
    if (!strcmp(way, "owned")) fcntl(to, F_SETOWN, getpid());
    /* Few enough that they do not fill it. */
    for (int i = 0; i < 10; i++) write(to, "one of few", 10);
    for (int i = 0; i < 300; i++) count_now(file);
    long written = 0;
    for (int round = 0; round < ROUNDS; round++) {
        written += put(to, way);
        old += count_now(file) * TAKEN < written - SLACK;
    }
    kill(taker, SIGKILL), waitpid(taker, &status, 0);
    say("%s: %ld bytes, %d of %d times old, %d\n", way, written, old, ROUNDS, kept > 2);
    close(to), unlink("fifo");
    log_out();
    return 0;
}
