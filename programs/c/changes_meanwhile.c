/* A thread changes the bytes of a buffer while another one writes it. Which of them the file gets is open; but what the
 * writer then reads back is what is there. */
#include "log.h"
#include <pthread.h>

enum { TURNS = 60000, WORDS = 4000 };

static volatile unsigned long buffer[1];
static volatile int over;

static void *change(void *nothing) {
    while (!over) buffer[0]++;
    return nothing;
}

int main(void) {
    char zeros[4096] = {0};
    int fd = open("words", O_RDWR | O_CREAT | O_TRUNC, 0644), other;
    for (int i = 0; i < 64; i++) write(fd, zeros, sizeof zeros);
    other = open("words", O_RDONLY);
    lseek(fd, 0, SEEK_SET);
    pthread_t changer;
    pthread_create(&changer, NULL, change, NULL);
    unsigned long read_back = 0, there = 0;
    for (int i = 0; i < 3000; i++) read(fd, &read_back, sizeof read_back);
    int others = 0;
    for (int i = 0; i < TURNS; i++) {
        long at = i % WORDS * (long)sizeof there;
        lseek(fd, at, SEEK_SET);
        write(fd, (const void *)buffer, sizeof there);
        lseek(fd, at, SEEK_SET);
        read(fd, &read_back, sizeof read_back);
        if (i % 16) continue;
        pread(other, &there, sizeof there, at);
        others += read_back != there;
    }
    over = 1;
    pthread_join(changer, NULL);
    say("%d of %d are not what is there\n", others, TURNS / 16);
    log_out();
    unlink("words");
    return 0;
}
