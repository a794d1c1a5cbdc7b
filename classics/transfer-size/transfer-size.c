/* Reads a file from its start to its end, some passes over, in transfers of one size, and says
 * what a transfer took:
 *
 *     transfer-size read|fread|fread-64k|aio TRANSFER_BYTES PASSES FILE
 *
 * `fread` has the C library's own buffer, `fread-64k` one of 64 KiB by setvbuf; `aio` is POSIX
 * aio_read with several transfers in flight, done in the order of the file. */
#define _GNU_SOURCE
#include "transfers.h"
#include <aio.h>

/* As many as keep a disk busy that takes several requests at once. */
enum { IN_FLIGHT = 8 };

static struct {
    int fd;
    FILE *stream;
    size_t size;
} source = { .fd = -1 };

static char transfer[TRANSFER_BYTES_MAX];

static int pass_read(void)
{
    ssize_t n;
    while ((n = read(source.fd, transfer, source.size)) > 0)
        account(transfer, (size_t)n);
    return n < 0 || lseek(source.fd, 0, SEEK_SET) < 0 ? -1 : 0;
}

static int pass_fread(void)
{
    size_t n;
    while ((n = fread(transfer, 1, source.size, source.stream)) > 0)
        account(transfer, n);
    return ferror(source.stream) || fseek(source.stream, 0, SEEK_SET) != 0 ? -1 : 0;
}

/* Waits for a transfer; its length. */
static ssize_t finish(struct aiocb *request)
{
    const struct aiocb *list[] = { request };
    int error;
    while ((error = aio_error(request)) == EINPROGRESS)
        if (aio_suspend(list, 1, NULL) < 0 && errno != EINTR)
            return -1;
    ssize_t n = aio_return(request);
    errno = error;
    return n;
}

static int pass_aio(void)
{
    static struct aiocb requests[IN_FLIGHT];
    static char buffers[IN_FLIGHT][TRANSFER_BYTES_MAX];
    off_t at = 0;
    unsigned asked = 0;
    int ended = 0;
    for (unsigned done = 0; !ended || done < asked; done++) {
        for (; !ended && asked < done + IN_FLIGHT; asked++, at += (off_t)source.size) {
            struct aiocb *request = &requests[asked % IN_FLIGHT];
            *request = (struct aiocb){ .aio_fildes = source.fd,
                                       .aio_buf = buffers[asked % IN_FLIGHT],
                                       .aio_nbytes = source.size,
                                       .aio_offset = at };
            if (aio_read(request) < 0)
                return -1;
        }
        ssize_t n = finish(&requests[done % IN_FLIGHT]);
        if (n < 0)
            return -1;
        /* Those behind the end of the file are waited for, too. */
        ended |= (size_t)n < source.size;
        if (n > 0)
            account(buffers[done % IN_FLIGHT], (size_t)n);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: %s read|fread|fread-64k|aio TRANSFER_BYTES PASSES FILE\n", argv[0]);
        return 2;
    }
    const char *mode = argv[1], *path = argv[4];
    source.size = strtoul(argv[2], NULL, 10);
    unsigned long passes = strtoul(argv[3], NULL, 10);
    if (sizes_are_wrong(source.size, passes))
        return 2;
    int by_stdio = strncmp(mode, "fread", 5) == 0;
    if (by_stdio)
        source.stream = fopen(path, "r");
    else
        source.fd = open(path, O_RDONLY);
    if (source.fd < 0 && source.stream == NULL)
        return fail(path);
    if (strcmp(mode, "fread-64k") == 0 && setvbuf(source.stream, NULL, _IOFBF, 65536) != 0)
        return fail("setvbuf");
    int (*one_pass)(void) = by_stdio ? pass_fread : strcmp(mode, "aio") ? pass_read : pass_aio;
    if (take_passes(passes, one_pass) < 0)
        return fail(path);
    return report(passes);
}
