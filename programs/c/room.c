/* Writes records until one does not fit, and says how many did and what is in the file: the call that
   fails must be the one that fails without a buffer.

   room HOW FOLDER: a full disk (full, many, append, late), one that is filled
   while records wait, by calls that do not (beside-written, -sent, -allocated, -streamed, -formatted, -flagged,
   -asynchronous, -unfollowed) or by another process, made before, which says so or not (beside-told, -untold), or
   the largest size that the file
   system allows for a file (largest, jump, largest-append), also of one that is inherited as descriptor 0
   (largest-given, largest-append-given); or the last position that it has (positions). */
#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define RECORD 100
#define FILES_MAX 20
/* Enough for every disk here, and for two windows of the largest size. */
#define RECORDS_MAX 400000

/* Bytes that are left on a disk that somebody else fills. */
#define LEFT 300000

static char record[RECORD];

/* The guard gets time to answer. */
static void pause_at(int n) {
    if (n % 100 == 50 && n < 600) usleep(20000);
}

static long long largest(int fd) {
    unsigned long long low = 0, high = 0x7fffffffffffffffULL;
    while (low < high) {
        unsigned long long middle = low + (high - low + 1) / 2;
        if (lseek(fd, (off_t)middle, SEEK_SET) == (off_t)middle) low = middle;
        else high = middle - 1;
    }
    lseek(fd, 0, SEEK_SET);
    return (long long)low;
}

/* By an operation that goes on while the program waits. */
static ssize_t written_meanwhile(int fd, void *bytes, size_t len, off_t at) {
    struct aiocb block = {.aio_fildes = fd, .aio_buf = bytes, .aio_nbytes = len, .aio_offset = at};
    const struct aiocb *list[] = {&block};
    if (aio_write(&block)) return -1;
    while (aio_error(&block) == EINPROGRESS) aio_suspend(list, 1, NULL);
    return aio_return(&block);
}

/* Fills the disk but for some records by another file, in a way of its own, while those of `fd` wait. */
static int fill_beside(int fd, const char *way) {
    static char block[1 << 16], text[sizeof block];
    struct iovec piece = {block, sizeof block};
    memset(text, 'x', sizeof text - 1);
    int other = open("other", O_CREAT | O_RDWR | O_TRUNC, 0644), zeros = open("/dev/zero", O_RDONLY);
    for (int n = 0; n < 2000; n++) {
        if (write(fd, record, RECORD) != RECORD) return 1;
        pause_at(n);
    }
    FILE *stream = fdopen(dup(other), "w");
    setvbuf(stream, NULL, _IONBF, 0);
    off_t at = 0;
    for (ssize_t answer = 1; answer > 0; at += answer) {
        if (strcmp(way, "written") == 0) answer = write(other, block, sizeof block);
        else if (strcmp(way, "sent") == 0) answer = sendfile(other, zeros, NULL, sizeof block);
        else if (strcmp(way, "streamed") == 0) answer = (ssize_t)fwrite(block, 1, sizeof block, stream);
        else if (strcmp(way, "formatted") == 0) answer = dprintf(other, "%s", text);
        else if (strcmp(way, "flagged") == 0) answer = pwritev2(other, &piece, 1, -1, 0);
        else if (strcmp(way, "unfollowed") == 0) answer = syscall(SYS_pwritev2, other, &piece, 1L, -1L, -1L, 0);
        else if (strcmp(way, "asynchronous") == 0) answer = written_meanwhile(other, block, sizeof block, at);
        else answer = fallocate(other, 0, at, sizeof block) ? -1 : (ssize_t)sizeof block;
    }
    struct stat status;
    return fstat(other, &status) || ftruncate(other, status.st_size - LEFT) || close(other) || close(zeros);
}

static int go[2], done[2];

/* A process that leaves little room as soon as it may. */
static int begin_worker(void) {
    char byte;
    off_t at = 0;
    if (pipe(go) || pipe(done)) return -1;
    pid_t worker = fork();
    if (worker != 0) return worker;
    int other = open("other", O_CREAT | O_RDWR | O_TRUNC, 0644);
    if (read(go[0], &byte, 1) != 1) _exit(1);
    while (fallocate(other, 0, at, 1 << 16) == 0) at += 1 << 16;
    if (ftruncate(other, at - LEFT) || write(done[1], "x", 1) != 1) _exit(1);
    _exit(0);
}

/* Has the worker fill the disk; that it has is said, or only time passes. */
static int fill_by_worker(int fd, const char *way) {
    char byte;
    for (int n = 0; n < 2000; n++) {
        if (write(fd, record, RECORD) != RECORD) return 1;
        pause_at(n);
    }
    if (write(go[1], "x", 1) != 1) return 1;
    if (strcmp(way, "told") == 0) return read(done[0], &byte, 1) != 1;
    usleep(1500000);
    return 0;
}

/* What seeks around a place answer, in a file that is read record by record. */
static int positions(void) {
    char byte;
    int fd = open("file", O_CREAT | O_RDWR | O_TRUNC, 0644), other = open("file", O_RDONLY);
    if (fd < 0 || other < 0 || write(fd, record, RECORD) != RECORD || ftruncate(fd, 1 << 20)) return 3;
    long long limit = largest(other), places[] = {limit + 1, 1LL << 32, limit, limit + 4096, limit - 1};
    if (limit == 0x7fffffffffffffffLL) return 77;
    for (int i = 0; i < 5; i++) {
        lseek(fd, 0, SEEK_SET);
        for (int n = 0; n < 100; n++)
            if (read(fd, &byte, 1) != 1) return 4;
        errno = 0;
        printf("%lld", (long long)lseek(fd, places[i], SEEK_SET)), printf(" %d,", errno);
        printf(" %lld", (long long)lseek(fd, 0, SEEK_CUR));
        printf(" %lld,", (long long)lseek(fd, limit, SEEK_CUR)), printf(" %d,", errno);
        printf(" %lld\n", (long long)lseek(fd, 0, SEEK_CUR));
    }
    return 0;
}

int main(int count, char **words) {
    if (count < 3 || chdir(words[2]) != 0) return 2;
    const char *how = words[1];
    if (strcmp(how, "positions") == 0) return positions();
    int is_disk = strcmp(how, "full") == 0 || strcmp(how, "many") == 0 ||
                  strcmp(how, "append") == 0 || strcmp(how, "late") == 0 ||
                  strncmp(how, "beside-", 7) == 0;
    int files = strcmp(how, "many") == 0 ? FILES_MAX : 1;
    int appends = strstr(how, "append") ? O_APPEND : 0;
    int fds[FILES_MAX];
    long long limit = 0;
    memset(record, 'x', RECORD);
    signal(SIGXFSZ, SIG_IGN);
    int by_worker = strstr(how, "told") != NULL;
    if (by_worker && begin_worker() < 0) return 5;
    for (int i = 0; i < files; i++) {
        char name[20];
        snprintf(name, sizeof name, "file%d", i);
        fds[i] = strstr(how, "given") ? 0 : open(name, O_CREAT | O_RDWR | O_TRUNC | appends, 0644);
        if (fds[i] < 0) return 3;
    }
    if (!is_disk) {
        limit = largest(fds[0]);
        if (strcmp(how, "jump") == 0) {
            for (int n = 0; n < 2000; n++) {
                if (write(fds[0], record, RECORD) != RECORD) return 4;
                pause_at(n);
            }
        }
        if (appends ? ftruncate(fds[0], limit - 70050) : lseek(fds[0], limit - 70050, SEEK_SET) < 0)
            return 77;
    }
    if (strcmp(how, "late") == 0) {
        /* Most of the disk is taken at once by a call of its own. */
        if (ftruncate(fds[0], 0) != 0 || posix_fallocate(fds[0], 4 << 20, 1 << 20) != 0) return 5;
    }
    if (by_worker && fill_by_worker(fds[0], how + 7)) return 5;
    if (!by_worker && strncmp(how, "beside-", 7) == 0 && fill_beside(fds[0], how + 7)) return 5;
    long long taken = 0, held = 0;
    ssize_t answer = 0;
    int n = 0;
    do {
        answer = write(fds[n % files], record, RECORD);
        if (answer > 0) taken += answer;
        pause_at(n);
    } while (answer == RECORD && ++n < RECORDS_MAX);
    ssize_t again = answer < 0 ? -1 : write(fds[n % files], record, RECORD);
    int error = errno;
    struct stat status;
    for (int i = 0; i < files; i++) {
        if (fstat(fds[i], &status) != 0) return 6;
        held += status.st_size - (is_disk ? 0 : limit);
        printf("close %d\n", close(fds[i]));
    }
    printf("%lld bytes in %d calls, then %zd, %zd, errno %d; %lld\n", taken, n, answer, again,
           error, held);
    return 0;
}
