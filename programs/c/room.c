/* Writes records until one does not fit, and says how many did and what is in the file: the call that
   fails must be the one that fails without a buffer.

   room HOW FOLDER: a full disk (full, many, append, late) or the largest size that the file system
   allows for a file (largest, jump, largest-append). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORD 100
#define FILES_MAX 20
/* Enough for every disk here, and for two windows of the largest size. */
#define RECORDS_MAX 400000

static char record[RECORD];

/* The guard gets time to answer. */
static void pause_at(int n) {
    if (n % 100 == 50 && n < 600) usleep(20000);
}

static long long largest(int fd) {
    unsigned long long low = 0, high = 0x7fffffffffffffffULL;
    while (low < high) {
        unsigned long long middle = low + (high - low + 1) / 2;
        if (lseek(fd, (off_t)middle, SEEK_SET) == (off_t)middle) low = middle;
        else high = middle - 1;
    }
    lseek(fd, 0, SEEK_SET);
    return (long long)low;
}

int main(int count, char **words) {
    if (count < 3 || chdir(words[2]) != 0) return 2;
    const char *how = words[1];
    int is_disk = strcmp(how, "full") == 0 || strcmp(how, "many") == 0 ||
                  strcmp(how, "append") == 0 || strcmp(how, "late") == 0;
    int files = strcmp(how, "many") == 0 ? FILES_MAX : 1;
    int appends = strstr(how, "append") ? O_APPEND : 0;
    int fds[FILES_MAX];
    long long limit = 0;
    memset(record, 'x', RECORD);
    signal(SIGXFSZ, SIG_IGN);
    for (int i = 0; i < files; i++) {
        char name[20];
        snprintf(name, sizeof name, "file%d", i);
        fds[i] = open(name, O_CREAT | O_RDWR | O_TRUNC | appends, 0644);
        if (fds[i] < 0) return 3;
    }
    if (!is_disk) {
        limit = largest(fds[0]);
        if (strcmp(how, "jump") == 0) {
            for (int n = 0; n < 2000; n++) {
                if (write(fds[0], record, RECORD) != RECORD) return 4;
                pause_at(n);
            }
        }
        if (appends ? ftruncate(fds[0], limit - 70050) : lseek(fds[0], limit - 70050, SEEK_SET) < 0)
            return 77;
    }
    if (strcmp(how, "late") == 0) {
        /* Most of the disk is taken at once by a call of its own. */
        if (ftruncate(fds[0], 0) != 0 || posix_fallocate(fds[0], 4 << 20, 1 << 20) != 0) return 5;
    }
    long long taken = 0, held = 0;
    ssize_t answer = 0;
    int n = 0;
    do {
        answer = write(fds[n % files], record, RECORD);
        if (answer > 0) taken += answer;
        pause_at(n);
    } while (answer == RECORD && ++n < RECORDS_MAX);
    ssize_t again = answer < 0 ? -1 : write(fds[n % files], record, RECORD);
    int error = errno;
    struct stat status;
    for (int i = 0; i < files; i++) {
        if (fstat(fds[i], &status) != 0) return 6;
        held += status.st_size - (is_disk ? 0 : limit);
        printf("close %d\n", close(fds[i]));
    }
    printf("%lld bytes in %d calls, then %zd, %zd, errno %d; %lld\n", taken, n, answer, again,
           error, held);
    return 0;
}
