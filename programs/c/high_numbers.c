/* Duplicates with very high numbers: they share the position with the number that they were made of. */
#include "log.h"
#include <sys/resource.h>

enum { HIGH = 66000, BYTES = 65536, RECORD = 32 };
static int high = HIGH;

static int duplicate(int way, int fd) {
    switch (way) {
    case 0: return fcntl(fd, F_DUPFD, high);
    case 1: return fcntl(fd, F_DUPFD_CLOEXEC, high);
    case 2: return dup2(fd, high);
    default: return dup3(fd, high, O_CLOEXEC);
    }
}

int main(void) {
    char record[RECORD];
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < HIGH + 10) limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    /* Where there are none, high ones. */
    if (limit.rlim_cur < HIGH + 10) high = (int)limit.rlim_cur - 10;
    memset(record, 'n', sizeof record);
    for (int way = 0; way < 4; way++) {
        make_file("high", BYTES);
        int fd = open("high", O_RDWR);
        /* While a window would open, and while there is one. */
        int early = duplicate(way, fd);
        for (int i = 0; i < 100; i++) read(fd, record, RECORD);
        say("%d: %ld", way, lseek(early, 0, SEEK_CUR));
        say(" %zd", write(early, record, RECORD));
        close(early);
        close(fd);
        fd = open("high", O_RDWR);
        for (int i = 0; i < 200; i++) read(fd, record, RECORD);
        int late = duplicate(way, fd);
        for (int i = 0; i < 5; i++) read(fd, record, RECORD);
        say(" %zd", write(late, "late", 4));
        say(" %zd %ld\n", read(fd, record, RECORD), lseek(fd, 0, SEEK_CUR));
        /* While writes wait. */
        for (int i = 0; i < 300; i++) {
            if (write(fd, "waits\n", 6) != 6) say("short\n");
            give_time(fd);
        }
        say("%zd", write(late, "late", 4));
        say(" %zd", write(fd, "early", 5));
        say(" %ld\n", lseek(late, 0, SEEK_CUR));
        close(late);
        close(fd);
        say_file("high");
    }
    log_out();
    return 0;
}
