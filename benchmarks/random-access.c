/* Reads 4 KiB blocks of a file at random places, each as likely as the others:
 *
 *     random-access pread|seek COUNT FILE
 *
 * `seek` uses lseek and read. Buffering cannot help here; this is to show that it does no harm. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK_BYTES = 4096 };

static int fail(const char *what)
{
    perror(what);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: %s pread|seek COUNT FILE\n", argv[0]);
        return 2;
    }
    int seek = strcmp(argv[1], "seek") == 0;
    unsigned long count = strtoul(argv[2], NULL, 10);
    int fd = open(argv[3], O_RDONLY);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0)
        return fail(argv[3]);
    uint64_t blocks = (uint64_t)status.st_size / BLOCK_BYTES;
    if (blocks == 0) {
        fprintf(stderr, "%s: shorter than a block\n", argv[3]);
        return 1;
    }
    static char block[BLOCK_BYTES];
    uint64_t random = 88172645463325252u, checksum = 0; /* xorshift64, Marsaglia 2003 */
    for (unsigned long i = 0; i < count; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        off_t at = (off_t)(random % blocks) * BLOCK_BYTES;
        ssize_t n;
        if (seek)
            n = lseek(fd, at, SEEK_SET) < 0 ? -1 : read(fd, block, BLOCK_BYTES);
        else
            n = pread(fd, block, BLOCK_BYTES, at);
        if (n != BLOCK_BYTES)
            return fail(argv[3]);
        uint64_t word;
        memcpy(&word, block + random / blocks % (BLOCK_BYTES / 8) * 8, sizeof word);
        checksum = checksum * 31 + word;
    }
    printf("checksum %016llx\n", (unsigned long long)checksum);
    return 0;
}
