/* A program that knows of sweetspot, and does the same where it is not there.
 *
 *     cc -I include examples/embed.c -o embed
 *     ./embed out.dat
 *     sweetspot run -- ./embed out.dat */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sweetspot.h"

static const char *words(int status) {
    if (status == SWEETSPOT_ABSENT) return "sweetspot is not loaded";
    if (status == SWEETSPOT_OFF) return "nothing of this process is buffered";
    if (status & SWEETSPOT_WRITES) return "writes wait";
    return "writes pass through";
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "out.dat";
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0) return perror(name), 1;
    /* It is written from its beginning to its end: a megabyte at a time. */
    if (sweetspot_advise(fd, 1 << 20) != 0) perror("sweetspot_advise");
    char record[200];
    memset(record, 'r', sizeof record);
    for (int i = 0; i < 100000; i++)
        if (write(fd, record, sizeof record) != sizeof record) return perror(name), 1;
    printf("%s\n", words(sweetspot_status(fd)));
    /* From here on anyone who looks at the file finds every record, however he learned of it. */
    if (sweetspot_flush() != 0) return perror(name), 1;
    return close(fd) != 0;
}
