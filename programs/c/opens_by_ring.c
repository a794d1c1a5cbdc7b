/* Another process opens a file by io_uring, which no library sees, while records of this one may wait for it.
 *
 *   before, after    the ring is made before the records are written, or after
 *   cuts             the open cuts the file
 *   child            the process that opens is a child of the one that made the ring
 *   own              a ring of the process itself, made out of sight before its file is opened */
#include "raw.h"
#include "ring.h"
#include <sys/wait.h>

enum { RECORDS = 300, LAST = 2900 };

static int go_ring[2], ring_did[2], go_on[2], ready[2];

static void tell(const int pipe[2]) { raw(SYS_write, pipe[1], (long)"x", 1, 0); }

static void wait_for(const int pipe[2]) {
    char byte;
    raw(SYS_read, pipe[0], (long)&byte, 1, 0);
}

static void opens(int flags) {
    static char bytes[100];
    memset(bytes, 'P', sizeof bytes);
    wait_for(go_ring);
    struct io_uring_sqe request = {.opcode = IORING_OP_OPENAT, .fd = AT_FDCWD, .addr = (unsigned long)"data",
        .open_flags = (unsigned)(O_WRONLY | flags)};
    int fd = (int)by_ring(request);
    request = (struct io_uring_sqe){.opcode = IORING_OP_WRITE, .fd = fd, .addr = (unsigned long)bytes, .len = sizeof bytes,
        .off = LAST};
    if (fd >= 0) by_ring(request);
    tell(ring_did);
}

static pid_t opening(int flags, int is_child) {
    pid_t process = fork();
    if (process == 0) {
        wait_for(go_ring);
        int has_ring = make_ring(1);
        pid_t child = has_ring && is_child ? fork() : -1;
        tell(ring_did);
        if (has_ring && child <= 0) opens(flags);
        else if (!has_ring) wait_for(go_ring), tell(ring_did);
        if (child > 0) waitpid(child, NULL, 0);
        _exit(0);
    }
    return process;
}

static pid_t writing(void) {
    pid_t process = fork();
    if (process == 0) {
        int fd = open("data", O_WRONLY | O_CREAT, 0644);
        for (int i = 0; i < RECORDS; i++) {
            if (write(fd, "0123456789", 10) != 10) _exit(1);
            if (i > 60 && i < 200) give_time(fd);
        }
        tell(ready), wait_for(go_on);
        _exit(0);
    }
    wait_for(ready);
    return process;
}

static void of_another(const char *way) {
    int flags = strstr(way, "cuts") ? O_TRUNC : 0, is_before = strstr(way, "before") != NULL, status;
    close(open("data", O_WRONLY | O_CREAT | O_TRUNC, 0644));
    pid_t ring_process = opening(flags, strstr(way, "child") != NULL), process = -1;
    if (!is_before) process = writing();
    tell(go_ring), wait_for(ring_did);
    if (is_before) process = writing();
    tell(go_ring), wait_for(ring_did);
    tell(go_on);
    waitpid(process, &status, 0), waitpid(ring_process, NULL, 0);
    say("%s: %x, ", way, status), say_file("data");
}

static void of_its_own(void) {
    int has_ring = make_ring(0), fd = open("data", O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < RECORDS; i++) {
        if (write(fd, "0123456789", 10) != 10) say("errno %d\n", errno);
        if (i > 60 && i < 200) give_time(fd);
    }
    struct io_uring_sqe request = {.opcode = IORING_OP_WRITE, .fd = fd, .addr = (unsigned long)"by the ring",
        .len = 11, .off = -1ul};
    if (has_ring) by_ring(request);
    for (int i = 0; i < RECORDS; i++)
        if (write(fd, "0123456789", 10) != 10) say("errno %d\n", errno);
    close(fd), say_file("data");
}

int main(int count, char **ways) {
    if (pipe(go_ring) || pipe(ring_did) || pipe(go_on) || pipe(ready)) return 2;
    for (int i = 1; i < count; i++)
        if (!strcmp(ways[i], "own")) of_its_own();
        else of_another(ways[i]);
    log_out();
    return 0;
}
