/* A collector stops all threads by a signal whose handler waits, writes to their files meanwhile, and lets them go on.
 * Says whether any of its writes had to wait for a thread that was stopped, and whether each record is in its file, in
 * order.
 * Usage: stops_world standard | queued */
#include "log.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

enum { THREADS = 4, RECORD_BYTES = 60, COLLECTOR = THREADS };
#define SECONDS 1.2
/* Far more than a busy machine takes, and less than a thread is waited for that has gone for good. */
#define LATE_SECONDS 0.8

static int files[THREADS];
static int stop_signal, start_signal;
static int stopped, ended;
static int world;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void stop(int signal) {
    (void)signal;
    int saved = errno;
    int of = __atomic_load_n(&world, __ATOMIC_SEQ_CST);
    sigset_t others;
    sigfillset(&others);
    sigdelset(&others, start_signal);
    __atomic_fetch_add(&stopped, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&world, __ATOMIC_SEQ_CST) == of) sigsuspend(&others);
    __atomic_fetch_add(&stopped, 1, __ATOMIC_SEQ_CST);
    errno = saved;
}

static void start(int signal) { (void)signal; }

static void record(int file, int by, long number) {
    char text[RECORD_BYTES];
    memset(text, ' ', sizeof text);
    text[0] = (char)('0' + by);
    for (int at = 12; at > 2; at--, number /= 10) text[at] = (char)('0' + number % 10);
    text[RECORD_BYTES - 1] = '\n';
    if (write(files[file], text, RECORD_BYTES) != RECORD_BYTES) abort();
}

static void *work(void *index) {
    for (long number = 0; !__atomic_load_n(&ended, __ATOMIC_SEQ_CST); number++)
        record((int)(long)index, (int)(long)index, number);
    return NULL;
}

static void signal_all(pthread_t *threads, int signal) {
    __atomic_store_n(&stopped, 0, __ATOMIC_SEQ_CST);
    for (int i = 0; i < THREADS; i++) pthread_kill(threads[i], signal);
}

static void wait_for_all(void) {
    while (__atomic_load_n(&stopped, __ATOMIC_SEQ_CST) < THREADS) sched_yield();
}

/* Records that are lost, torn or in another order. */
static long wrong_in(const char *name, long of_collector) {
    char line[2 * RECORD_BYTES];
    long wrong = 0, next[THREADS + 1] = {0};
    FILE *file = fopen(name, "r");
    while (fgets(line, sizeof line, file)) {
        int by;
        long number;
        if (sscanf(line, "%d %ld", &by, &number) != 2 || by < 0 || by > THREADS || strlen(line) != RECORD_BYTES ||
            number != next[by]++)
            wrong++;
    }
    fclose(file);
    return wrong + labs(of_collector - next[COLLECTOR]);
}

int main(int count, char **arguments) {
    static const char *const names[THREADS] = {"a", "b", "c", "d"};
    int queued = count > 1 && !strcmp(arguments[1], "queued");
    stop_signal = queued ? SIGRTMIN + 1 : SIGUSR1;
    start_signal = queued ? SIGRTMIN + 2 : SIGUSR2;
    struct sigaction action = {.sa_handler = stop, .sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask);
    sigaction(stop_signal, &action, NULL);
    action.sa_handler = start;
    sigaction(start_signal, &action, NULL);
    for (int i = 0; i < THREADS; i++) files[i] = open(names[i], O_CREAT | O_TRUNC | O_WRONLY, 0666);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    long late = 0, number = 0;
    for (double end = now() + SECONDS; now() < end; number++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        double begun = now();
        signal_all(threads, stop_signal);
        wait_for_all();
        for (int i = 0; i < THREADS; i++) record(i, COLLECTOR, number);
        late += now() - begun > LATE_SECONDS;
        stopped = 0;
        __atomic_fetch_add(&world, 1, __ATOMIC_SEQ_CST);
        for (int i = 0; i < THREADS; i++) pthread_kill(threads[i], start_signal);
        wait_for_all();
    }
    __atomic_store_n(&ended, 1, __ATOMIC_SEQ_CST);
    long wrong = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        close(files[i]);
        wrong += wrong_in(names[i], number);
        unlink(names[i]);
    }
    say("late %ld, wrong %ld\n", late, wrong);
    log_out();
    return 0;
}
