/* Writes records that wait, lets another process fill the disk, and says which call tells it.
 * Descriptor 0 is of a file that both have: its offset is 1 when the records wait, and 2 when the disk is full.
 * Usage: full_disk FILE fsync|read|write|next|send|map|cut|allocate|daemon|own-*|close|again|return|exit|_exit|quick_exit|
 *        raw|alone|three|ignored
 * own-sync|own-send|own-cut|own-map: by `syscall`. raw: the process ends by `syscall`; alone: its only thread does.
 * From return on: it ends so, without closing the file; three: with a status of its own; ignored: it closes the file,
 * whatever that answers. */
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include "log.h"

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
    char record[200];
    memset(record, 'r', sizeof record);
    /* So many that half a buffer of 64K waits in the end. */
    enum { RECORDS = 1200 };
    long count = RECORDS;
    for (int i = 0; i < count; i++) {
        if (write(fd, record, sizeof record) != sizeof record) say("early\n");
        /* As many again, as the guard has not answered yet. */
        if (kernel_position(fd) == lseek(fd, 0, SEEK_CUR) && i < 20000) count = i + RECORDS, usleep(1000);
    }
    /* No call that could be a release point. */
    kernel_seek(0, 1, SEEK_SET);
    while (kernel_position(0) != 2) continue;
    if (!strcmp(argv[2], "fsync")) say("fsync %d", fsync(fd)), say(" %d\n", errno);
    if (!strcmp(argv[2], "read")) {
        say("read %zd", pread(fd, record, sizeof record, (count - 1) * (long)sizeof record)), say(" %d\n", errno);
    }
    if (!strcmp(argv[2], "write")) {
        ssize_t n = 0;
        /* More than any buffer holds: how large one is depends on what calls cost at that moment. */
        for (int i = 0; i < 50000 && n >= 0; i++) n = write(fd, record, sizeof record);
        say("write %zd", n), say(" %d\n", errno);
    }
    if (!strcmp(argv[2], "next")) {
        /* All that waits is to go out before the word, and cannot: the next write says it. */
        int pipes[2];
        if (pipe(pipes) || write(pipes[1], "w", 1) != 1) return 3;
        say("write %zd", write(fd, record, sizeof record)), say(" %d\n", errno);
        /* The kernel does not know these bytes. */
        say("read %zd", pread(fd, record, sizeof record, (count - 1) * (long)sizeof record)), say(" %d\n", errno);
    }
    /* The kernel would use a content that is not what was written. */
    if (!strcmp(argv[2], "send")) {
        off_t at = 0;
        say("send %zd", sendfile(open("/dev/null", O_WRONLY), fd, &at, 100)), say(" %d\n", errno);
    }
    if (!strcmp(argv[2], "map")) {
        int failed = mmap(NULL, 100, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED;
        say("map %d", -failed), say(" %d\n", errno);
    }
    if (!strcmp(argv[2], "cut")) say("cut %d", ftruncate(fd, 0)), say(" %d\n", errno);
    if (!strcmp(argv[2], "allocate")) {
        errno = 0;
        int error = posix_fallocate(fd, 0, 100);
        say("allocate %d", -!!error), say(" %d\n", errno ? -1 : error);
    }
    if (!strcmp(argv[2], "daemon")) say("daemon %d", daemon(1, 1)), say(" %d\n", errno);
    off_t at = 0;
    if (!strcmp(argv[2], "own-sync")) say("own-sync %ld", syscall(SYS_fsync, fd)), say(" %d\n", errno);
    if (!strcmp(argv[2], "own-cut")) say("own-cut %ld", syscall(SYS_ftruncate, fd, 0)), say(" %d\n", errno);
    if (!strcmp(argv[2], "own-send")) {
        long n = syscall(SYS_sendfile, open("/dev/null", O_WRONLY), fd, &at, 100);
        say("own-send %ld", n), say(" %d\n", errno);
    }
    if (!strcmp(argv[2], "own-map")) {
        long n = syscall(SYS_mmap, NULL, 100, PROT_READ, MAP_SHARED, fd, 0);
        say("own-map %ld", n), say(" %d\n", errno);
    }
    if (strstr("return exit _exit quick_exit raw alone three ignored", argv[2])) {
        const char *end = argv[2];
        // Still in the stream when the program ends by itself.
        printf("unflushed");
        if (!strcmp(end, "ignored")) close(fd);
        if (!strcmp(end, "exit")) exit(0);
        if (!strcmp(end, "_exit")) _exit(0);
        if (!strcmp(end, "quick_exit")) quick_exit(0);
        if (!strcmp(end, "raw")) syscall(SYS_exit_group, 0);
        if (!strcmp(end, "alone")) syscall(SYS_exit, 0);
        return !strcmp(end, "three") ? 3 : 0;
    }
    errno = 0;
    say("close %d", close(fd)), say(" %d\n", errno);
    if (!strcmp(argv[2], "again")) {
        fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
        if (write(fd, "new\n", 4) != 4) say("late\n");
        close(fd);
    }
    log_out();
    return 0;
}
