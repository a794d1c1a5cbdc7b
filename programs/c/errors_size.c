/* ftruncate, truncate, fallocate, fstat, fsync, fadvise, ioctl(FIONREAD), fcntl on a busy descriptor. */
#include "errors.h"
#include <limits.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <poll.h>
#include <sys/select.h>

static long size_of(int fd) { struct stat data; return fstat(fd, &data) ? -errno : (long)data.st_size; }
static long size_named(const char *name) { struct stat data; return stat(name, &data) ? -errno : (long)data.st_size; }
static long size_linked(const char *name) { struct stat data; return lstat(name, &data) ? -errno : (long)data.st_size; }
static long size_at(int fd) { struct stat data; return fstatat(fd, "", &data, AT_EMPTY_PATH) ? -errno : (long)data.st_size; }
static long size_statx(int fd) {
    struct statx data;
    return statx(fd, "", AT_EMPTY_PATH, STATX_SIZE | STATX_TYPE, &data) ? -errno : (long)data.stx_size;
}
static long size_via_proc(int fd) {
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    return size_named(name);
}

static int call(int fd, int number) {
    int left = -1, count = 0;
    switch (number) {
    case 0: CALL(size_of(fd)); CALL(size_named(file_name)); CALL(size_linked(file_name)); return 1;
    case 1: CALL(size_at(fd)); CALL(size_statx(fd)); CALL(size_via_proc(fd)); return 1;
    case 2: CALL(ftruncate(fd, 0)); CALL(size_of(fd)); return 1;
    case 3: CALL(ftruncate(fd, 3000)); CALL(size_named(file_name)); return 1;
    case 4: CALL(ftruncate(fd, 20000)); CALL(size_of(fd)); return 1;
    case 5: CALL(ftruncate(fd, -1)); CALL(ftruncate(fd, LONG_MAX)); CALL(ftruncate(fd + 1, 0)); return 1;
    case 6: CALL(truncate(file_name, 2500)); CALL(size_of(fd)); return 1;
    case 7: CALL(truncate(file_name, 25000)); CALL(read(fd, scratch, 30000)); return 1;
    case 8: CALL(truncate(file_name, -5)); CALL(truncate("missing", 0)); CALL(truncate(".", 0)); return 1;
    case 9: CALL(fallocate(fd, 0, 10000, 9000)); CALL(size_of(fd)); return 1;
    case 10: CALL(fallocate(fd, FALLOC_FL_KEEP_SIZE, 10000, 9000)); CALL(size_of(fd)); return 1;
    case 11: CALL(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1000, 9000)); return 1;
    case 12: CALL(fallocate(fd, FALLOC_FL_ZERO_RANGE, 500, 600)); CALL(fallocate(fd, 0, -1, 5)); CALL(fallocate(fd, 0, 0, 0)); return 1;
    case 13: CALL(posix_fallocate(fd, 0, 15000)); CALL(posix_fallocate(fd, -1, 5)); CALL(size_of(fd)); return 1;
    case 14: CALL(fsync(fd)); CALL(fdatasync(fd)); CALL(fsync(fd + 1)); return 1;
    case 15: CALL(sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE)); CALL(sync_file_range(fd, -1, 0, 0)); return 1;
    case 16: CALL(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED)); CALL(posix_fadvise(fd, 0, 0, 77)); CALL(readahead(fd, 0, 100)); return 1;
    /* The kernel answers FIONREAD from its own offset. */
    case 17: CALL(ioctl(fd, FIONREAD, &left)); CALL_AS("left", left); return 1;
    case 18: CALL(ioctl(fd, TCGETS, scratch)); CALL(isatty(fd)); CALL(ioctl(fd, FIOCLEX)); CALL(fcntl(fd, F_GETFD)); return 1;
    case 19: count = fcntl(fd, F_GETFL); CALL_AS("flags", count); CALL(fcntl(fd, F_SETFL, count | O_NONBLOCK)); CALL(fcntl(fd, F_GETFL)); return 1;
    case 20: CALL(fcntl(fd, F_SETFL, O_APPEND)); CALL(write(fd, "appended", 8)); CALL(lseek(fd, 0, SEEK_CUR)); return 1;
    case 21: CALL(fcntl(fd, F_SETFL, 0)); CALL(write(fd, "no longer", 9)); CALL(lseek(fd, 0, SEEK_CUR)); return 1;
    case 22: CALL(fcntl(fd, 9999)); CALL(fcntl(fd + 1, F_GETFL)); CALL(fcntl(fd, F_DUPFD, -1)); CALL(fcntl(fd, F_DUPFD, INT_MAX)); return 1;
    case 23: CALL(flock(fd, LOCK_EX | LOCK_NB)); CALL(flock(fd, LOCK_UN)); CALL(flock(fd, 99)); CALL(lockf(fd, F_TLOCK, 10)); CALL(lockf(fd, F_ULOCK, 10)); return 1;
    case 24: { struct flock lock = {F_WRLCK, SEEK_CUR, -5, 10, 0}; CALL(fcntl(fd, F_SETLK, &lock)); CALL(fcntl(fd, F_GETLK, &lock)); CALL_AS("type", lock.l_type); return 1; }
    case 25: { struct pollfd poll_fd = {fd, POLLIN | POLLOUT, 0}; CALL(poll(&poll_fd, 1, 0)); CALL_AS("events", poll_fd.revents); return 1; }
    case 26: { fd_set set; FD_ZERO(&set); FD_SET(fd, &set); CALL(select(fd + 1, &set, NULL, NULL, NULL)); return 1; }
    case 27: CALL(fchmod(fd, 0400)); CALL(write(fd, "still", 5)); CALL(fchmod(fd, 0644)); CALL(fchown(fd, -1, -1)); return 1;
    case 28: CALL(fsetxattr(fd, "user.test", "v", 1, 0)); CALL(fgetxattr(fd, "user.test", scratch, 10)); return 1;
    case 29: CALL(lseek(fd, 100, SEEK_SET)); CALL(sendfile(1 << 20, fd, NULL, 10)); CALL(sendfile(fd, fd, NULL, 10)); CALL(lseek(fd, 0, SEEK_CUR)); return 1;
    case 30: CALL(copy_file_range(fd, NULL, fd, NULL, 10, 0)); CALL(copy_file_range(fd, NULL, fd, NULL, 10, 7)); return 1;
    case 31: { off_t in = 10, out = 15000; CALL(copy_file_range(fd, &in, fd, &out, 100, 0)); CALL_AS("in", in); CALL_AS("out", out); return 1; }
    default: { struct statvfs data; CALL(fstatvfs(fd, &data)); return 0; }
    }
}

int main(void) {
    every_state(call);
    log_out();
    return 0;
}
