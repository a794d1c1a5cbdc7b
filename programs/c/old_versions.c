/* A program that was linked with an older C library gets the functions as they were then. */
#include "log.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

#if defined __GLIBC__ && defined __x86_64__
#define OLD(name, version) __asm__(".symver old_" #name "," #name "@GLIBC_" version)
int old_pthread_kill(pthread_t thread, int signal);
char *old_realpath(const char *path, char *whole);
int old_posix_spawn(pid_t *child, const char *path, const void *actions, const void *attributes, char *const *words,
                    char *const *environment);
int old_sched_getaffinity(pid_t process, cpu_set_t *processors);
int old_timer_create(clockid_t clock, struct sigevent *event, int *timer);
int old_timer_delete(int timer);
OLD(pthread_kill, "2.2.5");
OLD(realpath, "2.2.5");
OLD(posix_spawn, "2.2.5");
OLD(sched_getaffinity, "2.3.3");
OLD(timer_create, "2.2.5");
OLD(timer_delete, "2.2.5");

static void *ends(void *nothing) { return nothing; }

static void of_threads(void) {
    pthread_t thread;
    int answer = 0;
    if (pthread_create(&thread, NULL, ends, NULL)) return;
    for (int i = 0; i < 2000 && (answer = old_pthread_kill(thread, 0)) == 0; i++) usleep(1000);
    say("of a thread that has ended: %d\n", answer);
    pthread_join(thread, NULL);
}

static void of_paths(void) {
    errno = 0;
    char *whole = old_realpath(".", NULL);
    say("without room for a path: %s, %d\n", whole ? "there" : "none", errno);
}

static void of_processes(void) {
    char *const words[] = {"./script", NULL};
    pid_t child;
    int status = 0;
    int answer = old_posix_spawn(&child, "./script", NULL, NULL, words, words + 1);
    if (answer == 0) waitpid(child, &status, 0);
    say("a script that names no shell: %d, %d\n", answer, WEXITSTATUS(status));
    cpu_set_t processors;
    say("processors: %d\n", old_sched_getaffinity(0, &processors));
}

static void of_timers(void) {
    int timer[2] = {0, 12345};
    say("a timer: %d\n", old_timer_create(CLOCK_MONOTONIC, NULL, timer));
    say("beside it: %d, %d\n", timer[1], old_timer_delete(timer[0]));
}

static void ask(void) {
    of_threads();
    of_paths();
    of_processes();
    of_timers();
}
#else
static void ask(void) {}
#endif

int main(void) {
    int fd = open("script", O_WRONLY | O_CREAT | O_TRUNC, 0755);
    if (fd < 0 || write(fd, "exit 7\n", 7) != 7 || close(fd)) return 1;
    ask();
    log_out();
    return 0;
}
