/* Every way to ask for a size, a name or a right, with bytes pending on some descriptor. */
#include "errors.h"
#include <dirent.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <sys/syscall.h>
#include <sys/statfs.h>

static int folder;
static long walked;
static int walk(const char *name, const struct stat *data, int kind, struct FTW *where) {
    (void)where;
    if (kind == FTW_F && strstr(name, "subject")) walked += (long)data->st_size;
    return 0;
}
static int walk_plain(const char *name, const struct stat *data, int kind) {
    return walk(name, data, kind, NULL);
}

static int call(int fd, int number) {
    struct stat data = {0};
    struct statx more = {0};
    char name[100], target[PATH_MAX];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
#define SIZE(expression) do { CALL(expression); say("    size %ld kind %o links %ld\n", (long)data.st_size, data.st_mode, (long)data.st_nlink); } while (0)
    switch (number) {
    case 0: SIZE(stat("subject", &data)); return 1;
    case 1: SIZE(lstat("subject", &data)); return 1;
    case 2: SIZE(stat("alias", &data)); return 1;
    case 3: SIZE(lstat("alias", &data)); SIZE(fstatat(folder, "alias", &data, 0)); return 1;
    case 4: SIZE(stat("folder/../subject", &data)); return 1;
    case 5: SIZE(stat(name, &data)); return 1;
    case 6: SIZE(fstatat(folder, "subject", &data, 0)); return 1;
    case 7: SIZE(fstatat(fd, "", &data, AT_EMPTY_PATH)); return 1;
    case 8: SIZE(fstatat(AT_FDCWD, "subject", &data, AT_SYMLINK_NOFOLLOW)); return 1;
    case 9: CALL(statx(AT_FDCWD, "subject", 0, STATX_SIZE, &more)); say("    size %lld\n", (long long)more.stx_size); return 1;
    case 10: CALL(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &more)); say("    size %lld\n", (long long)more.stx_size); return 1;
    case 11: CALL(statx(folder, "subject", AT_STATX_DONT_SYNC, STATX_SIZE, &more)); say("    size %lld\n", (long long)more.stx_size); return 1;
    case 12: CALL(syscall(SYS_fstat, fd, &data)); say("    size %ld\n", (long)data.st_size); return 1;
    case 13: CALL(syscall(SYS_newfstatat, AT_FDCWD, "subject", &data, 0)); say("    size %ld\n", (long)data.st_size); return 1;
    case 14: SIZE(fstat(-1, &data)); SIZE(fstat(fd + 1, &data)); return 1;
    case 15: CALL(stat("subject", (void *)8)); CALL(fstat(fd, NULL)); CALL(stat(NULL, &data)); return 1;
    case 16: SIZE(stat("missing", &data)); SIZE(stat("subject/x", &data)); SIZE(stat("", &data)); SIZE(fstatat(99, "subject", &data, 0)); return 1;
    case 17: walked = 0; CALL(nftw(".", walk, 4, FTW_PHYS)); CALL(walked); return 1;
    case 18: walked = 0; CALL(ftw(".", walk_plain, 4)); CALL(walked); return 1;
    case 19: {
        char *roots[] = {".", NULL};
        FTS *tree = fts_open(roots, FTS_PHYSICAL, NULL);
        FTSENT *entry;
        long total = 0;
        while ((entry = fts_read(tree)))
            if (entry->fts_info == FTS_F && !strcmp(entry->fts_name, "subject")) total += (long)entry->fts_statp->st_size;
        fts_close(tree);
        CALL(total);
        return 1;
    }
    case 20: CALL(access("subject", R_OK | W_OK)); CALL(faccessat(folder, "subject", X_OK, 0)); CALL(euidaccess("subject", R_OK)); CALL(access("missing", F_OK)); return 1;
    case 21: CALL(readlink("alias", target, sizeof target)); CALL(readlink("subject", target, sizeof target)); CALL(realpath("alias", target) != NULL); CALL(readlink(name, target, sizeof target) > 0); return 1;
    case 22: {
        glob_t found;
        CALL(glob("subj*", 0, NULL, &found)); CALL(found.gl_pathc); globfree(&found);
        return 1;
    }
    case 23: {
        DIR *open_folder = opendir(".");
        struct dirent *entry;
        long count = 0;
        while ((entry = readdir(open_folder))) count++;
        CALL(count); CALL(closedir(open_folder));
        return 1;
    }
    case 24: { struct statfs system; CALL(statfs("subject", &system)); CALL(fstatfs(fd, &system)); CALL(statfs("missing", &system)); return 1; }
    case 25: CALL(link("subject", "another")); SIZE(stat("another", &data)); CALL(unlink("another")); SIZE(fstat(fd, &data)); return 1;
    case 26: CALL(rename("subject", "moved")); SIZE(stat("moved", &data)); SIZE(stat("subject", &data)); CALL(rename("moved", "subject")); return 1;
    case 27: CALL(truncate("alias", 100)); SIZE(fstat(fd, &data)); return 1;
    case 28: CALL(mkfifo("fifo", 0600)); CALL(remove("fifo")); CALL(symlink("subject", "fifo")); CALL(unlinkat(AT_FDCWD, "fifo", 0)); SIZE(stat("subject", &data)); return 1;
    case 29: { int other = open("subject", O_RDONLY); SIZE(fstat(other, &data)); CALL(lseek(other, 0, SEEK_END)); CALL(close(other)); return 1; }
    case 30: { int other = open(name, O_RDONLY); SIZE(fstat(other, &data)); CALL(pread(other, scratch, 100, 6500)); say("    %lx\n", hash_of(scratch, 100)); CALL(close(other)); return 1; }
    case 31: { FILE *stream = fopen("subject", "r"); CALL(fseek(stream, 0, SEEK_END)); CALL(ftell(stream)); CALL(fclose(stream)); return 1; }
    default: SIZE(fstat(fd, &data)); return 0;
    }
}

int main(void) {
    folder = open(".", O_RDONLY | O_DIRECTORY);
    mkdir("folder", 0755);
    symlink("subject", "alias");
    every_state(call);
    log_out();
    return 0;
}
