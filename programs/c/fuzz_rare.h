/* Calls that few programs make, on the same few files: asynchronous ones, pipes between files, files without a
 * name, names that change places, another user's rights, limits, and what another program does with a name. */
#include <aio.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <setjmp.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <ucontext.h>

static long by_aio(int fd, long at, long length) {
    struct aiocb block = {.aio_fildes = fd, .aio_buf = bytes, .aio_nbytes = (size_t)length, .aio_offset = at};
    const struct aiocb *all[] = {&block};
    int writes = random_below(2);
    pattern(bytes, length, at);
    if ((writes ? aio_write(&block) : aio_read(&block)) != 0) return -1;
    while (aio_error(&block) == EINPROGRESS) aio_suspend(all, 1, NULL);
    long n = aio_return(&block);
    return n > 0 && !writes ? (long)hash_of(bytes, (size_t)n) : n;
}

/* One request, in a ring of its own. */
static long by_ring(int fd, long at, long length) {
    struct io_uring_params is = {0};
    int ring = (int)syscall(SYS_io_uring_setup, 2, &is);
    if (ring < 0) return 0;
    size_t requests_bytes = is.sq_off.array + is.sq_entries * 4, answers_bytes = is.cq_off.cqes + is.cq_entries * 16;
    int shared = PROT_READ | PROT_WRITE;
    char *requests = mmap(NULL, requests_bytes, shared, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    char *answers = mmap(NULL, answers_bytes, shared, MAP_SHARED, ring, IORING_OFF_CQ_RING);
    struct io_uring_sqe *entry = mmap(NULL, 4096, shared, MAP_SHARED, ring, IORING_OFF_SQES);
    int writes = random_below(2);
    pattern(bytes, length, at);
    *entry = (struct io_uring_sqe){.opcode = writes ? IORING_OP_WRITE : IORING_OP_READ, .fd = fd,
        .addr = (unsigned long)bytes, .len = (unsigned)length, .off = random_below(3) ? (unsigned long)at : -1ul};
    *(unsigned *)(void *)(requests + is.sq_off.array) = 0;
    __atomic_store_n((unsigned *)(void *)(requests + is.sq_off.tail), 1, __ATOMIC_RELEASE);
    syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
    long n = ((struct io_uring_cqe *)(void *)(answers + is.cq_off.cqes))->res;
    munmap(requests, requests_bytes), munmap(answers, answers_bytes), munmap(entry, 4096), close(ring);
    return n > 0 && !writes ? (long)hash_of(bytes, (size_t)n) : n;
}

static long by_pipe(int from, int to, long at, long length) {
    int pair[2];
    off_t place = at;
    pipe2(pair, O_NONBLOCK);
    long n = splice(from, random_below(2) ? &place : NULL, pair[1], NULL, (size_t)length, SPLICE_F_NONBLOCK);
    if (n > 0) n = n * 100000 + splice(pair[0], NULL, to, random_below(2) ? &place : NULL, (size_t)n, 0);
    close(pair[0]), close(pair[1]);
    return n;
}

/* A file without a name, which it gets when something is in it. */
static long nameless(long length) {
    char path[40];
    int fd = open(".", O_TMPFILE | O_RDWR, 0644);
    if (fd < 0) return 0;
    stream(fd, 100 + length % 100);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    unlink("named");
    long n = linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW);
    say_file("named");
    close(fd);
    return n;
}

static ucontext_t before_it, inside_it;
static int switched_fd;
static void switched(void) { stream(switched_fd, 60); }

static long by_context(int fd) {
    static char stack[1 << 16];
    getcontext(&inside_it);
    inside_it.uc_stack.ss_sp = stack, inside_it.uc_stack.ss_size = sizeof stack, inside_it.uc_link = &before_it;
    switched_fd = fd;
    makecontext(&inside_it, switched, 0);
    return swapcontext(&before_it, &inside_it);
}

static sigjmp_buf back;
static void leaves(int number) {
    (void)number;
    stream(switched_fd, 30);
    siglongjmp(back, 1);
}

static long by_jump(int fd) {
    switched_fd = fd;
    signal(SIGUSR2, leaves);
    if (sigsetjmp(back, 1) == 0) stream(fd, 40), raise(SIGUSR2);
    return lseek(fd, 0, SEEK_CUR);
}

/* No file may become longer than that, for a while. */
static long by_limit(int fd, long at) {
    struct rlimit limit, was;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &was);
    limit = was, limit.rlim_cur = (rlim_t)at;
    setrlimit(RLIMIT_FSIZE, &limit);
    stream(fd, 200);
    return setrlimit(RLIMIT_FSIZE, &was);
}

static long by_other_program(const char *name) {
    char command[200];
    static const char *const all[] = {"cp %s copy; : > %s", "wc -c < %s; tail -c 50 %s", "printf tail >> %s; cksum %s",
                                      "dd if=%s of=%s bs=10 seek=900 count=3 conv=notrunc status=none", "cat %s >> %s.2"};
    snprintf(command, sizeof command, all[random_below(5)], name, name);
    FILE *said = popen(command, "r");
    static char told[1 << 16];
    size_t length = said ? fread(told, 1, sizeof told, said) : 0;
    return (long)hash_of(told, length) + (said ? pclose(said) : -1);
}

static long by_flags(int fd, long at, long length) {
    struct iovec one = {bytes, (size_t)length};
    static const int flags[] = {RWF_APPEND, RWF_DSYNC, RWF_HIPRI, RWF_SYNC | RWF_APPEND};
    pattern(bytes, length, at);
    if (random_below(2)) return pwritev2(fd, &one, 1, random_below(2) ? at : -1, flags[random_below(4)]);
    long n = preadv2(fd, &one, 1, random_below(2) ? at : -1, 0);
    return n > 0 ? (long)hash_of(bytes, (size_t)n) : n;
}

static void rare_ways(void) {
    int fd = fds[random_below(FDS)], other = fds[random_below(FDS)], left = -1;
    long kind = random_below(18), at = place(), length = 1 + size_small(), n = 0;
    const char *name = names[random_below(FILES)];
    switch (kind) {
    case 0: n = by_aio(fd, at, length); break;
    case 1: n = by_ring(fd, at, length); break;
    case 2: n = by_pipe(fd, other, at, length); break;
    case 3: n = nameless(length); break;
    case 4: n = by_context(fd); break;
    case 5: n = by_jump(fd); break;
    case 6: n = by_limit(fd, at % 20000); break;
    case 7: case 8: n = by_other_program(name); break;
    case 9: n = by_flags(fd, at, length); break;
    case 10: n = renameat2(AT_FDCWD, name, AT_FDCWD, names[random_below(FILES)], RENAME_EXCHANGE); break;
    case 11: n = ioctl(fd, FIONREAD, &left) ? -errno : left; break;
    case 12: n = syscall(SYS_fadvise64, fd, 0L, 0L, POSIX_FADV_DONTNEED); break;
    case 13:
        n = fallocate(fd, random_below(2) ? FALLOC_FL_COLLAPSE_RANGE : FALLOC_FL_INSERT_RANGE, 4096, 4096);
        break;
    case 14: n = sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE) + readahead(fd, 0, 4096); break;
    case 15: n = fcntl(fd, F_SETLEASE, random_below(2) ? F_WRLCK : F_RDLCK), fcntl(fd, F_SETLEASE, F_UNLCK); break;
    case 16: n = seteuid(65534), stream(fd, 80), n += seteuid(geteuid() ? 0 : geteuid()); break;
    default: n = fcntl(fd, F_SETFL, (int)((fcntl(fd, F_GETFL) & ~O_DIRECT) ^ O_DSYNC)); break;
    }
    say("rare %ld at %ld: %ld errno %d\n", kind, at, n, n < 0 ? errno : 0);
}
