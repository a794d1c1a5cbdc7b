/* One thread ends the process, or buffering, in the moment in which another one's bytes begin to wait. Nothing is lost,
 * so the process ends with 0. */
#include "log.h"
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum { BYTES = 100, TIMES = 60, MOMENTS = 30, MOMENT_NS = 1000 };
/* FIFREEZE, without a file system. */
#define FREEZE 0xc0045877

static char record[BYTES];
static volatile long begun, is_over;

static void *append(void *unused) {
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    for (long i = 0; !is_over; i++) {
        if (i > 65 && i < 200) give_time(fd);
        if (write(fd, record, BYTES) != BYTES) _exit(3);
        begun = i;
    }
    struct stat status;
    if (close(fd) || stat("file", &status) || status.st_size != (begun + 1) * BYTES) _exit(4);
    return unused;
}

static void spin(long ns) {
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do clock_gettime(CLOCK_MONOTONIC, &to);
    while ((to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec < ns);
}

static void end(const char *way, long after_ns) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, append, NULL)) _exit(9);
    while (begun < 2000);
    spin(after_ns);
    if (!strcmp(way, "exec")) execl("/bin/true", "true", (char *)NULL);
    if (!strcmp(way, "exit")) exit(0);
    if (!strcmp(way, "_exit")) _exit(0);
    ioctl(-1, FREEZE, 0);
    is_over = 1;
    pthread_join(thread, NULL);
    exit(0);
}

int main(void) {
    static const char *const ways[] = {"exec", "exit", "_exit", "a freeze"};
    for (unsigned way = 0; way < sizeof ways / sizeof *ways; way++) {
        int bad = 0;
        for (int time = 0; time < TIMES; time++) {
            int status;
            pid_t child = fork();
            if (child == 0) end(ways[way], time % MOMENTS * MOMENT_NS);
            if (waitpid(child, &status, 0) != child || status) bad++;
        }
        say("%s: %d of %d ended otherwise\n", ways[way], bad, TIMES);
    }
    unlink("file");
    log_out();
    return 0;
}
