/* Four threads write records to one descriptor, while a fifth makes the library give up and take over the
 * position again and again. A thread that is about to take it over may have to wait while others write.
 * Says how many records are not there once. */
#include <fcntl.h>
#include <pthread.h>
#include "log.h"

enum { THREADS = 4, RECORDS = 5000, PAUSE_US = 20 };

struct record {
    unsigned thread, number;
    char rest[24];
};

static int fd, running = THREADS;

static void *writes(void *argument) {
    struct record record;
    memset(&record, 'r', sizeof record);
    record.thread = (unsigned)(size_t)argument;
    for (record.number = 0; record.number < RECORDS; record.number++)
        if (write(fd, &record, sizeof record) != sizeof record) say("short\n");
    __atomic_sub_fetch(&running, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

int main(void) {
    static unsigned char seen[THREADS][RECORDS];
    pthread_t threads[THREADS];
    struct record record;
    unsigned wrong = 0;
    fd = open("records", O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (size_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, writes, (void *)i);
    while (__atomic_load_n(&running, __ATOMIC_SEQ_CST)) {
        posix_fadvise(fd, 0, 0, POSIX_FADV_NORMAL);
        usleep(PAUSE_US);
    }
    for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    lseek(fd, 0, SEEK_SET);
    while (read(fd, &record, sizeof record) == sizeof record)
        if (record.thread >= THREADS || record.number >= RECORDS || seen[record.thread][record.number]++)
            wrong++;
    for (int thread = 0; thread < THREADS; thread++)
        for (int number = 0; number < RECORDS; number++) wrong += !seen[thread][number];
    say("wrong: %u\n", wrong);
    /* Their order is nobody's. */
    unlink("records");
    return 0;
}
