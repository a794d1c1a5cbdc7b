/* A table of descriptors in every state, and calls on each of them, good and bad.
 *
 * Each case gets a file of its own, opened in one way and then used in one way ("warm": hundreds of
 * small calls, so that buffering is on where it will ever be), makes one call and says result and
 * errno, then goes on with small calls and says what they did, closes, and says the bytes. */
#ifndef ERRORS_H
#define ERRORS_H
#include "log.h"
#include <sys/stat.h>

/* Calls that are wrong on purpose are what is tested. Older compilers know less of them. */
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wnonnull"
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#pragma GCC diagnostic ignored "-Wstringop-overread"

enum warm { COLD, READS, WRITES, REWRITES, POSITIONED, BACKWARDS, TO_END, APPENDS, WARMS };
static const char *const warm_names[WARMS] = {"cold", "reads", "writes", "rewrites",
                                              "positioned", "backwards", "to the end", "appends"};
static const struct {
    int flags;
    const char *name;
} modes[] = {{O_RDONLY, "rdonly"}, {O_WRONLY, "wronly"}, {O_RDWR, "rdwr"},
             {O_RDWR | O_APPEND, "rdwr append"}, {O_WRONLY | O_APPEND, "wronly append"}};
#define MODES (int)(sizeof modes / sizeof *modes)

#define FILE_BYTES 12000
static const char *const file_name = "subject";
static char scratch[1 << 17];

/* How many small calls: more than any threshold at which buffering starts, and long enough that a
 * helper process had time to answer. */
#define SMALL_CALLS 400

static void warm_up(int fd, enum warm warm) {
    char record[24];
    long at = 0;
    if (warm == TO_END) lseek(fd, FILE_BYTES - 200 * 16, SEEK_SET);
    if (warm == APPENDS) lseek(fd, 0, SEEK_END);
    for (int i = 0; i < SMALL_CALLS; i++) {
        pattern(record, 16, i * 5);
        switch (warm) {
        case READS: case TO_END:
            if (read(fd, record, 16) < 0) return;
            break;
        case WRITES: case APPENDS:
            if (write(fd, record, 16) < 0) return;
            break;
        case REWRITES:
            if (read(fd, record, 16) < 0) return;
            lseek(fd, -16, SEEK_CUR);
            record[3] = '*';
            if (write(fd, record, 16) < 0) return;
            break;
        case POSITIONED:
            if (pread(fd, record, 16, at) >= 0 && i % 4 == 0) pwrite(fd, "@@", 2, at + 5);
            at += 16;
            break;
        case BACKWARDS:
            lseek(fd, FILE_BYTES - (i + 1) * 16, SEEK_SET);
            if (read(fd, record, 16) < 0) return;
            break;
        default:
            return;
        }
    }
}

/* A fresh file in its state; the descriptor. */
static int subject(int mode, enum warm warm) {
    make_file(file_name, FILE_BYTES);
    int fd = open(file_name, modes[mode].flags);
    if (fd < 0) say("open errno %d\n", errno);
    warm_up(fd, warm);
    return fd;
}

/* What became of it: the position, some small calls of both kinds, the size, closing, the bytes. */
static void afterwards(int fd) {
    char record[16];
    long position = (long)lseek(fd, 0, SEEK_CUR), got = 0, put = 0;
    for (int i = 0; i < 40; i++) {
        ssize_t n = read(fd, record, 11);
        if (n > 0) got += n + record[0];
        n = write(fd, "small", 5);
        if (n > 0) put += n;
    }
    struct stat data = {0};
    long after = (long)lseek(fd, 0, SEEK_CUR);
    int stated = fstat(fd, &data);
    say("    at %ld got %ld put %ld at %ld size %d %ld close %d ", position, got, put, after, stated,
        (long)data.st_size, close(fd));
    say_file(file_name);
}

/* Says one call. `result` is evaluated once, with errno 0 before it. */
#define CALL(expression) CALL_AS(#expression, expression)
#define CALL_AS(text, expression)                                                                 \
    do {                                                                                          \
        errno = 0;                                                                                \
        long result_ = (long)(expression);                                                        \
        int errno_ = errno;                                                                       \
        say("  %s = %ld errno %d\n", text, result_, errno_);                                      \
    } while (0)

/* Runs `call(fd, number)` for number 0, 1, ... until it says no more, on a fresh subject each. */
__attribute__((unused)) static void every_state(int (*call)(int fd, int number)) {
    for (int mode = 0; mode < MODES; mode++)
        for (int warm = 0; warm < WARMS; warm++)
            for (int number = 0;; number++) {
                int fd = subject(mode, (enum warm)warm);
                say("%s, %s, %d\n", modes[mode].name, warm_names[warm], number);
                int more = call(fd, number);
                afterwards(fd);
                if (!more) break;
            }
    /* All calls one after the other on one descriptor. */
    for (int mode = 0; mode < MODES; mode++)
        for (int warm = 0; warm < WARMS; warm++) {
            int fd = subject(mode, (enum warm)warm);
            say("%s, %s, all\n", modes[mode].name, warm_names[warm]);
            for (int number = 0; call(fd, number); number++) warm_up(fd, (enum warm)warm);
            afterwards(fd);
        }
    unlink(file_name);
}
#endif
