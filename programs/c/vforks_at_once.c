/* More threads than one would think wait in a vfork at the same time: the child of each goes on only when all
 * are there. Before and after it each thread writes to a file of its own. */
#include "log.h"
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

enum { THREADS = 200, RECORDS = 50 };

static volatile int waiting;
static int files[THREADS], statuses[THREADS];

static void write_records(int thread, const char *when) {
    for (int i = 0; i < RECORDS; i++) {
        char record[64];
        int length = snprintf(record, sizeof record, "thread %d, %s, record %d\n", thread, when, i);
        if (write(files[thread], record, (size_t)length) != length) statuses[thread] = -1;
    }
}

static void *start_one(void *argument) {
    int thread = (int)(long)argument;
    write_records(thread, "before");
    pid_t child = vfork();
    if (child == 0) {
        __sync_fetch_and_add(&waiting, 1);
        while (waiting < THREADS) sched_yield();
        _exit(thread % 100);
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (WEXITSTATUS(status) != thread % 100) statuses[thread] = -1;
    write_records(thread, "after");
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) {
        char name[32];
        snprintf(name, sizeof name, "thread-%ld", i);
        files[i] = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (files[i] < 0 || pthread_create(&threads[i], NULL, start_one, (void *)i)) return 1;
    }
    int wrong = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        wrong += statuses[i] != 0 || lseek(files[i], 0, SEEK_CUR) == 0;
    }
    printf("%d of %d threads saw anything wrong\n", wrong, THREADS);
    return 0;
}
