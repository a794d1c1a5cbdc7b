/* Descriptor tables that are not one a process: a thread with its own copy, a child that shares
 * the parent's; the same number then means different files. */
#include "log.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int fd;
static void *apart(void *argument) {
    (void)argument;
    if (unshare(CLONE_FILES)) return (void *)1;
    close(fd);
    int mine = open("of the thread", O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < 1000; i++) write(mine, "thread;", 7);
    return (void *)(long)(mine == fd ? 0 : 2);
}

static char stack[65536];
static int child_shares(void *argument) {
    (void)argument;
    /* Same memory, same descriptors: closing here closes there. */
    for (int i = 0; i < 300; i++) write(fd, "child;", 6);
    int other = open("of the child", O_RDWR | O_CREAT | O_TRUNC, 0644);
    dup2(other, 77);
    for (int i = 0; i < 300; i++) write(other, "other;", 6);
    close(other);
    return 0;
}
static int child_files(void *argument) {
    /* Memory of its own, descriptors shared. */
    (void)argument;
    for (int i = 0; i < 300; i++) write(fd, "files;", 6);
    close(78);
    int other = open("second", O_RDWR | O_CREAT | O_TRUNC, 0644);
    dup2(other, 78);
    close(other);
    for (int i = 0; i < 300; i++) write(78, "78;", 3);
    syscall(SYS_exit_group, 0);
    return 0;
}

int main(void) {
    pthread_t thread;
    void *result;
    int status;
    fd = open("of the process", O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < 1000; i++) write(fd, "process;", 8);
    pthread_create(&thread, NULL, apart, NULL);
    pthread_join(thread, &result);
    say("thread %ld\n", (long)result);
    for (int i = 0; i < 1000; i++) write(fd, "process;", 8);
    say_file("of the process");
    say_file("of the thread");

    pid_t child = clone(child_shares, stack + sizeof stack, CLONE_VM | CLONE_FILES | CLONE_VFORK | SIGCHLD, NULL);
    say("clone %d", waitpid(child, &status, 0) == child);
    say(" %x at %ld %ld\n", status, (long)lseek(fd, 0, SEEK_CUR), (long)lseek(77, 0, SEEK_CUR));
    for (int i = 0; i < 300; i++) write(77, "parent;", 7);
    dup2(fd, 78);
    for (int i = 0; i < 300; i++) write(78, "before;", 7);
    child = clone(child_files, stack + sizeof stack, CLONE_FILES | SIGCHLD, NULL);
    say("clone %d", waitpid(child, &status, 0) == child);
    say(" %x at %ld %ld\n", status, (long)lseek(fd, 0, SEEK_CUR), (long)lseek(78, 0, SEEK_CUR));
    for (int i = 0; i < 300; i++) write(78, "after;", 6);
    for (int i = 0; i < 300; i++) write(fd, "last;", 5);
    close(77);
    close(78);
    close(fd);
    say_file("of the process");
    say_file("of the child");
    say_file("second");
    log_out();
    return 0;
}
