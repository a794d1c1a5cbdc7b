/* Who watches a file from outside: inotify, leases, exec of what was just written, mandatory order
 * of close. None may see a helper's descriptor, and none may see a close too early. */
#include "log.h"
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

static int watch;

/* All events since the last time. Modifications are not asked for: then no write would wait. */
static void events(const char *when) {
    char buffer[8192] __attribute__((aligned(8)));
    say("%s:", when);
    struct pollfd ready = {watch, POLLIN, 0};
    while (poll(&ready, 1, 0) == 1) {
        long n = read(watch, buffer, sizeof buffer);
        for (long at = 0; at < n;) {
            struct inotify_event *event = (struct inotify_event *)(buffer + at);
            if (event->mask != IN_ACCESS)
                say(" %x %s", event->mask, event->len ? event->name : "-");
            at += (long)sizeof *event + event->len;
        }
    }
    say("\n");
}

static int written(const char *name, int flags, const char *text) {
    int fd = open(name, flags | O_CREAT, 0755);
    for (const char *at = text; *at; at++)
        if (write(fd, at, 1) != 1) say("short\n");
    return fd;
}

static int run(const char *name) {
    pid_t child = fork();
    if (child == 0) {
        execl(name, name, NULL);
        _exit(100 + errno);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -status;
}

static char script[6000];

int main(void) {
    mkdir("watched", 0755);
    watch = inotify_init1(IN_NONBLOCK);
    inotify_add_watch(watch, "watched", IN_ALL_EVENTS & ~(unsigned)IN_MODIFY);
    for (int i = 0; i < 3; i++) {
        int fd = written("watched/a", O_RDWR, "some small writes of one byte each, and then some more; "
                         "some small writes of one byte each, and then some more; some small writes of one byte each, and "
                         "then some more; some small writes of one byte each, and then some more; some small writes of one ");
        for (int k = 0; k < 500; k++) write(fd, "more ", 5);
        events("written");
        close(fd);
        events("closed");
        fd = open("watched/a", O_RDONLY);
        char byte;
        for (int k = 0; k < 500; k++)
            if (read(fd, &byte, 1) != 1) break;
        events("read");
        close(fd);
        events("closed");
        fd = open("watched/a", O_WRONLY | O_APPEND);
        for (int k = 0; k < 500; k++) write(fd, "appended ", 9);
        rename("watched/a", "watched/b");
        close(fd);
        unlink("watched/b");
        events("gone");
    }
    close(watch);

    /* A program that was written byte by byte: runs once it is closed, is busy before. */
    strcpy(script, "#!/bin/sh\n");
    for (int i = 0; i < 100; i++) strcat(script, "# a line that makes the script longer\n");
    strcat(script, "exit 42\n");
    int fd = written("script", O_WRONLY, script);
    say("open: %d ", run("./script"));
    close(fd);
    say("closed: %d\n", run("./script"));
    int in = open("/bin/true", O_RDONLY), out = open("true", O_WRONLY | O_CREAT | O_TRUNC, 0755);
    char part[100];
    long n;
    while ((n = read(in, part, sizeof part)) > 0) write(out, part, (size_t)n);
    say("open: %d ", run("./true"));
    close(out);
    say("closed: %d\n", run("./true"));
    for (int i = 0; i < 30; i++) {
        out = open("true", O_RDWR);
        for (int k = 0; k < 200; k++) {
            if (read(out, part, 50) != 50) break;
            lseek(out, -50, SEEK_CUR);
            if (write(out, part, 50) != 50) break;
        }
        int busy = run("./true");
        close(out);
        int runs = run("./true");
        if (busy != 126 || runs != 0) say("busy %d runs %d\n", busy, runs);
    }
    close(in);

    /* A write lease is given only to the one who has the file open alone. */
    fd = written("leased", O_RDWR, "leased ");
    for (int k = 0; k < 500; k++) write(fd, "leased ", 7);
    say("lease %d", fcntl(fd, F_SETLEASE, F_WRLCK));
    say(" is %d", fcntl(fd, F_GETLEASE));
    for (int k = 0; k < 500; k++) write(fd, "under lease ", 12);
    say(" undone %d\n", fcntl(fd, F_SETLEASE, F_UNLCK));
    close(fd);
    fd = open("leased", O_RDONLY);
    for (int k = 0; k < 500; k++)
        if (read(fd, part, 7) != 7) break;
    say("lease %d\n", fcntl(fd, F_SETLEASE, F_RDLCK));
    close(fd);

    /* A memory file that is sealed, as wayland and systemd do. */
    fd = memfd_create("sealed", MFD_ALLOW_SEALING);
    for (int k = 0; k < 500; k++) write(fd, "sealed ", 7);
    say("seal %d", fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW));
    errno = 0;
    n = write(fd, "more", 4);
    say(" write %ld errno %d", n, errno);
    say(" seals %d", fcntl(fd, F_GET_SEALS));
    say(" size %ld\n", (long)lseek(fd, 0, SEEK_END));
    log_out();
    return 0;
}
