/* A program that writes its log for a long time, a line a call, and rests between the lines in the ways
 * that programs rest in: asleep, at a condition variable, with computing, not at all.
 * Usage: soak_log FILE SECONDS SEED
 * A line is its number, from 0, and the time of its writing: nanoseconds of the monotonic clock. */
#include "log.h"
#include <pthread.h>
#include <time.h>

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void sleep_ns(long ns) {
    struct timespec left = {ns / 1000000000L, ns % 1000000000L};
    while (nanosleep(&left, &left) && errno == EINTR) {}
}

static void wait_ns(long ns) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += (end.tv_nsec + ns) / 1000000000L;
    end.tv_nsec = (end.tv_nsec + ns) % 1000000000L;
    pthread_mutex_lock(&mutex);
    pthread_cond_timedwait(&never, &mutex, &end);
    pthread_mutex_unlock(&mutex);
}

static void compute_ns(long ns) {
    for (long end = now_ns() + ns; now_ns() < end;)
        for (volatile int i = 0; i < 100000; i++) {}
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    int fd = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd < 0) return 1;
    random_state += strtoul(argv[3], NULL, 10) * 7919;
    long end = now_ns() + atol(argv[2]) * 1000000000L, number = 0;
    while (now_ns() < end) {
        for (long left = 1 + random_below(400); left > 0; left--) {
            char line[64];
            int length = snprintf(line, sizeof line, "%ld %ld\n", number, now_ns());
            if (write(fd, line, (size_t)length) != length) return 1;
            number++;
        }
        long rest = random_below(random_below(20) ? 50000000 : 4000000000);
        switch (random_below(4)) {
        case 0: sleep_ns(rest); break;
        case 1: wait_ns(rest); break;
        case 2: compute_ns(rest); break;
        default: break;
        }
    }
    say("%ld\n", number);
    log_out();
    return close(fd);
}
