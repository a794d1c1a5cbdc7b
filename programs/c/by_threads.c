/* A process is meant by the number of any of its threads: it is stopped, looked into, limited by that number, and
 * a descriptor of it is fetched. What it wrote before is there, and its next writes meet the limit. */
#include "log.h"
#include "newer.h"
#include "raw.h"
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { RECORD = 10, RECORDS = 600, LATE = 50, BYTES = RECORD * (RECORDS + LATE) };

static int ready[2], go_on[2];
static char word[8] = "old";

static void tell(const int pipe[2], const void *what, size_t length) {
    raw(SYS_write, pipe[1], (long)what, (long)length, 0);
}

static void wait_for(const int pipe[2], void *what, size_t length) {
    raw(SYS_read, pipe[0], (long)what, (long)length, 0);
}

struct told {
    pid_t thread;
    int fd;
};

/* Its last records wait until it is told to go on. */
static void *writes(void *unused) {
    (void)unused;
    char byte;
    long wrong = 0;
    struct told told = {(pid_t)syscall(SYS_gettid), open("data", O_RDWR | O_CREAT | O_TRUNC, 0644)};
    for (int i = 0; i < RECORDS + LATE; i++) {
        write(told.fd, "0123456789", RECORD);
        if (i > 60 && i < 400) give_time(told.fd);
    }
    memcpy(word, "new", 4);
    tell(ready, &told, sizeof told), wait_for(go_on, &byte, 1);
    for (int i = 0; i < LATE; i++) wrong += write(told.fd, "afterwards", RECORD) != RECORD;
    _exit((int)wrong);
}

static struct told begin(pid_t *process) {
    *process = fork();
    if (*process == 0) {
        pthread_t thread;
        signal(SIGXFSZ, SIG_IGN);
        pthread_create(&thread, NULL, writes, NULL), pthread_join(thread, NULL);
    }
    struct told told = {0};
    wait_for(ready, &told, sizeof told);
    return told;
}

static void over(pid_t process) {
    int status = -1;
    tell(go_on, "x", 1), waitpid(process, &status, 0);
    say("status %x, ", status), say_file("data");
}

/* The size, asked for where no library sees it. */
static long size_now(void) {
    struct stat found = {0};
    return raw(SYS_newfstatat, AT_FDCWD, (long)"data", (long)&found, 0) < 0 ? -1 : (long)found.st_size;
}

static void stop(pid_t process, struct told told) {
    int answer = kill(told.thread, SIGSTOP);
    say("stop %d, %ld bytes; ", answer, size_now());
    kill(process, SIGCONT);
}

static void look(struct told told) {
    char seen[4] = "";
    struct iovec to = {seen, 4}, from = {word, 4};
    ssize_t got = process_vm_readv(told.thread, &to, 1, &from, 1, 0);
    /* The system may not let us. */
    say("look %zd %.3s, %ld bytes; ", got, seen, got < 0 ? BYTES : size_now());
}

static void fetch(pid_t process, struct told told) {
    /* Older kernels have none for a thread. */
    int by = (int)syscall(SYS_pidfd_open, told.thread, O_EXCL);
    if (by < 0) by = (int)syscall(SYS_pidfd_open, process, 0);
    int fd = (int)syscall(SYS_pidfd_getfd, by, told.fd, 0);
    say("fetch %d at %ld, %ld bytes; ", fd >= 0, fd < 0 ? 0 : kernel_position(fd), fd < 0 ? BYTES : size_now());
    close(fd), close(by);
}

static void limit(struct told told) {
    struct rlimit most = {BYTES + RECORD * 20, RLIM_INFINITY};
    say("limit %d; ", prlimit(told.thread, RLIMIT_FSIZE, &most, NULL));
}

int main(void) {
    if (pipe(ready) || pipe(go_on)) return 2;
    for (int way = 0; way < 4; way++) {
        pid_t process;
        struct told told = begin(&process);
        if (way == 0) stop(process, told);
        if (way == 1) look(told);
        if (way == 2) fetch(process, told);
        if (way == 3) limit(told);
        over(process);
    }
    log_out();
    return 0;
}
