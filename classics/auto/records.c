/* Reads, writes or copies a file by records of one size, each record one call: what a program does that
 * has no buffer of its own.
 *
 *   records read BYTES FILE            prints a sum over what it has read
 *   records write BYTES FILE TOTAL     so many bytes in all
 *   records copy BYTES FROM TO
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECORD_BYTES_MAX = 65536 };

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int opened(const char *path, int flags)
{
    int fd = open(path, flags, 0666);
    if (fd < 0)
        fail(path);
    return fd;
}

static void put(int fd, const char *record, size_t bytes)
{
    if (write(fd, record, bytes) != (ssize_t)bytes)
        fail("write");
}

int main(int count, char **words)
{
    static char record[RECORD_BYTES_MAX];
    size_t bytes = count > 3 ? strtoul(words[2], NULL, 10) : 0;
    if (bytes == 0 || bytes > sizeof record) {
        fputs("records read|write|copy BYTES FILE [TOTAL|TO]\n", stderr);
        return 2;
    }
    int to = -1;
    if (strcmp(words[1], "write") == 0 && count == 5) {
        to = opened(words[3], O_WRONLY | O_CREAT | O_TRUNC);
        uint64_t records = strtoull(words[4], NULL, 10) / bytes;
        for (uint64_t number = 0; number < records; number++) {
            memcpy(record, &number, bytes < sizeof number ? bytes : sizeof number);
            put(to, record, bytes);
        }
    } else {
        int from = opened(words[3], O_RDONLY);
        uint64_t sum = 0;
        ssize_t got;
        if (count == 5)
            to = opened(words[4], O_WRONLY | O_CREAT | O_TRUNC);
        while ((got = read(from, record, bytes)) > 0) {
            sum = sum * 31 + (unsigned char)record[0] + (uint64_t)got;
            if (to >= 0)
                put(to, record, (size_t)got);
        }
        if (got < 0)
            fail(words[3]);
        if (to < 0)
            printf("%llu\n", (unsigned long long)sum);
    }
    if (to >= 0 && close(to) != 0)
        fail("close");
    return 0;
}
