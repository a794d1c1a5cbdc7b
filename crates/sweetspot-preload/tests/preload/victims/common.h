// What the victims share: a file of known bytes, small reads until a window may be open, and one
// line of output a result, so that runs with and without buffering can be compared.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

// Calls that are wrong on purpose are what is tested.
#pragma GCC diagnostic ignored "-Wnonnull"
#pragma GCC diagnostic ignored "-Wstringop-overflow"

// Says what a call gave. Unbuffered, so that nothing waits in stdio when a process forks or dies.
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    char line[512];
    int before = errno;
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    line[len++] = '\n';
    if (write(1, line, len) != len) _exit(99);
    errno = before;
}

// A call, what it gave, and errno if it failed.
#define TRY(call) \
    ({ \
        errno = 0; \
        long long answer_ = (long long)(call); \
        int error_ = errno; \
        say("%s = %lld errno %d", #call, answer_, answer_ == -1 ? error_ : 0); \
        answer_; \
    })

// The byte at a position of every file here.
static char byte_at(size_t position) { return (char)('!' + (position * 31 + position / 251) % 90); }

static void make_file(const char *path, size_t len) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    char *bytes = malloc(len);
    for (size_t at = 0; at < len; at++) bytes[at] = byte_at(at);
    if (fd < 0 || write(fd, bytes, len) != (ssize_t)len) _exit(98);
    free(bytes);
    close(fd);
}

// Reads `count` times eight bytes, and checks them.
static void read_small(int fd, int count, size_t from) {
    char bytes[8];
    for (int n = 0; n < count; n++) {
        ssize_t got = read(fd, bytes, sizeof bytes);
        if (got != 8) { say("small read %d gave %zd errno %d", n, got, errno); return; }
        for (int i = 0; i < 8; i++)
            if (bytes[i] != byte_at(from + n * 8 + i)) { say("wrong byte in small read %d", n); return; }
    }
}

// Opens a fresh file and reads the first 8000 bytes of it in small pieces.
__attribute__((unused)) static int open_warm(const char *path, int flags) {
    make_file(path, 200000);
    int fd = open(path, flags);
    read_small(fd, 1000, 0);
    return fd;
}

// Says which position the next bytes of a descriptor come from.
__attribute__((unused)) static void say_next(const char *what, int fd) {
    char bytes[16] = {0};
    ssize_t got = read(fd, bytes, 10);
    say("%s: read %zd \"%.10s\" then at %lld", what, got, bytes, (long long)lseek(fd, 0, SEEK_CUR));
}
