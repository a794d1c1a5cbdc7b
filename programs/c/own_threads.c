/* A thread that is made by `clone`, of which the C library does not know: two of them share what they write
 * and what they read, each record once. */
#include "log.h"
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { RECORDS = 300000, RECORD = 16, STACK_BYTES = 1 << 18, BLOCK_BYTES = 1 << 16, BLOCK_AT = 1 << 14 };
static int in, out;
static volatile int ready, done;
static unsigned char was_read[2 * RECORDS], was_written[2 * RECORDS];

static void format(char *record, long number) {
    record[RECORD - 1] = '\n';
    for (int i = RECORD - 2; i >= 0; i--, number /= 10) record[i] = (char)('0' + number % 10);
}

/* Without functions of libc's that look at their thread. */
static long number_of(const char *record) {
    long number = 0;
    for (int i = 0; i < RECORD - 1; i++) number = number * 10 + (record[i] - '0');
    return number >= 0 && number < 2 * RECORDS ? number : 0;
}

static int work(void *first) {
    char record[RECORD];
    for (__sync_fetch_and_add(&ready, 1); ready < 2;) continue;
    for (long i = 0; i < RECORDS; i++) {
        format(record, (long)first + i);
        write(out, record, RECORD);
        if (read(in, record, RECORD) == RECORD) __sync_fetch_and_add(&was_read[number_of(record)], 1);
    }
    if (first) done = 1, syscall(SYS_exit, 0);
    return 0;
}

static void *work_as_thread(void *first) { return (void *)(long)work(first); }

/* With a block for its own variables that is a copy of ours. */
static void make_thread(void) {
#ifdef __x86_64__
    enum { PAGE_BYTES = 4096, AFTER = 2304 };
    char *own, *first, *block, *stack;
    unsigned char resident;
    __asm__("mov %%fs:0, %0" : "=r"(own));
    block = mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    block += BLOCK_AT;
    /* The variables end at `own`; nothing says where they begin, but the page before may be missing. */
    first = (char *)((unsigned long)own & -PAGE_BYTES);
    while (own - first < BLOCK_AT - PAGE_BYTES && mincore(first - PAGE_BYTES, PAGE_BYTES, &resident) == 0)
        first -= PAGE_BYTES;
    memcpy(block - (own - first), first, own - first + AFTER);
    memcpy(block, &block, sizeof block), memcpy(block + 16, &block, sizeof block);
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS;
    if (clone(work, stack + STACK_BYTES, flags, (void *)RECORDS, NULL, block, NULL) > 0) return;
#endif
    pthread_t thread;
    pthread_create(&thread, NULL, work_as_thread, (void *)RECORDS);
}

static void say_counts(const char *what, const unsigned char *counts) {
    long none = 0, twice = 0;
    for (long i = 0; i < 2 * RECORDS; i++) none += counts[i] == 0, twice += counts[i] > 1;
    say("%s: %ld not, %ld twice\n", what, none, twice);
}

int main(void) {
    char *all = malloc(2 * RECORDS * RECORD);
    for (long i = 0; i < 2 * RECORDS; i++) format(all + i * RECORD, i);
    in = open("in", O_RDWR | O_CREAT | O_TRUNC, 0644);
    write(in, all, 2 * RECORDS * RECORD), close(in);
    in = open("in", O_RDONLY), out = open("out", O_RDWR | O_CREAT | O_TRUNC, 0644);
    make_thread();
    work(NULL);
    while (!done) usleep(1000);
    usleep(10000);
    ssize_t length = pread(out, all, 2 * RECORDS * RECORD, 0);
    for (long i = 0; i + RECORD <= length; i += RECORD) was_written[number_of(all + i)]++;
    say("%zd bytes\n", length);
    say_counts("read", was_read), say_counts("written", was_written);
    ftruncate(out, 0);
    log_out();
    return 0;
}
