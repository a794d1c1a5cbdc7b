/* What the programs that read in transfers of one size have in common: what they look at in a
 * transfer, their clock, and what they say.
 *
 * The checksum looks at one word of every transfer: the bytes are really there, and adding them up
 * does not outweigh the reading. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TRANSFER_BYTES_MAX = 1 << 20, PASSES_MAX = 1000 };

static uint64_t checksum, transfers;

/* Nanoseconds that a transfer took in each pass. */
static double samples[PASSES_MAX];

static inline void account(const char *transfer, size_t len)
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

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* Whether the arguments make sense; says what does not. */
static int sizes_are_wrong(size_t size, unsigned long passes)
{
    if (size == 0 || size > TRANSFER_BYTES_MAX)
        fprintf(stderr, "a transfer has 1 to %d bytes\n", TRANSFER_BYTES_MAX);
    else if (passes == 0 || passes > PASSES_MAX)
        fprintf(stderr, "there are 1 to %d passes\n", PASSES_MAX);
    else
        return 0;
    return 1;
}

/* Makes `passes` passes and takes their times: inside, so that the start of the process is not in
 * them. */
static int take_passes(unsigned long passes, int (*one_pass)(void))
{
    for (unsigned long pass = 0; pass < passes; pass++) {
        uint64_t before = transfers;
        double start = now_ns();
        if (one_pass() < 0)
            return -1;
        double ns = now_ns() - start;
        samples[pass] = transfers > before ? ns / (double)(transfers - before) : 0;
    }
    return 0;
}

/* Says what was read, and how long a transfer took: to the descriptor that SWEETSPOT_SAMPLES_FD names,
 * if somebody wants to know, as standard output must be the same in every run; else in words. */
static int report(unsigned long passes)
{
    printf("transfers %llu\n", (unsigned long long)transfers);
    printf("checksum %lld\n", (long long)checksum);
    const char *descriptor = getenv("SWEETSPOT_SAMPLES_FD");
    if (descriptor == NULL) {
        double ns = 0;
        for (unsigned long pass = 0; pass < passes; pass++)
            ns += samples[pass] / (double)passes;
        printf("nanoseconds_per_transfer %.3f\n", ns);
        return 0;
    }
    char path[64];
    snprintf(path, sizeof path, "/dev/fd/%s", descriptor);
    FILE *to = fopen(path, "w");
    if (to == NULL)
        return fail(path);
    fprintf(to, "{\"unit\": \"ns\", \"samples\": [");
    for (unsigned long pass = 0; pass < passes; pass++)
        fprintf(to, "%s%.3f", pass ? ", " : "", samples[pass]);
    fprintf(to, "]}\n");
    return fclose(to) == 0 ? 0 : fail(path);
}
