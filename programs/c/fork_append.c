/* A signal handler that forks, maybe in the middle of a write that waits: the child maps memory of
 * its own and goes on with that write, which must not reach what it mapped. The parent does the same
 * with a program that cannot be started.
 * Usage: fork_append fork|exec SIGNALS */
#include "log.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { BYTES = 60000, MAPS = 40 };
/* As large as what a file's pending bytes may take, so that they would come to lie in its place. */
static const long sizes[] = {4096, 8192, 65536, 131072, 262144, 524288, 1048576, 2097152};
static char record[BYTES], *maps[MAPS];
static volatile int handled, is_child, wrong;
static long signals_max;

static long size_of(int map) { return sizes[map % 8]; }

static void map_all(void) {
    for (int i = 0; i < MAPS; i++) {
        maps[i] = mmap(NULL, size_of(i), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (maps[i] == MAP_FAILED) _exit(3);
    }
}

/* Whether nobody wrote into the maps. */
static int are_zero(void) {
    for (int i = 0; i < MAPS; i++)
        for (long at = 0; at < size_of(i); at++)
            if (maps[i][at]) return 0;
    return 1;
}

static void unmap_all(void) {
    for (int i = 0; i < MAPS; i++) munmap(maps[i], size_of(i));
}

static void forks_and_maps(int number) {
    (void)number;
    int saved = errno, status = 0;
    handled++;
    pid_t child = fork();
    if (child < 0) _exit(4);
    if (child == 0) {
        is_child = 1;
        setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
        map_all();
        errno = saved;
        return;
    }
    if (waitpid(child, &status, 0) != child || status) wrong++;
    errno = saved;
}

static void starts_nothing_and_maps(int number) {
    (void)number;
    int saved = errno;
    if (handled > 0 && maps[0]) return;
    handled++;
    execl("/nowhere/at/all", "nobody", NULL);
    map_all();
    errno = saved;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    int is_exec = !strcmp(argv[1], "exec");
    signals_max = atol(argv[2]);
    memset(record, 'r', BYTES);
    struct sigaction action = {.sa_handler = is_exec ? starts_nothing_and_maps : forks_and_maps,
                               .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    while (handled < signals_max) {
        int fd = open("records", O_WRONLY | O_CREAT | O_TRUNC, 0644);
        for (int i = 0; i < 70; i++) {
            if (write(fd, record, 10) != 10) return 5;
            if (i % 20 == 0) give_time(fd);
        }
        int before = handled;
        long us = 20 + random_below(200);
        setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, us}}, NULL);
        for (long i = 0; handled == before; i++) {
            if (write(fd, record, BYTES) != BYTES) return 6;
            if (i % 16 == 15 && lseek(fd, 700, SEEK_SET) != 700) return 7;
            /* What the child was forked to go on with is done. */
            if (is_child) _exit(are_zero() ? 0 : 1);
        }
        /* A signal after that look, before the loop's own, comes here. */
        if (is_child) _exit(are_zero() ? 0 : 1);
        if (is_exec) {
            if (!are_zero()) wrong++;
            unmap_all();
            maps[0] = NULL;
        }
        close(fd);
    }
    unlink("records");
    say("wrong %d\n", wrong);
    log_out();
    return 0;
}
