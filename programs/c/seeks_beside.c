/* Records are written beside another thread; before each the position is set to where it is, or asked for. Nothing of
 * that keeps them from waiting. */
#include "log.h"
#include <pthread.h>

enum { RECORDS = 40000, BYTES = 50 };

static void *idle(void *until) {
    while (!__atomic_load_n((int *)until, __ATOMIC_ACQUIRE)) usleep(50000);
    return NULL;
}

int main(void) {
    int over = 0, fd = open("out", O_RDWR | O_CREAT | O_TRUNC, 0644);
    long wrong = 0;
    char record[BYTES + 1];
    pthread_t other;
    pthread_create(&other, NULL, idle, &over);
    for (long made = 0; made < RECORDS; made++) {
        off_t at = made * BYTES;
        wrong += (made % 2 ? lseek(fd, at, SEEK_SET) : lseek(fd, 0, SEEK_CUR)) != at;
        snprintf(record, sizeof record, "%0*ld", BYTES, made);
        wrong += write(fd, record, BYTES) != BYTES;
    }
    say("%ld wrong, at %ld\n", wrong, (long)lseek(fd, 0, SEEK_CUR));
    // Elsewhere, and back.
    say("%ld", (long)lseek(fd, -BYTES, SEEK_CUR)), say(" %zd\n", write(fd, "x", 1));
    say("%ld", (long)lseek(fd, 0, SEEK_END)), say(" %zd\n", write(fd, "end", 3));
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    pthread_join(other, NULL);
    say("close %d\n", close(fd));
    log_out();
    return 0;
}
