/* A file that a rule calls unobserved: nobody looks at it before it is closed. It keeps its buffer while
 * the program talks to others, and where they share memory; the program itself sees it as it is.
 * Usage: unobserved talk|order|silent|ages */
#include "log.h"
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char record[40];

static void put(int fd, int number) {
    memset(record, 'a' + number % 26, sizeof record);
    record[sizeof record - 1] = '\n';
    if (write(fd, record, sizeof record) != sizeof record) say("write errno %d\n", errno);
}

static void look(int fd) {
    struct stat data;
    char bytes[400];
    int other = open("mine.dat", O_RDONLY);
    put(fd, 1);
    say("size %ld, ", fstat(fd, &data) ? -1 : (long)data.st_size);
    put(fd, 2);
    say("by name %ld, ", stat("mine.dat", &data) ? -1 : (long)data.st_size);
    put(fd, 3);
    long at = (long)lseek(fd, 0, SEEK_CUR), n;
    say("at %ld, ", at);
    n = pread(other, bytes, sizeof bytes, at - 100);
    say("read beside %ld %016lx, ", n, hash_of(bytes, n > 0 ? (size_t)n : 0));
    put(fd, 4);
    n = pread(fd, bytes, sizeof bytes, at);
    say("read %ld %016lx, ", n, hash_of(bytes, n > 0 ? (size_t)n : 0));
    put(fd, 5);
    say("end %ld\n", (long)lseek(other, 0, SEEK_END));
    close(other);
}

/* A word to a pipe after each record. */
static void talk(void) {
    int fd = open("mine.dat", O_RDWR | O_CREAT | O_TRUNC, 0644), pipes[2];
    char words[16];
    if (pipe(pipes)) exit(1);
    for (int i = 0; i < 5000; i++) {
        put(fd, i);
        if (write(pipes[1], "w", 1) != 1) exit(1);
        if (i % 16 == 15 && read(pipes[0], words, 16) != 16) exit(1);
    }
    look(fd);
    say("close %d\n", close(fd));
    say_file("mine.dat");
}

/* What is not private is there before anyone can learn of it. */
static void order(void) {
    int mine = open("mine.dat", O_WRONLY | O_CREAT | O_TRUNC, 0644), there[2], back[2];
    int seen = open("seen.txt", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    char word;
    if (pipe(there) || pipe(back)) exit(1);
    pid_t child = fork();
    if (child == 0) {
        struct stat data;
        long wrong = 0;
        for (long i = 1; read(there[0], &word, 1) == 1 && word == 'w'; i++) {
            wrong += stat("seen.txt", &data) || data.st_size != i * (long)sizeof record;
            if (write(back[1], "b", 1) != 1) _exit(1);
        }
        _exit(wrong ? 2 : 0);
    }
    for (int i = 0; i < 500; i++) {
        put(mine, i);
        put(seen, i);
        if (write(there[1], "w", 1) != 1 || read(back[0], &word, 1) != 1) exit(1);
    }
    int status = 0;
    if (write(there[1], "e", 1) != 1) exit(1);
    waitpid(child, &status, 0);
    say("child %d\n", status);
    close(mine);
    close(seen);
    say_file("mine.dat");
    say_file("seen.txt");
}

/* Two processes that share memory, each with a file of its own, as ranks of a parallel job; with so many
 * records that those written before the guard has started hardly count. */
static void silent(void) {
    volatile int *turns = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    int rank = child == 0, fd = open(rank ? "mine.1" : "mine.dat", O_RDWR | O_CREAT | O_TRUNC, 0644);
    int seen = open(rank ? "seen.1" : "seen.0", O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < 50000; i++) {
        put(fd, i + rank);
        if (i % 500 == 0) put(seen, i);
        turns[rank] = i;
    }
    look(fd);
    close(fd);
    close(seen);
    if (rank) _exit(0);
    int status = 0;
    waitpid(child, &status, 0);
    say("child %d, turns %d %d\n", status, turns[0], turns[1]);
    say_file("mine.dat");
    say_file("mine.1");
    say_file("seen.1");
}

/* Of two unobserved files the one that was written first is also written out first, however often the
 * program talked in between. */
static void ages(void) {
    static const char *const names[] = {"seen.txt", "mine.1", "mine.2", "mine.3"};
    int fds[4], pipes[2], watch = inotify_init1(IN_NONBLOCK);
    struct stat data;
    char events[4096], order[16] = "";
    if (pipe(pipes)) exit(1);
    for (int i = 0; i < 4; i++) fds[i] = open(names[i], O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < 1200; i++) {
        put(fds[i % 4], i);
        if (i % 10 == 0) give_time(fds[i / 10 % 4]);
    }
    stat(names[0], &data);
    inotify_add_watch(watch, ".", IN_MODIFY);
    for (int i = 0; i < 30; i++) put(fds[1 + i / 10], i);
    for (int i = 0; i < 3; i++) {
        put(fds[0], i);
        if (write(pipes[1], "w", 1) != 1) exit(1);
    }
    stat(names[0], &data);
    long n = read(watch, events, sizeof events);
    for (long at = 0; at < n && strlen(order) + 1 < sizeof order;) {
        struct inotify_event *event = (struct inotify_event *)(events + at);
        if (!strncmp(event->name, "mine.", 5)) {
            /* The last time counts: what has waited for long is written before, too. */
            char *before = strchr(order, event->name[5]);
            if (before) memmove(before, before + 1, strlen(before));
            strncat(order, event->name + 5, 1);
        }
        at += (long)(sizeof *event + event->len);
    }
    say("order %s\n", order);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    if (!strcmp(argv[1], "talk")) talk();
    else if (!strcmp(argv[1], "order")) order();
    else if (!strcmp(argv[1], "silent")) silent();
    else if (!strcmp(argv[1], "ages")) ages();
    else return 2;
    log_out();
    return 0;
}
