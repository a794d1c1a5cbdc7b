/* Who watches a file sees it opened and closed by the program that writes it, and by nobody else, however
 * long that computes in between. */
#include "log.h"
#include "raw.h"
#include <spawn.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;
enum { RECORD = 100, RECORDS = 1000 };

/* Computes, without a call, for longer than anything may wait. */
static void compute(void) {
    struct timespec from, now;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((double)(now.tv_sec - from.tv_sec) + (double)(now.tv_nsec - from.tv_nsec) / 1e9 < 1.8);
}

static int child(void) {
    char record[RECORD];
    memset(record, 'x', RECORD);
    int fds[] = {open("watched/at", O_CREAT | O_WRONLY, 0644),
                 open("watched/end", O_CREAT | O_WRONLY | O_APPEND, 0644)};
    /* Another number, of which the first one is closed. */
    int second = dup(fds[0]);
    close(fds[0]), fds[0] = second;
    for (int i = 0; i < RECORDS; i++)
        for (int k = 0; k < 2; k++) {
            write(fds[k], record, RECORD);
            if (i < 500 && i % 100 == 70) usleep(15000);
        }
    compute();
    for (int k = 0; k < 2; k++) write(fds[k], record, RECORD);
    return 0;
}

/* Whether only who traces a process may look at it so closely (Yama): then the guard may not. */
static int is_guarded_by_yama(void) {
    char scope = '0';
    int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY);
    if (fd >= 0) read(fd, &scope, 1), close(fd);
    return scope != '0' && geteuid() != 0;
}

int main(int count, char **arguments) {
    (void)arguments;
    if (count > 1) return child();
    static char program[4096], buffer[1 << 16] __attribute__((aligned(8)));
    readlink("/proc/self/exe", program, sizeof program - 1);
    mkdir("watched", 0755);
    int watch = inotify_init1(IN_NONBLOCK), counts[3] = {0};
    inotify_add_watch(watch, "watched", IN_OPEN | IN_CLOSE_WRITE | IN_CLOSE_NOWRITE);
    char *words[] = {program, "child", NULL};
    pid_t process;
    posix_spawn(&process, program, NULL, NULL, words, environ);
    waitpid(process, NULL, 0);
    long n = read(watch, buffer, sizeof buffer);
    for (long at = 0; at < n;) {
        struct inotify_event *event = (struct inotify_event *)(buffer + at);
        counts[0] += (event->mask & IN_OPEN) != 0, counts[1] += (event->mask & IN_CLOSE_WRITE) != 0;
        counts[2] += (event->mask & IN_CLOSE_NOWRITE) != 0;
        at += (long)sizeof *event + event->len;
    }
    if (is_guarded_by_yama()) say("others may not look\n");
    else say("opened %d, closed %d and %d times\n", counts[0], counts[1], counts[2]);
    log_out();
    return 0;
}
