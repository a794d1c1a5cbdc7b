/* A file system hangs (FUSE: its server does not answer), on which one process has written; others use another one.
 *   for_long FOLDER    while others write, are looked at, and are killed
 *   opens FOLDER       while others open what its writer has elsewhere, and learn of its death
 *   a_moment FOLDER    for one write, and the process waits for that, while another one is killed
 * Or it answers, but slowly:
 *   many FOLDER        each write, and the process has many files there, and waits for one that is elsewhere
 *   closes FOLDER      each close, of a file that a process was started with
 *   newer FOLDER       one write, and the process has written elsewhere since
 * The file system is mounted on FOLDER; files are made in the current folder. Root can do it. */
#include "log.h"
#include <linux/fuse.h>
#include <poll.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum { RECORD = 100, RECORDS = 1000, PAUSE = 5000, PAGE = 4096, LATE_SECONDS = 10, MOMENT_US = 2500000 };
enum { FILES = 100, SOME = 300, MANY = 10000, SLOW_US = 40000, ORDER_US = 700000 };
static const double WRITTEN_CPU_SECONDS = 0.15, MANY_CPU_SECONDS = 0.4;

static int device;
static size_t sizes[FILES + 2];
static const char *way;
static useconds_t moment_us, write_us, close_us;

static _Noreturn void cannot(const char *what) {
    perror(what);
    _exit(3);
}

static void reply(uint64_t to, int error, const void *with, size_t len) {
    struct { struct fuse_out_header head; char text[512]; } answer = {{sizeof answer.head + len, -error, to}, {0}};
    if (len) memcpy(answer.text, with, len);
    if (write(device, &answer, answer.head.len) < 0 && errno != ENOENT) _exit(4);
}

static void reply_to(const struct fuse_in_header *to, const void *asked) {
    const struct fuse_write_in *write_in = asked;
    /* "file" is 2, "file1" 3. */
    uint64_t node = to->nodeid;
    if (to->opcode == FUSE_LOOKUP && !strncmp(asked, "file", 4)) node = 2 + (uint64_t)atoi((const char *)asked + 4);
    size_t *size = &sizes[node % (FILES + 2)];
    struct fuse_attr file = {.ino = node, .mode = S_IFREG | 0644, .nlink = 1, .blksize = PAGE, .size = *size};
    struct fuse_init_out init = {.major = 7, .minor = 31, .max_write = 131072, .time_gran = 1, .flags = FUSE_BIG_WRITES};
    struct fuse_entry_out entry = {.nodeid = node, .entry_valid = 100, .attr = file};
    struct fuse_attr_out attr = {.attr = file};
    struct fuse_open_out open_out = {0};
    struct fuse_write_out write_out = {0};
    struct fuse_statfs_out room = {.st = {.blocks = 1 << 22, .bfree = 1 << 21, .bavail = 1 << 21, .bsize = PAGE}};
    room.st.frsize = PAGE, room.st.namelen = 255;
    switch (to->opcode) {
    case FUSE_INIT: return reply(to->unique, 0, &init, sizeof init);
    case FUSE_LOOKUP:
        return strncmp(asked, "file", 4) ? reply(to->unique, ENOENT, 0, 0) : reply(to->unique, 0, &entry, sizeof entry);
    case FUSE_SETATTR:
    case FUSE_GETATTR:
        if (to->nodeid == 1) attr.attr = (struct fuse_attr){.ino = 1, .mode = S_IFDIR | 0755, .nlink = 2};
        return reply(to->unique, 0, &attr, sizeof attr);
    case FUSE_OPEN: return reply(to->unique, 0, &open_out, sizeof open_out);
    case FUSE_WRITE:
        if (write_in->offset + write_in->size > *size) *size = write_in->offset + write_in->size;
        write_out.size = write_in->size;
        usleep(moment_us + write_us), moment_us = 0;
        return reply(to->unique, 0, &write_out, sizeof write_out);
    case FUSE_STATFS: return reply(to->unique, 0, &room, sizeof room);
    case FUSE_FLUSH:
        /* A process that is killed need not wait for an answer to its close. */
        usleep(close_us);
        return reply(to->unique, strcmp(way, "opens") ? 0 : ENOSYS, 0, 0);
    case FUSE_RELEASE: return reply(to->unique, 0, 0, 0);
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT: return;
    default: return reply(to->unique, ENOSYS, 0, 0);
    }
}

/* A byte in standard input ends the answers, and the next one lets them go on; or it delays the next answer to a write,
 * or all from then on. */
static _Noreturn void serve(const char *folder) {
    static struct fuse_in_header request[1 << 16];
    char options[128], byte;
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
    if (device < 0 || mount("own", folder, "fuse", 0, options)) cannot("fuse");
    struct pollfd ends[2] = {{device, POLLIN, 0}, {0, POLLIN, 0}};
    for (;;) {
        poll(ends, 2, -1);
        if (ends[1].revents) {
            if (read(0, &byte, 1) != 1) _exit(0);
            if (!strcmp(way, "a_moment")) moment_us = MOMENT_US;
            else if (!strcmp(way, "newer")) moment_us = ORDER_US;
            else if (!strcmp(way, "many")) write_us = SLOW_US;
            else if (!strcmp(way, "closes")) close_us = MOMENT_US;
            else if (read(0, &byte, 1) != 1) _exit(0);
        }
        if (ends[0].revents & POLLIN && read(device, request, sizeof request) > 0) reply_to(request, request + 1);
        if (ends[0].revents & POLLERR) _exit(0);
    }
}

static double time_of(clockid_t clock) {
    struct timespec time = {0};
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double now(void) {
    return time_of(CLOCK_MONOTONIC);
}

/* How long it took is said where that is not what it should be. */
static void say_when(const char *what, const char *good, double seconds, double most) {
    if (seconds < most) say("%s%s\n", what, good);
    else say("%slate: %.2f s\n", what, seconds);
}

static void put(int fd, int records) {
    char record[RECORD];
    memset(record, 'r', sizeof record);
    for (int i = 0; i < records; i++) {
        if (write(fd, record, sizeof record) != sizeof record) cannot("write");
        for (volatile int pause = 0; pause < PAUSE; pause++) {}
    }
}

static void wait_for(double seconds) {
    for (double until = now() + seconds; now() < until;) {}
}

/* Writes records, and then makes no call any more; or, after some seconds, writes another one, and ends. */
static pid_t writer(const char *path, int records, double seconds) {
    pid_t child = fork();
    if (child) return child;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    put(fd, records);
    wait_for(seconds);
    put(fd, 1);
    _exit(0);
}

/* Gives what waits the time to arrive, on a machine that is busy. */
static void tell_size_of(const char *path, int records) {
    struct stat found = {0};
    for (double begun = now(); found.st_size < records * RECORD && now() < begun + LATE_SECONDS; usleep(10000))
        stat(path, &found);
    say("%s: %ld\n", strrchr(path, '/') ? "served" : path, (long)found.st_size);
}

static void tell_size(const char *path) {
    tell_size_of(path, RECORDS);
}

static void end(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void tell_server(int to) {
    if (write(to, "", 1) != 1) cannot("server");
}

/* Until what cannot wait has been written to a file. */
static void await_begun(const char *path) {
    struct stat found = {0};
    while (found.st_size < SOME * RECORD / 8) usleep(10000), stat(path, &found);
    usleep(300000);
}

/* Until a writer has made all of its calls, however busy the machine is. It can say so by none itself, as that might
 * make what waits arrive: it has used far more time than they take. */
static void await_used(pid_t child, double cpu_seconds) {
    clockid_t clock;
    if (clock_getcpuclockid(child, &clock)) cannot("clock");
    while (time_of(clock) < cpu_seconds) usleep(10000);
}

static void await_written(pid_t child) {
    await_used(child, WRITTEN_CPU_SECONDS);
}

static void for_long(const char *path, int to) {
    pid_t on_it = writer(path, RECORDS, 1e9);
    await_written(on_it);
    tell_server(to);
    /* What waits is due by now. */
    usleep(1200000);
    pid_t living = writer("living", RECORDS, 1e9);
    usleep(1000000);
    tell_size("living");
    end(living);
    pid_t dead = writer("dead", RECORDS, 1e9);
    await_written(dead);
    usleep(500000);
    end(dead);
    tell_size("dead");
    tell_server(to);
    end(on_it);
    tell_size(path);
}

static void a_moment(const char *path, int to) {
    int status = -1;
    pid_t on_it = writer(path, RECORDS, 1.5);
    await_written(on_it);
    tell_server(to);
    /* By now it has waited for that write for so long as for nobody who does nothing. */
    usleep(1900000);
    pid_t dead = writer("dead", RECORDS, 1e9);
    await_written(dead);
    usleep(500000);
    end(dead);
    tell_size("dead");
    waitpid(on_it, &status, 0);
    say("status %d\n", status);
    tell_size(path);
}

/* Writes to a file elsewhere, then to all of those, and after a while to the first again. */
static pid_t writer_of_many(const char *folder, double seconds) {
    pid_t child = fork();
    if (child) return child;
    char path[4200];
    int files[FILES + 1] = {open("first", O_WRONLY | O_CREAT | O_TRUNC, 0644)};
    for (int i = 1; i <= FILES; i++) {
        snprintf(path, sizeof path, "%s/file%d", folder, i);
        files[i] = open(path, O_WRONLY);
    }
    /* The server sees what is written until it waits, and what waits elsewhere comes before that. */
    for (int i = 0; i <= FILES; i++) put(files[i], i ? SOME : RECORDS);
    for (int i = 0; i <= FILES; i++) put(files[i], SOME / 100);
    wait_for(seconds);
    put(files[0], 1);
    _exit(0);
}

static void tell_size_now(const char *path) {
    struct stat found = {0};
    stat(path, &found);
    say("%s: %ld now\n", path, (long)found.st_size);
}

static void many(const char *folder, int to) {
    int status = -1;
    char last[4200];
    snprintf(last, sizeof last, "%s/file%d", folder, FILES);
    pid_t on_it = writer_of_many(folder, 2);
    await_begun(last);
    tell_server(to);
    pid_t living = writer("living", MANY, 1e9);
    await_used(living, MANY_CPU_SECONDS);
    usleep(2000000);
    /* By now what they had waiting is being written for them. */
    tell_size_now("living");
    pid_t dead = writer("dead", MANY, 1e9);
    await_used(dead, MANY_CPU_SECONDS);
    usleep(400000);
    double begun = now();
    end(dead);
    tell_size_now("dead");
    say_when("", "at once", now() - begun, 1);
    end(living);
    waitpid(on_it, &status, 0);
    say("status %d\n", status);
}

/* Writes there, and then elsewhere. */
static pid_t writer_of_two(const char *path) {
    pid_t child = fork();
    if (child) return child;
    int files[] = {open(path, O_WRONLY), open("first", O_WRONLY | O_CREAT | O_TRUNC, 0644)};
    for (int i = 0; i < 2; i++) put(files[i], RECORDS);
    for (int i = 0; i < 2; i++) put(files[i], 1);
    wait_for(1e9);
    _exit(0);
}

static void opens(const char *path, int to) {
    char byte;
    int ends[2];
    pid_t child = writer_of_two(path);
    await_written(child);
    tell_server(to);
    usleep(2500000);
    double begun = now();
    close(open("first", O_WRONLY));
    say_when("opened ", "soon", now() - begun, 5);
    end(child);
    begun = now();
    for (int i = 0; i < 3; i++) {
        if (pipe(ends)) cannot("pipe");
        close(ends[1]);
        say("%ld\n", (long)read(ends[0], &byte, 1));
        close(ends[0]);
    }
    say_when("learned ", "soon", now() - begun, 5);
    tell_server(to);
    tell_size_of(path, RECORDS + 1);
}

static void newer(const char *path, int to) {
    struct stat found = {0};
    pid_t child = writer_of_two(path);
    await_written(child);
    tell_server(to);
    while (found.st_size < (RECORDS + 1) * RECORD) usleep(10000), stat("first", &found);
    /* While the server is at a write it answers nobody. */
    double begun = now();
    stat(path, &found);
    say("%s: %ld\n", now() - begun < 0.4 ? "in order" : "before what it follows from", (long)found.st_size);
    end(child);
}

static void closes(const char *path, int to) {
    int status = -1, fd = open(path, O_WRONLY | O_TRUNC);
    pid_t on_it = fork();
    if (on_it == 0) {
        dup2(fd, 1);
        execl("/proc/self/exe", "hangs", "put", "0.8", NULL);
    }
    close(fd);
    await_begun(path);
    pid_t living = writer("living", MANY, 1e9);
    tell_server(to);
    usleep(2600000);
    tell_size_now("living");
    end(living);
    waitpid(on_it, &status, 0);
    say("status %d\n", status);
    tell_size(path);
}

int main(int count, char **words) {
    if (count < 3) return 2;
    way = words[1];
    if (count > 3) serve(words[2]);
    if (!strcmp(way, "put")) {
        put(1, RECORDS);
        wait_for(atof(words[2]));
        return 0;
    }
    char path[4096];
    int ends[2], fd;
    mkdir(words[2], 0700);
    snprintf(path, sizeof path, "%s/file", words[2]);
    if (pipe2(ends, O_CLOEXEC)) cannot("pipe");
    pid_t server = fork();
    if (server == 0) {
        dup2(ends[0], 0);
        execle("/proc/self/exe", "hangs", way, words[2], "serve", NULL, (char *[]){"SWEETSPOT=off", NULL});
    }
    close(ends[0]);
    while ((fd = open(path, O_RDONLY)) < 0 && waitpid(server, NULL, WNOHANG) == 0) usleep(1000);
    if (fd < 0) cannot(path);
    close(fd);
    if (!strcmp(way, "many")) many(words[2], ends[1]);
    else if (!strcmp(way, "closes")) closes(path, ends[1]);
    else if (!strcmp(way, "newer")) newer(path, ends[1]);
    else if (!strcmp(way, "opens")) opens(path, ends[1]);
    else (strcmp(way, "a_moment") ? for_long : a_moment)(path, ends[1]);
    umount2(words[2], MNT_DETACH);
    end(server);
    unlink("living"), unlink("dead"), unlink("first");
    log_out();
    return 0;
}
