/* A file system that says only when a file is closed that there was no room, and only once, as network file
 * systems do; and a program that writes small records there and tells what its close said.
 *
 *   late_error serve MOUNTPOINT    one file, `out`, of which only the length is kept
 *   late_error write               to standard output
 *   late_error pause               the same, and computes for a while before it closes
 *   late_error open NAME           to a file that it opens, and computes
 *   late_error append NAME         the same, at its end */
#define FUSE_USE_VERSION 31
#include "log.h"
#include <fuse3/fuse.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

enum { RECORD = 100, RECORDS = 30000, QUIET_MS = 600 };

static off_t size;
static bool is_unsaid;

static int get_attributes(const char *path, struct stat *of, struct fuse_file_info *file) {
    (void)file;
    memset(of, 0, sizeof *of);
    bool is_root = !strcmp(path, "/");
    if (!is_root && strcmp(path, "/out")) return -ENOENT;
    of->st_mode = is_root ? S_IFDIR | 0755 : S_IFREG | 0644;
    of->st_nlink = 1, of->st_size = is_root ? 0 : size, of->st_ino = is_root ? 1 : 2;
    return 0;
}

static int open_file(const char *path, struct fuse_file_info *file) {
    (void)path, (void)file;
    return 0;
}

static int cut(const char *path, off_t to, struct fuse_file_info *file) {
    (void)path, (void)file, size = to;
    return 0;
}

static int write_at(const char *path, const char *bytes, size_t count, off_t at, struct fuse_file_info *file) {
    (void)path, (void)bytes, (void)file;
    if (at + (off_t)count > size) size = at + (off_t)count;
    is_unsaid = true;
    return (int)count;
}

static int flush_file(const char *path, struct fuse_file_info *file) {
    (void)path, (void)file;
    int error = is_unsaid ? -ENOSPC : 0;
    is_unsaid = false;
    return error;
}

static int room(const char *path, struct statvfs *of) {
    (void)path;
    memset(of, 0, sizeof *of);
    of->f_bsize = of->f_frsize = 4096, of->f_blocks = of->f_bfree = of->f_bavail = 1 << 30;
    return 0;
}

static const struct fuse_operations operations = {.getattr = get_attributes, .open = open_file,
    .truncate = cut, .write = write_at, .flush = flush_file, .statfs = room};

static int serve(const char *mountpoint) {
    char *arguments[] = {"late_error", "-f", "-s", (char *)(size_t)mountpoint, NULL};
    return fuse_main(4, arguments, &operations, NULL);
}

/* Computes, and says nothing to anybody. */
static void be_quiet(void) {
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do {
        for (volatile int turn = 0; turn < 1000000; turn++) continue;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begun.tv_sec) * 1000 + (now.tv_nsec - begun.tv_nsec) / 1000000 < QUIET_MS);
}

static int write_to(int fd, bool is_quiet) {
    char record[RECORD];
    memset(record, 'l', RECORD);
    for (int i = 0; i < RECORDS; i++)
        if (write(fd, record, RECORD) != RECORD) say("record %d: %d\n", i, errno);
    if (is_quiet) be_quiet();
    say("close: %d\n", close(fd) == 0 ? 0 : errno);
    if (fd != 1) close(1);
    return dup2(2, 1) == 1 ? log_out(), 0 : 9;
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "", *name = count > 2 ? arguments[2] : NULL;
    if (name && !strcmp(way, "serve")) return serve(name);
    if (name) {
        int flags = strcmp(way, "append") ? O_TRUNC : O_APPEND;
        return write_to(open(name, O_WRONLY | flags), true);
    }
    return write_to(1, !strcmp(way, "pause"));
}
