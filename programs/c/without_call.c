/* Acquire and release points without a call: a signal's handler, memory that others write, what /proc
 * shows.
 *
 * without_call signal      a handler ran: what was written before the signal was sent is read
 * without_call mapping     the same for a word in memory that is only read here
 * without_call memory WAY  a length is stored in shared memory: the file is as long. WAY: inherit, send
 *                     (memory without a name), link (a file with another name), deleted (a file whose
 *                     name looks as if it had none), fetch (one without a name, through /proc)
 * without_call shown       what /proc shows of a process changes: the file is as long */
#include "log.h"
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;
enum { ROUNDS = 20, RECORD = 100, WARM = 600, SECONDS = 8 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static volatile sig_atomic_t heard;
static void on_signal(int number) { (void)number, heard = 1; }

/* Rewrites the first record of "data" each time it is asked to, and says so. */
static void change(int asked, void (*tell)(int)) {
    char record[RECORD], byte;
    int fd = open("data", O_WRONLY);
    for (int round = 1; round <= ROUNDS && read(asked, &byte, 1) == 1; round++) {
        usleep(2000);
        memset(record, '0' + round, RECORD);
        pwrite(fd, record, RECORD, 0);
        tell(round);
    }
    _exit(0);
}

static void by_signal(int round) { (void)round, kill(getppid(), SIGUSR1); }
static volatile int *flag;
static void by_memory(int round) { *flag = round; }

static void listen_for(int ask, int by_mapping) {
    char record[RECORD];
    int fd = open("data", O_RDONLY), stale = 0, missing = 0;
    for (int round = 1; round <= ROUNDS; round++) {
        double until = now() + SECONDS;
        lseek(fd, 0, SEEK_SET);
        for (int i = 0; i < 100; i++) read(fd, record, RECORD);
        heard = 0;
        write(ask, "x", 1);
        lseek(fd, 0, SEEK_SET);
        for (int i = 0; i < 20; i++) read(fd, record, RECORD);
        while (!(by_mapping ? *flag == round : heard) && now() < until) continue;
        lseek(fd, 0, SEEK_SET);
        read(fd, record, RECORD);
        missing += by_mapping ? *flag != round : !heard;
        stale += record[0] != '0' + round;
    }
    say("%d stale, %d not heard\n", stale, missing);
}

static void make_data(void) {
    char record[RECORD];
    int fd = open("data", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    memset(record, '0', RECORD);
    for (int i = 0; i < 1000; i++) write(fd, record, RECORD);
    close(fd);
}

static void by_handler(void) {
    int ask[2];
    make_data();
    pipe2(ask, O_CLOEXEC);
    signal(SIGUSR1, on_signal);
    pid_t child = fork();
    if (child == 0) close(ask[1]), change(ask[0], by_signal);
    listen_for(ask[1], 0);
    struct sigaction old;
    sigaction(SIGUSR1, NULL, &old);
    int shown = old.sa_handler == on_signal && !(old.sa_flags & SA_SIGINFO);
    say("the handler is %s\n", shown ? "the program's" : "another");
    say("signal says %s\n", signal(SIGUSR1, SIG_DFL) == on_signal ? "the same" : "another");
    close(ask[1]), waitpid(child, NULL, 0);
}

static void by_mapping(char **arguments) {
    int ask[2], fd = open("flag", O_RDWR | O_CREAT | O_TRUNC, 0644);
    make_data();
    ftruncate(fd, 4096), close(fd);
    pipe2(ask, O_CLOEXEC);
    pid_t child = fork();
    if (child == 0) {
        dup2(ask[0], 0);
        execl("/proc/self/exe", arguments[0], "mapping-writer", (char *)NULL);
        _exit(9);
    }
    fd = open("flag", O_RDONLY);
    flag = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    listen_for(ask[1], 1);
    close(ask[1]), waitpid(child, NULL, 0);
}

/* Sees how long the file is when the memory says how long it is. */
static int observe(int fd) {
    volatile int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int missed = 0;
    double until = now() + SECONDS;
    shared[3] = 1;
    for (int round = 1; round <= ROUNDS; round++) {
        while (shared[0] != round) {
            if (now() > until) return 99;
            sched_yield();
        }
        struct stat stat_of;
        stat("file", &stat_of);
        missed += stat_of.st_size < shared[1];
        shared[2] = round;
    }
    return missed;
}

static union { char bytes[CMSG_SPACE(4)]; struct cmsghdr header; } control;
static char byte;
static struct iovec vector = {&byte, 1};
static struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control.bytes,
                                .msg_controllen = sizeof control.bytes};

static void send_descriptor(int socket, int fd) {
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(4);
    memcpy(CMSG_DATA(header), &fd, 4);
    sendmsg(socket, &message, 0);
}

static int observer(const char *way, const char *what) {
    int fd = atoi(what);
    if (!strcmp(way, "send")) {
        recvmsg(fd, &message, 0);
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), 4);
    } else if (strcmp(way, "inherit")) {
        fd = open(what, O_RDWR);
    }
    return observe(fd);
}

static void by_memory_of(const char *program, const char *way) {
    char what[60], record[RECORD];
    char *arguments[] = {(char *)program, "observer", (char *)way, what, NULL};
    int pair[2], memory = -1, status;
    pid_t child;
    memset(record, 'r', RECORD);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair), fcntl(pair[0], F_SETFD, FD_CLOEXEC);
    int is_sent = !strcmp(way, "send");
    if (is_sent || !strcmp(way, "inherit")) memory = memfd_create("m", is_sent ? MFD_CLOEXEC : 0);
    else if (!strcmp(way, "fetch")) memory = open(".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    else memory = open(strcmp(way, "link") ? "m (deleted)" : "first", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (memory < 0 && !strcmp(way, "fetch")) memory = memfd_create("m", MFD_CLOEXEC);
    ftruncate(memory, 4096);
    if (!strcmp(way, "link")) link("first", "second"), unlink("first");
    if (is_sent) snprintf(what, sizeof what, "%d", pair[1]);
    else if (!strcmp(way, "inherit")) snprintf(what, sizeof what, "%d", memory);
    else if (!strcmp(way, "fetch")) snprintf(what, sizeof what, "/proc/%d/fd/%d", getpid(), memory);
    else strcpy(what, strcmp(way, "link") ? "m (deleted)" : "second");
    posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ);
    volatile int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (is_sent) send_descriptor(pair[0], memory);
    double until = now() + SECONDS;
    while (!shared[3] && now() < until) usleep(1000);
    int fd = open("file", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), length = 0;
    for (int i = 0; i < WARM; i++, length += RECORD) {
        write(fd, record, RECORD);
        if (i % 10 == 0) give_time(fd);
    }
    for (int round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < 30; i++, length += RECORD) write(fd, record, RECORD);
        shared[1] = length;
        __sync_synchronize();
        shared[0] = round;
        while (shared[2] != round && now() < until) continue;
    }
    waitpid(child, &status, 0);
    say("%s: %d announced and not there\n", way, WEXITSTATUS(status));
}

/* Descriptors that a process shows from this number on, or those that are closed on exec. */
enum { FIRST_SHOWN = 100 };
static int descriptors_shown(pid_t process, int way) {
    char name[60], text[200], *at;
    for (int number = 1;; number++) {
        snprintf(name, sizeof name, "/proc/%d/fdinfo/%d", process, FIRST_SHOWN + number);
        int fd = open(name, O_RDONLY);
        long length = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
        close(fd);
        text[length > 0 ? length : 0] = 0;
        int is_there = fd >= 0 && (at = strstr(text, "flags:"));
        if (!is_there || (way == 5 && !(strtoul(at + 6, NULL, 8) & O_CLOEXEC))) return number - 1;
    }
}

/* The number that a process shows, in one way or another. */
static int shown(pid_t process, int way) {
    char name[40], text[4096], *at;
    if (way > 3) return descriptors_shown(process, way);
    snprintf(name, sizeof name, way == 0 ? "/proc/%d/comm" : "/proc/%d/status", process);
    int fd = open(name, O_RDONLY);
    long length = read(fd, text, sizeof text - 1);
    close(fd);
    text[length > 0 ? length : 0] = 0;
    switch (way) {
    case 0: return text[0] == 'w' ? atoi(text + 1) : 0;
    case 1: return (at = strstr(text, "Umask:")) ? (int)strtoul(at + 6, NULL, 8) : 0;
    case 2: return (at = strstr(text, "SigBlk:")) ? (int)(strtoull(at + 7, NULL, 16) >> 39 & 15) : 0;
    default: return (at = strstr(text, "SigIgn:")) ? (int)(strtoull(at + 7, NULL, 16) >> 39 & 15) : 0;
    }
}

static void show(int way, int number) {
    char name[16];
    sigset_t mask;
    snprintf(name, sizeof name, "w%d", number);
    sigemptyset(&mask);
    for (int bit = 0; bit < 4; bit++)
        if (number >> bit & 1) sigaddset(&mask, 40 + bit);
    switch (way) {
    case 0: prctl(PR_SET_NAME, name); break;
    case 1: umask((mode_t)number); break;
    case 2: sigprocmask(SIG_SETMASK, &mask, NULL); break;
    case 4: number % 2 ? dup2(0, FIRST_SHOWN + number) : fcntl(0, F_DUPFD, FIRST_SHOWN + number); break;
    case 5:
        if (number % 2) fcntl(FIRST_SHOWN + number, F_SETFD, FD_CLOEXEC);
        else ioctl(FIRST_SHOWN + number, FIOCLEX);
        break;
    default: /* One more each time: 1, 3, 7, 15. */
        for (int bit = 0; bit < 4; bit++)
            if (number >= 1 << bit) signal(40 + bit, SIG_IGN);
    }
}

static void visible(int way) {
    enum { SHOWN = 15 };
    char record[RECORD];
    memset(record, 'x', RECORD);
    unlink("file");
    pid_t program = getpid(), child = fork();
    if (child == 0) {
        int last = 0, early = 0;
        for (double until = now() + SECONDS; last < SHOWN && now() < until;) {
            int number = shown(program, way);
            if (number <= last || number > SHOWN) continue;
            /* Of the last way only these are seen. */
            last = number;
            struct stat stat_of = {0};
            stat("file", &stat_of);
            int least = way == 3 ? (number + 1) / 2 : number;
            early += stat_of.st_size < (WARM + least * 10) * RECORD;
        }
        _exit(early);
    }
    usleep(10000);
    int status, fd = open("file", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < WARM; i++) {
        write(fd, record, RECORD);
        if (i % 10 == 0) give_time(fd);
    }
    for (int number = 1; number <= SHOWN; number++) {
        for (int i = 0; i < 10; i++) write(fd, record, RECORD);
        show(way, number);
        for (double until = now() + 0.02; now() < until;) continue;
    }
    umask(022);
    waitpid(child, &status, 0);
    close(fd);
    int early = WEXITSTATUS(status);
    /* A signal mask changes for microseconds whenever records leave: one look may meet that. */
    if (way == 2 && early == 1) early = 0;
    say("way %d: %d seen before the records\n", way, early);
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    if (!strcmp(what, "observer")) return observer(arguments[2], arguments[3]);
    if (!strcmp(what, "mapping-writer")) {
        int fd = open("flag", O_RDWR);
        flag = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        change(0, by_memory);
    }
    if (!strcmp(what, "signal")) by_handler();
    if (!strcmp(what, "mapping")) by_mapping(arguments);
    if (!strcmp(what, "memory")) by_memory_of(arguments[0], arguments[2]);
    if (!strcmp(what, "shown"))
        for (int way = 0; way < 6; way++) visible(way);
    log_out();
    return 0;
}
