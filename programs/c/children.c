/* A program that writes to a file by a descriptor and by a stream, and starts others between its
 * writes, which read that file and add to it: with system, popen, fork and exec, posix_spawn.
 * Usage: children PROGRAM ... : a program that copies, called with the names of two files and a size */
#include "log.h"
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static void records(int fd, FILE *stream, int from, int to) {
    char record[64];
    for (int i = from; i < to; i++) {
        int len = snprintf(record, sizeof record, "record %d of the descriptor\n", i);
        if (write(fd, record, (size_t)len) != len) say("short write\n");
        fprintf(stream, "record %d of the stream\n", i);
        if (i % 100 == 50 && i < 400) usleep(3000);
    }
    fflush(stream);
}

static void copy_by_exec(char *program, char *from, char *to) {
    char *arguments[] = {program, from, to, "50", NULL};
    pid_t child = fork();
    if (child == 0) {
        execv(program, arguments);
        _exit(127);
    }
    int status = -1;
    waitpid(child, &status, 0);
    say("%s: %x ", to, status);
    if (posix_spawn(&child, program, NULL, NULL, arguments, environ)) say("no spawn ");
    waitpid(child, &status, 0);
    say("%x\n", status);
    say_file(to);
}

int main(int argc, char **argv) {
    char line[200];
    int fd = open("data", O_RDWR | O_CREAT | O_TRUNC, 0644);
    FILE *stream = fopen("lines", "w");
    records(fd, stream, 0, 1000);
    say("system: %d\n", system("wc -c data lines > counted; cat data >> counted; echo more >> lines"));
    say_file("counted");
    records(fd, stream, 1000, 2000);
    FILE *pipe = popen("tail -n 2 data lines", "r");
    while (fgets(line, sizeof line, pipe)) say("%s", line);
    say("popen: %d\n", pclose(pipe));
    for (int i = 1; i < argc; i++) {
        records(fd, stream, 2000 * i, 2000 * i + 1000);
        copy_by_exec(argv[i], "data", "copy.data");
        copy_by_exec(argv[i], "lines", "copy.lines");
    }
    pipe = popen("sort > sorted", "w");
    lseek(fd, 0, SEEK_SET);
    for (int i = 0; i < 3000 && read(fd, line, 24) == 24; i++) fwrite(line, 1, 24, pipe);
    say("pclose: %d\n", pclose(pipe));
    say_file("sorted");
    say("at %ld and %ld\n", (long)lseek(fd, 0, SEEK_CUR), ftell(stream));
    fclose(stream);
    close(fd);
    log_out();
    return 0;
}
