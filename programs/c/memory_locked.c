// Locks all its memory in the middle of buffered reads and writes: nothing but its own may be locked.
#include "log.h"
#include <sys/mman.h>
#include <sys/resource.h>

static int ledgers(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    int count = 0;
    while (fgets(line, sizeof line, maps)) count += strstr(line, "/dev/shm/sweetspot-") != NULL;
    fclose(maps);
    return count;
}

int main(void) {
    char piece[8];
    int out = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0644), in = open("in", O_RDONLY);
    for (int turn = 0; turn < 4; turn++) {
        // The guard gets time to start and to answer.
        usleep(50000);
        for (int i = 0; i < 500; i++)
            if (read(in, piece, 8) != 8 || write(out, piece, 8) != 8) return 3;
        if (turn == 2) {
            say("mlockall %d\n", mlockall(MCL_CURRENT | MCL_FUTURE));
            say("ledgers %d\n", ledgers());
        }
    }
    log_out();
    return 0;
}
