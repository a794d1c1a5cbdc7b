/* Writes records that wait, lets another process fill the disk, and learns it by a sync. Then somebody changes the
 * file, there is room again, and it says what each call tells it.
 * Descriptor 0 is of a file that both have. Its offset is 1 when the records wait, 2 when the disk is full, 3 when
 * this program knows it, and 4 when there is room again.
 * Usage: unwritten FILE WAY
 * WAY: cut, empty, print, flags: this program itself changes the file; rights, rename: what is in it stays;
 * append: it appends, and once more while the disk is full; end: ends without a close; number: the same, and its data
 * have the number of standard error; quiet: it appends, and makes no call while there is little room; shared: a child,
 * which it has made before, learns it, too; exec: it becomes another program, and that learns it; any other: another
 * process changes the file. */
#include "log.h"
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

static void step(int reached, int awaited) {
    /* No call that could be a release point. */
    kernel_seek(0, reached, SEEK_SET);
    while (kernel_position(0) != awaited) continue;
}

static time_t seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* Calls before which is written what others have waiting, where that can be written: it is soon known that it cannot. */
static int learn(const char *name) {
    time_t begun = seconds();
    int fd = open(name, O_WRONLY);
    say("learned %zd", pwrite(fd, "n", 1, 0));
    sync();
    say(", late %d\n", seconds() - begun > 5);
    log_out();
    return close(fd);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    const char *way = argv[2];
    if (!strcmp(way, "learn")) return learn(argv[1]);
    if (!strcmp(way, "shared") && fork() == 0) {
        while (kernel_position(0) != 3) usleep(1000);
        learn(argv[1]);
        kernel_seek(0, 4, SEEK_SET);
        _exit(0);
    }
    if (!strcmp(way, "number") && (close(2) || open("data", O_RDWR | O_CREAT, 0644) != 2 || write(2, "data", 4) != 4))
        return 3;
    int is_quiet = !strcmp(way, "quiet"), appends = is_quiet || !strcmp(way, "append") ? O_APPEND : 0;
    int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC | appends, 0644), second = open(argv[1], O_WRONLY);
    char record[200];
    memset(record, 'r', sizeof record);
    /* So many that half a buffer of 64K waits in the end. */
    enum { RECORDS = 1200 };
    long count = RECORDS;
    for (int i = 0; i < count; i++) {
        if (write(fd, record, sizeof record) != sizeof record) say("early\n");
        /* As many again, as the guard has not answered yet. What is appended leaves when the place is asked for. */
        int is_early = appends ? i < 2000 : i < 20000 && kernel_position(fd) == lseek(fd, 0, SEEK_CUR);
        if (is_early) count = i + RECORDS;
        if (is_early && i % 10 == 0) usleep(1000);
    }
    step(1, 2);
    if (!is_quiet) say("sync %d", fsync(fd)), say(" %d\n", errno);
    if (!strcmp(way, "exec")) log_out(), execl("/proc/self/exe", argv[0], argv[1], "learn", (char *)0);
    if (!strcmp(way, "cut") && truncate(argv[1], 100)) say("not cut\n");
    if (!strcmp(way, "empty") && close(open(argv[1], O_WRONLY | O_TRUNC))) say("not emptied\n");
    if (!strcmp(way, "print") && dprintf(second, "new") != 3) say("not printed\n");
    char new[] = "new";
    struct iovec vector = {new, 3};
    if (!strcmp(way, "flags") && pwritev2(second, &vector, 1, 0, RWF_DSYNC) != 3) say("not written\n");
    if (!strcmp(way, "rights") && fchmod(fd, 0600)) say("no rights\n");
    if (!strcmp(way, "rename") && (rename(argv[1], "other") || rename("other", argv[1]))) say("not renamed\n");
    if (!strcmp(way, "append")) say("write %zd", write(fd, record, sizeof record)), say(" %d\n", errno);
    step(3, 4);
    errno = 0;
    if (is_quiet) return say("%ld bytes\n", count * (long)sizeof record), log_out(), 0;
    if (strcmp(way, "end") && strcmp(way, "number")) {
        say("sync %d", fsync(fd)), say(" %d\n", errno), errno = 0;
        say("sync %d", fsync(fd)), say(" %d\n", errno), errno = 0;
        say("close %d", close(fd)), say(" %d\n", errno);
    }
    log_out();
    return 0;
}
