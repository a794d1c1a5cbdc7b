/* Lists of file actions, and what a spawn by them shares.
 *
 *   copied   where a list was begun, and nothing was added, lies a copy of another one, byte by byte; and another
 *            copy, as that one has grown. The child reads what it is given after its parent has read on
 *   added    the same with a copy that is added to
 *   closes   lists that only close share nothing: the parent's reads and writes between the spawns stay few */
#include "log.h"
#include <dlfcn.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;
enum { RECORD = 10, BYTES = 200000, WORD = 9, CLOSED = 60 };

static posix_spawn_file_actions_t place;

static void read_on(int fd, int count) {
    char record[RECORD];
    for (int i = 0; i < count; i++) read(fd, record, RECORD);
}

/* Starts this program again, which is given what the list says, and reads after a word. */
static void spawn(const char *program, int fd) {
    int word[2], status = -1;
    pid_t child;
    char *arguments[] = {(char *)program, "reads", NULL};
    if (pipe2(word, O_CLOEXEC) || dup2(word[0], WORD) != WORD) exit(2);
    int error = posix_spawn(&child, program, &place, NULL, arguments, environ);
    read_on(fd, 300);
    write(word[1], "w", 1);
    waitpid(child, &status, 0);
    say("%d %x, at %ld\n", error, status, (long)lseek(fd, 0, SEEK_CUR));
    close(word[0]), close(word[1]), close(WORD);
}

static void copied(const char *program) {
    posix_spawn_file_actions_t duplicates;
    int fd = open("in", O_RDONLY | O_CLOEXEC), other = open("in", O_RDONLY | O_CLOEXEC);
    posix_spawn_file_actions_init(&place);
    posix_spawn_file_actions_init(&duplicates);
    posix_spawn_file_actions_adddup2(&duplicates, fd, 0);
    place = duplicates;
    read_on(fd, 300), spawn(program, fd);
    posix_spawn_file_actions_adddup2(&duplicates, other, 0);
    place = duplicates;
    read_on(other, 300), spawn(program, other);
    posix_spawn_file_actions_destroy(&duplicates);
}

static void added(const char *program) {
    posix_spawn_file_actions_t duplicates;
    int fd = open("in", O_RDONLY | O_CLOEXEC);
    posix_spawn_file_actions_init(&place);
    posix_spawn_file_actions_init(&duplicates);
    posix_spawn_file_actions_adddup2(&duplicates, fd, 0);
    place = duplicates;
    posix_spawn_file_actions_addclose(&place, CLOSED);
    read_on(fd, 300), spawn(program, fd);
    posix_spawn_file_actions_destroy(&place);
}

/* Its standard input. */
static int reads(void) {
    char record[RECORD], byte;
    read(WORD, &byte, 1);
    for (int i = 0; i < 5; i++) read(0, record, RECORD);
    return 0;
}

static void closes(void) {
    /* Only newer C libraries have it. */
    int (*close_from)(posix_spawn_file_actions_t *, int) =
        (int (*)(posix_spawn_file_actions_t *, int))dlsym(RTLD_DEFAULT, "posix_spawn_file_actions_addclosefrom_np");
    int in = open("in", O_RDONLY | O_CLOEXEC), out = open("out", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    char *arguments[] = {"true", NULL}, record[RECORD];
    for (int round = 0; round < 4; round++) {
        int status = -1;
        pid_t child;
        posix_spawn_file_actions_init(&place);
        for (int i = 0; i < 10; i++) posix_spawn_file_actions_addclose(&place, CLOSED + i);
        if (close_from && round % 2) close_from(&place, CLOSED);
        if (posix_spawnp(&child, "true", &place, NULL, arguments, environ) == 0) waitpid(child, &status, 0);
        posix_spawn_file_actions_destroy(&place);
        for (int i = 0; i < 3000; i++) {
            write(out, record, (size_t)read(in, record, RECORD));
            if (i % 10 == 0) give_time(out);
        }
        say("%x, at %ld %ld\n", status, (long)lseek(in, 0, SEEK_CUR), (long)lseek(out, 0, SEEK_CUR));
    }
    say_file("out");
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "";
    if (!strcmp(way, "reads")) return reads();
    make_file("in", BYTES);
    if (!strcmp(way, "copied")) copied(arguments[0]);
    if (!strcmp(way, "added")) added(arguments[0]);
    if (!strcmp(way, "closes")) closes();
    log_out();
    return 0;
}
