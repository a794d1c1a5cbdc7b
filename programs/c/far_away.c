/* File systems as they are far away, of whose one file, `out`, only the length is kept; and programs that use
 * it by small records and tell what they were told.
 *
 *   far_away late MOUNTPOINT       says only when a file is closed that there was no room, and only once
 *   far_away broken MOUNTPOINT     refuses each transfer that one byte of the file is part of
 *   far_away interrupted MOUNTPOINT
 *                                  says of each of these that a signal has interrupted it
 *   far_away slow MOUNTPOINT       refuses each of these after a while
 *   far_away once MOUNTPOINT       refuses the first that goes beyond it, to say that earlier bytes are lost
 *   far_away silent MOUNTPOINT     describes the file a few times while it is open and long, and then no more
 *   far_away renumbered MOUNTPOINT gives it another number then
 *
 *   far_away write                 to standard output, then closes that
 *   far_away pause                 the same, and computes for a while before it closes
 *   far_away open NAME             to a file that it opens, and computes
 *   far_away append NAME           the same, at its end
 *   far_away one NAME              the same, but a single record at its beginning
 *   far_away twice NAME            the same by two descriptors, of which the second is closed first
 *   far_away until NAME            to a file that it opens, until it is told of an error
 *   far_away beside NAME           the same, and whether what it does then elsewhere takes long
 *   far_away whole NAME            the same, and what the file is then
 *   far_away quiet NAME            the same, and whether all was written while it computed, before it closed
 *   far_away stream NAME           the same whatever it is told, and closes it by a stream
 *   far_away over NAME             the same, and puts another file under its number
 *   far_away second NAME          a little beyond the broken place, then what another descriptor says
 *   far_away read NAME             from the beginning, until it is told of an error
 *   far_away read_at NAME          the same, by positioned reads */
#define FUSE_USE_VERSION 31
#include "log.h"
#include <fuse3/fuse.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

enum { RECORD = 100, RECORDS = 12000, BROKEN = 1000050, QUIET_MS = 600, REFUSE_MS = 200 };

static off_t size;
static bool is_late, is_once, is_interrupted, is_slow, is_silent, is_renumbered, is_unsaid, is_said;
static int open_files, asked, described, records = RECORDS;
/* Writes that did not begin where the last one ended: told as the time of the file. */
static long misplaced;
/* When the last write came: told as the time at which it was read. */
static struct timespec written;

static int get_attributes(const char *path, struct stat *of, struct fuse_file_info *file) {
    (void)file;
    memset(of, 0, sizeof *of);
    bool is_root = !strcmp(path, "/");
    if (!is_root && strcmp(path, "/out")) return -ENOENT;
    bool is_odd = !is_root && open_files && size > BROKEN / 10 && asked++ >= described;
    if (is_silent && is_odd) return -EIO;
    of->st_mode = is_root ? S_IFDIR | 0755 : S_IFREG | 0644;
    of->st_nlink = 1, of->st_size = is_root ? 0 : size, of->st_ino = is_root ? 1 : is_renumbered && is_odd ? 3 : 2;
    of->st_mtime = misplaced, of->st_atim = written;
    return 0;
}

static int cut(const char *path, off_t to, struct fuse_file_info *file) {
    (void)path, (void)file, size = to, misplaced = 0, is_said = false;
    return 0;
}

static int open_file(const char *path, struct fuse_file_info *file) {
    /* Each read is one of the program's; what is only written may wait. */
    file->direct_io = !is_late && (file->flags & O_ACCMODE) != O_WRONLY;
    open_files++;
    /* In one of these runs a flush is the first that is refused. */
    asked = 0, described = (described + 1) % 4;
    return file->flags & O_TRUNC ? cut(path, 0, file) : 0;
}

static int release_file(const char *path, struct fuse_file_info *file) {
    (void)path, (void)file, open_files--;
    return 0;
}

static void *begin(struct fuse_conn_info *connection, struct fuse_config *config) {
    (void)connection;
    config->use_ino = 1, config->attr_timeout = 0;
    return NULL;
}

static bool is_refused(off_t at, size_t count) {
    if (is_silent || is_renumbered) return false;
    bool beyond = !is_late && at + (off_t)count > BROKEN;
    if (!is_once) return beyond && at <= BROKEN;
    if (!beyond || is_said) return false;
    return is_said = true;
}

static int write_at(const char *path, const char *bytes, size_t count, off_t at, struct fuse_file_info *file) {
    (void)path, (void)bytes, (void)file;
    if (is_refused(at, count)) {
        if (is_slow) usleep(REFUSE_MS * 1000);
        return is_interrupted ? -EINTR : -EIO;
    }
    misplaced += at != size;
    clock_gettime(CLOCK_MONOTONIC, &written);
    if (at + (off_t)count > size) size = at + (off_t)count;
    is_unsaid = is_late;
    return (int)count;
}

static int read_at(const char *path, char *bytes, size_t count, off_t at, struct fuse_file_info *file) {
    (void)path, (void)file;
    if (is_refused(at, count)) return -EIO;
    if (at >= size) return 0;
    if (at + (off_t)count > size) count = (size_t)(size - at);
    memset(bytes, 'f', count);
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

static const struct fuse_operations operations = {.init = begin, .getattr = get_attributes,
    .open = open_file, .truncate = cut, .write = write_at, .read = read_at, .flush = flush_file,
    .release = release_file, .statfs = room};

static int serve(const char *mountpoint) {
    char *arguments[] = {"far_away", "-f", "-s", (char *)(size_t)mountpoint, NULL};
    return fuse_main(4, arguments, &operations, NULL);
}

static long milliseconds(struct timespec time) { return time.tv_sec * 1000L + time.tv_nsec / 1000000; }

/* Computes, and says nothing to anybody. */
static void be_quiet(void) {
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do {
        for (volatile int turn = 0; turn < 1000000; turn++) continue;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (milliseconds(now) - milliseconds(begun) < QUIET_MS);
}

static int told(void) { return dup2(2, 1) == 1 ? log_out(), 0 : 9; }

static int write_to(int fd, bool is_quiet, bool is_twice) {
    char record[RECORD];
    int second = is_twice ? dup(fd) : -1;
    memset(record, 'l', RECORD);
    for (int i = 0; i < records; i++)
        if (write(fd, record, RECORD) != RECORD) say("record %d: %d\n", i, errno);
    if (is_quiet) be_quiet();
    say("close: %d\n", close(is_twice ? second : fd) == 0 ? 0 : errno);
    if (is_twice && close(fd) != 0) say("close again: %d\n", errno);
    if (fd != 1) close(1);
    return told();
}

/* The record of which an error is told may be a later one, but is none that was written. */
static int write_until(const char *name) {
    char record[RECORD];
    memset(record, 'u', RECORD);
    int fd = open(name, O_WRONLY | O_TRUNC), failed = 0;
    for (int i = 0; i < RECORDS && !failed; i++) failed = write(fd, record, RECORD) == RECORD ? 0 : errno;
    if (close(fd) != 0) failed = errno;
    struct stat of = {0};
    stat(name, &of);
    say("error %d, all before it is there: %d\n", failed, of.st_size >= BROKEN - BROKEN % RECORD);
    return told();
}

/* Calls that have nothing to do with the file. */
static int write_beside(const char *name) {
    enum { CALLS = 30 };
    char record[RECORD];
    struct timespec begun, now;
    int fd = open(name, O_WRONLY | O_TRUNC), failed = 0, ends[2];
    memset(record, 'b', RECORD);
    for (int i = 0; i < RECORDS && !failed; i++) failed = write(fd, record, RECORD) == RECORD ? 0 : errno;
    if (pipe(ends) != 0) return 8;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (int i = 0; i < CALLS; i++)
        if (write(ends[1], record, 1) != 1) say("pipe: %d\n", errno);
    clock_gettime(CLOCK_MONOTONIC, &now);
    say("error %d, beside it in time: %d\n", failed, milliseconds(now) - milliseconds(begun) < CALLS * REFUSE_MS / 4);
    return told();
}

static int write_whole(const char *name, bool is_quiet) {
    char record[RECORD];
    struct timespec now;
    memset(record, 'w', RECORD);
    int fd = open(name, O_WRONLY | O_TRUNC), failed = 0;
    for (int i = 0; i < RECORDS && !failed; i++) {
        failed = write(fd, record, RECORD) == RECORD ? 0 : errno;
        /* It waits before the file is long. */
        if (i < BROKEN / 10 / RECORD && i % 10 == 0) give_time(fd);
    }
    if (is_quiet) be_quiet();
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (close(fd) != 0) failed = errno;
    struct stat of = {0};
    stat(name, &of);
    say("error %d, length %ld, misplaced %ld", failed, (long)of.st_size, (long)of.st_mtime);
    say("%s\n", is_quiet && milliseconds(of.st_atim) >= milliseconds(now) ? ", written late" : "");
    return told();
}

static int write_all(const char *name, bool by_stream) {
    char record[RECORD];
    memset(record, 'a', RECORD);
    int fd = open(name, O_WRONLY | O_TRUNC), failed = 0;
    FILE *stream = fdopen(fd, "w");
    for (int i = 0; i < RECORDS; i++) failed |= write(fd, record, RECORD) != RECORD;
    if (by_stream) failed |= fclose(stream) != 0;
    else dup2(open("/dev/null", O_WRONLY), fd);
    say("told: %d\n", failed);
    return told();
}

static int ask_second(const char *name) {
    char record[RECORD];
    memset(record, 's', RECORD);
    int first = open(name, O_WRONLY | O_TRUNC), second = open(name, O_RDWR), failed = 0;
    for (int i = 0; i < BROKEN / RECORD + 2; i++) failed |= write(first, record, RECORD) != RECORD;
    failed |= fsync(second) != 0;
    say("told: %d\n", failed);
    return told();
}

static int read_until(const char *name, bool by_position) {
    char record[RECORD];
    int fd = open(name, O_RDWR);
    if (ftruncate(fd, RECORD * RECORDS) != 0) say("not cut: %d\n", errno);
    ssize_t count = 1;
    long sum = 0;
    for (off_t at = 0; count > 0; at += count) {
        count = by_position ? pread(fd, record, RECORD, at) : read(fd, record, RECORD);
        if (count > 0) sum += count;
    }
    say("%ld bytes, then error %d at %ld\n", sum, errno, (long)lseek(fd, 0, SEEK_CUR));
    return told();
}

/* The server and who asks it share the first processor: to wake up another one takes longer than the answer. */
static void share_a_processor(void) {
    cpu_set_t allowed, first;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    int at = 0;
    while (at < CPU_SETSIZE - 1 && !CPU_ISSET(at, &allowed)) at++;
    CPU_ZERO(&first);
    CPU_SET(at, &first);
    if (sched_setaffinity(0, sizeof first, &first) != 0) say("on all processors: %d\n", errno);
}

int main(int count, char **arguments) {
    share_a_processor();
    const char *way = count > 1 ? arguments[1] : "", *name = count > 2 ? arguments[2] : NULL;
    is_late = !strcmp(way, "late");
    if (!name) return write_to(1, !strcmp(way, "pause"), false);
    is_once = !strcmp(way, "once"), is_interrupted = !strcmp(way, "interrupted");
    is_slow = !strcmp(way, "slow"), is_silent = !strcmp(way, "silent"), is_renumbered = !strcmp(way, "renumbered");
    bool is_odd = is_late || is_once || is_interrupted || is_slow || is_silent || is_renumbered;
    if (is_odd || !strcmp(way, "broken")) return serve(name);
    if (!strcmp(way, "stream") || !strcmp(way, "over")) return write_all(name, way[0] == 's');
    if (!strcmp(way, "second")) return ask_second(name);
    if (!strcmp(way, "until")) return write_until(name);
    if (!strcmp(way, "beside")) return write_beside(name);
    if (!strcmp(way, "whole") || !strcmp(way, "quiet")) return write_whole(name, way[0] == 'q');
    if (!strncmp(way, "read", 4)) return read_until(name, way[4]);
    if (!strcmp(way, "one")) records = 1;
    int fd = open(name, O_WRONLY | (strcmp(way, "append") ? O_TRUNC : O_APPEND));
    return write_to(fd, true, !strcmp(way, "twice"));
}
