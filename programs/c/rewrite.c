/* Reads records, changes some and writes them back where they were: REWRITE.
 * Usage: rewrite FILE BYTES STEP */
#include "log.h"

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    long bytes = atol(argv[2]), step = atol(argv[3]), number = 0, changed = 0;
    int fd = open(argv[1], O_RDWR);
    if (fd < 0) return perror(argv[1]), 1;
    char *record = malloc((size_t)bytes);
    ssize_t n;
    while ((n = read(fd, record, (size_t)bytes)) == bytes) {
        if (number++ % step == 0) {
            long at = (long)lseek(fd, -bytes, SEEK_CUR);
            record[at % bytes] = '#';
            memcpy(record, "CHANGED", (size_t)(bytes < 7 ? bytes : 7));
            if (write(fd, record, (size_t)bytes) != bytes) return perror("write"), 1;
            changed++;
        }
    }
    say("%ld records, %ld changed, last %zd, at %ld\n", number, changed, n,
        (long)lseek(fd, 0, SEEK_CUR));
    /* Backwards, by single steps: every record once more, its own bytes swapped. */
    for (long at = (number - 1) * bytes; at >= 0; at -= bytes * step) {
        if (lseek(fd, at, SEEK_SET) != at || read(fd, record, (size_t)bytes) != bytes) return 3;
        char first = record[0];
        record[0] = record[bytes - 1];
        record[bytes - 1] = first;
        if (pwrite(fd, record, (size_t)bytes, at) != bytes) return 4;
    }
    /* Past the end: the file grows by one record and a hole. */
    say("end %ld\n", (long)lseek(fd, 3 * bytes, SEEK_END));
    say("write %zd\n", write(fd, record, (size_t)bytes));
    say("close %d\n", close(fd));
    log_out();
    return 0;
}
