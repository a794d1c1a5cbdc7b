/* Writes records in small pieces, is quiet for some seconds, and writes again. While it is quiet it makes
 * no call that anybody but the kernel sees, or none at all.
 * Usage: quiet computes | condition | semaphore | mutex | futex | barrier | stopped FILE MODE
 * MODE: write, append, or rewrite (in the middle of an old file) */
#include "log.h"
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define SECONDS 4

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void records(int fd, int from, int to) {
    char record[64];
    for (int i = from; i < to; i++) {
        int len = snprintf(record, sizeof record, "record %d\n", i);
        if (write(fd, record, (size_t)len) != len) say("short write\n");
        /* The guard gets its turn. */
        if (i % 100 == 50 && i < 1000) usleep(2000);
    }
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;

static void *come_late(void *way) {
    double end = now() + SECONDS;
    if (!strcmp(way, "mutex")) pthread_mutex_lock(&mutex);
    pthread_barrier_wait(&barrier);
    while (now() < end) {}
    if (!strcmp(way, "mutex")) pthread_mutex_unlock(&mutex);
    else pthread_barrier_wait(&barrier);
    return NULL;
}

/* Another thread does nothing that could be seen either, and lets this one go on in the end. */
static void wait_for_a_thread(char *way) {
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, come_late, way);
    pthread_barrier_wait(&barrier);
    if (!strcmp(way, "mutex")) pthread_mutex_lock(&mutex);
    else pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
}

static void be_quiet(char *way) {
    struct timespec until, whole = {SECONDS, 0};
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += SECONDS;
    if (!strcmp(way, "computes")) {
        double end = now() + SECONDS;
        while (now() < end) {}
    } else if (!strcmp(way, "condition")) {
        pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
        pthread_mutex_lock(&mutex);
        while (!pthread_cond_timedwait(&condition, &mutex, &until)) {}
        pthread_mutex_unlock(&mutex);
    } else if (!strcmp(way, "semaphore")) {
        sem_t semaphore;
        sem_init(&semaphore, 0, 0);
        while (sem_timedwait(&semaphore, &until) && errno == EINTR) {}
    } else if (!strcmp(way, "futex")) {
        int word = 0;
        syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &whole, NULL, 0);
    } else if (!strcmp(way, "stopped")) {
        raise(SIGSTOP);
    } else {
        wait_for_a_thread(way);
    }
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    int appends = !strcmp(argv[3], "append"), rewrites = !strcmp(argv[3], "rewrite");
    int fd = open(argv[2], O_RDWR | O_CREAT | (appends ? O_APPEND : 0), 0644);
    if (rewrites) lseek(fd, 1000, SEEK_SET);
    records(fd, 0, 3000);
    be_quiet(argv[1]);
    records(fd, 3000, 3500);
    say("at %ld\n", (long)lseek(fd, 0, SEEK_CUR));
    close(fd);
    log_out();
    return 0;
}
