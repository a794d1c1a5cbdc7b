// What the child of a fork has of its parent's memory: nothing that both could write. Both go on
// writing small pieces, to files of their own.
#include "log.h"
#include <sys/wait.h>

enum { LEDGERS_MAX = 64 };
static unsigned long known[LEDGERS_MAX];

// Mappings whose file is a ledger. A child that takes long to begin may map its own to read these, elsewhere: of those
// that were there before only.
static int ledgers(int known_count) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    int count = 0;
    while (fgets(line, sizeof line, maps)) {
        unsigned long at = strtoul(line, NULL, 16);
        if (!strstr(line, "/dev/shm/sweetspot-") || count == LEDGERS_MAX) continue;
        int is_known = known_count < 0;
        for (int i = 0; i < known_count; i++) is_known |= known[i] == at;
        if (known_count < 0) known[count] = at;
        count += is_known;
    }
    fclose(maps);
    return count;
}

static int open_for_writing(const char *name) { return open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644); }

static void write_lines(int fd, const char *who, int count) {
    char line[64];
    for (int i = 0; i < count; i++) {
        int len = snprintf(line, sizeof line, "%s %d\n", who, i);
        if (write(fd, line, len) != len) _exit(90);
        // The guard gets a moment to answer.
        if (i == 100) usleep(50000);
    }
}

int main(void) {
    int first = open_for_writing("parent"), second = open_for_writing("closed");
    write_lines(first, "parent", 5000);
    write_lines(second, "closed", 5000);
    close(second);
    for (int i = 0; i < 3; i++) {
        int of_parent = ledgers(-1);
        pid_t child = fork();
        if (child == 0) {
            int inherited = ledgers(of_parent);
            char name[16];
            snprintf(name, sizeof name, "child%d", i);
            int own = open_for_writing(name);
            write_lines(own, name, 5000);
            dprintf(1, "child %d: %d ledgers of its parent\n", i, inherited);
            _exit(0);
        }
        write_lines(first, "then", 5000);
        int status;
        waitpid(child, &status, 0);
        dprintf(1, "status %x\n", status);
    }
    return 0;
}
