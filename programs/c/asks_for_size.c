/* Asks how large a file is to which another process has just written, which tells nobody: it goes on computing. The
 * one that asks was there before. It looks at the other's processor time, which is no message. */
#include "log.h"
#include <ftw.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

enum { RECORDS = 400 };

static double used(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}
static void compute_until(double seconds) {
    while (used(CLOCK_PROCESS_CPUTIME_ID) < seconds)
        ;
}

/* As the answer of a statx begins, up to the size. */
struct told {
    uint32_t mask, block;
    uint64_t attributes;
    uint32_t links, user, group;
    uint16_t mode;
    uint64_t inode, size;
    uint64_t rest[64];
};

static long size_seen;
static int seen(const char *path, const struct stat *data, int kind, struct FTW *where) {
    (void)path, (void)kind, (void)where;
    size_seen = (long)data->st_size;
    return 0;
}

static long size_by(const char *way, int fd) {
    struct stat data;
    struct told told;
    if (!strcmp(way, "stat")) return stat("asked", &data) ? -1 : (long)data.st_size;
    if (!strcmp(way, "lstat")) return lstat("asked", &data) ? -1 : (long)data.st_size;
    if (!strcmp(way, "fstatat"))
        return fstatat(AT_FDCWD, "asked", &data, 0) ? -1 : (long)data.st_size;
    if (!strcmp(way, "lseek")) return (long)lseek(fd, 0, SEEK_END);
    if (!strcmp(way, "nftw")) return nftw("asked", seen, 3, FTW_PHYS) ? -1 : size_seen;
#ifdef STATX_SIZE
    if (!strcmp(way, "statx"))
        return statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, (struct statx *)&told) ? -1
                                                                               : (long)told.size;
#endif
    return syscall(SYS_statx, AT_FDCWD, "asked", 0, 0x7ff, &told) ? -1 : (long)told.size;
}

int main(int count, char **ways) {
    for (int i = 1; i < count; i++) {
        close(open("asked", O_WRONLY | O_CREAT | O_TRUNC, 0644));
        int fd = open("asked", O_RDONLY);
        pid_t writer = fork();
        if (writer == 0) {
            int to = open("asked", O_WRONLY | O_APPEND);
            for (int record = 0; record < RECORDS; record++) {
                if (write(to, "a small record\n", 15) != 15) _exit(1);
                compute_until(0.0002 * record);
            }
            compute_until(0.3);
            _exit(0);
        }
        clockid_t clock;
        clock_getcpuclockid(writer, &clock);
        while (used(clock) < 0.15) usleep(1000);
        say("%s: %ld bytes\n", ways[i], size_by(ways[i], fd));
        int status;
        waitpid(writer, &status, 0);
        say("%d, ended with %d\n", (int)lseek(fd, 0, SEEK_END), status);
        close(fd);
    }
    log_out();
    return 0;
}
