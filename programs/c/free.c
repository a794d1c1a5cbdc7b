/* Is what was closed free at once? Writes files in small pieces on the file system of a folder, and closes
 * and removes each: its space is there again. Usage: free FOLDER */
#include "log.h"
#include <sys/statvfs.h>

#define ROUNDS 25

static long free_blocks(const char *folder) {
    struct statvfs status;
    return statvfs(folder, &status) ? -1 : (long)status.f_bfree;
}

int main(int argc, char **argv) {
    char path[4096], record[100];
    if (argc != 2) return 2;
    snprintf(path, sizeof path, "%s/file", argv[1]);
    memset(record, 'x', sizeof record);
    long before = free_blocks(argv[1]);
    int kept = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        for (int i = 0; i < 600; i++) {
            if (write(fd, record, sizeof record) != sizeof record) say("short write\n");
            if (i % 100 == 80) usleep(1000);
        }
        if (close(fd) || unlink(path)) say("close or unlink: %d\n", errno);
        kept += free_blocks(argv[1]) != before;
    }
    say("not free: %d of %d\n", kept, ROUNDS);
    log_out();
    return kept != 0;
}
