/* A random program of calls on a few files, from a seed: reads, writes and seeks of every spelling,
 * descriptors made and dropped, sizes changed, names moved. Everything that a call returns is said.
 * Usage: fuzz_calls SEED CALLS [sequential|mixed|wild|appending|outside|input|company|handed]
 * `outside` expects a file as descriptor 0, open for both, and `input` one that is open for reading. */
#include "log.h"
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define FDS 6
#define FILES 3
#define BYTES_MAX 9000
static int fds[FDS];
static char bytes[BYTES_MAX * 4];
static int is_in_company;
static const char *names[FILES] = {"one", "two", "three"};

static long size_small(void) { return random_below(10) < 8 ? 1 + random_below(60) : random_below(700); }
static long size_any(void) {
    long kind = random_below(100);
    return kind < 70 ? size_small() : kind < 95 ? random_below(3000) : random_below(BYTES_MAX);
}

/* A place in a file; once in a while far behind all of them. */
static long place(void) { return random_below(random_below(20) ? 30000 : 300000); }

static int open_flags(void) {
    static const int flags[] = {O_RDONLY, O_RDWR, O_RDWR, O_WRONLY, O_RDWR | O_CREAT,
                                O_WRONLY | O_APPEND | O_CREAT, O_RDWR | O_APPEND | O_CREAT,
                                O_RDWR | O_CREAT | O_TRUNC};
    return flags[random_below(sizeof flags / sizeof *flags)];
}

static void stream(int fd, long count) {
    /* A run of small sequential calls: what opens a window. */
    long each = 1 + random_below(40), writes = random_below(3), n = 0, total = 0;
    unsigned long hash = 0;
    for (long i = 0; i < count; i++) {
        if (writes == 1 || (writes == 2 && i % 7 == 0)) {
            pattern(bytes, each, i * 13 + each);
            n = write(fd, bytes, (size_t)each);
            if (is_in_company && i > 64) give_time(fd);
        } else {
            n = read(fd, bytes, (size_t)each);
            if (n > 0) hash = hash * 31 + hash_of(bytes, (size_t)n);
        }
        if (n > 0) total += n;
        if (n < 0) break;
    }
    say("stream %ld x %ld kind %ld: %ld, last %ld, errno %d, %lx\n", count, each, writes, total, n,
        n < 0 ? errno : 0, hash);
}

static void vectors(int fd, long kind) {
    struct iovec parts[5];
    long count = 1 + random_below(5), total = 0;
    for (long i = 0; i < count; i++) {
        parts[i].iov_base = bytes + total;
        parts[i].iov_len = (size_t)(random_below(4) ? size_small() : 0);
        total += (long)parts[i].iov_len;
    }
    long at = place(), n;
    pattern(bytes, total, at);
    if (kind == 0) n = readv(fd, parts, (int)count);
    else if (kind == 1) n = writev(fd, parts, (int)count);
    else if (kind == 2) n = preadv(fd, parts, (int)count, at);
    else if (kind == 3) n = pwritev(fd, parts, (int)count, at);
    else if (kind == 4) n = preadv2(fd, parts, (int)count, random_below(2) ? at : -1, 0);
    else n = pwritev2(fd, parts, (int)count, random_below(2) ? at : -1, 0);
    say("vector %ld of %ld at %ld: %ld errno %d %lx\n", kind, total, at, n, n < 0 ? errno : 0,
        n > 0 ? hash_of(bytes, (size_t)n) : 0);
}

/* Reads by one descriptor what another one, of the same file unless that has changed, has just written there. */
static void reread(void) {
    long file = random_below(FILES), is_second = random_below(2), at = random_below(100) * 40, length = size_small() + 1;
    int writes = fds[is_second ? file + FILES : file], reads = fds[is_second ? file : file + FILES];
    struct iovec parts[2] = {{bytes, 1}, {bytes + 1, (size_t)length - 1}};
    long before = pread(reads, bytes, 40, at), way = random_below(4), n;
    unsigned long hash = hash_of(bytes, before > 0 ? (size_t)before : 0);
    pattern(bytes, length, at + length);
    if (way == 0) n = write(writes, bytes, (size_t)length);
    else if (way == 1) n = writev(writes, parts, 2);
    else if (way == 2) n = pwritev(writes, parts, 2, at);
    else n = pwrite(writes, bytes, (size_t)length, at);
    long after = pread(reads, bytes, 80, at);
    say("reread %ld at %ld: %ld, %ld, %ld, %lx %lx\n", way, at, before, n, after, hash,
        hash_of(bytes, after > 0 ? (size_t)after : 0));
}

/* From here on others may have what is open so far. */
static void hand_on(void) {
    pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
}

#include "fuzz_company.h"

static void one_call(long wildness) {
    int slot = (int)random_below(FDS), fd = fds[slot];
    long kind = random_below(wildness), n, at, length;
    errno = 0;
    switch (kind) {
    case 0: case 1: case 2: case 3:
        stream(fd, 20 + random_below(300));
        break;
    case 4: case 5:
        length = size_any();
        n = read(fd, bytes, (size_t)length);
        say("read %ld: %ld errno %d %lx\n", length, n, errno, n > 0 ? hash_of(bytes, (size_t)n) : 0);
        break;
    case 6: case 7:
        length = size_any();
        pattern(bytes, length, length * 3);
        n = write(fd, bytes, (size_t)length);
        say("write %ld: %ld errno %d\n", length, n, errno);
        break;
    case 8:
        at = place(), n = lseek(fd, at, SEEK_SET);
        say("seek to %ld: %ld errno %d\n", at, n, errno);
        break;
    case 9:
        at = random_below(2000) - 1000, n = lseek(fd, at, SEEK_CUR);
        say("seek by %ld: %ld errno %d\n", at, n, errno);
        break;
    case 10:
        at = -random_below(3000) + 200, n = lseek(fd, at, SEEK_END);
        say("seek from end %ld: %ld errno %d\n", at, n, errno);
        break;
    case 11:
        length = size_any(), at = place();
        n = pread(fd, bytes, (size_t)length, at);
        say("pread %ld at %ld: %ld errno %d %lx\n", length, at, n, errno,
            n > 0 ? hash_of(bytes, (size_t)n) : 0);
        break;
    case 12:
        length = size_any(), at = place();
        pattern(bytes, length, at);
        n = pwrite(fd, bytes, (size_t)length, at);
        say("pwrite %ld at %ld: %ld errno %d\n", length, at, n, errno);
        break;
    case 13:
        vectors(fd, random_below(6));
        break;
    case 14:
        say("position %ld\n", (long)lseek(fd, 0, SEEK_CUR));
        break;
    case 15: {
        struct stat data;
        n = fstat(fd, &data);
        say("fstat %ld: %ld\n", n, n ? errno : (long)data.st_size);
        break;
    }
    case 16: {
        struct stat data;
        const char *name = names[random_below(FILES)];
        n = stat(name, &data);
        say("stat %s %ld: %ld\n", name, n, n ? errno : (long)data.st_size);
        break;
    }
    case 17:
        if (random_below(3) == 0) {
            at = random_below(25000), n = ftruncate(fd, at);
            say("ftruncate %ld: %ld errno %d\n", at, n, errno);
        }
        break;
    case 18: {
        int flags = open_flags();
        const char *name = names[random_below(FILES)];
        if (fd >= 0) say("close %d\n", close(fd));
        fds[slot] = open(name, flags, 0644);
        say("open %s %o: %d errno %d\n", name, flags, fds[slot], errno);
        break;
    }
    case 19: {
        int other = (int)random_below(FDS);
        if (other == slot || fd < 0) break;
        if (random_below(2) && fds[other] >= 0) {
            say("dup2 %d over %d: ", fd, fds[other]);
            int made = dup2(fd, fds[other]);
            say("%d errno %d\n", made, errno);
        } else {
            if (fds[other] >= 0) close(fds[other]);
            fds[other] = random_below(2) ? dup(fd) : fcntl(fd, F_DUPFD_CLOEXEC, 30);
            say("dup %d: %d errno %d\n", fd, fds[other], errno);
        }
        break;
    }
    case 20: {
        const char *from = names[random_below(FILES)], *to = names[random_below(FILES)];
        if (random_below(2)) {
            say("rename %s %s: %d\n", from, to, rename(from, to));
        } else {
            int done = truncate(from, random_below(20000));
            say("truncate %s: %d errno %d\n", from, done, errno);
        }
        break;
    }
    case 21: {
        int other = fds[random_below(FDS)];
        length = random_below(4000);
        n = random_below(2) ? sendfile(other, fd, NULL, (size_t)length)
                            : copy_file_range(fd, NULL, other, NULL, (size_t)length, 0);
        say("transfer %ld from %d to %d: %ld errno %d\n", length, fd, other, n, errno);
        break;
    }
    case 22: {
        /* Append mode on and off. */
        n = fcntl(fd, F_GETFL);
        say("flags %lo, set %d\n", n, n < 0 ? -1 : fcntl(fd, F_SETFL, (int)(n ^ O_APPEND)));
        break;
    }
    case 23: {
        length = 8192;
        char *seen = mmap(NULL, (size_t)length, PROT_READ, MAP_SHARED, fd, 0);
        struct stat data;
        if (seen == MAP_FAILED) {
            say("mmap errno %d\n", errno);
            break;
        }
        if (fstat(fd, &data) == 0 && data.st_size >= length)
            say("mapped %lx\n", hash_of(seen, (size_t)length));
        munmap(seen, (size_t)length);
        break;
    }
    case 24:
        n = random_below(2) ? fsync(fd) : posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        say("sync %ld errno %d\n", n, errno);
        break;
    case 25:
        at = random_below(12000), length = 1 + random_below(3000);
        n = fallocate(fd, random_below(2) ? 0 : FALLOC_FL_KEEP_SIZE, at, length);
        say("fallocate %ld %ld: %ld errno %d\n", at, length, n, errno);
        break;
    case 26:
        at = random_below(12000), length = 1 + random_below(3000);
        n = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, length);
        say("punch %ld %ld: %ld errno %d\n", at, length, n, errno);
        break;
    default:
        say_file(names[random_below(FILES)]);
        break;
    }
}

/* Many small reads, among them naps in which the guard can find out whose the description is. */
static void warm_input(void) {
    for (int i = 0; i < 400; i++) {
        if (i % 20 == 0) give_time(0);
        ssize_t n = read(0, bytes, 9);
        say("%zd %lx\n", n, hash_of(bytes, n > 0 ? (size_t)n : 0));
    }
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    random_state += strtoul(argv[1], NULL, 10) * 7919;
    for (int i = 0; i < 20; i++) random_next();
    own_path = argv[0];
    if (argc > 3 && !strcmp(argv[3], "spawned")) spawned();
    int input = argc > 3 && !strcmp(argv[3], "input");
    is_in_company = input || (argc > 3 && !strcmp(argv[3], "company"));
    long calls = atol(argv[2]);
    long wildness = argc < 4 || !strcmp(argv[3], "mixed") ? 19 : !strcmp(argv[3], "wild") ? 29 : is_in_company ? 19 : 8;
    for (int i = 0; i < FILES; i++) make_file(names[i], 5000 + 7000 * i);
    int appends = argc > 3 && !strcmp(argv[3], "appending");
    int outside = argc > 3 && !strcmp(argv[3], "outside");
    int handed = argc > 3 && !strcmp(argv[3], "handed");
    if (appends || outside) wildness = 24;
    if (handed) wildness = 20;
    for (int i = 0; i < FDS; i++) {
        if (handed && i == FILES) hand_on();
        int flags = i < FILES ? O_RDWR : appends ? O_RDWR | O_APPEND : O_RDONLY;
        /* Twice, so that two numbers mean one description that nobody saw being made. */
        int is_given = i > 3 && (outside || (input && (i == 4 || random_below(2))));
        fds[i] = is_given ? (i == 4 ? 0 : dup(0)) : open(names[i % FILES], flags);
    }
    if (input) warm_input();
    for (long i = 0; i < calls; i++) {
        say("%ld ", i);
        if (is_in_company && random_below(3) == 0) in_company();
        else if (handed && random_below(3) == 0) reread();
        else one_call(wildness);
        /* A file that is streamed to its end is set back, so that reads find something. */
        if (random_below(6) == 0) {
            off_t back = random_below(4000);
            lseek(fds[random_below(FDS)], back, SEEK_SET);
        }
    }
    for (int i = 0; i < FDS; i++)
        if (fds[i] >= 0) say("end %ld\n", (long)lseek(fds[i], 0, SEEK_CUR));
    if (random_below(2))
        for (int i = 0; i < FDS; i++) say("close %d\n", close(fds[i]));
    for (int i = 0; i < FILES; i++) say_file(names[i]);
    log_out();
    return 0;
}
