/* A process changes a file by stores to a mapping, which nobody is told of. Another one, that writes the same file,
 * lets nothing wait beside it, also where that process may not be looked at:
 *   hidden   it has asked for that
 *   titled   it has written a title over its environment, and its parent has ended */
#include "log.h"
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include "raw.h"

enum { RECORD = 10, RECORDS = 400, AT = 3003, GO = 41, DONE = 42 };
static const char name[] = "mapped elsewhere";

static void set_title(char **words, char **environment) {
    char *start = words[0], *end = start;
    for (int i = 0; words[i]; i++) end = words[i] + strlen(words[i]);
    for (int i = 0; environment[i]; i++) end = environment[i] + strlen(environment[i]);
    memset(start, 0, (size_t)(end - start));
    strcpy(start, "server: idle");
}

/* Its mapping is there before the other process opens the file; and it stores when it is told to. */
static int store(void) {
    char byte;
    int fd = open(name, O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, RECORD * RECORDS)) return 3;
    char *bytes = mmap(NULL, RECORD * RECORDS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    raw(SYS_write, DONE, (long)"r", 1, 0);
    raw(SYS_read, GO, (long)&byte, 1, 0);
    bytes[AT] = 'X';
    raw(SYS_write, DONE, (long)"x", 1, 0);
    _exit(0);
}

int main(int count, char **words, char **environment) {
    int go[2], done[2];
    char byte = 0;
    if (count > 2) {
        if (!strcmp(words[1], "titled")) set_title(words, environment);
        else if (prctl(PR_SET_DUMPABLE, 0)) return 2;
        return store();
    }
    unlink(name);
    if (pipe2(go, O_CLOEXEC) || pipe2(done, O_CLOEXEC)) return 2;
    pid_t child = fork();
    if (child == 0) {
        raw(SYS_dup3, go[0], GO, 0, 0), raw(SYS_dup3, done[1], DONE, 0, 0);
        if (strcmp(words[1], "titled") || fork() == 0) execl(words[0], words[0], words[1], "again", NULL);
        _exit(0);
    }
    if (!strcmp(words[1], "titled")) waitpid(child, NULL, 0);
    close(done[1]);
    if (read(done[0], &byte, 1) != 1) return 4;
    int fd = open(name, O_RDWR | O_CLOEXEC);
    for (int i = 0; i < RECORDS; i++) {
        if (write(fd, "0123456789", RECORD) != RECORD) return 5;
        if (i > 60 && i < 300) give_time(fd);
    }
    raw(SYS_write, go[1], (long)"x", 1, 0);
    raw(SYS_read, done[0], (long)&byte, 1, 0);
    pread(fd, &byte, 1, AT);
    say("%c\n", byte);
    say_file(name);
    log_out();
    return 0;
}
