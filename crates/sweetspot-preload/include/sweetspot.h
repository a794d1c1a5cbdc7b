/* sweetspot.h: for programs that know of sweetspot.
 *
 * Include it and call its functions; nothing is linked. Where the program runs under `sweetspot run`
 * (or with the library in LD_PRELOAD) they reach the library, elsewhere, and in a static program, they
 * do nothing. docs/embed.md says when they are worth a thought: without them a program is right, too.
 *
 * All of them may be called at any moment: in a signal handler, by any thread, in the child of a fork
 * or vfork. They set errno only together with -1. A program's own buffers, those of stdio for one,
 * are not known to them: call fflush first.
 *
 * The names, types and numbers below keep their meaning for good; numbers may be added. Other languages
 * look the three names up in the process, as `dlsym(RTLD_DEFAULT, "sweetspot_flush")` does. */
#ifndef SWEETSPOT_H
#define SWEETSPOT_H

#ifdef __cplusplus
extern "C" {
#endif

/* What sweetspot_status answers: one of these, or one or both of the last two, added. */
enum {
    SWEETSPOT_ABSENT = 0,   /* the library is not loaded */
    SWEETSPOT_OFF = 1,      /* nothing of this process is buffered (now, or for good) */
    SWEETSPOT_UNKNOWN = 2,  /* not open, or nothing is known of it: calls pass through to the kernel */
    SWEETSPOT_PASS_THROUGH = 3, /* calls pass through for good: a pipe, a socket, a mapped or shared file */
    SWEETSPOT_STRAIGHT = 3,     /* its older name, for one more release */
    SWEETSPOT_LEARNING = 4, /* a file whose calls pass through so far: it may earn a buffer */
    SWEETSPOT_READS = 8,    /* reads are answered from memory */
    SWEETSPOT_WRITES = 16   /* writes wait in memory */
};

/* The symbol is weak, and read from where the dynamic linker puts its address: otherwise a program that
 * is no PIE would have decided when it was linked that there is none. (clang has no such attribute: with
 * -no-pie it needs -fno-plt, too.) */
#if defined(__has_attribute)
#if __has_attribute(noplt)
#define SWEETSPOT_WEAK_ __attribute__((weak, noplt))
#endif
#endif
#ifndef SWEETSPOT_WEAK_
#define SWEETSPOT_WEAK_ __attribute__((weak))
#endif

extern int sweetspot_flush_loaded_(void) __asm__("sweetspot_flush") SWEETSPOT_WEAK_;
extern int sweetspot_status_loaded_(int) __asm__("sweetspot_status") SWEETSPOT_WEAK_;
extern int sweetspot_advise_loaded_(int, long long) __asm__("sweetspot_advise") SWEETSPOT_WEAK_;
static inline int sweetspot_flush(void) __asm__("sweetspot_flush_or_nothing_");
static inline int sweetspot_status(int fd) __asm__("sweetspot_status_or_nothing_");
static inline int sweetspot_advise(int fd, long long size) __asm__("sweetspot_advise_or_nothing_");

/* Writes everything of this process that waits into its files, those written first to first. That happens
 * by itself at each release point: before others could learn of it (a pipe, a signal, a new name ...). This
 * call is for release points that sweetspot cannot see: a store to memory that others share, a system call
 * instruction of the program's own. It makes nothing durable: that is fsync, which does this first, too.
 *
 * 0: all of it is in the files, or nothing waited. -1: something could not be written, and errno is the
 * error of the file that was written first (ENOSPC, EDQUOT, EFBIG, EIO ...). Nothing is lost by that
 * answer: the bytes go on waiting, the next flush tries again, and until one succeeds each read, write,
 * fsync and close of that file fails with the error, as without this call. */
static inline int sweetspot_flush(void) {
    return sweetspot_flush_loaded_ ? sweetspot_flush_loaded_() : 0;
}

/* What becomes of reads and writes of a descriptor now: see above. Never fails, makes no system call. */
static inline int sweetspot_status(int fd) {
    return sweetspot_status_loaded_ ? sweetspot_status_loaded_(fd) : SWEETSPOT_ABSENT;
}

/* How large a buffer the open file behind a descriptor should have, if it earns one: `size` bytes (1 to
 * 1 GiB); 0: sweetspot chooses; negative: none, from now on and until it is opened again. It holds for
 * all duplicates of the descriptor, and comes before the size and the rules of `sweetspot run`, but for
 * one: what is off stays off. A buffer that it has is given up first: what waits is written, the position
 * becomes the kernel's, and reads and writes must earn a buffer of the new size.
 *
 * 0: taken, or this process buffers nothing. -1 with errno EBADF: not an open descriptor. EINVAL: more
 * than 1 GiB. ENOTSUP: its reads and writes pass through for good, whatever is advised. */
static inline int sweetspot_advise(int fd, long long size) {
    return sweetspot_advise_loaded_ ? sweetspot_advise_loaded_(fd, size) : 0;
}

#ifdef __cplusplus
}
#endif
#endif
