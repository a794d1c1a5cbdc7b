/* What a timer sends with its signal comes with it, also where the user may have no more signals that wait, and while
 * a handler is put off that would begin in the middle of a write.
 *
 *   THREADS  so many threads write besides the first one, or it alone */
#include "log.h"
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

enum { RECORD = 16, VALUE = 42, SECONDS_TENTHS = 4, FILE_RECORDS = 100000 };
static volatile long heard, wrong;

static void on_signal(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    heard++;
    wrong += info->si_code != SI_TIMER || info->si_value.sival_int != VALUE;
}

static long tenths(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 10 + now.tv_nsec / 100000000;
}

static void *writes(void *name) {
    int out = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    long until = tenths() + SECONDS_TENTHS, records = 0, failed = 0;
    while (records % 100 || tenths() < until) {
        if (records % FILE_RECORDS == 0) ftruncate(out, 0), lseek(out, 0, SEEK_SET);
        failed += write(out, "0123456789abcdef", RECORD) != RECORD;
        if (++records % FILE_RECORDS < 200) give_time(out);
    }
    if (failed) say("%ld failed\n", failed);
    ftruncate(out, 0), close(out);
    return NULL;
}

int main(int count, char **arguments) {
    static char *names[] = {"one", "two", "three"};
    int threads = count > 1 ? atoi(arguments[1]) : 0;
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value = {.sival_int = VALUE}};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer)) return 1;
    struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_SIGPENDING, &none)) return 2;
    struct itimerspec often = {{0, 50000}, {0, 50000}}, never = {{0, 0}, {0, 0}};
    timer_settime(timer, 0, &often, NULL);
    pthread_t made[3];
    for (int i = 0; i < threads; i++) pthread_create(&made[i], NULL, writes, names[i]);
    if (!threads) writes(names[0]);
    for (int i = 0; i < threads; i++) pthread_join(made[i], NULL);
    timer_settime(timer, 0, &never, NULL);
    say("%s signals, %ld without what came with them\n", heard > 50 ? "many" : "few", wrong);
    log_out();
    return 0;
}
