/* Threads that write to one description from its opening on: while writes begin to wait, and after.
 * Usage: threads_write ROUNDS */
#include <pthread.h>
#include "log.h"

enum { THREADS = 4, WRITES = 2000, BYTES = 16 };
static const char record[] = "0123456789abcde\n";

static void *writer(void *argument) {
    int fd = *(int *)argument;
    for (int i = 0; i < WRITES; i++)
        if (write(fd, record, BYTES) != BYTES) return (void *)1;
    return NULL;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    for (int round = 0; round < rounds; round++) {
        int fd = open("threads", O_RDWR | O_TRUNC | O_CREAT, 0644);
        pthread_t all[THREADS];
        for (int i = 0; i < THREADS; i++) pthread_create(&all[i], NULL, writer, &fd);
        for (int i = 0; i < THREADS; i++) {
            void *failed;
            pthread_join(all[i], &failed);
            if (failed) say("round %d: write failed\n", round);
        }
        close(fd);
        FILE *file = fopen("threads", "r");
        char bytes[BYTES];
        long good = 0;
        while (fread(bytes, 1, BYTES, file) == BYTES) good += !memcmp(bytes, record, BYTES);
        fclose(file);
        if (good != THREADS * WRITES) say("round %d: %ld records\n", round, good);
    }
    say("%d rounds\n", rounds);
    log_out();
    return 0;
}
