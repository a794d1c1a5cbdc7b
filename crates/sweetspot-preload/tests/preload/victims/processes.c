// New processes: what they share, and that every way of starting them still works.
#include "common.h"
#include <sched.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

extern char **environ;

static int child_reads(void *fd) {
    say_next("clone child", *(int *)fd);
    return 5;
}

// A child that shares the offset reads after its parent has gone on reading in small pieces.
static void later(const char *what, int flags) {
    int status = 0, gate[2], fd = open_warm("data", O_RDONLY | flags), twin = -1;
    pid_t child = -1;
    if (pipe2(gate, O_CLOEXEC)) _exit(97);
    char command[64] = "cat <&9; exec head -c 5";
    char *arguments[] = {"sh", "-c", command, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, gate[0], 9);
    if (!strcmp(what, "vfork and dup2")) {
        child = vfork();
        if (child == 0) {
            dup2(gate[0], 9);
            dup2(fd, 0);
            execv("/bin/sh", arguments);
            _exit(9);
        }
    } else if (!strcmp(what, "vfork and F_SETFD")) {
        snprintf(command, sizeof command, "cat <&9; exec head -c 5 <&%d", fd);
        child = vfork();
        if (child == 0) {
            dup2(gate[0], 9);
            fcntl(fd, F_SETFD, 0);
            execv("/bin/sh", arguments);
            _exit(9);
        }
    } else if (!strcmp(what, "file action")) {
        posix_spawn_file_actions_adddup2(&actions, fd, 0);
        posix_spawn(&child, "/bin/sh", &actions, NULL, arguments, environ);
    } else {
        // Inherited by number: the descriptor itself made inheritable, or a duplicate that is.
        twin = fd;
        if (!strcmp(what, "fcntl")) fcntl(fd, F_SETFD, 0);
        if (!strcmp(what, "ioctl")) ioctl(fd, FIONCLEX);
        if (!strcmp(what, "dup")) twin = dup(fd);
        read_small(fd, 100, 8000);
        lseek(fd, 8000, SEEK_SET);
        snprintf(command, sizeof command, "cat <&9; exec head -c 5 <&%d", twin);
        posix_spawn(&child, "/bin/sh", &actions, NULL, arguments, environ);
    }
    read_small(fd, 500, 8000);
    close(gate[1]);
    waitpid(child, &status, 0);
    say(" %s: status %d", what, status);
    say_next("then", fd);
    close(gate[0]);
    close(fd);
    if (twin >= 0) close(twin);
}

int main(void) {
    int status = 0, fd = open_warm("data", O_RDONLY);
    later("vfork and dup2", 0);
    later("vfork and dup2", O_CLOEXEC);
    later("vfork and F_SETFD", O_CLOEXEC);
    later("file action", O_CLOEXEC);
    later("inherited", 0);
    later("fcntl", O_CLOEXEC);
    later("ioctl", O_CLOEXEC);
    later("dup", O_CLOEXEC);
    pid_t child;

    // The child of a vfork, with what is closed at exec and with what is not.
    for (int flags = 0; flags <= O_CLOEXEC; flags += O_CLOEXEC) {
        close(fd);
        fd = open_warm("data", O_RDONLY | flags);
        child = vfork();
        if (child == 0) {
            dup2(fd, 0);
            execl("/usr/bin/head", "head", "-c", "3", (char *)NULL);
            _exit(9);
        }
        waitpid(child, &status, 0);
        say(" vfork flags %d status %d", flags, status);
        read_small(fd, 0, 0);
        say_next("after vfork", fd);
        // The parent goes on reading in small pieces; a later child must still find its offset.
        off_t at = lseek(fd, 0, SEEK_CUR);
        read_small(fd, 500, at);
        child = vfork();
        if (child == 0) {
            dup2(fd, 0);
            execle("/usr/bin/head", "head", "-c", "4", (char *)NULL, environ);
            _exit(9);
        }
        waitpid(child, &status, 0);
        say_next(" after second vfork", fd);
    }

    // A vfork child that ends without exec.
    child = vfork();
    if (child == 0) _exit(3);
    waitpid(child, &status, 0);
    say("vfork exit %d", WEXITSTATUS(status));

    // posix_spawn, with a duplicate of what is closed at exec.
    close(fd);
    fd = open_warm("data", O_RDONLY | O_CLOEXEC);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, 0);
    char *arguments[] = {"head", "-c", "5", NULL};
    int answer = posix_spawnp(&child, "head", &actions, NULL, arguments, environ);
    waitpid(child, &status, 0);
    say(" posix_spawnp %d", answer);
    say_next(" after posix_spawnp", fd);
    say("posix_spawn missing %d", posix_spawn(&child, "/no/such", NULL, NULL, arguments, environ));

    // Close-on-exec cleared afterwards; by fcntl, by ioctl in effect the same.
    close(fd);
    fd = open_warm("data", O_RDONLY | O_CLOEXEC);
    TRY(fcntl(fd, F_SETFD, 0));
    char command[64];
    snprintf(command, sizeof command, "head -c 6 <&%d", fd);
    say(" system %d", system(command));
    say_next("after system", fd);

    // A duplicate that survives, of one that does not.
    close(fd);
    fd = open_warm("data", O_RDONLY | O_CLOEXEC);
    int twin = dup(fd);
    snprintf(command, sizeof command, "head -c 6 <&%d", twin);
    say(" system %d", system(command));
    say_next("after system on the duplicate", fd);

    // popen.
    FILE *stream = popen("echo from popen", "r");
    char text[64] = {0};
    say("popen %s", fgets(text, sizeof text, stream));
    say("pclose %d", pclose(stream));

    // exec with many arguments, some on the stack; each spelling.
    for (int way = 0; way < 4; way++) {
        child = fork();
        if (child == 0) {
            if (way == 0) execl("/bin/echo", "echo", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", (char *)NULL);
            if (way == 1) execlp("echo", "echo", "1", "2", "3", "4", "5", "6", "7", "8", "9", "11", (char *)NULL);
            if (way == 2) {
                char *set[] = {"WHO=me", NULL};
                execle("/usr/bin/env", "env", (char *)NULL, set);
            }
            if (way == 3) execl("/no/such/program", "x", "1", "2", "3", "4", "5", "6", "7", (char *)NULL);
            _exit(errno);
        }
        waitpid(child, &status, 0);
        say("way %d status %d", way, status);
    }
    // A failed exec leaves everything as it was.
    close(fd);
    fd = open_warm("data", O_RDONLY);
    TRY(execl("/no/such/program", "x", "1", "2", "3", "4", "5", "6", "7", (char *)NULL));
    read_small(fd, 500, 8000);
    say_next("after a failed exec", fd);

    // fork: one offset for both.
    close(fd);
    fd = open_warm("data", O_RDONLY);
    child = fork();
    if (child == 0) {
        say_next("fork child", fd);
        _exit(0);
    }
    waitpid(child, &status, 0);
    say_next("fork parent", fd);

    // clone with a function, and the raw calls.
    close(fd);
    fd = open_warm("data", O_RDONLY);
    char *stack = malloc(65536);
    child = clone(child_reads, stack + 65536, SIGCHLD, &fd);
    waitpid(child, &status, 0);
    say("clone status %d", status);
    say_next("clone parent", fd);
    read_small(fd, 500, lseek(fd, 0, SEEK_CUR));
    child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        say_next("raw clone child", fd);
        _exit(0);
    }
    waitpid(child, &status, 0);
    say_next("raw clone parent", fd);
    return 0;
}
