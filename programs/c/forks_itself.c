/* A fork by an instruction of the program's own, while bytes wait. The child ends, closes the file, or asks where
 * it ends; the parent, which makes no call in between, goes on writing. Nothing is lost, and each ends as natively.
 * Usage: forks_itself end | close | seek */
#include "log.h"
#include "raw.h"
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

enum { RECORD = 16, RECORDS = 4000 };

static int number;

static void records(int fd, int count) {
    char record[RECORD + 1];
    for (int i = 0; i < count; i++) {
        snprintf(record, sizeof record, "record %08d\n", number++);
        if (write(fd, record, RECORD) != RECORD) exit(1);
    }
}

static void wait_a_little(long milliseconds) {
    struct timespec time = {0, milliseconds * 1000000};
    raw(SYS_nanosleep, (long)&time, 0, 0, 0);
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "end";
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0644);
    for (int i = 0; i < 100; i++) records(fd, RECORDS / 100), give_time(fd);
    records(fd, 100);
    long child = raw(SYS_clone, SIGCHLD, 0, 0, 0);
    if (child == 0) {
        wait_a_little(30);
        if (!strcmp(way, "close")) close(fd);
        if (!strcmp(way, "seek")) lseek(fd, 0, SEEK_END);
        _exit(0);
    }
    for (int i = 0; i < 100; i++) records(fd, 20), wait_a_little(1);
    int status = -1;
    if (waitpid((pid_t)child, &status, 0) != child) say("no child\n");
    say("%s: %x\n", way, status);
    records(fd, 100);
    close(fd);
    say_file("file");
    log_out();
    return 0;
}
