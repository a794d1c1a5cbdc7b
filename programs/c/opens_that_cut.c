/* Opens that cut a file for which another process has records waiting: these come before the cut, and what is
 * written after it stays.
 *
 *   path     O_PATH with O_TRUNC cuts nothing
 *   table    a thread opens that has a descriptor table of its own: the number means another file to all others
 *   unshare, syscall    the same by other calls
 *   first    a thread opens in a process whose first thread has ended
 *   header   a third process looks at the size, and begins the file anew as soon as it is cut
 *
 * All but the first way are tried by each call that cuts. */
#include "log.h"
#include "newer.h"
#include "raw.h"
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { RECORDS = 500, HEADER_ROUNDS = 2, TURNS_MAX = 50000000 };

static const char *const calls[] = {"open", "openat", "creat", "fopen", "freopen", "raw", "handle", "raw handle"};
enum { CALLS = sizeof calls / sizeof *calls };

/* By its number: where the file system gives none, by its name. */
static int cut_by_handle(int is_raw) {
    union {
        struct file_handle handle;
        char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
    } file = {.handle = {.handle_bytes = MAX_HANDLE_SZ}};
    int mount, fd = -1, flags = O_WRONLY | O_TRUNC;
    if (name_to_handle_at(AT_FDCWD, "data", &file.handle, &mount, 0) == 0)
        fd = is_raw ? (int)syscall(SYS_open_by_handle_at, AT_FDCWD, &file, flags)
                    : open_by_handle_at(AT_FDCWD, &file.handle, flags);
    return fd < 0 ? open("data", flags) : fd;
}

static int cut(const char *call) {
    FILE *stream = NULL;
    if (!strcmp(call, "open")) return open("data", O_WRONLY | O_TRUNC);
    if (!strcmp(call, "openat")) return openat(AT_FDCWD, "data", O_RDWR | O_TRUNC);
    if (!strcmp(call, "creat")) return creat("data", 0644);
    if (!strcmp(call, "raw")) return (int)syscall(SYS_openat, AT_FDCWD, "data", O_WRONLY | O_TRUNC);
    if (strstr(call, "handle")) return cut_by_handle(!strcmp(call, "raw handle"));
    if (!strcmp(call, "fopen")) stream = fopen("data", "w");
    /* The stream takes the first free number, as it closes its own one before. */
    if (!strcmp(call, "freopen")) stream = freopen("data", "w", fopen("/dev/null", "r"));
    return stream ? fileno(stream) : -1;
}

/* The size, asked for where no library sees it. */
static long size_of(const char *name) {
    struct stat found = {0};
    return raw(SYS_newfstatat, AT_FDCWD, (long)name, (long)&found, 0) < 0 ? -1 : (long)found.st_size;
}

static void tell(const int pipe[2]) { raw(SYS_write, pipe[1], (long)"x", 1, 0); }

static void wait_for(const int pipe[2]) {
    char byte;
    raw(SYS_read, pipe[0], (long)&byte, 1, 0);
}

static int ready[2], go_on[2], looks[2], go_look[2];

/* A process whose last records wait until it is told to go on. */
static pid_t writing(int flags) {
    pid_t process = fork();
    if (process == 0) {
        int fd = open("data", O_RDWR | O_CREAT | O_TRUNC | flags, 0644);
        for (int i = 0; i < RECORDS; i++) {
            write(fd, "0123456789", 10);
            if (i > 60 && i < 400) give_time(fd);
        }
        tell(ready), wait_for(go_on);
        close(fd), _exit(0);
    }
    wait_for(ready);
    return process;
}

static void over(const char *way, const char *call, pid_t process) {
    int status = -1;
    tell(go_on), waitpid(process, &status, 0);
    say("%s, %s: status %x, ", way, call, status), say_file("data");
    unlink("data");
}

static void path(void) {
    for (int i = 0; i < 3; i++) {
        struct stat found = {0};
        pid_t process = writing(0);
        int flags = O_PATH | O_TRUNC, fd = -1;
        if (i == 0) fd = open("data", flags);
        if (i == 1) fd = openat(AT_FDCWD, "data", flags | O_RDWR);
        if (i == 2) fd = (int)syscall(SYS_openat, AT_FDCWD, "data", flags);
        int answer = fstat(fd, &found);
        say("%d, %ld bytes; ", answer, (long)found.st_size);
        close(fd), over("path", "O_PATH", process);
    }
}

static int precious;
static const char *by;

/* Where `precious` was, is then what is cut. */
static void *with_own_table(void *call) {
    int answer = !strcmp(by, "unshare")   ? unshare(CLONE_FILES)
                 : !strcmp(by, "syscall") ? (int)syscall(SYS_unshare, CLONE_FILES)
                                          : close_range(~0U, ~0U, CLOSE_RANGE_UNSHARE);
    if (answer) return NULL;
    close(precious);
    int fd = cut(call);
    write(fd, "new", 3);
    return (void *)(long)(fd == precious);
}

static void *second(void *call) {
    /* Until the kernel shows no descriptors of the first one any more. */
    for (int i = 0; i < 3000 && access("/proc/self/fd/0", F_OK) == 0; i++) usleep(1000);
    write(cut(call), "new", 3);
    _exit(0);
}

static void by_thread(const char *way, const char *call) {
    int begin[2], status = -1, is_first = !strcmp(way, "first");
    if (pipe(begin)) exit(2);
    pid_t cutting = fork();
    if (cutting == 0) {
        pthread_t thread;
        void *answer = NULL;
        precious = open("precious", O_RDWR);
        wait_for(begin);
        pthread_create(&thread, NULL, is_first ? second : with_own_table, (void *)call);
        if (is_first) pthread_exit(NULL);
        pthread_join(thread, &answer), _exit(answer ? 1 : 2);
    }
    pid_t process = writing(0);
    tell(begin), waitpid(cutting, &status, 0);
    say("%x, ", status), over(way, call, process);
    close(begin[0]), close(begin[1]);
}

/* Looks all the time. */
static void begin_anew(void) {
    wait_for(go_look), tell(looks);
    for (long turn = 0; turn < TURNS_MAX && size_of("data") != 0; turn++) continue;
    int fd = open("data", O_WRONLY | O_APPEND);
    write(fd, "header\n", 7), close(fd);
    _exit(0);
}

static void header(const char *call) {
    int status = -1;
    pid_t looking = fork();
    if (looking == 0) begin_anew();
    pid_t process = writing(O_APPEND);
    tell(go_look), wait_for(looks);
    close(cut(call));
    waitpid(looking, &status, 0);
    say("%x, ", status), over("header", call, process);
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "";
    if (pipe(ready) || pipe(go_on) || pipe(looks) || pipe(go_look)) return 2;
    make_file("precious", 5000);
    by = way;
    if (!strcmp(way, "path")) path();
    for (int i = 0; i < CALLS; i++) {
        if (strcmp(way, "path") && strcmp(way, "header")) by_thread(way, calls[i]);
        for (int round = 0; round < HEADER_ROUNDS && !strcmp(way, "header"); round++) header(calls[i]);
    }
    say_file("precious");
    log_out();
    return 0;
}
