/* A process writes and then computes, without a word to anybody. Another one, which has had the file open for reading
 * since before, takes a lock and reads.
 *
 * Usage: locks_beside flock|record|description|none FILE. Says how many bytes that one found, and how many there are. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RECORDS = 1000, RECORD_BYTES = 31, LOCKS_MS = 2000, ENDS_MS = 3500 };

static long began_ms;

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000 - began_ms;
}

static void writes(const char *path) {
    int fd = open(path, O_WRONLY);
    char record[RECORD_BYTES + 1];
    for (int i = 0; i < RECORDS; i++) {
        snprintf(record, sizeof record, "record %022d\n", i);
        if (write(fd, record, RECORD_BYTES - 1) != RECORD_BYTES - 1) _exit(1);
        /* Somebody has to come to the processor who gives it a buffer. */
        if (i % 50 == 0) usleep(3000);
    }
    while (now_ms() < ENDS_MS) {}
    _exit(0);
}

int main(int count, char **words) {
    (void)count;
    began_ms = now_ms();
    const char *way = words[1], *path = words[2];
    int fd = open(path, O_RDONLY | O_CREAT, 0644);
    pid_t writer = fork();
    if (writer == 0) writes(path);
    while (now_ms() < LOCKS_MS) usleep(10000);
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    int failed = 0;
    if (!strcmp(way, "flock")) failed = flock(fd, LOCK_SH);
    if (!strcmp(way, "record")) failed = fcntl(fd, F_SETLKW, &lock);
    if (!strcmp(way, "description")) failed = fcntl(fd, F_OFD_SETLK, &lock);
    char bytes[RECORDS * RECORD_BYTES];
    ssize_t found = pread(fd, bytes, sizeof bytes, 0);
    int status = 1;
    waitpid(writer, &status, 0);
    printf("%d %d %zd of %d\n", failed, status, found, RECORDS * (RECORD_BYTES - 1));
    return 0;
}
