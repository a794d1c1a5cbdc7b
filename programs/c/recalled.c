/* Two processes change the same place of a file, at times that leave no doubt which came first: the second one opens and
 * maps it while the first one, whose calls take long, is in the middle of a write, and stores there long after that
 * write has returned. Says whose bytes are there in the end.
 * Usage: recalled FILE */
#include "log.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

enum { RECORD_BYTES = 60, RECORDS = 2000, FILE_BYTES = 1 << 17 };
/* Before the write has returned; after that; after the other one has stored. */
#define OPENED_SECONDS 0.1
#define STORED_SECONDS 2.0
#define WRITTEN_SECONDS 3.0

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Without a call that anybody sees. */
static void compute_until(double end) {
    while (now() < end) continue;
}

static void store(const char *name, int begin) {
    char byte;
    if (read(begin, &byte, 1) != 1) _exit(1);
    double begun = now();
    compute_until(begun + OPENED_SECONDS);
    int fd = open(name, O_RDWR);
    char *mapped = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) _exit(2);
    compute_until(begun + STORED_SECONDS);
    memset(mapped + RECORDS * RECORD_BYTES, 'S', RECORD_BYTES);
    _exit(0);
}

int main(int count, char **arguments) {
    int ends[2], status;
    if (count != 2 || pipe(ends) != 0) return 1;
    pid_t child = fork();
    if (child == 0) store(arguments[1], ends[0]);
    int fd = open(arguments[1], O_CREAT | O_TRUNC | O_WRONLY, 0666);
    char record[RECORD_BYTES];
    memset(record, 'r', sizeof record);
    if (ftruncate(fd, FILE_BYTES) != 0) return 1;
    for (int i = 0; i < RECORDS; i++) {
        if (write(fd, record, sizeof record) != sizeof record) return 1;
        /* The guard gets its turn. */
        if (i == RECORDS / 2) usleep(50000);
    }
    if (write(ends[1], "", 1) != 1) return 1;
    memset(record, 'w', sizeof record);
    double begun = now();
    if (write(fd, record, sizeof record) != sizeof record) return 1;
    double took = now() - begun;
    compute_until(begun + WRITTEN_SECONDS);
    if (waitpid(child, &status, 0) != child || status != 0) return 1;
    close(fd);
    fd = open(arguments[1], O_RDONLY);
    if (pread(fd, record, 1, RECORDS * RECORD_BYTES) != 1) return 1;
    say("%s %c\n", took < STORED_SECONDS / 2 ? "in time" : "late", record[0]);
    log_out();
    return 0;
}
