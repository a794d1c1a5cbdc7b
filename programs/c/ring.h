/* A ring of io_uring, used by calls that no library sees; it is made by `syscall` or out of sight, too. */
#ifndef RING_H
#define RING_H
#include "log.h"
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* A system call of six arguments by an instruction of the program's own. */
static inline long raw_six(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
    long answer;
    register long fourth __asm__("r10") = d, fifth __asm__("r8") = e, sixth __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(answer)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "rcx", "r11", "memory");
    return answer;
#else
    register long call __asm__("x8") = number, answer __asm__("x0") = a, second __asm__("x1") = b;
    register long third __asm__("x2") = c, fourth __asm__("x3") = d, fifth __asm__("x4") = e, sixth __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(answer)
                     : "r"(call), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "memory");
    return answer;
#endif
}

static struct {
    struct io_uring_params is;
    long fd;
    char *requests, *answers;
    struct io_uring_sqe *entry;
} ring;

/* False: the system has none. */
static int make_ring(int is_seen) {
    long at = (long)&ring.is;
    ring.fd = is_seen ? syscall(SYS_io_uring_setup, 2, at) : raw_six(SYS_io_uring_setup, 2, at, 0, 0, 0, 0);
    if (ring.fd < 0) return 0;
    long parts[] = {IORING_OFF_SQ_RING, IORING_OFF_CQ_RING, IORING_OFF_SQES}, addresses[3];
    for (int i = 0; i < 3; i++)
        addresses[i] = raw_six(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, parts[i]);
    ring.requests = (char *)addresses[0], ring.answers = (char *)addresses[1];
    ring.entry = (struct io_uring_sqe *)addresses[2];
    return 1;
}

/* Has one request carried out. */
static long by_ring(struct io_uring_sqe request) {
    unsigned *tail = (unsigned *)(void *)(ring.requests + ring.is.sq_off.tail);
    unsigned *head = (unsigned *)(void *)(ring.answers + ring.is.cq_off.head);
    unsigned mask = ring.is.sq_entries - 1, index = *tail & mask;
    ring.entry[index] = request;
    ((unsigned *)(void *)(ring.requests + ring.is.sq_off.array))[index] = index;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    raw_six(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, 0, 0);
    struct io_uring_cqe *answers = (struct io_uring_cqe *)(void *)(ring.answers + ring.is.cq_off.cqes);
    long answer = answers[*head & (ring.is.cq_entries - 1)].res;
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    return answer;
}
#endif
