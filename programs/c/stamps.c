/* The times of two files that were written one after the other, while both could wait: the later one is
 * the newer one, and none is older than the last bytes in it.
 * Usage: stamps last | aged | asked | beside | quiet | killed */
#include "log.h"
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;
enum { RECORDS = 400, MORE = 3, BYTES = 10 };

/* The clock by which files are stamped; it may stand still for long where the machine is emulated. */
static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}
static void compute(int milliseconds) {
    long long end = now_ns() + milliseconds * 1000000ll;
    while (now_ns() < end) {}
}
static long long modified(const char *name) {
    struct stat data;
    return stat(name, &data) ? 0 : data.st_mtim.tv_sec * 1000000000ll + data.st_mtim.tv_nsec;
}
static long size_of(const char *name) {
    struct stat data;
    return stat(name, &data) ? 0 : (long)data.st_size;
}
static void records(int fd, int count) {
    for (int i = 0; i < count; i++)
        if (write(fd, "a record\r\n", BYTES) != BYTES) say("short\n");
}
static int begin(const char *name) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < RECORDS; i++) records(fd, 1), give_time(fd);
    return fd;
}

/* Somebody who copies the first file while this computes has not seen its last bytes. */
static void last(void) {
    int first = begin("first"), second = begin("second");
    usleep(20000);
    records(first, MORE);
    compute(200);
    long long copied = now_ns();
    compute(30);
    records(first, MORE);
    compute(30);
    records(second, MORE);
    say("newer than the copy: %d\n", modified("first") > copied);
    say("the later one is newer: %d\n", modified("second") > modified("first"));
    close(first);
    close(second);
}

/* What has waited for its time leaves at a write to another file, which leaves at once after it. */
static void aged(void) {
    int first = begin("first"), second = begin("second");
    modified("first");
    for (int i = 0; i < 10; i++) {
        records(first, MORE);
        compute(99);
    }
    compute(60);
    records(second, MORE);
    say("the later one is newer: %d\n", modified("second") > modified("first"));
    close(first);
    close(second);
}

/* A time that was asked for stays as it is, whatever leaves in the same moment. */
static void asked(void) {
    int first = begin("first"), second = begin("second"), moved = 0;
    for (int i = 0; i < 200; i++) {
        records(first, MORE);
        compute(5);
        long long told = modified("first");
        records(second, MORE);
        modified("second");
        moved += modified("first") != told;
    }
    say("moved: %d\n", moved);
    close(first);
    close(second);
}

/* A file with a window is written to between two writes of another one. */
static void beside(void) {
    int first = begin("first"), second = begin("second");
    char bytes[BYTES];
    lseek(second, 0, SEEK_SET);
    for (int i = 0; i < 100; i++)
        if (read(second, bytes, BYTES) != BYTES) say("short\n");
    records(second, MORE);
    records(first, 190);
    records(second, MORE);
    compute(30);
    records(first, MORE);
    say("the later one is newer: %d\n", modified("first") > modified("second"));
    close(first);
    close(second);
}

static int child(void) {
    int first = begin("first"), second = begin("second");
    usleep(20000);
    records(first, MORE);
    compute(60);
    records(second, MORE);
    compute(2000);
    return 0;
}

static int victim(void) {
    int first = begin("first"), second = begin("second"), third = begin("third");
    usleep(20000);
    records(first, MORE);
    compute(60);
    records(third, MORE);
    compute(60);
    records(second, MORE);
    compute(60);
    /* By an instruction, which tells nobody beforehand. */
    *(volatile int *)NULL = 0;
    return 0;
}

static pid_t start(char *program, char *way) {
    char *arguments[] = {program, way, NULL};
    pid_t process;
    if (posix_spawn(&process, program, NULL, NULL, arguments, environ)) exit(97);
    return process;
}

/* What a child leaves that dies is told apart as well. */
static void killed(char *program) {
    int status;
    waitpid(start(program, "victim"), &status, 0);
    say("signal %d\n", WTERMSIG(status));
    say("the later one is newer: %d\n", modified("third") > modified("first"));
    say("the last one is newer: %d\n", modified("second") > modified("third"));
}

/* A child writes, and then computes: anyone who writes for it tells them apart as well. */
static void quiet(char *program) {
    int status;
    unlink("second");
    pid_t process = start(program, "child");
    /* Without a pause, so that no moment between the two is missed. */
    for (long long end = now_ns() + 10000000000ll; now_ns() < end;)
        if (size_of("second") == (RECORDS + MORE) * BYTES) break;
    say("the later one is newer: %d\n", modified("second") > modified("first"));
    waitpid(process, &status, 0);
    say("status %d\n", status);
}

int main(int argc, char **argv) {
    if (argc < 2) return 96;
    if (!strcmp(argv[1], "child")) return child();
    if (!strcmp(argv[1], "victim")) return victim();
    if (!strcmp(argv[1], "last")) last();
    else if (!strcmp(argv[1], "aged")) aged();
    else if (!strcmp(argv[1], "asked")) asked();
    else if (!strcmp(argv[1], "beside")) beside();
    else if (!strcmp(argv[1], "killed")) killed(argv[0]);
    else quiet(argv[0]);
    log_out();
    return 0;
}
