/* Bytes wait in one process, and another one, which was there before, writes over them by a descriptor that nobody saw
 * it open, as one that it was given. It makes one call of libc's, without a word before or after it. Each way has two
 * processes of its own, as whatever has one file written has all of its process written.
 *
 * The second one has been forked, and has ("again") become another program, or has ("opened") opened something. */
#include "log.h"
#include <aio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include "raw.h"

enum { RECORD = 10, RECORDS = 500, AT = 4003, ONE = 40, OTHER = 41, READY = 42, DONE = 43 };

static const char *const ways[] = {
    "write", "writev", "pwrite", "pwritev", "pwritev2", "pwritev2, at the offset", "raw writev", "raw pwrite",
    "raw pwritev", "raw pwritev2", "aio_write", "lio_listio", "dprintf", "stream", "stream at the end", "perror",
    "stream of its own", "stream of its own without a buffer", "stream after dup2",
};
static const char *const kins[] = {"forked", "opened", "again"};
enum { WAYS = sizeof ways / sizeof *ways, KINS = sizeof kins / sizeof *kins };

static void asynchronously(int is_list) {
    struct aiocb block = {.aio_fildes = ONE, .aio_buf = "X", .aio_nbytes = 1, .aio_offset = AT,
        .aio_lio_opcode = LIO_WRITE};
    struct aiocb *several[] = {&block};
    const struct aiocb *list[] = {&block};
    if (is_list) lio_listio(LIO_WAIT, several, 1, NULL);
    else aio_write(&block);
    while (aio_error(&block) == EINPROGRESS) aio_suspend(list, 1, NULL);
}

/* The standard stream of a way leads to the file, without a call that the library would see. */
static void lead(const char *way) {
    if (!strncmp(way, "stream", 6) && !strstr(way, "own") && !strstr(way, "dup2")) raw(SYS_dup3, OTHER, 1, 0, 0);
    if (!strcmp(way, "perror")) raw(SYS_dup3, OTHER, 2, 0, 0);
}

static void by_stream(const char *way) {
    FILE *stream = strstr(way, "own") ? fdopen(OTHER, "r+") : stdout;
    if (strstr(way, "without")) setvbuf(stream, NULL, _IONBF, 0);
    if (strstr(way, "dup2")) dup2(OTHER, 1);
    putc('X', stream);
    if (!strstr(way, "end")) fflush(stream);
}

/* One call, at the position of the other description where none is given. */
static void overwrite(const char *way) {
    struct iovec one = {"X", 1};
    raw(SYS_lseek, OTHER, AT, SEEK_SET, 0);
    if (!strcmp(way, "write")) write(OTHER, "X", 1);
    if (!strcmp(way, "writev")) writev(OTHER, &one, 1);
    if (!strcmp(way, "pwrite")) pwrite(ONE, "X", 1, AT);
    if (!strcmp(way, "pwritev")) pwritev(ONE, &one, 1, AT);
    if (!strcmp(way, "pwritev2")) pwritev2(ONE, &one, 1, AT, 0);
    if (!strcmp(way, "pwritev2, at the offset")) pwritev2(OTHER, &one, 1, -1, 0);
    if (!strcmp(way, "raw writev")) syscall(SYS_writev, OTHER, &one, 1L);
    if (!strcmp(way, "raw pwrite")) syscall(SYS_pwrite64, ONE, "X", 1L, (long)AT);
    if (!strcmp(way, "raw pwritev")) syscall(SYS_pwritev, ONE, &one, 1L, (long)AT, 0L);
    if (!strcmp(way, "raw pwritev2")) syscall(SYS_pwritev2, ONE, &one, 1L, (long)AT, 0L, 0L);
    if (!strcmp(way, "aio_write")) asynchronously(0);
    if (!strcmp(way, "lio_listio")) asynchronously(1);
    if (!strcmp(way, "dprintf")) dprintf(OTHER, "X");
    if (!strncmp(way, "stream", 6)) by_stream(way);
    if (!strcmp(way, "perror")) perror("X");
}

static void second(const char *way, const char *kin) {
    char byte;
    if (!strcmp(kin, "opened")) close(open("/dev/null", O_WRONLY));
    raw(SYS_read, READY, (long)&byte, 1, 0);
    /* Another program was given it so, by `first`. */
    if (strcmp(kin, "again")) lead(way);
    overwrite(way);
    /* At the end of the stream it is the end of this process that tells. */
    if (strcmp(way, "stream at the end")) raw(SYS_close, DONE, 0, 0, 0), _exit(0);
    exit(0);
}

static void first(const char *program, const char *way, const char *kin) {
    char name[80], byte = 0;
    int ready[2], done[2];
    snprintf(name, sizeof name, "%s, %s", way, kin);
    for (int i = ONE; i <= OTHER; i++) {
        int fd = (int)raw(SYS_openat, AT_FDCWD, (long)name, O_RDWR | O_CREAT, 0644);
        raw(SYS_dup3, fd, i, 0, 0), raw(SYS_close, fd, 0, 0, 0);
    }
    if (pipe(ready) || pipe(done)) exit(2);
    pid_t child = fork();
    if (child == 0) {
        raw(SYS_dup3, ready[0], READY, 0, 0), raw(SYS_dup3, done[1], DONE, 0, 0);
        raw(SYS_close, done[1], 0, 0, 0), raw(SYS_close, ready[1], 0, 0, 0);
        if (!strcmp(kin, "again")) lead(way), execl(program, program, way, kin, NULL), _exit(9);
        second(way, kin);
    }
    raw(SYS_close, done[1], 0, 0, 0);
    for (int i = 0; i < RECORDS; i++) {
        write(ONE, "0123456789", RECORD);
        if (i > 60 && i < 400) give_time(ONE);
    }
    raw(SYS_write, ready[1], (long)"x", 1, 0);
    raw(SYS_read, done[0], (long)&byte, 1, 0);
    pread(ONE, &byte, 1, AT);
    if (byte != 'X') say("%s: %c\n", name, byte);
    log_out();
    waitpid(child, NULL, 0);
    unlink(name);
    _exit(byte != 'X');
}

/* What libc refuses without a look at it. */
static void refused(void) {
    void *volatile nowhere[] = {NULL, (void *)8};
    for (int i = 0; i < 2; i++) {
        int answer = lio_listio(99, nowhere[i], 1, NULL);
        say("%d %d, ", answer, errno);
        answer = aio_fsync(12345, nowhere[i]);
        say("%d %d\n", answer, errno);
    }
}

int main(int count, char **words) {
    int wrong = 0, status;
    if (count > 2) second(words[1], words[2]);
    for (int i = 0; i < WAYS * KINS; i++) {
        if (fork() == 0) first(words[0], ways[i / KINS], kins[i % KINS]);
        /* Some at a time: on a busy machine what waits would leave by its age. */
        if (i % 8 == 7)
            while (wait(&status) > 0) wrong += status != 0;
    }
    while (wait(&status) > 0) wrong += status != 0;
    say("%d wrong\n", wrong);
    refused();
    log_out();
    return 0;
}
