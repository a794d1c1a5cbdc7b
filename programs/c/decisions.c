/* Calls on in.dat and out.dat in one of many ways, each of which leads a buffer to another decision. */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { RECORD = 100, RECORDS = 3000, LARGE = 40000, WAITS_AT = 64, GUARD_US = 100000, BORROWED = 9 };
/* A file with a few more calls than earn a buffer, and one with many. */
enum { SHORT_READS = 20, LONG_READS = 300, SHORT_WRITES = 75 };

static char record[RECORD], large[LARGE];
/* volatile, so that no compiler knows that nothing can be there. */
static void *volatile not_ours = (void *)8;
static int in, out, writes;

static int is(const char *way, const char *name) { return strcmp(way, name) == 0; }

static ssize_t done(ssize_t bytes) {
    if (bytes < 0)
        err(1, "a read or a write");
    return bytes;
}

/* The last write that passes through asks the guard, which gets time to answer. A large write that precedes
   it is counted with some sizes of buffers, and with others it is not. */
static void wrote(ssize_t bytes) {
    done(bytes);
    writes++;
    if (writes == WAITS_AT || writes == WAITS_AT + 1)
        usleep(GUARD_US);
}

static void put(void) { wrote(write(out, record, RECORD)); }

static ssize_t get(void) { return done(read(in, record, RECORD)); }

static void seek(int fd, off_t to, int whence) {
    if (lseek(fd, to, whence) < 0)
        err(1, "lseek");
}

static void ask(void) {
    struct stat status;
    if (stat("in.dat", &status) != 0)
        err(1, "stat");
}

/* The file is closed, and read or written from its beginning. */
static int anew(int fd, const char *name, int flags) {
    if (close(fd) != 0)
        err(1, "close");
    int opened = open(name, flags);
    if (opened < 0)
        err(1, "open");
    return opened;
}

static int one(const char *way, int n) {
    struct iovec pieces[2] = {{record, 10}, {record, 20}};
    if (is(way, "read")) {
        get();
    } else if (is(way, "write") || is(way, "append") || is(way, "refused")) {
        put();
    } else if (is(way, "short-reads")) {
        if (n % SHORT_READS == 0)
            in = anew(in, "in.dat", O_RDONLY);
        get();
    } else if (is(way, "short-and-long-reads")) {
        if (n % LONG_READS <= 2 * SHORT_READS && n % SHORT_READS == 0)
            in = anew(in, "in.dat", O_RDONLY);
        get();
    } else if (is(way, "short-writes")) {
        if (n % SHORT_WRITES == 0)
            out = anew(out, "out.dat", O_WRONLY);
        put();
    } else if (is(way, "copy")) {
        get();
        put();
    } else if (is(way, "back-and-forth")) {
        get();
        if (n % 10 == 9)
            seek(in, -5 * RECORD, SEEK_CUR);
    } else if (is(way, "borrowed")) {
        /* As a shell reads a line `<&3`: meanwhile another number stands for the file. */
        if (dup2(in, BORROWED) < 0)
            err(1, "dup2");
        done(read(BORROWED, record, RECORD));
        if (dup2(out, BORROWED) < 0)
            err(1, "dup2");
    } else if (is(way, "update") || is(way, "update-mapped") || is(way, "append-update")) {
        /* Others may write to what is mapped: a look at it may be news. */
        if (n == 0 && is(way, "update-mapped") && mmap(NULL, RECORD, PROT_READ, MAP_SHARED, in, 0) == MAP_FAILED)
            err(1, "mmap");
        put();
        if (n % 200 == 199) {
            seek(out, -50 * RECORD, SEEK_CUR);
            for (int again = 0; again < 50; again++)
                done(read(out, record, RECORD));
        }
    } else if (is(way, "jumps")) {
        if (n % 20 == 0)
            seek(in, (off_t)n * 7919 % 500000, SEEK_SET);
        get();
    } else if (is(way, "random")) {
        seek(in, (off_t)n * 7919 % 500000, SEEK_SET);
        get();
    } else if (is(way, "positions")) {
        done(pread(in, record, RECORD, (off_t)n * RECORD));
    } else if (is(way, "random-positions")) {
        done(pread(in, record, RECORD, (off_t)n * 7919 % 500000));
    } else if (is(way, "written-at-positions")) {
        wrote(pwrite(out, record, RECORD, (off_t)n * RECORD));
    } else if (is(way, "vectors")) {
        put();
        if (n % 100 == 99)
            wrote(writev(out, pieces, 2));
    } else if (is(way, "vector-writes") || is(way, "vector-appends")) {
        wrote(writev(out, pieces, 2));
    } else if (is(way, "vector-reads")) {
        done(readv(in, pieces, 2));
    } else if (is(way, "vector-reads-at")) {
        done(preadv(in, pieces, 2, (off_t)n * 30));
    } else if (is(way, "bad-address")) {
        put();
        if (n % 300 == 299 && write(out, not_ours, RECORD) >= 0)
            errx(1, "bytes from nowhere were written");
    } else if (is(way, "releases")) {
        put();
        if (n % 50 == 49)
            ask();
    } else if (is(way, "releases-always")) {
        put();
        ask();
    } else if (is(way, "large")) {
        done(read(in, large, LARGE));
        if (n % 10 == 9)
            seek(in, 0, SEEK_SET);
        if (n % 100 == 0)
            wrote(write(out, large, LARGE));
        put();
    } else if (is(way, "ends")) {
        if (get() < RECORD)
            seek(in, 0, SEEK_SET);
        if (n % 1000 == 999)
            done(read(in, record, 0));
        if (n % 1500 == 1499)
            seek(in, -1000, SEEK_END);
    } else if (is(way, "read-and-write")) {
        done(read(out, record, RECORD));
        /* Without a pause: what has been read is not believed as long after a write. */
        if (n >= 1000 && n % 3 == 0)
            done(write(out, record, RECORD));
    } else if (is(way, "twice") && n < 100) {
        get();
    } else if (is(way, "twice")) {
        put();
    } else {
        errx(2, "no such way: %s", way);
    }
    return 0;
}

int main(int count, char **arguments) {
    const char *way = count == 2 ? arguments[1] : "";
    int flags = O_CREAT | O_RDWR | (is(way, "append") || is(way, "vector-appends") || is(way, "append-update") ? O_APPEND : 0);
    flags |= is(way, "refused") ? O_DSYNC : 0;
    int is_one_file = is(way, "read-and-write") || is(way, "twice");
    in = open(is(way, "twice") ? "both.dat" : "in.dat", O_RDONLY);
    out = open(is_one_file ? "both.dat" : "out.dat", flags, 0644);
    if (in < 0 || out < 0)
        err(1, "open");
    /* The guard is there. */
    usleep(GUARD_US);
    for (int n = 0; n < RECORDS; n++)
        one(way, n);
    if (close(in) != 0 || close(out) != 0)
        err(1, "close");
    return 0;
}
