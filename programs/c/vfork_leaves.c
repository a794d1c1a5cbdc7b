/* The child of a vfork runs in its parent's memory. What it does there is its parent's, too; what it does with
 * descriptors is its own affair, also after it has started a program itself.
 *
 *   spawn, system, popen   it starts a program; then it closes its parent's files, opens others and is killed
 *   map read, map write    it maps the file that its parent reads, or writes; the parent stores or looks there
 *   map nothing, attach    it maps memory of no file, or attaches some, which a child of its parent's shares
 *   watch, raw watch       it asks that its parent be told of writes
 *   limit                  it sets a limit for its parent */
#include "log.h"
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;
enum { RECORD = 10, RECORDS = 600, BYTES = 60000, ROUNDS = 5 };

static int in, out;

static int open_new(const char *name) { return open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644); }

static void records(int fd, const char *record, int count) {
    for (int i = 0; i < count; i++) {
        if (write(fd, record, RECORD) != RECORD) say("write: errno %d\n", errno);
        if (i % 10 == 0) give_time(fd);
    }
}

static void read_on(const char *what, int fd, int count) {
    static char all[BYTES];
    long length = 0, got;
    for (int i = 0; i < count && (got = read(fd, all + length, RECORD)) > 0; i++) length += got;
    say("%s: %ld bytes, %016lx\n", what, length, hash_of(all, (size_t)length));
}

/* Both files are buffered from here on, where they may be. */
static void begin(void) {
    make_file("in", BYTES);
    in = open("in", O_RDWR | O_CLOEXEC), out = open_new("out");
    read_on("in", in, 300), records(out, "0123456789", RECORDS);
}

static void wait_for(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    say("status %x\n", status);
}

static void start(const char *how) {
    char *arguments[] = {"true", NULL};
    int status = -1;
    pid_t child;
    if (!strcmp(how, "spawn") && posix_spawnp(&child, "true", NULL, NULL, arguments, environ) == 0)
        waitpid(child, &status, 0);
    if (!strcmp(how, "system")) status = system("true");
    if (!strcmp(how, "popen")) status = pclose(popen("true", "r"));
    if (status) _exit(9);
}

static void starts(const char *how) {
    pid_t child = vfork();
    if (child == 0) {
        start(how);
        close(in), close(out);
        /* There, the numbers mean files of its own from now on. It dies with them open. */
        int other = open("other", O_RDONLY | O_CLOEXEC), own = open_new("own");
        if (other != in || own != out) _exit(8);
        read_on("the child's", other, 100), records(own, "childchild", 400);
        kill(getpid(), SIGKILL);
    }
    wait_for(child);
    read_on("in", in, 100), records(out, "afterwards", 300);
    say("at %ld %ld\n", (long)lseek(in, 0, SEEK_CUR), (long)lseek(out, 0, SEEK_CUR));
    say_file("own");
}

static char *volatile place;

static void map(int fd) {
    pid_t child = vfork();
    if (child == 0) {
        place = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
        _exit(place == MAP_FAILED);
    }
    wait_for(child);
}

static void map_read(void) {
    map(in);
    for (int i = 0; i < 20; i++) {
        char *record = place + lseek(in, 0, SEEK_CUR), found[RECORD];
        read(in, found, RECORD);
        memcpy(record + RECORD, "stored now", RECORD);
        read(in, found, RECORD);
        say("%.10s\n", found);
    }
}

static void map_write(void) {
    /* Nobody may store behind the end of a file. */
    if (ftruncate(out, BYTES)) exit(2);
    map(out);
    for (int i = 0; i < 20; i++) {
        write(out, "looked at ", RECORD);
        say("%.10s\n", place + RECORD * (RECORDS + i));
    }
}

static void attach(void) {
    int memory = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
    pid_t child = vfork();
    if (child == 0) {
        place = shmat(memory, NULL, 0);
        _exit(place == (char *)-1);
    }
    wait_for(child), shmctl(memory, IPC_RMID, NULL);
}

/* A child writes a file and then a word: who sees the word sees all of the file. */
static void share_word(void) {
    int early = 0;
    volatile char *word = place;
    for (int round = 0; round < ROUNDS; round++) {
        *word = 0;
        pid_t child = fork();
        if (child == 0) {
            records(open_new("told"), "0123456789", RECORDS);
            *word = 1;
            while (*word == 1) sched_yield();
            _exit(0);
        }
        while (*word == 0) sched_yield();
        struct stat found = {0};
        stat("told", &found);
        early += found.st_size != RECORD * RECORDS;
        *word = 2;
        waitpid(child, NULL, 0);
    }
    say("%d effects before their cause\n", early);
}

static void watch(int by_raw) {
    static char events[1 << 16];
    int watcher = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), other = open_new("other");
    records(other, "0123456789", RECORDS);
    pid_t child = vfork();
    if (child == 0) {
        /* Both, as equal events behind each other are told once. */
        for (int i = 0; i < 2; i++) {
            const char *name = i ? "other" : "out";
            if (by_raw) syscall(SYS_inotify_add_watch, watcher, name, IN_MODIFY);
            else inotify_add_watch(watcher, name, IN_MODIFY);
        }
        _exit(0);
    }
    wait_for(child);
    for (int i = 0; i < 50; i++) write(out, "o", 1), write(other, "x", 1);
    long length = read(watcher, events, sizeof events);
    say("%ld events\n", length / (long)sizeof(struct inotify_event));
}

static void limit(void) {
    signal(SIGXFSZ, SIG_IGN);
    pid_t parent = getpid(), child = vfork();
    if (child == 0) {
        struct rlimit most = {RECORD * RECORDS + 1000, RLIM_INFINITY};
        _exit(prlimit(parent, RLIMIT_FSIZE, &most, NULL) != 0);
    }
    wait_for(child);
    records(out, "afterwards", 105);
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "";
    make_file("other", BYTES / 2);
    begin();
    if (!strcmp(way, "spawn") || !strcmp(way, "system") || !strcmp(way, "popen")) starts(way);
    if (!strcmp(way, "map read")) map_read();
    if (!strcmp(way, "map write")) map_write();
    if (!strcmp(way, "map nothing")) map(-1), share_word();
    if (!strcmp(way, "attach")) attach(), share_word();
    if (!strcmp(way, "watch")) watch(0);
    if (!strcmp(way, "raw watch")) watch(1);
    if (!strcmp(way, "limit")) limit();
    close(out);
    say_file("out");
    log_out();
    return 0;
}
