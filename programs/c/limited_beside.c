/* A process sets a limit on the size of files while its threads write, the last of which has just begun: what they were
 * told is written is in their files. Each way to set it has a process of its own. */
#include "log.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ulimit.h>

/* About as many writes let a file wait: the limit comes beside that. */
enum { WRITERS = 3, LATE = 2, BEGINS = 64, BYTES = 16, LIMIT = 4096, TIMES = 6 };

static char record[BYTES];
static volatile long written[WRITERS];
static int appends;

static void *writes(void *argument) {
    int which = *(int *)argument;
    char name[] = {'l', (char)('0' + which), 0};
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | (appends ? O_APPEND : 0), 0644);
    for (int i = 0; i < 3000000 && write(fd, record, BYTES) == BYTES; i++) {
        written[which] = i + 1;
        if (i > 65 && i < 200) give_time(fd);
    }
    struct stat status;
    if (stat(name, &status) || status.st_size != written[which] * BYTES || close(fd)) _exit(4);
    return NULL;
}

static void limits(const char *way, int time) {
    static int numbers[WRITERS] = {0, 1, 2};
    struct rlimit limit = {LIMIT, RLIM_INFINITY};
    pthread_t threads[WRITERS];
    appends = !strcmp(way, "prlimit, appends");
    signal(SIGXFSZ, SIG_IGN);
    for (int which = 0; which < WRITERS; which++) {
        if (which == LATE)
            while (written[0] < 5000) sched_yield();
        if (pthread_create(&threads[which], NULL, writes, &numbers[which])) _exit(9);
    }
    while (written[LATE] < BEGINS - 8 * (TIMES - time));
    if (!strcmp(way, "setrlimit")) setrlimit(RLIMIT_FSIZE, &limit);
    if (!strncmp(way, "prlimit", 7)) prlimit(0, RLIMIT_FSIZE, &limit, NULL);
    if (!strcmp(way, "ulimit")) ulimit(UL_SETFSIZE, LIMIT / 512L);
    if (!strcmp(way, "syscall")) syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, &limit, NULL);
    for (int which = 0; which < WRITERS; which++) pthread_join(threads[which], NULL);
    exit(0);
}

int main(void) {
    static const char *const ways[] = {"setrlimit", "prlimit", "prlimit, appends", "ulimit", "syscall"};
    for (unsigned way = 0; way < sizeof ways / sizeof *ways; way++) {
        int bad = 0;
        for (int time = 0; time < TIMES; time++) {
            int status;
            pid_t child = fork();
            if (child == 0) limits(ways[way], time);
            bad += waitpid(child, &status, 0) != child || status != 0;
        }
        say("%s: %d of %d wrong\n", ways[way], bad, TIMES);
    }
    for (int which = 0; which < WRITERS; which++) unlink((char[]){'l', (char)('0' + which), 0});
    log_out();
    return 0;
}
