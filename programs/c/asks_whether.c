/* Functions that not every C library has. A program that asks whether one is there, and takes another way where it
   is not, does the same with any library. Says what came of it, not by which way. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAYBE(answer, name, ...) \
    extern answer may_##name(__VA_ARGS__) __asm__(#name) __attribute__((weak))
struct way {
    unsigned long flags, mode, resolve;
};
MAYBE(int, openat2, int, const char *, struct way *, size_t);
MAYBE(int, close_range, unsigned, unsigned, int);
MAYBE(void, closefrom, int);
MAYBE(int, statx, int, const char *, int, unsigned, void *);
MAYBE(int, pidfd_open, pid_t, unsigned);
MAYBE(int, pidfd_send_signal, int, int, void *, unsigned);
MAYBE(int, pidfd_getfd, int, int, unsigned);
MAYBE(ssize_t, getdents64, int, void *, size_t);
MAYBE(ssize_t, preadv2, int, const struct iovec *, int, off_t, int);
MAYBE(ssize_t, pwritev2, int, const struct iovec *, int, off_t, int);
MAYBE(ssize_t, copy_file_range, int, off_t *, int, off_t *, size_t, unsigned);
MAYBE(int, memfd_create, const char *, unsigned);
MAYBE(int, mlock2, const void *, size_t, unsigned);
MAYBE(int, renameat2, int, const char *, int, const char *, unsigned);
MAYBE(int, execveat, int, const char *, char *const *, char *const *, int);
MAYBE(int, posix_spawn_file_actions_addchdir, posix_spawn_file_actions_t *, const char *);
MAYBE(int, posix_spawn_file_actions_addchdir_np, posix_spawn_file_actions_t *, const char *);
MAYBE(int, pidfd_spawnp, int *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
      char *const *, char *const *);
MAYBE(char *, canonicalize_file_name, const char *);

extern char **environ;
enum { BYTES = 30, FIRST = 60 };

static void say(const char *what, long answer) {
    printf("%s: %ld%s%s\n", what, answer, answer < 0 ? " " : "", answer < 0 ? strerror(errno) : "");
    fflush(stdout);
}

static int is_open(int fd) {
    return fcntl(fd, F_GETFD) >= 0;
}

static void opens(void) {
    struct way way = {O_RDONLY, 0, 0}, bad = {O_RDONLY, 1, 0};
    for (struct way *each = &way; each; each = each == &way ? &bad : NULL) {
        const char *name = "file";
        int fd = may_openat2 ? may_openat2(AT_FDCWD, name, each, sizeof *each)
                             : (int)syscall(437, AT_FDCWD, name, each, sizeof *each);
        say("openat2", fd < 0 ? fd : 0);
        if (fd >= 0) close(fd);
    }
}

static void closes(void) {
    for (int fd = FIRST; fd < FIRST + 3; fd++) dup2(1, fd);
    if (may_close_range)
        say("close_range", may_close_range(FIRST, FIRST, 0));
    else
        say("close_range", close(FIRST));
    printf("%d%d%d\n", is_open(FIRST), is_open(FIRST + 1), is_open(FIRST + 2));
    if (may_closefrom)
        may_closefrom(FIRST);
    else
        close(FIRST + 1), close(FIRST + 2);
    printf("%d%d%d\n", is_open(FIRST), is_open(FIRST + 1), is_open(FIRST + 2));
}

/* At an offset that does not fit in a half, and with a flag that no kernel knows. */
static void vectors(void) {
    int fd = open("vectors", O_CREAT | O_TRUNC | O_RDWR, 0600);
    char text[] = "far away", read[sizeof text] = "";
    struct iovec from = {text, sizeof text}, into = {read, sizeof read};
    off_t far = 5L << 32;
    say("pwritev2", may_pwritev2 ? may_pwritev2(fd, &from, 1, far, 0) : pwritev(fd, &from, 1, far));
    say("preadv2", may_preadv2 ? may_preadv2(fd, &into, 1, far, 0) : preadv(fd, &into, 1, far));
    say(read, lseek(fd, 0, SEEK_END));
    errno = EOPNOTSUPP;
    say("flags", may_preadv2 ? may_preadv2(fd, &into, 1, far, 1 << 30) : -1);
    ftruncate(fd, 0);
    close(fd);
}

static void files(void) {
    char bytes[1024];
    struct stat status;
    int in = open("file", O_RDONLY), out = open("copy", O_CREAT | O_TRUNC | O_RDWR, 0600);
    ssize_t copied = may_copy_file_range ? may_copy_file_range(in, NULL, out, NULL, BYTES, 0)
                                         : write(out, bytes, read(in, bytes, BYTES));
    say("copy_file_range", copied);
    say("statx", may_statx ? may_statx(AT_FDCWD, "none", 0, 0x7ff, bytes) : stat("none", &status));
    say("statx", may_statx ? may_statx(AT_FDCWD, "copy", 0, 0x7ff, bytes) : stat("copy", &status));
    say("renameat2", may_renameat2 ? may_renameat2(AT_FDCWD, "copy", AT_FDCWD, "moved", 0)
                                   : rename("copy", "moved"));
    int folder = open(".", O_RDONLY | O_DIRECTORY);
    long names = may_getdents64 ? may_getdents64(folder, bytes, sizeof bytes)
                                : syscall(SYS_getdents64, folder, bytes, sizeof bytes);
    say("getdents64", names > 0);
    int memory = may_memfd_create ? may_memfd_create("memory", 0) : open("moved", O_RDWR);
    say("memfd_create", write(memory, "bytes", 5));
    say("mlock2", may_mlock2 ? may_mlock2(bytes, 1, 0) : 0);
    char *whole = may_canonicalize_file_name ? may_canonicalize_file_name("none") : NULL;
    printf("canonicalize_file_name: %s\n", whole ? "a name" : "null");
    close(in), close(out), close(folder), close(memory);
}

static void processes(void) {
    int status = -1, fd = -1;
    pid_t child = fork();
    if (child == 0) pause(), _exit(0);
    if (may_pidfd_open) fd = may_pidfd_open(child, 0);
    if (fd >= 0 && may_pidfd_getfd) close(may_pidfd_getfd(fd, 1, 0));
    say("signal", fd >= 0 && may_pidfd_send_signal ? may_pidfd_send_signal(fd, SIGTERM, NULL, 0)
                                                   : kill(child, SIGTERM));
    waitpid(child, &status, 0);
    printf("ended by %d\n", WTERMSIG(status));
    close(fd);
    char *arguments[] = {"echo", "becomes another", NULL};
    if ((child = fork()) == 0) {
        if (may_execveat)
            may_execveat(AT_FDCWD, "/bin/echo", arguments, environ, 0);
        else
            execve("/bin/echo", arguments, environ);
        _exit(1);
    }
    waitpid(child, &status, 0);
    printf("%x\n", status);
}

static void spawns(void) {
    int status = -1, fd = -1, error = ENOSYS;
    char *arguments[] = {"pwd", NULL};
    pid_t child;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (may_posix_spawn_file_actions_addchdir)
        error = may_posix_spawn_file_actions_addchdir(&actions, "/usr");
    else if (may_posix_spawn_file_actions_addchdir_np)
        error = may_posix_spawn_file_actions_addchdir_np(&actions, "/usr");
    printf("addchdir: %d\n", error);
    error = may_pidfd_spawnp ? may_pidfd_spawnp(&fd, "pwd", &actions, NULL, arguments, environ) : ENOSYS;
    if (error == ENOSYS) error = posix_spawnp(&child, "pwd", &actions, NULL, arguments, environ);
    printf("spawned: %d\n", error);
    wait(&status);
    printf("%x\n", status);
    close(fd);
}

int main(void) {
    int fd = open("file", O_CREAT | O_TRUNC | O_WRONLY, 0600);
    for (int i = 0; i < 100; i++)
        if (write(fd, "a line of thirty characters..\n", BYTES) != BYTES) return 1;
    opens(), closes(), vectors(), files(), processes(), spawns();
    return close(fd);
}
