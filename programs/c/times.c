/* Sets times, modes and attributes of files that were just written in small pieces; what was set
 * must stand after the close. */
#include "log.h"
#include <sys/stat.h>
#include <sys/time.h>
#include <utime.h>

static int written(const char *name) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < 500; i++)
        if (write(fd, "a small record\n", 15) != 15) say("short\n");
    return fd;
}
static void done(int fd, const char *name) {
    struct stat data;
    char byte;
    fstat(fd, &data);
    say("%s: %ld.%09ld mode %o size %ld", name, (long)data.st_mtim.tv_sec, data.st_mtim.tv_nsec,
        data.st_mode, (long)data.st_size);
    say(" pread %zd", pread(fd, &byte, 1, 0));
    say(" close %d\n", close(fd));
    stat(name, &data);
    say("    %ld.%09ld\n", (long)data.st_mtim.tv_sec, data.st_mtim.tv_nsec);
}

int main(void) {
    struct timespec exact[2] = {{1000000000, 1}, {1000000000, 123456789}};
    struct timeval micro[2] = {{1100000000, 1}, {1100000000, 234567}};
    struct utimbuf whole = {1200000000, 1200000000};
    char name[64];
    int fd = written("futimens");
    say("%d\n", futimens(fd, exact));
    done(fd, "futimens");
    fd = written("utimensat");
    say("%d\n", utimensat(AT_FDCWD, "utimensat", exact, 0));
    done(fd, "utimensat");
    fd = written("utimes");
    say("%d\n", utimes("utimes", micro));
    done(fd, "utimes");
    fd = written("futimes");
    say("%d\n", futimes(fd, micro));
    done(fd, "futimes");
    fd = written("lutimes");
    say("%d\n", lutimes("lutimes", micro));
    done(fd, "lutimes");
    fd = written("utime");
    say("%d\n", utime("utime", &whole));
    done(fd, "utime");
    fd = written("futimesat");
    say("%d\n", futimesat(AT_FDCWD, "futimesat", micro));
    done(fd, "futimesat");
    fd = written("proc");
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    say("%d\n", utimensat(AT_FDCWD, name, exact, 0));
    done(fd, "proc");
    /* Through a second descriptor, with bytes pending on the first. */
    fd = written("second");
    int other = open("second", O_RDWR);
    say("%d\n", futimens(other, exact));
    close(other);
    done(fd, "second");
    /* Read in small pieces after the time was set, and before. */
    fd = written("read");
    say("%d\n", futimens(fd, exact));
    lseek(fd, 0, SEEK_SET);
    for (int i = 0; i < 500; i++) {
        char record[15];
        if (read(fd, record, 15) != 15) say("short\n");
    }
    done(fd, "read");
    fd = written("mode");
    say("%d\n", fchmod(fd, 0600) + chmod("mode", 0640) + fchmodat(AT_FDCWD, "mode", 0604, 0) + futimens(fd, exact));
    done(fd, "mode");
    /* A time in a file that is open for reading only. */
    make_file("readonly", 5000);
    fd = open("readonly", O_RDONLY);
    for (int i = 0; i < 300; i++) {
        char record[9];
        if (read(fd, record, 9) != 9) say("short\n");
    }
    say("%d\n", futimens(fd, exact));
    done(fd, "readonly");
    log_out();
    return 0;
}
