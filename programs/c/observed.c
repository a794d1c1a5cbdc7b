/* In rounds: writes records to one file after the other, then makes it known to the outside, by a name
 * or through standard output, that the round is over. Nothing else is said.
 * Usage: observed ROUNDS SEED      files order-0, order-1 ...; each record is 16 bytes: round, index */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES 5
#define RECORDS 24

static void failed(const char *what) {
    perror(what);
    _exit(9);
}

/* From here on everybody may know of the round; the name of the one before goes. */
static void make_known(long round, unsigned long way) {
    char name[32], old[32];
    snprintf(name, sizeof name, "said-%ld", round);
    snprintf(old, sizeof old, "said-%ld", round - 1);
    switch (way % 5) {
    case 0:
        if (mkdir(name, 0755)) failed("mkdir");
        break;
    case 1:
        if (symlink("order-0", name)) failed("symlink");
        break;
    case 2:
        if (link("order-1", name)) failed("link");
        break;
    case 3: {
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0644);
        if (fd < 0 || close(fd)) failed("open");
        break;
    }
    default:
        if (rename("other", name) || mkdir("other", 0755)) failed("rename");
    }
    if (remove(old) && round > 1) failed("remove");
    if (way % 3 == 0 && write(1, &round, sizeof round) != sizeof round) failed("write");
}

int main(int argc, char **argv) {
    int fds[FILES];
    if (argc != 3) return 2;
    long rounds = atol(argv[1]);
    unsigned long state = strtoul(argv[2], NULL, 10);
    if (mkdir("other", 0755)) failed("other");
    for (int file = 0; file < FILES; file++) {
        char name[32];
        snprintf(name, sizeof name, "order-%d", file);
        fds[file] = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        if (fds[file] < 0) failed(name);
    }
    for (long round = 1; round <= rounds; round++) {
        for (int file = 0; file < FILES; file++)
            for (long index = 0; index < RECORDS; index++) {
                long record[2] = {round, index};
                if (write(fds[file], record, sizeof record) != sizeof record) failed("write");
            }
        state = state * 6364136223846793005ul + 1442695040888963407ul;
        if (state >> 60 == 0) {
            /* A close, too, comes after all that was written before, to whichever file. */
            char name[32];
            snprintf(name, sizeof name, "order-%d", FILES - 1);
            if (close(fds[FILES - 1])) failed("close");
            fds[FILES - 1] = open(name, O_WRONLY);
            if (lseek(fds[FILES - 1], 0, SEEK_END) < 0) failed("lseek");
        }
        make_known(round, state >> 33);
    }
    return 0;
}
