/* A function that a fork calls in the child (pthread_atfork) opens and closes files, while another thread of the parent
 * writes small ones: the child, which has the parent's memory and none of its other threads, goes on. */
#include "log.h"
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

enum { FORKS = 400, RECORDS = 140, LATE_MS = 5000 };

static int kept;
static int opens;
static volatile int stop;

static void in_child(void) {
    char bytes[64];
    close(kept);
    int fd = opens ? open("read", O_RDONLY) : -1;
    for (int i = 0; fd >= 0 && i < 200; i++)
        if (read(fd, bytes, sizeof bytes) != sizeof bytes) _exit(9);
    if (fd >= 0) close(fd);
}

static void *writes(void *nothing) {
    while (!stop) {
        int fd = open("written", O_WRONLY | O_CREAT | O_TRUNC, 0644);
        for (int i = 0; i < RECORDS; i++)
            if (write(fd, "0123456789abcde\n", 16) != 16) _exit(9);
        close(fd);
    }
    return nothing;
}

/* Whether the child ended with 7 in time. */
static int ends(pid_t child) {
    int status = 0;
    for (int i = 0; i < LATE_MS; i++) {
        if (waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) && WEXITSTATUS(status) == 7;
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    return 0;
}

int main(void) {
    static char page[4096];
    pthread_t thread;
    int fd = open("read", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < 4; i++)
        if (write(fd, page, sizeof page) != sizeof page) return 1;
    close(fd);
    kept = open("kept", O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (pthread_atfork(NULL, NULL, in_child) || pthread_create(&thread, NULL, writes, NULL)) return 1;
    for (int i = 0; i < FORKS; i++) {
        opens = i % 2;
        nanosleep(&(struct timespec){0, 300000}, NULL);
        pid_t child = fork();
        if (child == 0) _exit(7);
        if (!ends(child)) {
            say("fork %d: its child does not end\n", i);
            kill(child, SIGKILL);
            break;
        }
    }
    stop = 1;
    pthread_join(thread, NULL);
    say("forks: %d\n", FORKS);
    unlink("written");
    log_out();
    return 0;
}
