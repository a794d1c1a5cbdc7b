/* Threads that open, write, read and close files of their own while another thread starts children:
 * numbers of descriptors are used again all the time. Usage: threads_spawn CHILDREN */
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "log.h"

enum { THREADS = 4, RECORDS = 500, BYTES = 100 };
static atomic_int stop;
static atomic_long wrong;
extern char **environ;

static void *worker(void *argument) {
    char name[32], bytes[BYTES];
    for (int round = 0; !stop; round++) {
        snprintf(name, sizeof name, "own-%ld-%d", (long)argument, round % 3);
        int flags = O_RDWR | O_CREAT | O_TRUNC | (round % 2 ? O_CLOEXEC : 0);
        int fd = open(name, flags, 0644);
        for (int i = 0; i < RECORDS; i++) {
            memset(bytes, 'a' + i % 26, BYTES);
            if (write(fd, bytes, BYTES) != BYTES) wrong++;
        }
        if (lseek(fd, 0, SEEK_SET) != 0) wrong++;
        for (int i = 0; i < RECORDS; i++)
            if (read(fd, bytes, BYTES) != BYTES || bytes[0] != 'a' + i % 26) wrong++;
        struct stat data;
        if (fstat(fd, &data) || data.st_size != RECORDS * BYTES) wrong++;
        close(fd);
        if (stat(name, &data) || data.st_size != RECORDS * BYTES) wrong++;
    }
    return NULL;
}

int main(int argc, char **argv) {
    int children = argc > 1 ? atoi(argv[1]) : 10;
    pthread_t all[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&all[i], NULL, worker, (void *)i);
    for (int i = 0; i < children; i++) {
        char *arguments[] = {"true", NULL};
        pid_t child;
        int status;
        if (posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ) != 0) return 1;
        if (waitpid(child, &status, 0) != child || status != 0) wrong++;
        usleep(2000);
    }
    stop = 1;
    for (int i = 0; i < THREADS; i++) pthread_join(all[i], NULL);
    for (int i = 0; i < THREADS; i++)
        for (int round = 0; round < 3; round++) {
            char name[32];
            snprintf(name, sizeof name, "own-%d-%d", i, round);
            unlink(name);
        }
    say("wrong %ld\n", (long)wrong);
    log_out();
    return 0;
}
