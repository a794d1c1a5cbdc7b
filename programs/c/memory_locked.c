// Locks all its memory in the middle of buffered reads and writes: nothing but its own may be locked.
// With a word behind it: the child of a process that is not buffered does so, and opens a file.
#include "log.h"
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

static int ledgers(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    int count = 0;
    while (fgets(line, sizeof line, maps)) count += strstr(line, "/dev/shm/sweetspot-") != NULL;
    fclose(maps);
    return count;
}

static int by_a_child(void) {
    int status;
    if (mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) return 4;
    if (fork() == 0) {
        usleep(50000);
        say("mlockall %d\n", mlockall(MCL_CURRENT | MCL_FUTURE));
        say("opened %d\n", open("in", O_RDONLY) >= 0);
        say("ledgers %d\n", ledgers());
        log_out();
        _exit(0);
    }
    wait(&status);
    return status;
}

int main(int argc, char **argv) {
    char piece[8];
    if (argc > 1 && argv[1]) return by_a_child();
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
