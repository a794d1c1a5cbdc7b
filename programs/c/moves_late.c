/* What the kernel, or libc, moves to a file or from it long after it was asked to, while small writes go to the file by
 * another description. The file and what is printed are the same each time: what is moved comes last.
 *
 * Usage: moves_late aio|list|splice|sendfile FILE */
#define _GNU_SOURCE
#include <aio.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RECORDS = 600, RECORD_BYTES = 11, AT = 22, MOVED_AFTER_MS = 300, ENDS_MS = 700, PIPE_BYTES = 65536 };

static int file, pipes[2];
static const char *way;
static char moved[RECORD_BYTES + 1] = "MOVED LATE\n";

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void write_records(int fd, const char *what, int nap_us) {
    char record[32];
    for (int i = 0; i < RECORDS; i++) {
        snprintf(record, sizeof record, "%s %05d\n", what, i);
        if (write(fd, record, RECORD_BYTES) != RECORD_BYTES) abort();
        if (nap_us && i % 50 == 0) usleep(nap_us);
    }
}

static void *moves(void *unused) {
    off_t at = AT;
    if (!strcmp(way, "splice")) {
        loff_t to = AT;
        printf("%zd spliced\n", splice(pipes[0], NULL, file, &to, RECORD_BYTES, 0));
    } else {
        /* The pipe is full. */
        printf("%zd sent\n", sendfile(pipes[1], file, &at, RECORD_BYTES));
    }
    return unused;
}

int main(int count, char **words) {
    if (count != 3) return 2;
    way = words[1];
    struct aioinit one = {.aio_threads = 1, .aio_num = 4};
    aio_init(&one);
    int go[2];
    if (pipe(pipes) || pipe(go)) return 1;
    static char full[PIPE_BYTES], got[PIPE_BYTES + RECORD_BYTES];
    int sends = !strcmp(way, "sendfile");
    if (sends && write(pipes[1], full, sizeof full) != sizeof full) return 1;
    pid_t child = fork();
    if (child == 0) {
        char byte;
        if (read(go[0], &byte, 1) != 1) _exit(1);
        usleep(MOVED_AFTER_MS * 1000);
        if (!sends) _exit(write(pipes[1], moved, RECORD_BYTES) != RECORD_BYTES);
        size_t all = 0;
        while (all < sizeof got) {
            ssize_t some = read(pipes[0], got + all, sizeof got - all);
            if (some <= 0) _exit(1);
            all += some;
        }
        printf("received %.10s\n", got + PIPE_BYTES);
        fflush(stdout);
        _exit(0);
    }
    /* It has neither of these. */
    file = open(words[2], O_RDWR | O_CREAT, 0644);
    int other = open(words[2], O_RDWR);
    write_records(other, "first", 2000);
    pthread_t thread;
    char byte[RECORD_BYTES];
    struct aiocb waits = {.aio_fildes = pipes[0], .aio_buf = byte, .aio_nbytes = RECORD_BYTES};
    struct aiocb writes = {.aio_fildes = file, .aio_buf = moved, .aio_nbytes = RECORD_BYTES, .aio_offset = AT};
    struct aiocb *list[] = {&writes};
    writes.aio_lio_opcode = LIO_WRITE;
    int by_thread = sends || !strcmp(way, "splice");
    if (by_thread) {
        pthread_create(&thread, NULL, moves, NULL);
        usleep(50000);
    } else {
        /* The one thread of libc's waits for the pipe, and what follows for the thread. */
        int failed = aio_read(&waits);
        failed |= !strcmp(way, "list") ? lio_listio(LIO_NOWAIT, list, 1, NULL) : aio_write(&writes);
        printf("%d begun\n", failed);
    }
    fflush(stdout);
    lseek(other, 0, SEEK_SET);
    if (write(go[1], "g", 1) != 1) return 1;
    long began_ms = now_ms();
    write_records(other, "again", 2000);
    lseek(other, 0, SEEK_SET);
    write_records(other, "final", 0);
    /* Nothing is asked for meanwhile. */
    while (now_ms() < began_ms + ENDS_MS) {}
    if (by_thread) pthread_join(thread, NULL);
    else printf("%zd written\n", aio_return(&writes));
    int status;
    waitpid(child, &status, 0);
    char found[RECORD_BYTES + 1] = {0};
    ssize_t answer = pread(other, found, RECORD_BYTES, AT);
    printf("%d %zd %s", status, answer, found);
    return 0;
}
