/* The moment at which the calls of streams begin to be seen, in a program whose other thread is using
 * streams; and where memory may not be made executable, or what was writable not executable.
 * Usage: streams_taken confined | streams_taken threads */
#include "log.h"
#include <pthread.h>
#include <sys/prctl.h>
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

/* Each of the functions that libc calls through its tables, for the first time. */
static long every_call(const char *name) {
    char bytes[50];
    long total = 0;
    FILE *stream = fopen(name, "r+");
    setvbuf(stream, NULL, _IONBF, 0);
    total += (long)fread(bytes, 1, sizeof bytes, stream);
    fseek(stream, 200, SEEK_SET);
    total += (long)fwrite(bytes, 1, sizeof bytes, stream);
    fseek(stream, 0, SEEK_END);
    total += ftell(stream);
    return total + fclose(stream);
}

static void *other(void *name) {
    started = 1;
    long total = 0;
    for (int i = 0; i < 20; i++) total += every_call(name);
    return (void *)total;
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
    if (!strcmp(argv[1], "confined")) {
        /* Where the kernel does not know it (before 6.3) nothing is refused. */
        prctl(PR_SET_MDWE, 1, 0, 0, 0);
        long read = 0;
        for (int i = 0; i < 40; i++) read += records("a");
        say("%ld %ld\n", read, every_call("b"));
        log_out();
        return 0;
    }
    /* No buffer opens in this process, so that each child begins anew. */
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        int status;
        if (child == 0) _exit(threads() == RECORDS * 50 + 20 * (100 + RECORDS * 60) ? 0 : 1);
        if (waitpid(child, &status, 0) != child || status) say("child %d: %x\n", i, status);
    }
    log_out();
    return 0;
}
