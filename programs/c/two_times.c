/* Two files that are written at different times leave together. The one that was written earlier is
 * given the time of that: a time of the kernel's, which has passed. */
#include "log.h"
#include <sys/stat.h>
#include <time.h>

static struct timespec modified(const char *name) {
    struct stat status;
    stat(name, &status);
    return status.st_mtim;
}

int main(void) {
    int earlier = open("earlier", O_WRONLY | O_CREAT | O_TRUNC, 0644), in_future = 0;
    int later = open("later", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < 400; i++) {
        if (write(earlier, "a record\n", 9) != 9 || write(later, "a record\n", 9) != 9) say("short\n");
        give_time(earlier);
        give_time(later);
    }
    for (int round = 0; round < 5; round++) {
        write(earlier, "a record\n", 9);
        /* Without a call: longer than the clock of files takes for a step. */
        for (clock_t until = clock() + CLOCKS_PER_SEC / 50; clock() < until;) continue;
        write(later, "a record\n", 9);
        time_t written = modified("earlier").tv_sec;
        /* By the kernel's clock, whatever the program is told. */
        futimens(later, NULL);
        in_future |= written > modified("later").tv_sec;
    }
    say("in the future: %d\n", in_future);
    log_out();
    return 0;
}
