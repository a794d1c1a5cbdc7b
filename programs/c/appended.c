/* Appends records and is quiet until what waits is written for it. Then its offset is where that ends, as natively: it
 * asks for it, or reads on ("read"). */
#include "log.h"
#include <time.h>

enum { RECORD = 16, RECORDS = 3000 };

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int count, char **arguments) {
    char record[RECORD];
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0644);
    memset(record, 'a', RECORD);
    for (int i = 0; i < RECORDS; i++) {
        if (write(fd, record, RECORD) != RECORD) return 1;
        if (i < 1000 && i % 10 == 0) give_time(fd);
    }
    /* No call that anybody sees. */
    double begun = seconds();
    while (seconds() - begun < 2) {}
    if (count > 1 && !strcmp(arguments[1], "read")) say("read %d\n", (int)read(fd, record, RECORD));
    say("at %ld\n", (long)lseek(fd, 0, SEEK_CUR));
    close(fd);
    log_out();
    return 0;
}
