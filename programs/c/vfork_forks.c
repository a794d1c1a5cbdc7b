// The child of a vfork writes where its parent writes, at the same time if it is a fork.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RECORDS = 20000 };

static const char *const says = "i=0; while [ $i -lt 400 ]; do echo theirs-0123456789; i=$((i + 1)); done";

int main(void) {
    int fd = open("out", O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    for (int i = 0; i < RECORDS; i++)
        if (write(fd, "before-0123456789\n", 18) != 18) return 1;
    pid_t child = vfork();
    if (child == 0) {
        dup2(fd, 1);
        execl("/bin/sh", "sh", "-c", says, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < RECORDS; i++)
        if (write(fd, "ours---0123456789\n", 18) != 18) return 1;
    int status;
    waitpid(child, &status, 0);
    close(fd);
    FILE *file = fopen("out", "r");
    char line[100];
    int before = 0, ours = 0, theirs = 0, other = 0;
    while (fgets(line, sizeof line, file)) {
        int *count = !strcmp(line, "before-0123456789\n")   ? &before
                     : !strcmp(line, "ours---0123456789\n") ? &ours
                     : !strcmp(line, "theirs-0123456789\n") ? &theirs
                                                            : &other;
        ++*count;
    }
    printf("%d %d %d %d\n", before, ours, theirs, other);
    // The order of both is chance.
    remove("out");
    return status;
}
