/* Copies a file in records with read and write, as old programs do.
 * Usage: copy IN OUT BYTES [update|append|sync] */
#include "log.h"

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    size_t bytes = strtoul(argv[3], NULL, 10);
    int flags = O_WRONLY | O_CREAT | O_TRUNC;
    if (argc > 4 && !strcmp(argv[4], "update")) flags = O_RDWR | O_CREAT;
    if (argc > 4 && !strcmp(argv[4], "append")) flags = O_WRONLY | O_CREAT | O_APPEND;
    if (argc > 4 && !strcmp(argv[4], "sync")) flags = O_WRONLY | O_CREAT | O_TRUNC | O_SYNC;
    int in = open(argv[1], O_RDONLY), out = open(argv[2], flags, 0640);
    if (in < 0 || out < 0) return perror("open"), 1;
    char *record = malloc(bytes);
    long reads = 0;
    ssize_t n;
    while ((n = read(in, record, bytes)) > 0) {
        reads++;
        if (write(out, record, (size_t)n) != n) return perror("write"), 1;
    }
    say("%ld reads, last %zd, again %zd\n", reads, n, read(in, record, bytes));
    say("positions %ld %ld\n", (long)lseek(in, 0, SEEK_CUR), (long)lseek(out, 0, SEEK_CUR));
    say("close %d %d\n", close(in), close(out));
    log_out();
    return 0;
}
