/* One thread writes a file by one description, and says in memory how far it is; another one reads it by
 * a description of its own, and never finds less than was said before.
 * Usage: threads_tell filling|opening MILLISECONDS */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include "log.h"

enum { PLACES = 1 << 18, RECORDS = 40000, BYTES = 32 };
static atomic_long said[PLACES], place, rounds, done;
static atomic_int over;
static long until_ms;

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Numbers that grow, just before the reader, so that they come while its window is being filled. */
static void *number(void *argument) {
    (void)argument;
    int fd = open("numbers", O_RDWR);
    unsigned seed = 1;
    for (long value = 1; !over; value++) {
        seed = seed * 1103515245 + 12345;
        long at = (place + (long)(seed >> 8) % 3000) % PLACES;
        if (pwrite(fd, &value, 8, at * 8) != 8) exit(98);
        said[at] = value;
        for (volatile unsigned wait = 0; wait < (seed >> 12) % 30000; wait++) {}
    }
    close(fd);
    return NULL;
}

static long fillings(void) {
    long stale = 0, number_there, at = 0;
    pthread_t writer;
    int fd = open("numbers", O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (ftruncate(fd, PLACES * 8l)) exit(98);
    pthread_create(&writer, NULL, number, NULL);
    for (long reads = 0; reads % 1024 || now_ms() < until_ms; reads++) {
        if (at == 0) lseek(fd, 0, SEEK_SET);
        long least = said[at];
        if (read(fd, &number_there, 8) != 8) exit(97);
        stale += number_there < least;
        at = (at + 1) % PLACES;
        place = at;
    }
    over = 1;
    pthread_join(writer, NULL);
    close(fd);
    return stale;
}

/* Records from the start of the file to its end, one round. */
static void *record(void *argument) {
    char bytes[BYTES];
    (void)argument;
    memset(bytes, 'r', sizeof bytes);
    int fd = open("records", O_WRONLY);
    for (long i = 0; i < RECORDS; i++) {
        if (write(fd, bytes, sizeof bytes) != sizeof bytes) exit(98);
        done = i + 1;
    }
    close(fd);
    rounds++;
    return NULL;
}

/* Descriptions that are opened, read until they have a window, and closed, while writes begin to wait. */
static long openings(void) {
    long stale = 0;
    char bytes[BYTES];
    while (now_ms() < until_ms) {
        int fd = open("records", O_RDWR | O_CREAT | O_TRUNC, 0644);
        if (ftruncate(fd, RECORDS * (long)BYTES)) exit(98);
        close(fd);
        pthread_t writer;
        long round = rounds;
        done = 0;
        pthread_create(&writer, NULL, record, NULL);
        while (rounds == round) {
            long at = done - 10;
            if (at < 400) continue;
            fd = open("records", O_RDONLY);
            lseek(fd, at * BYTES, SEEK_SET);
            for (int i = 0; i < 200 && rounds == round; i++, at++) {
                while (at >= done && rounds == round) sched_yield();
                if (at >= RECORDS || read(fd, bytes, sizeof bytes) != sizeof bytes) break;
                stale += bytes[0] != 'r';
            }
            close(fd);
        }
        pthread_join(writer, NULL);
    }
    return stale;
}

int main(int argc, char **argv) {
    if (argc < 3) return 96;
    until_ms = now_ms() + atol(argv[2]);
    long stale = strcmp(argv[1], "filling") ? openings() : fillings();
    say("%s: %ld reads older than what was said\n", argv[1], stale);
    unlink("numbers");
    unlink("records");
    log_out();
    return 0;
}
