/* Makes calls on a few files and keeps in memory what each file must hold: what a call says it did,
 * was done, and what failed was not. The tester lets one system call of it fail, and compares.
 * Usage: fail_victim SEED [hold]      hold: stops once before it begins
 *
 * The page is read by crates/xtask/src/fuzz/fail.rs when the process ends. Each kind of call has a
 * number there, so that a failure can be told from one that only the library's own calls had. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLS 130
/* From this call on there are forks and maps, which end buffering for their file. */
#define SHARING_FROM 100
#define FILES 4
#define STREAM 3
#define BYTES_MAX 65536
#define SIZE_WANTED 40000
#define FAILURES_MAX 32

enum kind {
    WRITE = 1, READ, SEEK, WRITE_AT, READ_AT, SYNC, TRUNCATE, OPEN, CLOSE, RENAME, STAT, PIPE,
    WRITE_VECTOR, READ_VECTOR, STREAM_WRITE, SEND, LOCK, MAP, FORK, WAIT, SLEEP, END
};

struct model {
    long size;
    unsigned char bytes[BYTES_MAX - 8];
};
struct page {
    volatile unsigned long kind, call, wrong, ended, failures, late;
    struct { unsigned long call, kind, error; } failed[FAILURES_MAX];
};
static struct page *const page = (struct page *)0x200000000ul;
static struct model *const models = (struct model *)0x200001000ul;

static int fds[FILES];
static long positions[FILES];
static int pipes[2];
static FILE *stream;
static unsigned long state;
static unsigned char bytes[BYTES_MAX];

static unsigned long below(unsigned long limit) {
    state += 0x9e3779b97f4a7c15ul;
    unsigned long number = state;
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9ul;
    number = (number ^ (number >> 27)) * 0x94d049bb133111ebul;
    return (number ^ (number >> 31)) % limit;
}

/* Notes the first call and line at which something was not as the model says. */
static void check(int holds, unsigned long line) {
    if (!holds && !page->wrong) page->wrong = page->call << 32 | line;
}
#define CHECK(holds) check((holds), __LINE__)

/* Notes that a call of this kind failed. */
static void failed(enum kind kind) {
    unsigned long index = page->failures++;
    if (index >= FAILURES_MAX) return;
    page->failed[index].call = page->call;
    page->failed[index].kind = kind;
    page->failed[index].error = (unsigned long)errno;
}

/* `answer` of a call that began with `page->kind = kind`; true if it did something. */
static int done(enum kind kind, long answer) {
    if (answer < 0) failed(kind);
    return answer >= 0;
}

static void wrote(int file, long at, long n) {
    struct model *model = &models[file];
    if (n <= 0) return;
    memcpy(model->bytes + at, bytes, (size_t)n);
    if (at + n > model->size) model->size = at + n;
}

static void was_read(int file, long at, long n, long wanted) {
    struct model *model = &models[file];
    long there = at < model->size ? model->size - at : 0;
    CHECK(n <= wanted && n <= there);
    CHECK(n > 0 || there == 0);
    CHECK(n <= 0 || !memcmp(bytes, model->bytes + at, (size_t)n));
}

static void fill(long n) {
    for (long i = 0; i < n; i++) bytes[i] = (unsigned char)below(256);
}

static const char *const names[FILES] = {"0", "1", "2", "stream"};

static void open_again(int file) {
    page->kind = OPEN;
    for (int i = 0; i < 3 && (fds[file] = open(names[file], O_RDWR | O_CREAT, 0644)) < 0; i++) failed(OPEN);
    positions[file] = 0;
}

static void transfer(int file, unsigned long choice) {
    int fd = fds[file];
    long length = 1 + (long)below(250), at = (long)below(20000), n, *position = &positions[file];
    struct iovec parts[2] = {{bytes, (size_t)length / 2},
                             {bytes + length / 2, (size_t)(length - length / 2)}};
    switch (choice) {
    case 0:
        page->kind = WRITE_AT, fill(length);
        if (done(WRITE_AT, n = pwrite(fd, bytes, (size_t)length, at))) {
            if (at > models[file].size)
                memset(models[file].bytes + models[file].size, 0, (size_t)(at - models[file].size));
            wrote(file, at, n);
        }
        break;
    case 1:
        page->kind = READ_AT;
        if (done(READ_AT, n = pread(fd, bytes, (size_t)length, at))) was_read(file, at, n, length);
        break;
    case 2:
        page->kind = WRITE_VECTOR, fill(length);
        if (done(WRITE_VECTOR, n = writev(fd, parts, 2))) wrote(file, *position, n), *position += n;
        break;
    case 3:
        page->kind = READ_VECTOR;
        if (done(READ_VECTOR, n = readv(fd, parts, 2)))
            was_read(file, *position, n, length), *position += n;
        break;
    default:
        page->kind = SEEK;
        at = below(2) ? (long)below((unsigned long)models[file].size + 1) : 0;
        if (done(SEEK, n = lseek(fd, at, SEEK_SET))) *position = at, CHECK(n == at);
        break;
    }
}

/* A run of small calls that follow one another: what earns a buffer. */
static void run_of_calls(int file) {
    long count = 8 + (long)below(30), length = 1 + (long)below(120), n, *position = &positions[file];
    int writes = (int)below(3) != 0;
    for (long i = 0; i < count; i++) {
        if (writes) {
            page->kind = WRITE, fill(length);
            if (done(WRITE, n = write(fds[file], bytes, (size_t)length)))
                CHECK(n > 0 && n <= length), wrote(file, *position, n), *position += n;
        } else {
            page->kind = READ;
            if (done(READ, n = read(fds[file], bytes, (size_t)length)))
                was_read(file, *position, n, length), *position += n;
        }
    }
    page->kind = SEEK;
    if (*position > SIZE_WANTED && done(SEEK, lseek(fds[file], 0, SEEK_SET))) *position = 0;
    else if (done(SEEK, n = lseek(fds[file], 0, SEEK_CUR))) CHECK(n == *position);
}

static void send_bytes(int from, int to) {
    long length = 1 + (long)below(300);
    page->kind = SEND;
    long n = sendfile(fds[to], fds[from], NULL, (size_t)length);
    if (!done(SEND, n)) return;
    CHECK(n <= length && positions[from] + n <= models[from].size);
    memcpy(bytes, models[from].bytes + positions[from], (size_t)n);
    /* What a full disk kept out of one file, and said so, is not in the other one either. */
    unsigned char seen[300];
    if (pread(fds[from], seen, (size_t)n, positions[from]) == n) {
        CHECK(!memcmp(seen, bytes, (size_t)n));
        memcpy(bytes, seen, (size_t)n);
    }
    wrote(to, positions[to], n);
    positions[from] += n, positions[to] += n;
}

static void tell(void) {
    char byte = 'x';
    page->kind = PIPE;
    if (!done(PIPE, write(pipes[1], &byte, 1))) return;
    for (int i = 0; i < 3 && !done(PIPE, read(pipes[0], &byte, 1)); i++) {}
}

static void rename_twice(int file) {
    page->kind = RENAME;
    if (!done(RENAME, rename(names[file], "other"))) return;
    for (int i = 0; i < 3 && !done(RENAME, rename("other", names[file])); i++) {}
}

static void compare_mapped(int file) {
    long size = models[file].size;
    page->kind = MAP;
    unsigned char *seen = mmap(NULL, BYTES_MAX, PROT_READ, MAP_SHARED, fds[file], 0);
    if (seen == MAP_FAILED) {
        failed(MAP);
        return;
    }
    CHECK(!memcmp(seen, models[file].bytes, (size_t)size));
    if (munmap(seen, BYTES_MAX)) failed(MAP);
}

static void child(int file) {
    int status = 0;
    page->kind = FORK;
    pid_t pid = fork();
    if (pid == 0) {
        /* What it writes is its parent's to know: the position is shared. */
        memset(bytes, 'c', 40);
        _exit(write(fds[file], bytes, 40) == 40 ? 0 : 1);
    }
    if (!done(FORK, pid)) return;
    page->kind = WAIT;
    while (waitpid(pid, &status, 0) != pid) failed(WAIT);
    CHECK(status == 0);
    memset(bytes, 'c', 40);
    wrote(file, positions[file], 40), positions[file] += 40;
}

static void one_call(unsigned long choice) {
    int file = (int)below(FILES - 1);
    struct stat data;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    long n;
    if (positions[file] > SIZE_WANTED) choice = 19;
    switch (choice) {
    case 0: case 1: case 2: case 3: case 4:
        transfer(file, choice);
        break;
    case 5:
        page->kind = SYNC, done(SYNC, fsync(fds[file]));
        break;
    case 6:
        page->kind = TRUNCATE, n = (long)below(20000);
        if (done(TRUNCATE, ftruncate(fds[file], n))) {
            if (n > models[file].size)
                memset(models[file].bytes + models[file].size, 0, (size_t)(n - models[file].size));
            models[file].size = n;
            /* Beyond the end a write would leave a hole, which the model does not know. */
            page->kind = SEEK;
            for (int i = 0; i < 3 && !done(SEEK, lseek(fds[file], 0, SEEK_SET)); i++) {}
            positions[file] = 0;
        }
        break;
    case 7:
        page->kind = CLOSE, done(CLOSE, close(fds[file]));
        open_again(file);
        break;
    case 8:
        rename_twice(file);
        break;
    case 9:
        page->kind = STAT;
        /* Bytes whose flush fails just here are not in the size yet; the tester decides. */
        if (done(STAT, fstat(fds[file], &data))) page->late += data.st_size != models[file].size;
        if (done(STAT, stat(names[file], &data))) page->late += data.st_size != models[file].size;
        break;
    case 10:
        tell();
        break;
    case 11:
        fill(60);
        page->kind = STREAM_WRITE;
        if (fwrite(bytes, 60, 1, stream) != 1 || fflush(stream)) failed(STREAM_WRITE), clearerr(stream);
        else wrote(STREAM, models[STREAM].size, 60);
        break;
    case 12:
        send_bytes(file, (file + 1) % (FILES - 1));
        break;
    case 13:
        page->kind = LOCK;
        if (!done(LOCK, fcntl(fds[file], F_SETLK, &lock))) break;
        lock.l_type = F_UNLCK;
        for (int i = 0; i < 3 && !done(LOCK, fcntl(fds[file], F_SETLK, &lock)); i++) {}
        break;
    case 14:
        if (page->call >= SHARING_FROM) compare_mapped(file);
        break;
    case 15:
        if (page->call >= SHARING_FROM) child(file);
        break;
    default:
        run_of_calls(file);
    }
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    state = strtoul(argv[1], NULL, 10);
    if (mmap(page, 4096 + sizeof *models * FILES, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != page)
        return 3;
    memset(page, 0, 4096 + sizeof *models * FILES);
    stream = fopen(names[STREAM], "w");
    if (!stream || fwrite("begun\n", 6, 1, stream) != 1 || fflush(stream) || pipe(pipes)) return 4;
    memcpy(bytes, "begun\n", 6);
    wrote(STREAM, 0, 6);
    for (int i = 0; i < FILES - 1; i++) {
        fds[i] = open(names[i], O_RDWR | O_CREAT, 0644);
        long n = below(2) ? 9000 : 0;
        if (n) fill(n), n = pwrite(fds[i], bytes, (size_t)n, 0), wrote(i, 0, n);
        if (fds[i] < 0) return 5;
    }
    if (argc > 2) raise(SIGSTOP);
    for (page->call = 1; page->call <= CALLS; page->call++) {
        /* The guard answers meanwhile. */
        if (page->call == 8 || page->call == 16) page->kind = SLEEP, usleep(1500);
        /* First what earns a buffer, then what disturbs it. */
        one_call(page->call < 20 ? 20 : below(30));
    }
    page->kind = END;
    /* The files are closed by the end of the process: one of them before. */
    done(CLOSE, close(fds[0]));
    page->ended = 1;
    return 0;
}
