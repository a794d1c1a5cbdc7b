/* Reads a file from its start to its end, some passes over, in transfers of one size, and says
 * what a transfer took:
 *
 *     transfer-size read|fread|fread-64k TRANSFER_BYTES PASSES FILE
 *
 * `fread` has the C library's own buffer, `fread-64k` one of 64 KiB by setvbuf. The time is taken
 * inside, so that it does not contain the start of the process. The checksum looks at one word of
 * every transfer: the bytes are really there, and adding them up does not outweigh the reading. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TRANSFER_BYTES_MAX = 1 << 20 };

static char transfer[TRANSFER_BYTES_MAX];
static uint64_t checksum, transfers;

static void account(size_t len)
{
    uint64_t word = 0;
    memcpy(&word, transfer, len < sizeof word ? len : sizeof word);
    checksum = checksum * 31 + word;
    transfers++;
}

static int fail(const char *what)
{
    perror(what);
    return 1;
}

static int pass_read(int fd, size_t size)
{
    ssize_t n;
    while ((n = read(fd, transfer, size)) > 0)
        account((size_t)n);
    return n < 0 || lseek(fd, 0, SEEK_SET) < 0 ? -1 : 0;
}

static int pass_fread(FILE *stream, size_t size)
{
    size_t n;
    while ((n = fread(transfer, 1, size, stream)) > 0)
        account(n);
    return ferror(stream) || fseek(stream, 0, SEEK_SET) != 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: %s read|fread|fread-64k TRANSFER_BYTES PASSES FILE\n", argv[0]);
        return 2;
    }
    const char *mode = argv[1], *path = argv[4];
    size_t size = strtoul(argv[2], NULL, 10);
    unsigned long passes = strtoul(argv[3], NULL, 10);
    if (size == 0 || size > TRANSFER_BYTES_MAX) {
        fprintf(stderr, "%s: a transfer has 1 to %d bytes\n", argv[2], TRANSFER_BYTES_MAX);
        return 2;
    }
    FILE *stream = NULL;
    int fd = -1;
    if (strcmp(mode, "read") == 0)
        fd = open(path, O_RDONLY);
    else
        stream = fopen(path, "r");
    if (fd < 0 && stream == NULL)
        return fail(path);
    if (strcmp(mode, "fread-64k") == 0 && setvbuf(stream, NULL, _IOFBF, 65536) != 0)
        return fail("setvbuf");

    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (unsigned long pass = 0; pass < passes; pass++)
        if ((stream ? pass_fread(stream, size) : pass_read(fd, size)) < 0)
            return fail(path);
    clock_gettime(CLOCK_MONOTONIC, &end);

    double ns = (double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec);
    printf("transfers %llu\n", (unsigned long long)transfers);
    printf("checksum %016llx\n", (unsigned long long)checksum);
    printf("nanoseconds_per_transfer %.3f\n", transfers ? ns / (double)transfers : 0.0);
    return 0;
}
