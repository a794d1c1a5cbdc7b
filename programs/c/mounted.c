/* What a file on a small file system of its own shows. Root mounts it in the folder that is named.
 *   told FOLDER    it is closed, which another process is told in a way of its own, and unmounts it: is it busy?
 *   nameless FOLDER  it is removed and then closed: can its room be had at once?
 *   reads FOLDER   it keeps the time of each read: do the reads show?
 *   strict FOLDER  it keeps that only from some moment on
 *   left FOLDER    a process that has its folder there writes elsewhere, and crashes: is that there once it is unmounted?
 *   copied FOLDER  it lies below an overlayfs, is open for reading, and is then opened for writing there, by this
 *                  process or by another: are the reads what was written? */
#include "log.h"
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { ROUNDS = 20, RECORDS = 600, RECORD = 100 };

static int mounted(const char *folder, const char *options, unsigned long flags) {
    mkdir(folder, 0700);
    return mount("small", folder, "tmpfs", flags, options) == 0;
}

static int written(const char *path) {
    char record[RECORD];
    memset(record, 'x', sizeof record);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    for (int i = 0; i < RECORDS; i++) {
        if (i > 65 && i < 200) give_time(fd);
        if (write(fd, record, sizeof record) != sizeof record) say("short write\n");
    }
    return fd;
}

static const char *const tellers[] = {"mkdir", "symlink", "open", "link", "chmod"};

static void tell(int way, const char *name) {
    if (way == 0) mkdir(name, 0700);
    if (way == 1 && symlink("x", name)) abort();
    if (way == 2) close(open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    if (way == 3 && link("known", name)) abort();
    if (way == 4) chmod("known", 0700);
}

static int is_told(int way, const char *name) {
    struct stat status;
    return way == 4 ? !stat("known", &status) && (status.st_mode & 0777) == 0700 : !lstat(name, &status);
}

/* The one that is told waits without a call that the other could hear of. */
static void see_who_is_busy(const char *folder, const char *path, int way) {
    int busy = 0;
    for (int round = 0; round < ROUNDS; round++) {
        char name[64];
        snprintf(name, sizeof name, "told-%d-%d", way, round);
        close(open("known", O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), chmod("known", 0600);
        if (!mounted(folder, "size=100m", 0)) abort();
        pid_t child = fork();
        if (child == 0) {
            while (!is_told(way, name)) continue;
            int fails = umount2(folder, 0);
            if (fails) umount2(folder, MNT_DETACH);
            _exit(fails != 0);
        }
        close(written(path));
        tell(way, name);
        int status = -1;
        waitpid(child, &status, 0);
        busy += status != 0;
        remove(name);
    }
    say("%s: busy %d of %d\n", tellers[way], busy, ROUNDS);
}

static void take_the_room(const char *folder, const char *path) {
    int refused = 0;
    if (!mounted(folder, "size=200m", 0)) abort();
    for (int round = 0; round < ROUNDS; round++) {
        int fd = written(path);
        if (posix_fallocate(fd, 0, 120 << 20)) say("no room at all\n");
        unlink(path);
        close(fd);
        fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        refused += fallocate(fd, 0, 0, 120 << 20) != 0;
        unlink(path);
        close(fd);
    }
    say("no room: %d of %d\n", refused, ROUNDS);
    umount2(folder, MNT_DETACH);
}

static void look_at_times(const char *folder, const char *path, int is_late) {
    int moved = 0;
    char word[16];
    struct stat before, after;
    if (!mounted(folder, "size=100m", is_late ? MS_RELATIME : MS_STRICTATIME)) abort();
    close(written(path));
    /* A file that has just changed is asked about again and again. */
    usleep(1500000);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < 200; i++)
        if (read(fd, word, sizeof word) != sizeof word) say("short read\n");
    if (is_late && mount("none", folder, NULL, MS_REMOUNT | MS_BIND | MS_STRICTATIME, NULL)) abort();
    for (int round = 0; round < ROUNDS; round++) {
        fstat(fd, &before);
        usleep(20000);
        if (read(fd, word, sizeof word) != sizeof word) say("short read\n");
        fstat(fd, &after);
        moved += memcmp(&before.st_atim, &after.st_atim, sizeof after.st_atim) != 0;
    }
    say("%d of %d reads show\n", moved, ROUNDS);
    close(fd);
    umount2(folder, MNT_DETACH);
}

static void see_who_left(const char *folder) {
    int shorts = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int ready[2];
        char byte;
        struct stat status;
        if (!mounted(folder, "size=1m", 0) || pipe2(ready, O_CLOEXEC)) abort();
        pid_t child = fork();
        if (child == 0) {
            int fd = open("crashed", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
            if (chdir(folder)) abort();
            write(ready[1], "x", 1);
            for (int i = 0; i < RECORDS; i++) {
                if (i > 65 && i < 200) give_time(fd);
                if (write(fd, "a record\n", 9) != 9) abort();
            }
            *(volatile int *volatile)NULL = 1;
        }
        if (read(ready[0], &byte, 1) != 1) abort();
        while (umount2(folder, 0)) continue;
        shorts += stat("crashed", &status) || status.st_size != 9 * RECORDS;
        waitpid(child, NULL, 0);
        close(ready[0]), close(ready[1]);
    }
    say("%d of %d short\n", shorts, ROUNDS);
}

/* Makes an overlayfs, in which a file with two names has another number when it was copied up. */
static void overlay(const char *folder, const char *path) {
    char text[3 * 4096];
    if (!mounted(folder, "size=100m", 0) || chdir(folder)) abort();
    mkdir("low", 0700), mkdir("up", 0700), mkdir("work", 0700), mkdir("top", 0700);
    close(written("low/file"));
    if (link("low/file", "low/other")) abort();
    if (mount("none", "top", "overlay", 0, "lowerdir=low,upperdir=up,workdir=work")) {
        perror(path);
        _exit(3);
    }
    snprintf(text, sizeof text, "%s/top", folder);
    if (chdir(text)) abort();
    /* A file that has just changed is asked about again and again. */
    usleep(1500000);
}

static int read_records(int fd, char with, long at, int count) {
    int wrong = 0;
    char record[RECORD], wanted[RECORD];
    memset(wanted, with, RECORD);
    lseek(fd, at, SEEK_SET);
    for (int i = 0; i < count; i++)
        wrong += read(fd, record, RECORD) != RECORD || memcmp(record, wanted, RECORD);
    for (int i = 0; i < count; i++)
        wrong += pread(fd, record, RECORD, at + i * RECORD) != RECORD || memcmp(record, wanted, RECORD);
    return wrong;
}

static void write_records(int fd, char with, long at, int count) {
    char record[RECORD];
    memset(record, with, RECORD);
    lseek(fd, at, SEEK_SET);
    for (int i = 0; i < count; i++) {
        if (count > 200 && i > 65 && i < 200) give_time(fd);
        if (write(fd, record, RECORD) != RECORD) say("short write\n");
    }
}

static void read_copies(const char *folder, const char *path) {
    overlay(folder, path);
    int reader = open("file", O_RDONLY | O_CLOEXEC), twice = dup(reader), wrong = read_records(reader, 'x', 0, 500);
    int writer = open("file", O_RDWR | O_CLOEXEC);
    write_records(writer, 'z', 0, 500);
    wrong += read_records(reader, 'z', 0, 500);
    for (int round = 0; round < ROUNDS; round++) {
        write_records(writer, 'a' + round, round * 2000, 10);
        wrong += read_records(round % 2 ? twice : reader, 'a' + round, round * 2000, 10);
    }
    say("%d wrong\n", wrong);
    close(twice), close(reader), close(writer);
    if (chdir(folder)) abort();
    umount2("top", MNT_DETACH);
    umount2(folder, MNT_DETACH);
}

static void read_copies_of_another(const char *folder, const char *path) {
    overlay(folder, path);
    int reader = open("file", O_RDONLY | O_CLOEXEC), wrong = read_records(reader, 'x', 0, 500);
    for (int round = 0; round < ROUNDS; round++) {
        pid_t child = fork();
        if (child == 0) {
            int writer = open("file", O_RDWR | O_CLOEXEC);
            write_records(writer, 'a' + round, 0, 300);
            _exit(0);
        }
        waitpid(child, NULL, 0);
        wrong += read_records(reader, 'a' + round, 0, 300);
    }
    say("%d wrong of another's\n", wrong);
    close(reader);
    if (chdir(folder)) abort();
    umount2("top", MNT_DETACH);
    umount2(folder, MNT_DETACH);
}

int main(int count, char **words) {
    if (count < 3) return 2;
    char path[4096];
    snprintf(path, sizeof path, "%s/file", words[2]);
    if (!strcmp(words[1], "told"))
        for (int way = 0; way < 5; way++) see_who_is_busy(words[2], path, way);
    if (!strcmp(words[1], "nameless")) take_the_room(words[2], path);
    if (!strcmp(words[1], "copied")) {
        read_copies(words[2], path);
        read_copies_of_another(words[2], path);
    }
    if (!strcmp(words[1], "reads")) look_at_times(words[2], path, 0);
    if (!strcmp(words[1], "strict")) look_at_times(words[2], path, 1);
    if (!strcmp(words[1], "left")) see_who_left(words[2]);
    log_out();
    return 0;
}
