/* The loop of record-copy.cob in C, as one writes it first: a read and a write for each record.
 *
 *     record-copy-plain SOURCE TARGET */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { RECORD_BYTES = 200 };

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s SOURCE TARGET\n", argv[0]);
        return 2;
    }
    int source = open(argv[1], O_RDONLY);
    if (source < 0) {
        perror(argv[1]);
        return 1;
    }
    int target = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (target < 0) {
        perror(argv[2]);
        return 1;
    }
    char record[RECORD_BYTES];
    ssize_t len;
    while ((len = read(source, record, sizeof record)) > 0)
        if (write(target, record, (size_t)len) != len) {
            perror(argv[2]);
            return 1;
        }
    if (len < 0) {
        perror(argv[1]);
        return 1;
    }
    if (close(target) != 0) {
        perror(argv[2]);
        return 1;
    }
    return 0;
}
