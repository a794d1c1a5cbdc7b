/* What stdio's own buffer shows and hides: sizes after unflushed writes, the descriptor's position
 * after a read, what a child and what an abrupt end find. A larger buffer must not show in any.
 * Usage: stdio [rest|_exit|abort|exit|exec] */
#include "log.h"
#include <sys/stat.h>
#include <sys/wait.h>

static long size_of(const char *name) {
    struct stat data;
    return stat(name, &data) ? -errno : (long)data.st_size;
}

static void sizes(const char *mode, size_t each, int buffering, size_t room) {
    FILE *stream = fopen("sizes", mode);
    if (buffering >= 0) setvbuf(stream, NULL, buffering, room);
    char record[8000];
    long last = -1;
    pattern(record, (long)each, 3);
    for (int i = 0; i < 400 && i * each < 60000; i++) {
        if (fwrite(record, 1, each, stream) != each) say("short\n");
        long now = size_of("sizes");
        if (now != last) say("%d:%ld ", i, now);
        last = now;
    }
    say("| told %ld descriptor %ld ", ftell(stream), (long)lseek(fileno(stream), 0, SEEK_CUR));
    fseek(stream, 100, SEEK_SET);
    say("after seek %ld %ld ", size_of("sizes"), (long)lseek(fileno(stream), 0, SEEK_CUR));
    fputs("x", stream);
    fflush(stream);
    say("after flush %ld\n", (long)lseek(fileno(stream), 0, SEEK_CUR));
    fclose(stream);
    say_file("sizes");
}

static void positions(size_t each, int buffering, size_t room) {
    FILE *stream = fopen("in", "r");
    if (buffering >= 0) setvbuf(stream, NULL, buffering, room);
    char record[8000];
    long last = -1;
    for (int i = 0; i < 300; i++) {
        size_t n = fread(record, 1, each, stream);
        long now = (long)lseek(fileno(stream), 0, SEEK_CUR);
        if (now != last) say("%d:%ld ", i, now);
        last = now;
        if (n < each) break;
    }
    fseek(stream, 5000, SEEK_SET);
    say("| sought %ld ", (long)lseek(fileno(stream), 0, SEEK_CUR));
    int byte = fgetc(stream);
    say("got %d at %ld ", byte, (long)lseek(fileno(stream), 0, SEEK_CUR));
    fflush(stream);
    say("flushed %ld ", (long)lseek(fileno(stream), 0, SEEK_CUR));
    fclose(stream);
    say("\n");
}

int main(int argc, char **argv) {
    char line[200];
    if (argc > 1 && !strcmp(argv[1], "rest")) {
        /* Reads one line of standard input; the rest is for anyone who comes next. */
        if (!fgets(line, sizeof line, stdin)) return 1;
        fputs(line, stdout);
        return 0;
    }
    if (argc > 1) {
        FILE *stream = fopen("unflushed", "w");
        for (int i = 0; i < 1234; i++) fprintf(stream, "line %d\n", i);
        for (int i = 0; i < 1234; i++) printf("said %d\n", i);
        if (!strcmp(argv[1], "_exit")) _exit(3);
        if (!strcmp(argv[1], "abort")) abort();
        if (!strcmp(argv[1], "exec")) execlp("wc", "wc", "-c", "unflushed", NULL);
        if (!strcmp(argv[1], "fork")) {
            /* Both halves flush what was unflushed: natively it is there twice. */
            pid_t child = fork();
            if (child) waitpid(child, NULL, 0);
        }
        exit(4);
    }
    make_file("in", 30000);
    static const size_t eaches[] = {1, 10, 64, 100, 1000, 1024, 4095, 4096, 4097, 7000};
    for (unsigned i = 0; i < sizeof eaches / sizeof *eaches; i++) {
        sizes("w", eaches[i], -1, 0);
        sizes("w+", eaches[i], _IOFBF, 1024);
        sizes("r+", eaches[i], _IOFBF, 16384);
        sizes("a", eaches[i], -1, 0);
        sizes("a+", eaches[i], _IOLBF, 512);
        sizes("w", eaches[i], _IONBF, 0);
        positions(eaches[i], -1, 0);
        positions(eaches[i], _IOFBF, 512);
        positions(eaches[i], _IOFBF, 8192);
        positions(eaches[i], _IONBF, 0);
    }
    /* A child that inherits the description after stdio has read ahead. */
    FILE *stream = fopen("in", "r");
    for (int i = 0; i < 10; i++)
        if (!fgets(line, sizeof line, stream)) break;
    pid_t child = fork();
    if (child == 0) {
        dup2(fileno(stream), 0);
        execlp("sh", "sh", "-c", "head -c 50 > child; wc -c >> child", NULL);
        _exit(127);
    }
    waitpid(child, NULL, 0);
    say("after the child %ld\n", (long)lseek(fileno(stream), 0, SEEK_CUR));
    long rest = 0;
    while (fgetc(stream) != EOF) rest++;
    say("rest %ld\n", rest);
    fclose(stream);
    /* What popen and system see of an open stream. */
    stream = fopen("open", "w");
    for (int i = 0; i < 700; i++) fprintf(stream, "line %d\n", i);
    if (system("wc -c < open > seen") != 0) say("system\n");
    for (int i = 0; i < 700; i++) fprintf(stream, "line %d\n", i);
    FILE *pipe = popen("wc -c < open", "r");
    say("seen by popen %s", fgets(line, sizeof line, pipe) ? line : "nothing\n");
    pclose(pipe);
    FILE *reader = fopen("open", "r");
    long seen = 0;
    while (fgets(line, sizeof line, reader)) seen++;
    say("seen by a reader %ld\n", seen);
    fclose(reader);
    fclose(stream);
    say_file("open");
    say_file("seen");
    log_out();
    return 0;
}
