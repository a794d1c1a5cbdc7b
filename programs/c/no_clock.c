/* A program that may not read the processor's clock: from some moment on anyone who does so is killed, be it
 * this program, libc, or what stands in front of it. Copies "in" to "out" by 100 bytes.
 * Usage: no_clock early|late, before the copy or in the middle of it */
#include "log.h"
#include <sys/prctl.h>

#ifndef PR_SET_TSC
#define PR_SET_TSC 26
#endif
#define TSC_KILLS 2

int main(int count, char **words) {
    char record[100];
    ssize_t n;
    int from = open("in", O_RDONLY), to = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    const char *when = count > 1 ? words[1] : "";
    int copied = 0, forbids_at = strcmp(when, "late") == 0 ? 5000 : 0;
    do {
        /* Where the machine has no such thing it is an error, and all goes on. */
        if (copied == forbids_at) prctl(PR_SET_TSC, TSC_KILLS, 0, 0, 0);
        n = read(from, record, sizeof record);
        if (n > 0 && write(to, record, (size_t)n) != n) say("write errno %d\n", errno);
        copied++;
    } while (n > 0);
    close(from);
    close(to);
    say("%d records\n", copied);
    log_out();
    return 0;
}
