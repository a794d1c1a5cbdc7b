/* Opens, reads or writes, and closes many files of 1,000 bytes, each in one transfer:
 *
 *     small-files read|write COUNT FOLDER [PASSES]
 *
 * over and over, PASSES times (1).
 *
 * Buffering cannot help here; this is to show that it does no harm. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES = 1000 };

static int fail(const char *what)
{
    perror(what);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 5) {
        fprintf(stderr, "usage: %s read|write COUNT FOLDER [PASSES]\n", argv[0]);
        return 2;
    }
    int writing = strcmp(argv[1], "write") == 0;
    unsigned long count = strtoul(argv[2], NULL, 10);
    unsigned long passes = argc == 5 ? strtoul(argv[4], NULL, 10) : 1;
    if (writing && mkdir(argv[3], 0755) < 0 && errno != EEXIST)
        return fail(argv[3]);
    static char path[4096], content[FILE_BYTES];
    uint64_t checksum = 0;
    for (unsigned long i = 0; i < count * passes; i++) {
        snprintf(path, sizeof path, "%s/%06lu", argv[3], i % count);
        int fd = writing ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644) : open(path, O_RDONLY);
        if (fd < 0)
            return fail(path);
        ssize_t n;
        if (writing) {
            memset(content, 'a' + (int)(i % 26), FILE_BYTES);
            n = write(fd, content, FILE_BYTES);
        } else {
            n = read(fd, content, FILE_BYTES);
            checksum = checksum * 31 + (uint64_t)n * 256 + (unsigned char)content[FILE_BYTES - 1];
        }
        if (n < 0 || close(fd) < 0)
            return fail(path);
    }
    printf("checksum %016llx\n", (unsigned long long)checksum);
    return 0;
}
