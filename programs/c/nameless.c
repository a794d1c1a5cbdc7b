/* The ledger's file loses its name while bytes wait, as where a session ends and all that its user has in /dev/shm is
 * removed. A program that is started afterwards cannot find the ledger: what it writes, reads or asks for comes after
 * what waits in its parent all the same. */
#include "log.h"
#include <sys/stat.h>
#include <sys/wait.h>
#include "raw.h"

enum { RECORD = 10, RECORDS = 400, AT = 3003, GO = 41, DONE = 42 };

static void nap(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    raw(SYS_nanosleep, (long)&time, 0, 0, 0);
}

/* What the other program does; its status says what it has found. */
static int other(const char *name, const char *way) {
    char bytes[RECORD + 1] = "";
    struct stat found;
    raw(SYS_read, GO, (long)bytes, 1, 0);
    int fd = open(name, strcmp(way, "append") ? O_RDWR : O_WRONLY | O_APPEND);
    if (!strcmp(way, "pwrite")) return pwrite(fd, "X", 1, AT) != 1;
    if (!strcmp(way, "append")) return write(fd, "X", 1) != 1;
    if (!strcmp(way, "size")) return fstat(fd, &found) || found.st_size != RECORD * RECORDS;
    if (!strcmp(way, "read"))
        return pread(fd, bytes, RECORD, RECORD * (RECORDS - 1)) != RECORD || memcmp(bytes, "0123456789", RECORD);
    FILE *stream = fdopen(fd, "r+");
    return fseek(stream, AT, SEEK_SET) || fputc('X', stream) != 'X' || fflush(stream);
}

__attribute__((noreturn)) static void first(const char *program, const char *way) {
    char name[40], byte = 0;
    int go[2], status;
    snprintf(name, sizeof name, "%s of a stranger", way);
    if (pipe2(go, O_CLOEXEC)) exit(2);
    pid_t child = fork();
    if (child == 0) {
        raw(SYS_dup3, go[0], GO, 0, 0);
        execl(program, program, name, way, NULL);
        _exit(9);
    }
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    for (int i = 0; i < RECORDS; i++) {
        if (write(fd, "0123456789", RECORD) != RECORD) _exit(3);
        if (i > 60 && i < 300) give_time(fd);
        if (i == RECORDS - 50 && getenv("SWEETSPOT_LEDGER"))
            raw(SYS_unlinkat, AT_FDCWD, (long)getenv("SWEETSPOT_LEDGER"), 0, 0);
    }
    /* Longer than it takes until somebody looks, and not so long that what waits would leave by its age. */
    nap(700);
    raw(SYS_write, go[1], (long)"x", 1, 0);
    raw(SYS_wait4, child, (long)&status, 0, 0);
    /* Nothing waits from here on, nor does anything come over what the other one wrote. */
    for (int i = 0; i < 100; i++) write(fd, "abcdefghij", RECORD);
    pread(fd, &byte, 1, AT);
    say("%c, status %d\n", byte, status);
    say_file(name);
    log_out();
    _exit(0);
}

int main(int count, char **words) {
    if (count > 2) return other(words[1], words[2]);
    first(words[0], words[1]);
}
