/* One open file description under several numbers, in several processes: dup, fork, exec, a passed
 * descriptor, a thread. What each reads and writes follows from what the others did. */
#include "log.h"
#include "raw.h"
#include "newer.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

extern char **environ;
static char record[64];

static void small_reads(int fd, int count) {
    unsigned long hash = 0;
    long total = 0;
    for (int i = 0; i < count; i++) {
        ssize_t n = read(fd, record, 13);
        if (n <= 0) break;
        total += n;
        hash = hash * 31 + hash_of(record, (size_t)n);
    }
    say("read %ld %lx at %ld\n", total, hash, (long)lseek(fd, 0, SEEK_CUR));
}
static void small_writes(int fd, int count, const char *what) {
    long total = 0;
    for (int i = 0; i < count; i++) {
        if (i >= 70) give_time(fd);
        ssize_t n = write(fd, what, strlen(what));
        if (n > 0) total += n;
    }
    say("wrote %ld at %ld\n", total, (long)lseek(fd, 0, SEEK_CUR));
}
static void small_both(int fd, int count) {
    for (int i = 0; i < count; i++) {
        if (read(fd, record, 10) != 10) break;
        lseek(fd, -10, SEEK_CUR);
        record[i % 10] = '+';
        if (write(fd, record, 10) != 10) break;
    }
    say("both at %ld\n", (long)lseek(fd, 0, SEEK_CUR));
}

static void duplicates(void) {
    int fd = open("in", O_RDWR), copy = dup(fd), third = fcntl(fd, F_DUPFD, 200);
    for (int i = 0; i < 30; i++) {
        small_reads(fd, 37);
        small_reads(copy, 11);
        small_both(third, 23);
        lseek(copy, 100 * i, SEEK_SET);
        small_both(fd, 20);
        small_writes(third, 5, "third");
    }
    say("close %d\n", close(fd));
    small_both(copy, 300);
    say("close %d\n", close(copy));
    small_reads(third, 300);
    say("close %d\n", close(third));
}

static void wait_for(pid_t child) {
    int status = -1;
    say("child %d", waitpid(child, &status, 0) == child);
    say(" status %x\n", status);
}

/* The parent has used the file, the child goes on, then the parent. */
static void forks(const char *name, int flags) {
    int fd = open(name, flags | O_CREAT, 0644);
    for (int round = 0; round < 6; round++) {
        if ((flags & O_ACCMODE) != O_WRONLY) small_reads(fd, 150);
        if ((flags & O_ACCMODE) != O_RDONLY) small_writes(fd, 150, "parent;");
        pid_t child = fork();
        if (child == 0) {
            log_length = 0;
            if ((flags & O_ACCMODE) != O_WRONLY) small_reads(fd, 50);
            if ((flags & O_ACCMODE) != O_RDONLY) small_writes(fd, 200, "child;");
            if (round % 3 == 0) close(fd);
            if (round % 3 == 1) lseek(fd, -5, SEEK_CUR);
            _exit(round);
        }
        wait_for(child);
        say("at %ld\n", (long)lseek(fd, 0, SEEK_CUR));
    }
    /* Grandchildren that outlive their parent are waited for through a pipe. */
    int pipes[2];
    if (pipe(pipes)) return;
    small_both(fd, 100);
    pid_t child = fork();
    if (child == 0) {
        if (fork() == 0) {
            char byte;
            close(pipes[1]);
            if (read(pipes[0], &byte, 1) != 0) _exit(1);
            _exit(0);
        }
        small_writes(fd, 100, "dying;");
        _exit(3);
    }
    close(pipes[0]);
    wait_for(child);
    close(pipes[1]);
    small_writes(fd, 100, "survivor;");
    close(fd);
    say_file(name);
}

/* Both processes write in turns to one description, in lock step over pipes. */
static void turns(int flags) {
    int fd = open("turns", flags | O_CREAT | O_TRUNC, 0644), to[2], from[2];
    char byte = 0;
    if (pipe(to) || pipe(from)) return;
    small_writes(fd, 300, "alone;");
    pid_t child = fork();
    for (int i = 0; i < 200; i++) {
        if (child == 0) {
            if (read(to[0], &byte, 1) != 1) _exit(1);
            write(fd, "child;", 6);
            write(fd, "twice;", 6);
            write(from[1], "x", 1);
        } else {
            write(fd, "parent;", 7);
            write(to[1], "x", 1);
            if (read(from[0], &byte, 1) != 1) break;
            if (i % 20 == 0) say("at %ld\n", (long)lseek(fd, 0, SEEK_CUR));
        }
    }
    if (child == 0) _exit(0);
    wait_for(child);
    close(fd);
    say_file("turns");
}

static void spawned(void) {
    int fd = open("in", O_RDONLY), out = open("spawned", O_RDWR | O_CREAT | O_TRUNC, 0644), status;
    small_reads(fd, 100);
    small_writes(out, 300, "before;");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, 0);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    char *words[] = {"dd", "bs=10", "count=20", "status=none", NULL};
    pid_t child;
    say("spawn %d\n", posix_spawnp(&child, "dd", &actions, NULL, words, environ));
    waitpid(child, &status, 0);
    say("status %x at %ld, %ld\n", status, (long)lseek(fd, 0, SEEK_CUR), (long)lseek(out, 0, SEEK_CUR));
    small_reads(fd, 100);
    small_writes(out, 300, "after;");
    child = vfork();
    if (child == 0) {
        dup2(fd, 0);
        dup2(out, 1);
        execlp("dd", "dd", "bs=7", "count=9", "status=none", NULL);
        _exit(127);
    }
    wait_for(child);
    small_reads(fd, 100);
    small_writes(out, 300, "vforked;");
    child = vfork();
    if (child == 0) _exit(77);
    wait_for(child);
    /* What the child does with its descriptors is not done to ours, though its memory is ours. */
    int own = open("own", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int others = open("others", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    small_writes(own, 300, "own;");
    small_writes(others, 300, "others;");
    child = vfork();
    if (child == 0) {
        dup2(others, own);
        close(others);
        raw(SYS_exit_group, 78, 0, 0, 0);
        _exit(78);
    }
    wait_for(child);
    small_writes(own, 300, "mine;");
    small_writes(others, 300, "theirs;");
    close(own);
    close(others);
    say_file("own");
    say_file("others");
    small_writes(out, 3, "still;");
    say("system %x\n", system("wc -c < spawned > counted; exit 5"));
    FILE *stream = popen("cat spawned | wc -c", "r");
    char line[100] = "";
    if (!fgets(line, sizeof line, stream)) say("nothing\n");
    say("popen %s", line);
    say("pclose %d\n", pclose(stream));
    /* exec that fails, and everything goes on. */
    char *nothing[] = {"nothing", NULL};
    int failed = execv("./not-there", nothing);
    say("exec %d errno %d\n", failed, errno);
    small_writes(out, 300, "went on;");
    /* A child that closes everything it does not know. */
    child = fork();
    if (child == 0) {
        close_range(3, ~0u, 0);
        int other = open("closed-all", O_WRONLY | O_CREAT | O_TRUNC, 0644);
        for (int i = 0; i < 500; i++) write(other, "fresh;", 6);
        _exit(0);
    }
    wait_for(child);
    small_reads(fd, 10);
    say_file("spawned");
    say_file("closed-all");
    say_file("counted");
}

/* The description travels over a socket. */
static void passed(void) {
    int pair[2], fd = open("in", O_RDWR);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return;
    small_reads(fd, 300);
    small_both(fd, 100);
    pid_t child = fork();
    char space[CMSG_SPACE(sizeof(int))] = {0}, byte = 'x';
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    if (child == 0) {
        close(fd);
        if (recvmsg(pair[1], &message, 0) != 1) _exit(1);
        int got;
        memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
        small_both(got, 50);
        write(pair[1], "y", 1);
        _exit(0);
    }
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    say("send %zd\n", sendmsg(pair[0], &message, 0));
    if (read(pair[0], &byte, 1) != 1) return;
    say("at %ld\n", (long)lseek(fd, 0, SEEK_CUR));
    small_both(fd, 50);
    wait_for(child);
    close(fd);
}

static void *reader(void *argument) {
    int fd = *(int *)argument;
    long total = 0;
    char bytes[16];
    while (read(fd, bytes, 16) == 16) total++;
    return (void *)total;
}
static void *writer(void *argument) {
    int fd = *(int *)argument;
    for (int i = 0; i < 2000; i++)
        if (write(fd, "0123456789abcde\n", 16) != 16) return (void *)1;
    return NULL;
}
static void *positioned(void *argument) {
    long *mine = argument;
    char bytes[24];
    for (long i = mine[1]; i < 4000; i += 4) {
        snprintf(bytes, sizeof bytes, "%07ld\n", i % 10000000);
        if (pwrite((int)mine[0], bytes, 8, i * 8) != 8) return (void *)1;
        if (pread((int)mine[0], bytes, 8, i * 8) != 8 || atol(bytes) != i) return (void *)2;
    }
    return NULL;
}

static void threads(void) {
    pthread_t all[4];
    make_file("threads", 16 * 3000);
    int fd = open("threads", O_RDONLY);
    long total = 0;
    for (int i = 0; i < 4; i++) pthread_create(&all[i], NULL, reader, &fd);
    for (int i = 0; i < 4; i++) {
        void *count;
        pthread_join(all[i], &count);
        total += (long)count;
    }
    say("threads read %ld records, at %ld\n", total, (long)lseek(fd, 0, SEEK_CUR));
    close(fd);
    for (int append = 0; append < 2; append++) {
        fd = open("threads", O_WRONLY | O_TRUNC | (append ? O_APPEND : 0));
        for (int i = 0; i < 4; i++) pthread_create(&all[i], NULL, writer, &fd);
        long bad = 0;
        for (int i = 0; i < 4; i++) {
            void *count;
            pthread_join(all[i], &count);
            bad += (long)count;
        }
        say("threads wrote to %ld, bad %ld\n", (long)lseek(fd, 0, SEEK_CUR), bad);
        close(fd);
        say_file("threads");
    }
    fd = open("threads", O_RDWR | O_TRUNC);
    long mine[4][2], bad = 0;
    for (int i = 0; i < 4; i++) {
        mine[i][0] = fd;
        mine[i][1] = i;
        pthread_create(&all[i], NULL, positioned, mine[i]);
    }
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(all[i], &result);
        bad += (long)result;
    }
    say("positioned, bad %ld\n", bad);
    close(fd);
    say_file("threads");
}

/* A raw clone: a fork that no library function made. */
static void raw_fork(void) {
    int fd = open("raw", O_RDWR | O_CREAT | O_TRUNC, 0644);
    small_writes(fd, 300, "parent;");
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) {
        for (int i = 0; i < 100; i++) write(fd, "raw;", 4);
        syscall(SYS_exit_group, 4);
    }
    wait_for(child);
    small_writes(fd, 100, "parent;");
    close(fd);
    say_file("raw");
}

int main(void) {
    make_file("in", 60000);
    duplicates();
    forks("in", O_RDONLY);
    forks("forked", O_WRONLY);
    forks("forked", O_WRONLY | O_APPEND);
    forks("in", O_RDWR);
    turns(O_WRONLY);
    turns(O_RDWR | O_APPEND);
    spawned();
    passed();
    threads();
    raw_fork();
    log_out();
    return 0;
}
