// One thread reads by a number that another one closes. What is opened next, under other numbers, is nobody's but its
// own.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 65536, ROUNDS = 30000, SECONDS_MAX = 4 };

static atomic_int turn, victim, ends;

static void make(const char *name, char byte) {
    char bytes[BYTES];
    memset(bytes, byte, sizeof bytes);
    int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    if (write(fd, bytes, sizeof bytes) != BYTES) _exit(1);
    close(fd);
}

static void *reads(void *nothing) {
    unsigned place = 1;
    for (int seen = 0; !ends;) {
        if (turn == seen || turn % 2 == 0) continue;
        seen = turn;
        char bytes[8];
        for (int i = 0; i < 40; i++) {
            place = place * 1103515245 + 12345;
            if (pread(victim, bytes, sizeof bytes, place % (BYTES / 8) * 8) < 0) break;
        }
        turn++;
    }
    return nothing;
}

static long read_all(int fd, char byte, int count) {
    long wrong = 0;
    char bytes[8];
    for (int i = 0; i < count; i++) {
        memset(bytes, 0, sizeof bytes);
        if (read(fd, bytes, sizeof bytes) != sizeof bytes) wrong++;
        for (size_t at = 0; at < sizeof bytes; at++) wrong += bytes[at] != byte;
    }
    return wrong;
}

int main(void) {
    make("x", 'x'), make("again", 'a'), make("y", 'y');
    pthread_t reader;
    pthread_create(&reader, NULL, reads, NULL);
    long wrong = 0;
    time_t begun = time(NULL);
    for (int round = 0; round < ROUNDS && time(NULL) - begun < SECONDS_MAX; round++) {
        victim = open("x", O_RDONLY);
        wrong += read_all(victim, 'x', 40);
        turn++;
        for (volatile int wait = 0; wait < round % 97 * 10; wait++) {}
        close(victim);
        int again = open("again", O_RDONLY);
        int other = open("y", O_RDONLY);
        wrong += read_all(other, 'y', 60);
        while (turn % 2) {}
        close(other), close(again);
    }
    ends = 1;
    pthread_join(reader, NULL);
    printf("%ld\n", wrong);
    remove("x"), remove("again"), remove("y");
    return 0;
}
