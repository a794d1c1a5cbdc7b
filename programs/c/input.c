/* Reads standard input in records of 10 bytes, and in the middle does what others could notice that have the
 * same description, or will have it.
 * Usage: input WAY [at once] < FILE; the ways are in `ways` below. `input rest` reads to the end. */
#include "log.h"
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define RECORD 10
static char **own_words;
extern char **environ;

static unsigned long sum;

/* Reads records; how many there were. */
static long take(int fd, long count) {
    char record[RECORD];
    long done = 0;
    for (; done < count; done++) {
        if (done % 10 == 0) give_time(fd);
        ssize_t n = read(fd, record, sizeof record);
        if (n <= 0) break;
        sum = sum * 31 + hash_of(record, (size_t)n);
    }
    return done;
}

static void look(const char *what, int fd) {
    long count = take(fd, 7);
    say("%s: at %ld, %ld more, %016lx\n", what, (long)lseek(fd, 0, SEEK_CUR), count, sum);
}

static void wait_for(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    say("status %d\n", status);
}

/* What a child says goes straight to the same place. */
static void child_looks(int fd) {
    say("child ");
    look("reads", fd);
    log_out();
    _exit(0);
}

static void forks(void) {
    for (int i = 0; i < 3; i++) {
        log_out();
        pid_t pid = fork();
        if (pid == 0) child_looks(0);
        take(0, 0);
        wait_for(pid);
        look("parent", 0);
        take(0, 2000);
    }
}

static char *rest_words[] = {"sh", "-c", "head -c 30; sleep 0.02", NULL};

static void spawns(void) {
    pid_t pid;
    log_out();
    if (posix_spawnp(&pid, "sh", NULL, NULL, rest_words, environ)) say("no spawn\n");
    wait_for(pid);
    look("after spawn", 0);
    log_out();
    if ((pid = vfork()) == 0) {
        execvp("sh", rest_words);
        _exit(1);
    }
    wait_for(pid);
    look("after vfork", 0);
    log_out();
    if (system("head -c 20")) say("no system\n");
    look("after system", 0);
    log_out();
    FILE *pipe = popen("head -c 20; echo", "r");
    char line[80];
    while (pipe && fgets(line, sizeof line, pipe)) say("it read %s", line);
    if (pipe) pclose(pipe);
    look("after popen", 0);
}

/* A child that goes on reading by itself while the parent does. Which of them has which record is open, but
 * each has to be had once. */
static void shares(void) {
    int ends[2], from[2];
    if (pipe(ends) || pipe(from)) exit(9);
    log_out();
    pid_t pid = fork();
    char token = 0;
    for (int turn = 0; turn < 300; turn++) {
        if (pid == 0) {
            if (read(ends[0], &token, 1) != 1) _exit(1);
            take(0, turn % 5);
            if (write(from[1], &token, 1) != 1) _exit(1);
        } else {
            take(0, turn % 4);
            if (write(ends[1], "x", 1) != 1 || read(from[0], &token, 1) != 1) exit(9);
        }
    }
    if (pid == 0) {
        look("child", 0);
        log_out();
        _exit(0);
    }
    wait_for(pid);
    look("parent", 0);
}

static void duplicates(void) {
    int copy = dup(0);
    take(copy, 2000);
    look("by the copy", copy);
    take(0, 2000);
    look("by itself", 0);
    dup2(0, 77);
    take(77, 100);
    look("by itself", 0);
    close(copy);
    take(77, 3000);
    look("by itself", 0);
    close(0);
    look("by the last", 77);
    copy = fcntl(77, F_DUPFD_CLOEXEC, 100);
    take(copy, 3000);
    look("by the last", 77);
    dup2(77, 0);
    close(77);
    close(copy);
}

static void send_it(int socket, int fd) {
    char byte = 'x', space[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    if (sendmsg(socket, &message, 0) != 1) say("sendmsg errno %d\n", errno);
}

static int receive_it(int socket) {
    char byte, space[CMSG_SPACE(sizeof(int))];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    int fd = -1;
    if (recvmsg(socket, &message, 0) == 1 && CMSG_FIRSTHDR(&message))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

/* It lies in a socket, where nobody sees it, while it is read. */
static void sends(void) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) exit(9);
    send_it(ends[0], 0);
    take(0, 6000);
    int other = receive_it(ends[1]);
    look("by the other", other);
    look("by itself", 0);
    log_out();
    pid_t pid = fork();
    if (pid == 0) {
        int got = receive_it(ends[1]);
        child_looks(got);
    }
    send_it(ends[0], other);
    wait_for(pid);
    look("parent", 0);
    close(other);
}

static void moves(void) {
    for (int i = 1; i < 40; i++) {
        say("%ld ", (long)lseek(0, -35, SEEK_CUR));
        take(0, i);
        say("%ld ", (long)lseek(0, 11, SEEK_CUR));
    }
    char bytes[100];
    struct iovec parts[2] = {{bytes, 7}, {bytes + 7, 15}};
    say("readv %ld, ", (long)readv(0, parts, 2));
    say("pread %ld, ", (long)pread(0, bytes + 22, 20, 3));
    say("%016lx\n", hash_of(bytes, 42));
    say("end %ld, ", (long)lseek(0, -5000, SEEK_END));
    say("set %ld\n", (long)lseek(0, 2000, SEEK_SET));
    look("then", 0);
}

/* The kernel reads at the offset by itself. */
static void handed(void) {
    int ends[2], out = open("handed", O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (out < 0 || pipe(ends)) exit(9);
    say("sendfile %ld\n", (long)sendfile(out, 0, NULL, 333));
    look("then", 0);
    take(0, 1000);
    say("splice %ld\n", (long)splice(0, NULL, ends[1], NULL, 100, 0));
    look("then", 0);
    take(0, 1000);
    say("copy %ld\n", (long)copy_file_range(0, NULL, out, NULL, 50, 0));
    look("then", 0);
    char *bytes = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 0, 0);
    say("mapped %016lx\n", hash_of(bytes, 4096));
    take(0, 1000);
    look("then", 0);
    close(out);
    say_file("handed");
}

/* A thread with a table of its own keeps the descriptor when the others close it. */
static int step;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void go_to(int next) {
    pthread_mutex_lock(&lock);
    step = next;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void await_step(int wanted) {
    pthread_mutex_lock(&lock);
    while (step < wanted) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void *keeps(void *unused) {
    (void)unused;
    if (unshare(CLONE_FILES)) say("unshare errno %d\n", errno);
    go_to(1);
    await_step(2);
    look("the thread", 0);
    go_to(3);
    await_step(4);
    look("the thread", 0);
    return NULL;
}

static void tables(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, keeps, NULL)) exit(9);
    await_step(1);
    take(0, 3000);
    go_to(2);
    await_step(3);
    look("the process", 0);
    go_to(4);
    pthread_join(thread, NULL);
    look("the process", 0);
}

static void *reads(void *unused) {
    (void)unused;
    char record[RECORD];
    unsigned long own = 0;
    for (int i = 0; i < 2000; i++)
        if (read(0, record, RECORD) == RECORD) own += hash_of(record, RECORD);
    __atomic_fetch_add(&sum, own, __ATOMIC_RELAXED);
    return NULL;
}

static void threads(void) {
    pthread_t all[3];
    sum = 0;
    for (int i = 0; i < 3; i++)
        if (pthread_create(&all[i], NULL, reads, NULL)) exit(9);
    for (int i = 0; i < 3; i++) pthread_join(all[i], NULL);
    say("at %ld, %016lx\n", (long)lseek(0, 0, SEEK_CUR), sum);
}

static void becomes(void) {
    look("before", 0);
    log_out();
    execv("/proc/self/exe", (char *[]){own_words[0], "rest", "at once", NULL});
}

/* A process goes on when its parent, which has read ahead, was killed. */
static void killed(void) {
    int ends[2];
    if (pipe(ends) || prctl(PR_SET_CHILD_SUBREAPER, 1)) exit(9);
    log_out();
    pid_t reader = fork();
    if (reader == 0) {
        close(ends[1]);
        pid_t heir = fork();
        if (heir == 0) {
            char byte;
            if (read(ends[0], &byte, 1) != 0) _exit(1);
            child_looks(0);
        }
        close(ends[0]);
        look("reader", 0);
        log_out();
        raise(SIGKILL);
    }
    close(ends[0]);
    wait_for(reader);
    look("parent", 0);
    log_out();
    close(ends[1]);
    while (wait(NULL) > 0) continue;
    look("parent", 0);
}

static void closes(void) {
    int other = open("/proc/self/fd/0", O_RDONLY);
    look("another description", other);
    close(0);
    say("closed: %ld\n", (long)read(0, (char[1]){0}, 1));
    dup2(other, 0);
    take(0, 1000);
    look("in its place", 0);
}

/* A description is sent while nobody receives it, by a process that then has it no more; another one reads. */
static void late(void) {
    int ends[2], fd = open("/proc/self/fd/0", O_RDONLY);
    if (fd < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) exit(9);
    send_it(ends[0], fd);
    log_out();
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fd, 0);
        close(fd);
        execv("/proc/self/exe", (char *[]){own_words[0], "stops", NULL});
    }
    close(fd);
    wait_for(pid);
    look("by who receives it", receive_it(ends[1]));
}

/* The description moves to another number when it may just have been asked about, and others read on. */
static long early_reads;
static void leaves(void) {
    char record[RECORD];
    for (long i = 0; i < early_reads; i++)
        if (read(0, record, RECORD) != RECORD) exit(9);
    int copy = dup(0);
    close(0);
    if (open("/dev/null", O_RDONLY) != 0) exit(9);
    take(copy, 5000 - early_reads);
    raise(SIGKILL);
}

/* It is handed a second number of the description. */
static void two(void) {
    for (int i = 0; i < 3; i++) {
        take(3, 1000);
        look("by 0", 0);
        take(0, 1000);
        look("by 3", 3);
    }
}

/* Others read on where it is killed. */
static void stops(void) {
    log_out();
    raise(SIGKILL);
}

/* One of several that share the records: says each that it has. */
static void works(void) {
    char record[RECORD];
    for (int i = 0; read(0, record, RECORD) == RECORD; i++) {
        if (i % 10 == 0) give_time(0);
        say("%.10s\n", record);
    }
}

static const struct {
    const char *name;
    void (*go)(void);
} ways[] = {{"forks", forks}, {"spawns", spawns}, {"shares", shares}, {"duplicates", duplicates},
            {"sends", sends}, {"moves", moves}, {"handed", handed}, {"tables", tables},
            {"threads", threads}, {"becomes", becomes}, {"killed", killed}, {"closes", closes},
            {"late", late}, {"leaves", leaves}, {"two", two}, {"stops", stops}, {"works", works}};

int main(int argc, char **argv) {
    own_words = argv;
    if (argc < 2) return 2;
    int is_early = argc > 2;
    early_reads = is_early ? atol(argv[2]) : 0;
    if (!is_early) take(0, 4000);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (!strcmp(argv[1], ways[i].name)) ways[i].go();
    long count = take(0, 1L << 40);
    say("%ld to the end at %ld, %016lx\n", count, (long)lseek(0, 0, SEEK_CUR), sum);
    log_out();
    return 0;
}
