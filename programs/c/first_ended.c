/* A process whose first thread has ended maps a file, and stores to it after another one has written there
 * without a word to it: its bytes are the newer ones. The kernel shows nothing of its memory in its own folder,
 * but in those of its other threads. */
#include "log.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

enum { RECORD = 20, RECORDS = 4000, BYTES = RECORD * RECORDS + 4096 };

static void compute(double seconds) {
    struct timespec from, now;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((double)(now.tv_sec - from.tv_sec) + (double)(now.tv_nsec - from.tv_nsec) / 1e9 < seconds);
}

static void *store(void *memory) {
    /* By then the other one has written, and computes. */
    compute(1.2);
    memcpy((char *)memory + RECORD * RECORDS, "newer", 5);
    compute(0.2);
    _exit(0);
}

int main(void) {
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0644), status;
    if (ftruncate(fd, BYTES)) return 1;
    close(fd);
    pid_t storing = fork();
    if (storing == 0) {
        pthread_t thread;
        fd = open("file", O_RDWR);
        void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        pthread_create(&thread, NULL, store, memory);
        pthread_exit(NULL);
    }
    pid_t writing = fork();
    if (writing == 0) {
        usleep(200000);
        fd = open("file", O_RDWR);
        for (int i = 0; i < RECORDS; i++) {
            write(fd, "of the other process", RECORD);
            if (i % 1000 == 500) usleep(20000);
        }
        write(fd, "older", 5);
        compute(1.5);
        _exit(0);
    }
    waitpid(writing, &status, 0);
    waitpid(storing, &status, 0);
    char found[6] = "";
    fd = open("file", O_RDONLY);
    pread(fd, found, 5, RECORD * RECORDS);
    say("%s\n", found);
    log_out();
    return 0;
}
