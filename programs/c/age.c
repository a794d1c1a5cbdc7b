// Time passes without a message.
//   age write FILE   writes a line of ten bytes every 20 ms for two seconds, and computes in between
//   age talk FILE    the same, and says a word to a pipe after each line
//   age read FILE    reads a little, computes for two seconds, and says what it reads then
//   age slow FILE    reads a little, stops itself, reads the same again and again, fast for half a
//                    second and then slowly, and says what it read last
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// The clock is answered in the program, without a call that could be a release point.
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void compute(double seconds) {
    for (double end = now() + seconds; now() < end;) {}
}

static void read_again(int in, char *bytes) {
    if (lseek(in, 256, SEEK_SET) != 256 || read(in, bytes, 8) != 8) exit(3);
}

static int read_slowly(const char *path) {
    char bytes[9] = {0};
    int in = open(path, O_RDONLY);
    for (int i = 0; i < 100; i++)
        if (read(in, bytes, 8) != 8) return 3;
    raise(SIGSTOP);
    for (double end = now() + 0.5; now() < end;) read_again(in, bytes);
    for (int i = 0; i < 125; i++) {
        compute(0.02);
        read_again(in, bytes);
    }
    puts(bytes);
    return 0;
}

int main(int count, char **words) {
    if (count < 3) return 2;
    if (!strcmp(words[1], "slow")) return read_slowly(words[2]);
    if (!strcmp(words[1], "read")) {
        char bytes[9] = {0};
        int in = open(words[2], O_RDONLY);
        for (int i = 0; i < 500; i++)
            if (read(in, bytes, 8) != 8) return 3;
        compute(2);
        if (read(in, bytes, 8) != 8) return 3;
        puts(bytes);
        return 0;
    }
    int fd = open(words[2], O_WRONLY | O_CREAT | O_TRUNC, 0644), talks = !strcmp(words[1], "talk");
    int other = open("other", O_WRONLY | O_CREAT | O_TRUNC, 0644), pipes[2];
    if (pipe(pipes)) return 3;
    // The other file first: a write that passes through makes all that waits go out.
    for (int i = talks ? -200 : 0; i < 200; i++) {
        if (write(i < 0 ? other : fd, "123456789\n", 10) != 10) return 3;
        // The guard gets the time to answer.
        if (i % 50 == 0) compute(0.03);
    }
    for (int i = 0; i < 100; i++) {
        compute(0.02);
        if (write(fd, "123456789\n", 10) != 10) return 3;
        // As many as make a buffer worth while.
        for (int j = 0; talks && j < 4; j++)
            if (write(other, "123456789\n", 10) != 10) return 3;
        if (talks && write(pipes[1], "w", 1) != 1) return 3;
    }
    return 0;
}
