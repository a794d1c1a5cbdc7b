// Walks a tree with nftw and ftw while the function that is called writes small pieces to all files
// of the tree: the sizes that it is told are those after everything that was written.
#include "log.h"
#include <ftw.h>
#include <sys/stat.h>

#define FILES 6
static int fds[FILES];
static char line[50];

static void write_to_all(int times) {
    for (int i = 0; i < times; i++)
        for (int file = 0; file < FILES; file++)
            if (write(fds[file], line, sizeof line) != sizeof line) say("write failed\n");
}

static int told(const char *path, const struct stat *status, int kind) {
    if (kind == FTW_F) say("%s %lld\n", path, (long long)status->st_size);
    write_to_all(5);
    return 0;
}

static int told_more(const char *path, const struct stat *status, int kind, struct FTW *where) {
    (void)where;
    return told(path, status, kind);
}

int main(int count, char **words) {
    if (count != 2) return 2;
    memset(line, 'x', sizeof line);
    for (int file = 0; file < FILES; file++) {
        char path[64];
        snprintf(path, sizeof path, "%s/file%d", words[1], file);
        fds[file] = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    }
    // The guard gets time to start, and then to answer.
    usleep(100000);
    write_to_all(80);
    usleep(100000);
    write_to_all(80);
    say("nftw %d\n", nftw(words[1], told_more, 8, FTW_PHYS));
    write_to_all(80);
    say("ftw %d\n", ftw(words[1], told, 8));
    write_to_all(80);
    log_out();
    return 0;
}
