/* A program with threads asks a queue to tell it of messages. The kernel forgets that as soon as any
 * thread of it closes a descriptor of the queue, whatever table that is in: nothing that the program does
 * with other files may have that effect. First by the function, then by a call of its own.
 *
 * Each file is large enough that its calls are worth a buffer. */
#include "log.h"
#include "raw.h"
#include <mqueue.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;
enum { RECORD = 32, RECORDS = 40000 };

static const struct sigevent silent = {.sigev_notify = SIGEV_NONE};
static mqd_t queue;

static void still(const char *after) {
    int answer = mq_notify(queue, &silent);
    say("after %s: %s\n", after, answer != 0 && errno == EBUSY ? "asked for" : "forgotten");
}

static void *nothing(void *argument) { return argument; }

static void use(const char *name) {
    char record[RECORD];
    memset(record, 'q', RECORD);
    int fd = open(name, O_CREAT | O_TRUNC | O_RDWR, 0644);
    still("an open");
    for (int i = 0; i < RECORDS; i++) write(fd, record, RECORD);
    still("writes");
    lseek(fd, 0, SEEK_SET);
    long sum = 0;
    for (int i = 0; i < RECORDS && read(fd, record, RECORD) == RECORD; i++) sum += record[i % RECORD];
    say("%s: %ld\n", name, sum), still("reads");
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    fcntl(fd, F_SETLK, &lock), still("a lock");
    char *arguments[] = {"true", NULL};
    pid_t process;
    int status = 1;
    posix_spawnp(&process, "true", NULL, NULL, arguments, environ);
    waitpid(process, &status, 0), say("true: %d\n", status), still("a spawn");
    status = system("exit 3"), say("system: %d\n", WEXITSTATUS(status)), still("system");
    process = fork();
    if (process == 0) {
        write(fd, "child", 5);
        _exit(0);
    }
    waitpid(process, &status, 0), still("a fork");
    close(fd), still("a close");
}

int main(void) {
    char name[40];
    snprintf(name, sizeof name, "/queue-%d", (int)getpid());
    pthread_t thread;
    pthread_create(&thread, NULL, nothing, NULL), pthread_join(thread, NULL);
    for (int by_call = 0; by_call < 2; by_call++) {
        queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, NULL);
        mq_unlink(name);
        if (queue < 0) say("no queue: %d\n", errno);
        if (by_call) syscall(SYS_mq_notify, queue, &silent); else mq_notify(queue, &silent);
        use(by_call ? "second" : "first"), use(by_call ? "second" : "first");
        mq_close(queue);
    }
    log_out();
    return 0;
}
