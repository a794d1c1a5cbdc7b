// A handler moves the position and reads, at any moment of a read near the end of a file.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { BYTES = 3000, NEAR_END = 2995, HEARD = 10, ROUNDS = 20000 };

static int fd;
static volatile sig_atomic_t wrong;

static char byte_at(int position) {
    return (char)(position * 31 + position / 256);
}

static int is_from(const char *bytes, int count, int position) {
    for (int i = 0; i < count; i++)
        if (bytes[i] != byte_at(position + i)) return 0;
    return 1;
}

static void hear(int number) {
    (void)number;
    char bytes[HEARD];
    lseek(fd, 0, SEEK_SET);
    if (read(fd, bytes, sizeof bytes) != HEARD || !is_from(bytes, HEARD, 0)) wrong = 1;
}

int main(void) {
    char bytes[BYTES];
    for (int i = 0; i < BYTES; i++) bytes[i] = byte_at(i);
    fd = open("in", O_CREAT | O_TRUNC | O_RDWR, 0644);
    if (write(fd, bytes, BYTES) != BYTES) return 1;
    close(fd);
    fd = open("in", O_RDONLY);
    struct sigaction action = {.sa_handler = hear, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 60}, {0, 60}};
    setitimer(ITIMER_REAL, &often, NULL);
    int other = 0;
    for (int round = 0; round < ROUNDS; round++) {
        lseek(fd, 0, SEEK_SET);
        for (int i = 0; i < 10; i++)
            if (read(fd, bytes, 8) != 8) other++;
        lseek(fd, NEAR_END, SEEK_SET);
        int count = read(fd, bytes, 100);
        // The handler came before the read, or after the seek.
        int at = count == BYTES - NEAR_END ? NEAR_END : HEARD;
        if ((count != 100 && at == HEARD) || !is_from(bytes, count, at)) other++;
    }
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    printf("%d %d\n", other, (int)wrong);
    remove("in");
    return 0;
}
