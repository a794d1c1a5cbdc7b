/* The moment at which libc's entries are patched, in a program of other threads, and where memory
 * may not be made executable. Usage: patched refused | patched threads */
#include "log.h"
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define CHILDREN 400
#define RECORDS 100
#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif

static volatile int started;

/* Small reads: after some of them the file earns a window. */
static long records(const char *name) {
    char bytes[50];
    long total = 0;
    int fd = open(name, O_RDWR);
    for (int i = 0; i < RECORDS; i++) total += read(fd, bytes, sizeof bytes);
    return total + close(fd);
}

/* Each of the functions that are patched, for the first time. */
static long every_call(const char *name) {
    char bytes[50];
    struct iovec part = {bytes, sizeof bytes};
    long total = 0;
    int fd = open(name, O_RDWR);
    total += pread64(fd, bytes, sizeof bytes, 100);
    total += pwrite64(fd, bytes, sizeof bytes, 100);
    total += lseek64(fd, 200, SEEK_SET);
    total += readv(fd, &part, 1);
    total += lseek(fd, 200, SEEK_SET);
    total += writev(fd, &part, 1);
    total += write(fd, bytes, 0);
    return total + close(fd);
}

static void *other(void *name) {
    started = 1;
    return (void *)every_call(name);
}

static long threads(void) {
    pthread_t thread;
    void *answer = NULL;
    started = 0;
    if (pthread_create(&thread, NULL, other, "b")) return -1;
    while (!started) {}
    long total = records("a");
    pthread_join(thread, &answer);
    return total + (long)answer;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    make_file("a", RECORDS * 60);
    make_file("b", RECORDS * 60);
    if (!strcmp(argv[1], "refused")) {
        /* Where the kernel does not know it (before 6.3) nothing is refused. */
        prctl(PR_SET_MDWE, 1, 0, 0, 0);
        long read = records("a");
        say("%ld %ld\n", read, every_call("b"));
        log_out();
        return 0;
    }
    /* Nothing is patched in this process, so that each child begins anew. */
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        int status;
        if (child == 0) _exit(threads() == RECORDS * 50 + 600 ? 0 : 1);
        if (waitpid(child, &status, 0) != child || status) say("child %d: %x\n", i, status);
    }
    log_out();
    return 0;
}
