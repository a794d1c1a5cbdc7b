/* Writes to descriptors that were open before it started: 1, and 2, which may be the same description.
 * What it has to say goes to 3.
 * Usage: outside both|child|flags|seek|numbers|plain [kill] */
#include "log.h"
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

static void put(int fd, int count, char who) {
    char line[80];
    for (int i = 0; i < count; i++) {
        int n = snprintf(line, sizeof line, "%c %d %.*s\n", who, i, i % 40, "0123456789012345678901234567890123456789");
        if (write(fd, line, (size_t)n) != n) say("write %d errno %d\n", fd, errno);
    }
}

static void look(void) {
    struct stat data;
    say("at %ld, ", (long)lseek(1, 0, SEEK_CUR));
    put(1, 3, 'l');
    say("size %ld, ", fstat(1, &data) ? -1 : (long)data.st_size);
    put(1, 3, 'm');
    say("end %ld\n", (long)lseek(1, 0, SEEK_END));
}

/* 1 and 2, in every order. */
static void both(void) {
    put(1, 200, 'a');
    put(2, 200, 'b');
    for (int i = 0; i < 300; i++) {
        put(1, i % 7, 'c');
        put(2, i % 3, 'd');
    }
    int copy = dup(1);
    put(copy, 30, 'e');
    put(1, 30, 'f');
    close(copy);
    dup2(2, 9);
    put(9, 100, 'g');
    put(1, 30, 'h');
    look();
}

/* Children that write to it, forked and spawned, before, while and after. */
static void child(void) {
    char *words[] = {"sh", "-c", "echo spawned; echo error >&2", NULL};
    extern char **environ;
    pid_t pid;
    put(1, 200, 'a');
    if ((pid = fork()) == 0) {
        put(1, 200, 'b');
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    put(1, 200, 'c');
    if (posix_spawnp(&pid, "sh", NULL, NULL, words, environ)) say("spawn\n");
    waitpid(pid, NULL, 0);
    put(1, 200, 'd');
    if (system("echo system")) say("system\n");
    put(1, 200, 'e');
    if ((pid = vfork()) == 0) {
        execlp("sh", "sh", "-c", "echo vforked", NULL);
        _exit(1);
    }
    waitpid(pid, NULL, 0);
    put(1, 200, 'f');
    look();
    put(1, 30, 'g');
    execlp("sh", "sh", "-c", "echo at the end", NULL);
}

static void flags(void) {
    struct iovec parts[2] = {{"vec", 3}, {"tor\n", 4}};
    put(1, 200, 'a');
    say("%d\n", fcntl(1, F_SETFL, O_APPEND));
    lseek(1, 10, SEEK_SET);
    put(1, 200, 'b');
    say("pwrite %ld\n", (long)pwrite(1, "PWRITE", 6, 3));
    put(1, 100, 'c');
    say("%d\n", fcntl(1, F_SETFL, 0));
    say("pwrite %ld\n", (long)pwrite(1, "PWRITE", 6, 3));
    put(1, 100, 'd');
    say("writev %ld\n", (long)writev(1, parts, 2));
    put(1, 100, 'e');
    printf("printed\n");
    put(1, 30, 'f');
    fflush(stdout);
    put(1, 30, 'g');
    dprintf(1, "formatted\n");
    put(1, 100, 'h');
    look();
}

static void seek(void) {
    put(1, 200, 'a');
    say("%ld\n", (long)lseek(1, 100, SEEK_SET));
    put(1, 200, 'b');
    say("%ld\n", (long)lseek(1, -50, SEEK_CUR));
    put(1, 200, 'c');
    say("%d\n", ftruncate(1, 3000));
    put(1, 100, 'd');
    say("%ld\n", (long)lseek(1, 5000, SEEK_END));
    put(1, 100, 'e');
    look();
}

/* The offset is moved by the one number while what was written by the other waits. */
static void numbers(void) {
    put(1, 100, 'a');
    give_time(1);
    for (int round = 0; round < 20; round++) {
        put(1, 100, 'b');
        put(2, 10, 'c');
        put(1, 100, 'd');
        say("%ld, ", (long)lseek(2, 200 + round, SEEK_SET));
        put(1, 50, 'e');
        say("%ld\n", (long)lseek(2, -20, SEEK_CUR));
        put(1, 50, 'f');
    }
    say("%d\n", fcntl(2, F_SETFL, O_APPEND));
    put(1, 100, 'g');
    say("%ld\n", (long)lseek(2, 10, SEEK_SET));
    put(1, 100, 'h');
    say("%d\n", fcntl(2, F_SETFL, 0));
    put(1, 100, 'i');
    say("%d\n", ftruncate(2, 2000));
    put(1, 100, 'j');
    say("read %ld\n", (long)read(2, (char[100]){0}, 100));
    put(1, 100, 'k');
    say("pwrite %ld\n", (long)pwrite(2, "PWRITE", 6, 2100));
    put(1, 100, 'l');
    say("%d\n", fcntl(2, F_SETFL, O_DIRECT));
    put(1, 10, 'm');
    say("%d\n", fcntl(2, F_SETFL, 0));
    put(1, 100, 'n');
    look();
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    if (!strcmp(argv[1], "both")) both();
    else if (!strcmp(argv[1], "child")) child();
    else if (!strcmp(argv[1], "flags")) flags();
    else if (!strcmp(argv[1], "seek")) seek();
    else if (!strcmp(argv[1], "numbers")) numbers();
    else put(1, 3000, 'a');
    if (argc > 2) {
        put(1, 100, 'k');
        raise(SIGKILL);
    }
    put(1, 100, 'z');
    if (write(3, log_text, log_length) < 0) return 3;
    return 0;
}
