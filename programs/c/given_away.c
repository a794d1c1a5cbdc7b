/* What is shared in ways that are easily missed: by a list of file actions that was copied byte by byte,
 * by the hundredth control message, by memory of /dev/zero that becomes writable later, by a mapped file
 * whose name looks like a harmless one. */
#include "log.h"
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;
enum { RECORD = 40, MESSAGES = 100 };
static char program[4096];

static void records(int fd, char letter, int count) {
    char record[RECORD];
    memset(record, letter, RECORD);
    for (int i = 0; i < count; i++) {
        write(fd, record, RECORD);
        if (i % 40 == 0) give_time(fd);
    }
}

/* Works on, without a call, while the child writes. */
static void compute(void) {
    clock_t end = clock() + CLOCKS_PER_SEC * 2 / 5;
    while (clock() < end) continue;
}

/* How often each letter is there. Which process came first is chance. */
static void say_letters(const char *name) {
    static char bytes[1 << 20];
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    long length = read(fd, bytes, sizeof bytes), own = 0, others = 0;
    for (long i = 0; i < length; i++) own += bytes[i] == 'p', others += bytes[i] == 'c';
    say("%s: %ld bytes, %ld and %ld\n", name, length, own, others);
    close(fd), unlink(name);
}

static int open_new(const char *name) { return open(name, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0644); }

static void copied_list(void) {
    int fd = open_new("copied list"), gone[2];
    if (pipe(gone)) exit(2);
    records(fd, 'p', 400);
    posix_spawn_file_actions_t first, second;
    posix_spawn_file_actions_init(&first);
    posix_spawn_file_actions_adddup2(&first, fd, 1);
    second = first;
    memset(&first, 0, sizeof first);
    char *arguments[] = {program, "writes", NULL};
    pid_t child;
    posix_spawn(&child, program, &second, NULL, arguments, environ);
    records(fd, 'p', 330), compute();
    waitpid(child, NULL, 0);
    records(fd, 'p', 20);
    posix_spawn_file_actions_destroy(&second);
    close(fd);
    say_letters("copied list");
}

static void many_messages(void) {
    int fd = open_new("many messages"), harmless = open("/dev/null", O_RDONLY), pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) exit(2);
    char number[12];
    snprintf(number, sizeof number, "%d", pair[1]);
    char *arguments[] = {program, "receives", number, NULL};
    pid_t child;
    posix_spawn(&child, program, NULL, NULL, arguments, environ);
    records(fd, 'p', 400);
    static char control[MESSAGES * CMSG_SPACE(sizeof(int))];
    struct iovec word = {"w", 1};
    struct msghdr message = {
        .msg_iov = &word, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    for (int i = 0; i < MESSAGES; i++) {
        struct cmsghdr header = {
            .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(control + i * CMSG_SPACE(sizeof(int)), &header, sizeof header);
        memcpy(control + i * CMSG_SPACE(sizeof(int)) + CMSG_LEN(0), i == MESSAGES - 1 ? &fd : &harmless, sizeof fd);
    }
    sendmsg(pair[0], &message, 0);
    records(fd, 'p', 330), compute();
    waitpid(child, NULL, 0);
    records(fd, 'p', 20);
    close(fd), close(harmless), close(pair[0]), close(pair[1]);
    say_letters("many messages");
}

static void receives(int from) {
    static char control[MESSAGES * CMSG_SPACE(sizeof(int))];
    char byte;
    struct iovec word = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &word, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (recvmsg(from, &message, 0) != 1) exit(3);
    struct cmsghdr *all = CMSG_FIRSTHDR(&message);
    int last, count = (int)((all->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(&last, CMSG_DATA(all) + (count - 1) * (int)sizeof(int), sizeof last);
    usleep(200000), records(last, 'c', 1);
}

/* A child writes a file and then a word into shared memory: who sees the word sees all of the file. */
static void word_in(const char *name, int fd, int later) {
    volatile int *word = mmap(NULL, 4096, later ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (later) mprotect((void *)word, 4096, PROT_READ | PROT_WRITE);
    int early = 0;
    for (int round = 0; round < 5; round++) {
        *word = 0;
        pid_t child = fork();
        if (child == 0) {
            int file = open_new("told");
            records(file, 'c', 450);
            *word = 1;
            while (*word == 1) sched_yield();
            _exit(0);
        }
        while (*word == 0) sched_yield();
        struct stat found = {0};
        stat("told", &found);
        early += found.st_size != 450 * RECORD;
        *word = 2;
        waitpid(child, NULL, 0);
    }
    munmap((void *)word, 4096), close(fd);
    say("%s: %d effects before their cause\n", name, early);
}

int main(int count, char **arguments) {
    readlink("/proc/self/exe", program, sizeof program - 1);
    if (count > 1 && !strcmp(arguments[1], "writes")) return usleep(200000), records(1, 'c', 1), 0;
    if (count > 2 && !strcmp(arguments[1], "receives")) return receives(atoi(arguments[2])), 0;
    copied_list();
    many_messages();
    word_in("/dev/zero", open("/dev/zero", O_RDWR), 1);
    int file = open_new("state.jsave");
    if (ftruncate(file, 4096)) return 2;
    word_in("state.jsave", file, 0);
    log_out();
    return 0;
}
