// Files by name and by number: metadata, names, many descriptors at once.
#include "common.h"
#include <dirent.h>
#include <glob.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/time.h>

extern int __fxstat(int version, int fd, struct stat *into);
extern int __xstat(int version, const char *path, struct stat *into);

int main(void) {
    struct stat status;
    struct statx extended;
    int fd = open_warm("data", O_RDWR);
    TRY(stat("data", &status));
    say("size %lld mode %o", (long long)status.st_size, status.st_mode);
    TRY(fstat(fd, &status));
    TRY(lstat("missing", &status));
    TRY(fstatat(AT_FDCWD, "data", &status, 0));
    TRY(statx(AT_FDCWD, "data", 0, STATX_SIZE, &extended));
    say("size %lld", (long long)extended.stx_size);
    TRY(__fxstat(1, fd, &status));
    TRY(__xstat(1, "missing", &status));
    TRY(access("data", W_OK));
    TRY(access("missing", F_OK));
    TRY(truncate("data", 9000));
    read_small(fd, 100, 8000);
    say_next("after truncate", fd);
    TRY(ftruncate(fd, 20000));
    say_next("after ftruncate", fd);
    TRY(ftruncate(-1, 5));
    TRY(fallocate(fd, 0, 0, 30000));
    say("posix_fallocate %d", posix_fallocate(-1, 0, 1));
    TRY(fsync(fd));
    TRY(fdatasync(-1));
    struct timespec times[2] = {{1000, 0}, {2000, 0}};
    TRY(futimens(fd, times));
    fstat(fd, &status);
    say("mtime %lld", (long long)status.st_mtime);
    TRY(fchmod(fd, 0600));
    TRY(rename("data", "moved"));
    TRY(link("moved", "linked"));
    TRY(symlink("moved", "symbolic"));
    char bytes[64] = {0};
    TRY(readlink("symbolic", bytes, sizeof bytes));
    TRY(unlink("linked"));
    TRY(remove("symbolic"));
    TRY(remove("missing"));
    TRY(mkdir("folder", 0755));
    TRY(mkdir("folder", 0755));
    TRY(mkfifo("folder/fifo", 0600));
    DIR *folder = opendir("folder");
    int entries = 0;
    while (readdir(folder)) entries++;
    say("entries %d", entries);
    TRY(closedir(folder));
    TRY(unlink("folder/fifo"));
    TRY(rmdir("folder"));
    errno = 0;
    int closed = opendir("folder") == NULL;
    say("opendir %d errno %d", closed, errno);
    glob_t found;
    say("glob %d", glob("m*d", 0, NULL, &found));
    say("found %zu %s", found.gl_pathc, found.gl_pathv[0]);
    char template[] = "temporary-XXXXXX";
    int temporary = mkstemp(template);
    TRY(write(temporary, "0123456789", 10));
    TRY(lseek(temporary, 3, SEEK_SET));
    say_next("mkstemp", temporary);
    unlink(template);

    // Duplicates share an offset.
    int again = open_warm("data", O_RDONLY);
    int twin = dup(again), third = fcntl(again, F_DUPFD, 30);
    say_next("first", again);
    say_next("twin", twin);
    say_next("third", third);
    read_small(twin, 500, lseek(twin, 0, SEEK_CUR));
    say_next("third", third);
    TRY(dup2(fd, twin));
    say_next("replaced", twin);

    // Numbers that are closed many at once mean something else afterwards.
    int last = 0;
    for (int n = 0; n < 5; n++) last = open_warm("data", O_RDONLY);
    TRY(close_range(last - 4, last, 4));
    say_next("closed at exec only", last);
    TRY(close_range(last, last - 1, 0));
    TRY(close_range(last - 4, last, 0));
    TRY(read(last, bytes, 1));
    for (int n = 0; n < 5; n++) {
        int number = open("moved", O_RDONLY);
        say("number %d %d", number <= last, n);
        say_next("another file", number);
    }
    closefrom(3);
    TRY(read(fd, bytes, 1));
    say("first free %d", open("data", O_RDONLY));
    int pair[2];
    TRY(pipe(pair));
    TRY(pipe((int *)16));
    TRY(read(1000, bytes, 1));
    struct rlimit limit;
    TRY(getrlimit(RLIMIT_FSIZE, &limit));
    TRY(setrlimit(RLIMIT_FSIZE, &limit));
    TRY(chdir("missing"));
    TRY(setuid(geteuid()));
    fd = open_warm("data", O_RDONLY);
    say_next("after setuid", fd);
    return 0;
}
