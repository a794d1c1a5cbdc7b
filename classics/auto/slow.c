/* A file system that shows another folder and sleeps for a while in each read and write, as a server far
 * away would answer.
 *
 *   slow MICROSECONDS FOLDER MOUNTPOINT [options of FUSE]
 *
 * The kernel keeps what was read, and asks ahead. */
#define FUSE_USE_VERSION 31
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

/* The folder that is shown; all paths are below it. */
static int folder;
static struct timespec each;

/* The path as the folder's own: FUSE's begin with a slash. */
static const char *own(const char *path)
{
    return path[1] != '\0' ? path + 1 : ".";
}

static int answer(int result)
{
    return result < 0 ? -errno : 0;
}

static void travel(void)
{
    nanosleep(&each, NULL);
}

static void *begin(struct fuse_conn_info *connection, struct fuse_config *config)
{
    (void)connection;
    config->use_ino = 1;
    /* A file that is removed while it is open has no name any more: all is done by its descriptor. */
    config->hard_remove = 1;
    config->nullpath_ok = 1;
    return NULL;
}

static int slow_getattr(const char *path, struct stat *stat, struct fuse_file_info *file)
{
    if (file != NULL)
        return answer(fstat((int)file->fh, stat));
    return answer(fstatat(folder, own(path), stat, AT_SYMLINK_NOFOLLOW));
}

static int slow_opendir(const char *path, struct fuse_file_info *file)
{
    int fd = openat(folder, own(path), O_RDONLY | O_DIRECTORY);
    DIR *names = fd < 0 ? NULL : fdopendir(fd);
    file->fh = (uint64_t)(uintptr_t)names;
    return names == NULL ? -errno : 0;
}

static int slow_readdir(const char *path, void *list, fuse_fill_dir_t fill, off_t offset,
                        struct fuse_file_info *file, enum fuse_readdir_flags flags)
{
    (void)path, (void)offset, (void)flags;
    DIR *names = (DIR *)(uintptr_t)file->fh;
    rewinddir(names);
    for (struct dirent *name; (name = readdir(names)) != NULL;)
        fill(list, name->d_name, NULL, 0, 0);
    return 0;
}

static int slow_releasedir(const char *path, struct fuse_file_info *file)
{
    (void)path;
    return answer(closedir((DIR *)(uintptr_t)file->fh));
}

/* The kernel says where each write goes, also of those that append. */
static int without_append(int flags)
{
    return flags & ~O_APPEND;
}

static int slow_open(const char *path, struct fuse_file_info *file)
{
    int fd = openat(folder, own(path), without_append(file->flags));
    file->fh = (uint64_t)fd;
    return answer(fd);
}

static int slow_create(const char *path, mode_t mode, struct fuse_file_info *file)
{
    int fd = openat(folder, own(path), without_append(file->flags) | O_CREAT, mode);
    file->fh = (uint64_t)fd;
    return answer(fd);
}

static int slow_read(const char *path, char *buffer, size_t bytes, off_t at,
                     struct fuse_file_info *file)
{
    (void)path;
    travel();
    ssize_t got = pread((int)file->fh, buffer, bytes, at);
    return got < 0 ? -errno : (int)got;
}

static int slow_write(const char *path, const char *buffer, size_t bytes, off_t at,
                      struct fuse_file_info *file)
{
    (void)path;
    travel();
    ssize_t put = pwrite((int)file->fh, buffer, bytes, at);
    return put < 0 ? -errno : (int)put;
}

static int slow_release(const char *path, struct fuse_file_info *file)
{
    (void)path;
    return answer(close((int)file->fh));
}

static int slow_fsync(const char *path, int data_only, struct fuse_file_info *file)
{
    (void)path, (void)data_only;
    return answer(fsync((int)file->fh));
}

static int slow_truncate(const char *path, off_t bytes, struct fuse_file_info *file)
{
    if (file != NULL)
        return answer(ftruncate((int)file->fh, bytes));
    int fd = openat(folder, own(path), O_WRONLY);
    if (fd < 0)
        return -errno;
    int result = answer(ftruncate(fd, bytes));
    close(fd);
    return result;
}

static int slow_utimens(const char *path, const struct timespec times[2],
                        struct fuse_file_info *file)
{
    if (file != NULL)
        return answer(futimens((int)file->fh, times));
    return answer(utimensat(folder, own(path), times, AT_SYMLINK_NOFOLLOW));
}

static int slow_chmod(const char *path, mode_t mode, struct fuse_file_info *file)
{
    if (file != NULL)
        return answer(fchmod((int)file->fh, mode));
    return answer(fchmodat(folder, own(path), mode, 0));
}

static int slow_unlink(const char *path)
{
    return answer(unlinkat(folder, own(path), 0));
}

static int slow_mkdir(const char *path, mode_t mode)
{
    return answer(mkdirat(folder, own(path), mode));
}

static int slow_rmdir(const char *path)
{
    return answer(unlinkat(folder, own(path), AT_REMOVEDIR));
}

static int slow_rename(const char *from, const char *to, unsigned flags)
{
    return answer(renameat2(folder, own(from), folder, own(to), flags));
}

static int slow_statfs(const char *path, struct statvfs *stat)
{
    (void)path;
    return answer(fstatvfs(folder, stat));
}

static const struct fuse_operations operations = {
    .init = begin,
    .getattr = slow_getattr,
    .opendir = slow_opendir,
    .readdir = slow_readdir,
    .releasedir = slow_releasedir,
    .open = slow_open,
    .create = slow_create,
    .read = slow_read,
    .write = slow_write,
    .release = slow_release,
    .fsync = slow_fsync,
    .truncate = slow_truncate,
    .utimens = slow_utimens,
    .chmod = slow_chmod,
    .unlink = slow_unlink,
    .mkdir = slow_mkdir,
    .rmdir = slow_rmdir,
    .rename = slow_rename,
    .statfs = slow_statfs,
};

int main(int count, char **words)
{
    if (count < 4) {
        fputs("slow MICROSECONDS FOLDER MOUNTPOINT [options]\n", stderr);
        return 2;
    }
    long microseconds = strtol(words[1], NULL, 10);
    each = (struct timespec){microseconds / 1000000, microseconds % 1000000 * 1000};
    folder = open(words[2], O_RDONLY | O_DIRECTORY);
    if (folder < 0) {
        perror(words[2]);
        return 1;
    }
    words[2] = words[0];
    return fuse_main(count - 2, words + 2, &operations, NULL);
}
