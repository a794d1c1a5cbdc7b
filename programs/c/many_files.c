// Has many files open at the same time, and writes and reads all of them in small pieces, in turns.
// Says a sum of what it read, and what memory that took: its own at most, and that of the ledger.
// Usage: many_files FILES
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define WRITES 100
#define READS 40
#define PIECE 20

static long long ledger_bytes(void) {
    const char *path = getenv("SWEETSPOT_LEDGER");
    struct stat status;
    return path && !stat(path, &status) ? status.st_blocks * 512LL : 0;
}

int main(int count, char **words) {
    if (count != 2) return 2;
    int files = atoi(words[1]);
    struct rlimit limit = {files + 100, files + 100};
    if (setrlimit(RLIMIT_NOFILE, &limit)) return 77;
    int *fds = malloc(files * sizeof *fds);
    char piece[64];
    for (int file = 0; file < files; file++) {
        snprintf(piece, sizeof piece, "%d", file);
        fds[file] = open(piece, O_RDWR | O_CREAT | O_TRUNC, 0644);
        if (fds[file] < 0) return 3;
    }
    long long ledger = 0;
    for (int i = 0; i < WRITES; i++) {
        for (int file = 0; file < files; file++) {
            snprintf(piece, sizeof piece, "%08d in %08d", i, file);
            if (write(fds[file], piece, PIECE) != PIECE) return 4;
        }
        long long now = ledger_bytes();
        if (now > ledger) ledger = now;
    }
    unsigned long long sum = 0;
    for (int file = 0; file < files; file++) lseek(fds[file], 0, SEEK_SET);
    for (int i = 0; i < READS; i++)
        for (int file = 0; file < files; file++) {
            if (read(fds[file], piece, PIECE) != PIECE) return 5;
            for (int byte = 0; byte < PIECE; byte++) sum = sum * 31 + (unsigned char)piece[byte];
        }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%llx\n%ld\n%lld\n", sum, usage.ru_maxrss * 1024, ledger);
    return 0;
}
