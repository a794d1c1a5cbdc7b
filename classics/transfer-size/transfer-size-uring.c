/* As transfer-size.c, through io_uring with several transfers in flight, done in the order of the
 * file:
 *
 *     transfer-size-uring TRANSFER_BYTES PASSES FILE
 *
 * By the three system calls themselves: what is needed of liburing is little, and so nothing has to be
 * installed for it. One call submits what is new and waits for what is next. */
#define _GNU_SOURCE
#include "transfers.h"
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* As in transfer-size.c; a power of two. */
enum { IN_FLIGHT = 8 };

static struct {
    int fd;
    /* Shared with the kernel: what is submitted, and what is complete. */
    unsigned *submitted_tail, *submitted_mask, *submitted;
    unsigned *complete_head, *complete_tail, *complete_mask;
    struct io_uring_sqe *requests;
    struct io_uring_cqe *completions;
} ring;

static struct transfer {
    int is_done;
    int result;
    char *buffer;
} flight[IN_FLIGHT];

static struct {
    int fd;
    size_t size;
} source;

static int make_ring(void)
{
    struct io_uring_params offsets;
    memset(&offsets, 0, sizeof offsets);
    ring.fd = (int)syscall(SYS_io_uring_setup, IN_FLIGHT, &offsets);
    if (ring.fd < 0)
        return -1;
    if (!(offsets.features & IORING_FEAT_SINGLE_MMAP)) {
        errno = ENOSYS; /* Linux before 5.4 */
        return -1;
    }
    size_t submissions = offsets.sq_off.array + offsets.sq_entries * sizeof(unsigned);
    size_t completions = offsets.cq_off.cqes + offsets.cq_entries * sizeof(struct io_uring_cqe);
    size_t len = submissions > completions ? submissions : completions;
    const int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_POPULATE;
    char *shared = mmap(NULL, len, protection, flags, ring.fd, IORING_OFF_SQ_RING);
    ring.requests = mmap(NULL, offsets.sq_entries * sizeof(struct io_uring_sqe), protection, flags,
                         ring.fd, IORING_OFF_SQES);
    if (shared == MAP_FAILED || ring.requests == MAP_FAILED)
        return -1;
    ring.submitted_tail = (unsigned *)(shared + offsets.sq_off.tail);
    ring.submitted_mask = (unsigned *)(shared + offsets.sq_off.ring_mask);
    ring.submitted = (unsigned *)(shared + offsets.sq_off.array);
    ring.complete_head = (unsigned *)(shared + offsets.cq_off.head);
    ring.complete_tail = (unsigned *)(shared + offsets.cq_off.tail);
    ring.complete_mask = (unsigned *)(shared + offsets.cq_off.ring_mask);
    ring.completions = (struct io_uring_cqe *)(shared + offsets.cq_off.cqes);
    return 0;
}

/* Asks for a transfer; the kernel is told with the next call. */
static void ask(unsigned number, uint64_t at)
{
    flight[number].is_done = 0;
    unsigned tail = *ring.submitted_tail, place = tail & *ring.submitted_mask;
    ring.requests[place] = (struct io_uring_sqe){ .opcode = IORING_OP_READ,
                                                  .fd = source.fd,
                                                  .addr = (uint64_t)(uintptr_t)flight[number].buffer,
                                                  .len = (unsigned)source.size,
                                                  .off = at,
                                                  .user_data = number };
    ring.submitted[place] = place;
    __atomic_store_n(ring.submitted_tail, tail + 1, __ATOMIC_RELEASE);
}

/* Takes note of all that is complete, in whatever order. */
static void look(void)
{
    unsigned head = *ring.complete_head;
    for (; head != __atomic_load_n(ring.complete_tail, __ATOMIC_ACQUIRE); head++) {
        struct io_uring_cqe *completion = &ring.completions[head & *ring.complete_mask];
        flight[completion->user_data].is_done = 1;
        flight[completion->user_data].result = completion->res;
    }
    __atomic_store_n(ring.complete_head, head, __ATOMIC_RELEASE);
}

/* Submits `fresh` requests and waits until a transfer is done; its length. */
static int finish(struct transfer *transfer, unsigned fresh)
{
    for (look(); fresh > 0 || !transfer->is_done; look()) {
        unsigned wanted = transfer->is_done ? 0 : 1;
        long taken = syscall(SYS_io_uring_enter, ring.fd, fresh, wanted, IORING_ENTER_GETEVENTS,
                             NULL, 0);
        if (taken < 0 && errno != EINTR)
            return -1;
        fresh -= taken > 0 ? (unsigned)taken : 0;
    }
    if (transfer->result < 0)
        errno = -transfer->result;
    return transfer->result;
}

static int one_pass(void)
{
    uint64_t at = 0;
    unsigned asked = 0;
    int ended = 0;
    for (unsigned done = 0; !ended || done < asked; done++) {
        unsigned before = asked;
        for (; !ended && asked < done + IN_FLIGHT; asked++, at += source.size)
            ask(asked % IN_FLIGHT, at);
        struct transfer *next = &flight[done % IN_FLIGHT];
        int n = finish(next, asked - before);
        if (n < 0)
            return -1;
        ended |= (size_t)n < source.size;
        if (n > 0)
            account(next->buffer, (size_t)n);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: %s TRANSFER_BYTES PASSES FILE\n", argv[0]);
        return 2;
    }
    source.size = strtoul(argv[1], NULL, 10);
    unsigned long passes = strtoul(argv[2], NULL, 10);
    if (sizes_are_wrong(source.size, passes))
        return 2;
    if ((source.fd = open(argv[3], O_RDONLY)) < 0)
        return fail(argv[3]);
    if (make_ring() < 0)
        return fail("io_uring");
    for (int i = 0; i < IN_FLIGHT; i++)
        if ((flight[i].buffer = malloc(source.size)) == NULL)
            return fail("memory");
    if (take_passes(passes, one_pass) < 0)
        return fail(argv[3]);
    return report(passes);
}
