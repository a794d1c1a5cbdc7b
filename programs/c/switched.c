/* Coroutines between which the handler of a timer switches, in the middle of whatever they do; both append
 * to one file. Each record arrives whole, once.
 * Usage: switched RECORDS */
#include "log.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>

enum { STACK_BYTES = 1 << 20, BYTES = 48, RECORDS_MAX = 100000, FIRST = 500 };
static ucontext_t contexts[2], main_context;
static volatile sig_atomic_t current, ended, over;
static long records;
static volatile long written;
static struct itimerval often = {{0, 300}, {0, 300}};
static int fd;

static void switch_over(void) {
    int before = current;
    current = !before;
    swapcontext(&contexts[before], &contexts[!before]);
}
static void on_timer(int number) {
    static long before;
    (void)number;
    /* On a machine so slow that nothing is written between two switches, they come half as often. */
    if (written == before && often.it_interval.tv_usec < 100000) {
        often.it_interval.tv_usec *= 2;
        often.it_value = often.it_interval;
        setitimer(ITIMER_REAL, &often, NULL);
    }
    before = written;
    switch_over();
}
static void timer_is(int how) {
    sigset_t timer;
    sigemptyset(&timer);
    sigaddset(&timer, SIGALRM);
    sigprocmask(how, &timer, NULL);
}
/* It begins without the timer: setcontext sets the mask before it leaves the stack of another. */
static void coroutine(int me) {
    char record[BYTES + 1];
    timer_is(SIG_UNBLOCK);
    for (long i = 0; i < records; i++) {
        memset(record, 'a' + me, BYTES);
        snprintf(record, sizeof record, "%c %08ld", 'A' + me, i);
        record[10] = 'a' + (char)me;
        record[BYTES - 1] = '\n';
        if (write(fd, record, BYTES) != BYTES) say("short\n");
        written++;
    }
    timer_is(SIG_BLOCK);
    ended++;
    for (;;) {
        if (ended == 2) setcontext(&main_context);
        switch_over();
    }
}

int main(int argc, char **argv) {
    static char seen[2][RECORDS_MAX];
    char record[BYTES + 1] = "";
    records = argc > 1 ? atol(argv[1]) : 1000;
    if (records > RECORDS_MAX) return 96;
    fd = open("switched", O_CREAT | O_RDWR | O_TRUNC, 0644);
    memset(record, '-', BYTES);
    for (int i = 0; i < FIRST; i++) {
        write(fd, record, BYTES);
        /* The guard gets its turn. */
        if (i == 200 || i == 300) usleep(30000);
    }
    struct sigaction action = {.sa_handler = on_timer};
    sigaction(SIGALRM, &action, NULL);
    timer_is(SIG_BLOCK);
    char *stacks = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int me = 0; me < 2; me++) {
        getcontext(&contexts[me]);
        contexts[me].uc_stack.ss_sp = stacks + me * STACK_BYTES;
        contexts[me].uc_stack.ss_size = STACK_BYTES;
        makecontext(&contexts[me], (void (*)(void))coroutine, 1, me);
    }
    struct itimerval never = {{0, 0}, {0, 0}};
    getcontext(&main_context);
    if (!over) {
        over = 1;
        setitimer(ITIMER_REAL, &often, NULL);
        setcontext(&contexts[0]);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    long whole = 0, twice = 0, torn = 0;
    lseek(fd, FIRST * BYTES, SEEK_SET);
    while (read(fd, record, BYTES) == BYTES) {
        int me = record[0] - 'A';
        long i = atol(record + 2);
        int good = (me == 0 || me == 1) && i >= 0 && i < records && record[BYTES - 1] == '\n';
        for (int at = 10; good && at < BYTES - 1; at++) good = record[at] == 'a' + me;
        if (!good) torn++;
        else if (seen[me][i]++) twice++;
        else whole++;
    }
    say("%ld whole, %ld twice, %ld torn\n", whole, twice, torn);
    close(fd);
    unlink("switched");
    log_out();
    return 0;
}
