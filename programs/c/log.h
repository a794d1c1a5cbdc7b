/* What a test program has to say, collected in memory and written once at the end.
 *
 * A line on standard output in the middle of the work would be a release point: everything pending would
 * be written first, and nothing would ever be buffered while it is tested. */
#ifndef LOG_H
#define LOG_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOG_BYTES_MAX (8 << 20)
static char log_text[LOG_BYTES_MAX];
static size_t log_length;

/* Adds a formatted text; errno stays as it was. */
__attribute__((format(printf, 1, 2), unused)) static void say(const char *format, ...) {
    int saved = errno;
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(log_text + log_length, LOG_BYTES_MAX - log_length, format, arguments);
    va_end(arguments);
    if (n > 0) log_length += (size_t)n;
    if (log_length >= LOG_BYTES_MAX) abort();
    errno = saved;
}

/* Writes everything said so far to standard output. */
__attribute__((unused)) static void log_out(void) {
    size_t done = 0;
    while (done < log_length) {
        ssize_t n = write(1, log_text + done, log_length - done);
        if (n <= 0) exit(99);
        done += (size_t)n;
    }
    log_length = 0;
}

__attribute__((unused)) static unsigned long hash_of(const void *data, size_t length) {
    unsigned long hash = 14695981039346656037ul;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * 1099511628211ul;
    return hash;
}

/* Says size and hash of a file, read through a descriptor of its own. */
__attribute__((unused)) static void say_file(const char *name) {
    static char bytes[1 << 20];
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        say("%s: errno %d\n", name, errno);
        return;
    }
    unsigned long hash = 0;
    long size = 0;
    ssize_t n;
    while ((n = read(fd, bytes, sizeof bytes)) > 0) {
        hash = hash * 31 + hash_of(bytes, (size_t)n);
        size += n;
    }
    close(fd);
    say("%s: %ld bytes, %016lx\n", name, size, hash);
}

/* Moves the kernel's position, by an instruction that no library sees. */
__attribute__((unused)) static long kernel_seek(int fd, long to, long whence) {
#ifdef __x86_64__
    long answer = 8; /* lseek */
    __asm__ volatile("syscall" : "+a"(answer) : "D"((long)fd), "S"(to), "d"(whence) : "rcx", "r11", "memory");
    return answer;
#else
    register long number __asm__("x8") = 62, answer __asm__("x0") = fd, offset __asm__("x1") = to, how __asm__("x2") = whence;
    __asm__ volatile("svc 0" : "+r"(answer) : "r"(number), "r"(offset), "r"(how) : "memory");
    return answer;
#endif
}

/* The kernel's position, asked for likewise. */
__attribute__((unused)) static long kernel_position(int fd) { return kernel_seek(fd, 0, SEEK_CUR); }

/* To be called between small writes: gives the guard the time to answer, so that the next writes wait
 * and do not pass through because a busy machine was slow. Does nothing without the library, or where it
 * only observes. What waits does not move the kernel's position. (The library is not asked for its own: what
 * is appended would be written for that, and be so little each time that it would not be worth it.) */
__attribute__((unused)) static void give_time(int fd) {
    static int naps = 500;
    static long positions[64];
    if (!getenv("SWEETSPOT_LEDGER") || getenv("GIVE_NO_TIME") || naps == 0) return;
    long *position = &positions[fd % 64];
    if (kernel_position(fd) == *position) return;
    naps--, usleep(300);
    /* With what waited until now. */
    *position = kernel_position(fd);
}

/* Writes records of two bytes, which come to wait, and ends by a write to an address that is nobody's. */
__attribute__((unused)) static void write_and_crash(const char *name, int records) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < records; i++) {
        if (i > 65 && i < 1000) give_time(fd);
        if (write(fd, "x\n", 2) != 2) _exit(1);
    }
    volatile int *volatile nowhere = NULL;
    *nowhere = 1;
}

/* Makes a file of records, of which the last ones wait where there is a buffer. */
__attribute__((unused)) static int file_of_records(const char *name, int count) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < count; i++) {
        char record[32];
        int length = snprintf(record, sizeof record, "record %06d\n", i);
        if (i > 65 && i < 400) give_time(fd);
        if (write(fd, record, (size_t)length) != length) say("short write\n");
    }
    return fd;
}

/* Deterministic numbers. */
static unsigned long random_state = 88172645463325252ul;
__attribute__((unused)) static unsigned long random_next(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}
__attribute__((unused)) static long random_below(long limit) {
    return (long)(random_next() % (unsigned long)limit);
}

/* Bytes that tell where they belong. */
__attribute__((unused)) static void pattern(char *bytes, long length, long at) {
    for (long i = 0; i < length; i++)
        bytes[i] = (at + i) % 64 == 63 ? '\n' : (char)('!' + ((at + i) * 7 + (at + i) / 64) % 90);
}

__attribute__((unused)) static void make_file(const char *name, long length) {
    char *bytes = malloc((size_t)length + 1);
    pattern(bytes, length, 0);
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || write(fd, bytes, (size_t)length) != length) {
        perror(name);
        exit(98);
    }
    close(fd);
    free(bytes);
}
#endif
