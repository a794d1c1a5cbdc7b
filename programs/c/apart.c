/* A child in a user namespace of its own shares no memory with its parent, which shares none with
 * anybody: nothing of it may be left to a child that is trusted less. */
#include "log.h"
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { RECORD = 100 };

static void records(int fd) {
    char record[RECORD];
    memset(record, 'x', RECORD);
    for (int i = 0; i < 400; i++) {
        write(fd, record, RECORD);
        if (i % 10 == 0) give_time(fd);
    }
}

/* Counts the shared mappings of this process that can be written. */
static int shared(void *argument) {
    static char maps[1 << 18];
    (void)argument;
    int fd = open("/proc/self/maps", O_RDONLY), count = 0;
    long length = 0, got;
    while ((got = read(fd, maps + length, sizeof maps - 1 - (size_t)length)) > 0) length += got;
    for (char *at = maps; (at = strstr(at, " rw-s ")); at++) count++;
    return count;
}

static int ended(pid_t process) {
    int status = -1;
    if (process > 0) waitpid(process, &status, 0);
    return status;
}

static void child(const char *how, pid_t process) {
    int status = ended(process);
    say("%s: %s, status %x\n", how, process > 0 ? "a child" : "none", status);
}

int main(void) {
    static char stack[1 << 16] __attribute__((aligned(16)));
    int fd = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    records(fd);
    child("clone", clone(shared, stack + sizeof stack, CLONE_NEWUSER | SIGCHLD, NULL));
    records(fd);
    pid_t process = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (process == 0) _exit(shared(NULL));
    child("by syscall", process);
    records(fd);
    /* One that got no processor for a while is no longer young when it reads, and then it may ask what waits. */
    int status = -1;
    for (int tries = 0; status != 0 && tries < 9; tries++) {
        process = fork();
        if (process == 0) _exit(shared(NULL));
        status = ended(process);
    }
    say("fork: status %x\n", status);
    close(fd);
    say_file("out");
    log_out();
    return 0;
}
