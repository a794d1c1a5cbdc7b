/* The same job as record-copy.cob as one would write it by hand for speed: 200-byte records are
 * taken out of one big buffer and put into another.
 *
 *     record-copy-by-hand SOURCE TARGET
 *
 * This is the limit that a program with buffering underneath can come near. 256 KiB is what GNU cp
 * uses (since coreutils 9.5, measured there). */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RECORD_BYTES = 200, BUFFER_BYTES = 256 * 1024 };

static char input[BUFFER_BYTES], output[BUFFER_BYTES];
static size_t input_at, input_len, output_len;
static int source, target;

static int fail(const char *what)
{
    perror(what);
    return 1;
}

/* Writes what has collected; 0 when all of it was taken. */
static int flush(void)
{
    for (size_t done = 0; done < output_len;) {
        ssize_t n = write(target, output + done, output_len - done);
        if (n < 0)
            return -1;
        done += (size_t)n;
    }
    output_len = 0;
    return 0;
}

/* Puts the next record into `record`; its length, short only at the end of the file. */
static ssize_t next_record(char *record)
{
    size_t len = 0;
    while (len < RECORD_BYTES) {
        if (input_at == input_len) {
            ssize_t n = read(source, input, BUFFER_BYTES);
            if (n < 0)
                return -1;
            if (n == 0)
                break;
            input_at = 0;
            input_len = (size_t)n;
        }
        size_t part = RECORD_BYTES - len;
        if (part > input_len - input_at)
            part = input_len - input_at;
        memcpy(record + len, input + input_at, part);
        input_at += part;
        len += part;
    }
    return (ssize_t)len;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s SOURCE TARGET\n", argv[0]);
        return 2;
    }
    if ((source = open(argv[1], O_RDONLY)) < 0)
        return fail(argv[1]);
    if ((target = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0644)) < 0)
        return fail(argv[2]);
    char record[RECORD_BYTES];
    ssize_t len;
    while ((len = next_record(record)) > 0) {
        if (output_len + (size_t)len > BUFFER_BYTES && flush() < 0)
            return fail(argv[2]);
        memcpy(output + output_len, record, (size_t)len);
        output_len += (size_t)len;
    }
    if (len < 0)
        return fail(argv[1]);
    if (flush() < 0 || close(target) < 0)
        return fail(argv[2]);
    return 0;
}
