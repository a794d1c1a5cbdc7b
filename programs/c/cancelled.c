/* Threads that only read or write are cancelled there, as every call natively is a place where that
 * may happen; but not while they put it off, and not in calls that natively are no such place. */
#include "log.h"
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>

enum { RECORD = 16 };
static volatile int stop, ready, enable;

static void *writes(void *argument) {
    int fd = *(int *)argument;
    char record[RECORD];
    memset(record, 'w', RECORD);
    for (long i = 0; !stop; i++) {
        write(fd, record, RECORD);
        if (i < 1000 && i % 10 == 0) give_time(fd);
        if (i % 20000 == 0) lseek(fd, 0, SEEK_SET), ready = 1;
    }
    return NULL;
}

static void *reads(void *argument) {
    int fd = *(int *)argument;
    char record[RECORD];
    for (long i = 0; !stop; i++) {
        if (read(fd, record, RECORD) < RECORD) lseek(fd, 0, SEEK_SET);
        if (i == 5000) ready = 1;
    }
    return NULL;
}

static void *reads_at(void *argument) {
    int fd = *(int *)argument;
    char record[RECORD];
    for (long i = 0; !stop; i++) {
        pread(fd, record, RECORD, i % 1000 * RECORD);
        if (i == 5000) ready = 1;
    }
    return NULL;
}

static void *puts_off(void *argument) {
    int old;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    int fd = *(int *)argument;
    char record[RECORD];
    for (long i = 0; !enable; i++) {
        if (read(fd, record, RECORD) < RECORD) lseek(fd, 0, SEEK_SET);
        if (i == 5000) ready = 1;
    }
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
    return reads(argument);
}

static void *writes_raw(void *argument) {
    int fd = *(int *)argument;
    char record[RECORD];
    memset(record, 'w', RECORD);
    for (long i = 0; !stop; i++) {
        syscall(SYS_write, fd, record, RECORD);
        syscall(SYS_pread64, fd, record, RECORD, 0L);
        if (i < 1000 && i % 10 == 0) give_time(fd);
        if (i == 5000) ready = 1;
    }
    return NULL;
}

static void *reads_stream(void *argument) {
    FILE *in = argument;
    char record[RECORD];
    for (long i = 0; !stop; i++) {
        if (fread(record, RECORD, 1, in) < 1) rewind(in);
        if (i == 5000) ready = 1;
    }
    return NULL;
}

static void nap(void) { nanosleep(&(struct timespec){0, 2000000}, NULL); }

static void cancel(const char *what, void *(*body)(void *), void *argument) {
    pthread_t thread;
    void *answer = NULL;
    struct timespec until;
    stop = ready = enable = 0;
    pthread_create(&thread, NULL, body, argument);
    while (!ready) nap();
    pthread_cancel(thread);
    if (body == puts_off) nap(), nap(), enable = 1;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 3;
    if (pthread_timedjoin_np(thread, &answer, &until) != 0) {
        say("%s: not cancelled\n", what);
        stop = 1;
        pthread_join(thread, NULL);
        return;
    }
    say("%s: %s\n", what, answer == PTHREAD_CANCELED ? "cancelled" : "ended");
}

/* A cancelled thread keeps the lock of its stream: the stream stays open. */
static void cancel_stream(const char *mode) {
    FILE *in = fopen("in", mode);
    setvbuf(in, NULL, _IOFBF, RECORD);
    cancel(mode, reads_stream, in);
}

int main(int argc, char **argv) {
    make_file("in", 100000);
    if (argc > 1) {
        for (int i = 1; i < argc; i++) cancel_stream(argv[i]);
        log_out();
        return 0;
    }
    int out = open("out", O_RDWR | O_CREAT | O_TRUNC, 0644), in = open("in", O_RDONLY);
    cancel("write", writes, &out);
    cancel("read", reads, &in);
    cancel("pread", reads_at, &in);
    cancel("read, put off", puts_off, &in);
    cancel("write again", writes, &out);
    cancel("raw write", writes_raw, &out);
    close(out), unlink("out");
    log_out();
    return 0;
}
