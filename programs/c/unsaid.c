/* What one process does to another without a call of that one: it sets a limit for it, looks into its
 * memory or changes it, lets it go on after a stop. What it wrote before counts, and what the other one
 * wrote before is there. */
#include "log.h"
#include "raw.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { RECORD = 100, RECORDS = 900, ROUNDS = 8, PLACE = 3000 };
static char record[RECORD];

static void records(int fd, char letter, int count) {
    memset(record, letter, RECORD);
    for (int i = 0; i < count; i++) {
        ssize_t n = write(fd, record, RECORD);
        if (n != RECORD) say("write %zd %d\n", n, errno);
        if (i % 40 == 0 && letter == 'a') give_time(fd);
    }
}

static int fresh(const char *name) { return open(name, O_RDWR | O_CREAT | O_TRUNC, 0644); }

static long size_of(const char *name) {
    struct stat found = {0};
    stat(name, &found);
    return found.st_size;
}

/* The next writes of a child meet the limit that was set for it while its records wait. */
static void limited(void) {
    int ready[2], go[2];
    char byte;
    if (pipe(ready) || pipe(go)) exit(2);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        int fd = fresh("limited");
        records(fd, 'a', RECORDS);
        raw(SYS_write, ready[1], (long)"x", 1, 0);
        raw(SYS_read, go[0], (long)&byte, 1, 0);
        records(fd, 'b', 55);
        close(fd);
        log_out();
        _exit(0);
    }
    raw(SYS_read, ready[0], (long)&byte, 1, 0);
    struct rlimit limit = {RECORD * RECORDS + 5050, RLIM_INFINITY};
    say("prlimit %d\n", prlimit(child, RLIMIT_FSIZE, &limit, NULL));
    raw(SYS_write, go[1], (long)"x", 1, 0);
    waitpid(child, NULL, 0);
    say("%ld bytes\n", size_of("limited"));
    close(ready[0]), close(ready[1]), close(go[0]), close(go[1]);
}

static volatile long count;

/* A child counts in its memory what it has written. */
static void looked_into(void) {
    pid_t child = fork();
    if (child == 0) {
        int fd = fresh("counted");
        records(fd, 'a', RECORDS);
        for (;;) {
            for (volatile int i = 0; i < 50000; i++) continue;
            write(fd, record, RECORD), count++;
        }
    }
    int early = 0, looks = 0;
    while (looks < 20 && early == 0) {
        long seen = 0;
        struct iovec to = {&seen, sizeof seen}, from = {(void *)&count, sizeof count};
        if (process_vm_readv(child, &to, 1, &from, 1, 0) < 0) break; /* The system does not let us. */
        early += seen > 0 && size_of("counted") < (RECORDS + seen) * RECORD;
        looks += seen > 0;
        usleep(3000);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    unlink("counted");
    say("early %d\n", early);
}

/* A child that is to go on: it stops by a call that no library sees, or looks at a word in its memory. */
static void goes_on(const char *how) {
    int is_stop = !strcmp(how, "stop"), status, stale = 0, ready[2];
    if (pipe(ready)) exit(2);
    int fd = fresh("news");
    records(fd, '0', 1000);
    pid_t child = fork();
    if (child == 0) {
        char found[RECORD];
        int in = open("news", O_RDONLY);
        for (int i = 0; i < 60; i++) read(in, found, RECORD);
        for (int round = 1; round <= ROUNDS; round++) {
            for (int i = 0; i < 30; i++) pread(in, found, RECORD, PLACE);
            if (is_stop) raw(SYS_kill, raw(SYS_getpid, 0, 0, 0, 0), SIGSTOP, 0, 0);
            else {
                raw(SYS_write, ready[1], (long)"x", 1, 0);
                while (count < round) continue;
            }
            pread(in, found, RECORD, PLACE);
            stale += found[0] != '0' + round;
        }
        _exit(stale);
    }
    for (int round = 1; round <= ROUNDS; round++) {
        long word = round;
        struct iovec from = {&word, sizeof word}, to = {(void *)&count, sizeof count};
        char byte;
        if (is_stop) waitpid(child, &status, WUNTRACED);
        else raw(SYS_read, ready[0], (long)&byte, 1, 0);
        memset(record, '0' + round, RECORD);
        pwrite(fd, record, RECORD, PLACE);
        if (is_stop) kill(child, SIGCONT);
        else if (process_vm_writev(child, &from, 1, &to, 1, 0) < 0) kill(child, SIGKILL);
    }
    waitpid(child, &status, 0);
    say("%s: %d stale, signal %d\n", how, WEXITSTATUS(status), WTERMSIG(status));
    close(fd), close(ready[0]), close(ready[1]);
}

int main(void) {
    limited();
    looked_into();
    goes_on("stop");
    goes_on("memory");
    log_out();
    return 0;
}
