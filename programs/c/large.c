/* Offsets beyond 2 and 4 GiB, in a file with holes that is removed at the end. */
#include "log.h"
#include <sys/stat.h>

int main(void) {
    static const long places[] = {(1l << 31) - 700, (1l << 32) - 900, 5l << 30, 0};
    char record[16], got[16];
    int fd = open("large", O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (int p = 0; p < 4; p++) {
        say("seek %ld\n", (long)lseek(fd, places[p], SEEK_SET));
        for (int i = 0; i < 400; i++) {
            snprintf(record, sizeof record, "%d %05d\n", p, i);
            if (write(fd, record, 8) != 8) say("short\n");
        }
        say("at %ld\n", (long)lseek(fd, 0, SEEK_CUR));
        lseek(fd, -3200, SEEK_CUR);
        for (int i = 0; i < 400; i++) {
            snprintf(record, sizeof record, "%d %05d\n", p, i);
            if (read(fd, got, 8) != 8 || memcmp(got, record, 8)) say("wrong %d %d\n", p, i);
        }
        if (pread(fd, got, 8, places[p] + 800) != 8) say("short\n");
        say("%.8s", got);
        if (pwrite(fd, "changed\n", 8, places[p] + 1600) != 8) say("short\n");
    }
    struct stat data;
    fstat(fd, &data);
    say("size %ld end %ld\n", (long)data.st_size, (long)lseek(fd, 0, SEEK_END));
    say("data %d hole %d\n", (long)lseek(fd, 1l << 31, SEEK_DATA) >= 1l << 31, (long)lseek(fd, places[2], SEEK_HOLE) > places[2]);
    for (int p = 0; p < 4; p++) {
        lseek(fd, places[p] + 1590, SEEK_SET);
        for (int i = 0; i < 20; i++) {
            if (read(fd, got, 3) != 3) say("short\n");
            say("%.3s", got);
        }
    }
    say("\nunlink %d", unlink("large"));
    say(" close %d\n", close(fd));
    log_out();
    return 0;
}
