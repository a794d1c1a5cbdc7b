/* A signal handler with a release point, in the middle of writes that wait, to a file that has a window:
 * the position is in the window then, and each write moves it to the end of what waits.
 * Usage: signals_window PASSES */
#include <signal.h>
#include <sys/time.h>
#include "log.h"

enum { RECORD = 20, RECORDS = 150, AHEAD = 40, FILE_BYTES = 16384 };
static int pair[2];
static char model[FILE_BYTES], seen[FILE_BYTES];

static void release(int number) {
    (void)number;
    int saved = errno;
    char byte = 'x';
    if (write(pair[1], &byte, 1) == 1 && read(pair[0], &byte, 1) != 1) abort();
    errno = saved;
}

int main(int argc, char **argv) {
    long passes = argc > 1 ? atol(argv[1]) : 1000, wrong = 0;
    if (pipe(pair)) return 1;
    make_file("windowed", FILE_BYTES);
    int fd = open("windowed", O_RDWR), other = open("windowed", O_RDONLY);
    if (pread(other, model, FILE_BYTES, 0) != FILE_BYTES) return 1;
    signal(SIGALRM, release);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 25}, {0, 25}}, NULL);
    for (long pass = 0; pass < passes && !wrong; pass++) {
        lseek(fd, 0, SEEK_SET);
        /* Reads, for the window; then records over what was read. */
        for (int i = 0; i < AHEAD; i++)
            if (read(fd, seen, RECORD) != RECORD || memcmp(seen, model + i * RECORD, RECORD)) wrong++;
        lseek(fd, 0, SEEK_SET);
        for (int i = 0; i < RECORDS; i++) {
            char *record = model + i * RECORD;
            memset(record, (int)('a' + (pass + i) % 26), RECORD);
            if (write(fd, record, RECORD) != RECORD) wrong++;
            if (pass < 5) give_time(fd);
        }
        if (lseek(fd, 0, SEEK_CUR) != RECORD * RECORDS) wrong++;
        if (pass % 50 == 0 && (pread(other, seen, FILE_BYTES, 0) != FILE_BYTES || memcmp(seen, model, FILE_BYTES))) wrong++;
    }
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    if (pread(other, seen, FILE_BYTES, 0) != FILE_BYTES || memcmp(seen, model, FILE_BYTES)) wrong++;
    close(fd);
    close(other);
    say("wrong %ld\n", wrong);
    say_file("windowed");
    log_out();
    return 0;
}
