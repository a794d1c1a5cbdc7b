/* What a new process is given, and what it is not: descriptors that file actions duplicate, whatever
 * their numbers meant when the list was written; record locks of the parent, which stay; a descriptor
 * of one's own that is fetched through the kernel; and bad addresses, which are errors.
 * With arguments, what exec hands on: `lock COMMAND...` locks this program and becomes the command, `becomes N`
 * becomes itself N times and says whether it is locked; `odd COMMAND...` becomes the command with entries in its
 * environment that are no variables, `entries` says them. */
#include "log.h"
#include "newer.h"
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;
enum { RECORD = 100 };

static void records(int fd, char letter, int count) {
    char record[RECORD];
    memset(record, letter, RECORD - 1);
    record[RECORD - 1] = '\n';
    for (int i = 0; i < count; i++) {
        write(fd, record, RECORD);
        if (i % 10 == 0) give_time(fd);
    }
}

static void letters(const char *name) {
    char record[RECORD], last = 0;
    int count = 0, fd = open(name, O_RDONLY | O_CLOEXEC);
    say("%s:", name);
    while (read(fd, record, RECORD) == RECORD) {
        if (record[0] != last && count) say(" %d%c", count, last), count = 0;
        last = record[0];
        count++;
    }
    say(" %d%c\n", count, last);
    close(fd);
}

/* The list duplicates a number that means nothing yet; `how` it comes to the child. */
static void actions(const char *how) {
    int to[2], from[2], file = 40, child;
    pipe2(to, O_CLOEXEC), pipe2(from, O_CLOEXEC);
    posix_spawn_file_actions_t list;
    posix_spawn_file_actions_init(&list);
    int target = strcmp(how, "inherit") ? 1 : file;
    posix_spawn_file_actions_adddup2(&list, file, target);
    posix_spawn_file_actions_adddup2(&list, to[0], 0);
    posix_spawn_file_actions_adddup2(&list, from[1], 9);
    if (!strcmp(how, "chain")) posix_spawn_file_actions_adddup2(&list, 1, 8);
    for (int round = 0; round < 2; round++) {
        int fd = open(how, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        dup3(fd, file, O_CLOEXEC), close(fd);
        records(file, 'a', 500);
        char script[200], byte;
        int out = !strcmp(how, "chain") ? 8 : target;
        snprintf(script, sizeof script, "read x; printf '%%099d\\n' 7 >&%d; echo >&9", out);
        char *arguments[] = {"sh", "-c", script, NULL};
        /* Of two digits dash takes none for a descriptor. */
        if (target == file) arguments[0] = "bash";
        posix_spawnp(&child, arguments[0], &list, NULL, arguments, environ);
        records(file, 'b', 500);
        write(to[1], "\n", 1);
        read(from[0], &byte, 1);
        waitpid(child, NULL, 0);
        records(file, 'c', 50);
        close(file);
        letters(how);
    }
    posix_spawn_file_actions_destroy(&list);
    close(to[0]), close(to[1]), close(from[0]), close(from[1]);
}

static void fetched(void) {
    int fd = open("fetched", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    records(fd, 'a', 950);
    int self = (int)syscall(SYS_pidfd_open, getpid(), 0), other = -1;
    if (self >= 0) other = (int)syscall(SYS_pidfd_getfd, self, fd, 0);
    if (other < 0) other = dup(fd); /* The system does not let us. */
    records(fd, 'b', 100), records(other, 'c', 100), records(fd, 'd', 100);
    letters("fetched");
    close(fd), close(other), close(self);
}

/* A child takes a descriptor of its parent's that was opened after it was made. */
static void taken(void) {
    enum { NUMBER = 41 };
    int go[2], status;
    pipe2(go, O_CLOEXEC);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        int parent = (int)syscall(SYS_pidfd_open, getppid(), 0);
        read(go[0], &byte, 1);
        int fd = (int)syscall(SYS_pidfd_getfd, parent, NUMBER, 0);
        if (fd < 0) _exit(77); /* The system does not let us. */
        records(fd, 'k', 100);
        _exit(0);
    }
    int fd = open("taken", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    dup3(fd, NUMBER, O_CLOEXEC), close(fd);
    records(NUMBER, 'a', 950);
    write(go[1], "x", 1);
    waitpid(child, &status, 0);
    records(NUMBER, 'z', 100);
    say("status %x, ", status);
    letters("taken");
    close(NUMBER), close(go[0]), close(go[1]);
}

/* One for reading, as nobody may execute what is open for writing. */
static struct flock all = {.l_type = F_RDLCK, .l_whence = SEEK_SET};

/* Whether this process still has its lock; then it takes it again. */
static void locked(const char *after, const char *name, int mine) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        fcntl(open(name, O_RDWR), F_GETLK, &lock);
        _exit(lock.l_type == F_UNLCK);
    }
    waitpid(child, &status, 0);
    say("after %s: %s\n", after, status ? "gone" : "locked");
    fcntl(mine, F_SETLK, &all);
}

static void locks(void) {
    char *arguments[] = {"script", NULL};
    int child, fd = open("script", O_RDWR | O_CREAT | O_TRUNC, 0755);
    write(fd, "#!/bin/sh\nexit 0\n", 17), close(fd);
    fd = open("script", O_RDONLY | O_CLOEXEC);
    fcntl(fd, F_SETLK, &all);
    locked("nothing", "script", fd);
    if (posix_spawn(&child, "./script", NULL, NULL, arguments, environ) == 0) waitpid(child, NULL, 0);
    locked("posix_spawn", "script", fd);
    if (system("./script") != 0) say("system failed\n");
    locked("system", "script", fd);
    if ((child = vfork()) == 0) execv("./script", arguments), _exit(9);
    waitpid(child, NULL, 0);
    locked("vfork and exec", "script", fd);
    int plain = open("plain", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    write(plain, "x", 1);
    fcntl(plain, F_SETLK, &all);
    execv("./plain", arguments);
    locked("an exec that failed", "plain", plain);
}

static void said(const char *what, long answer) { say("%s: %ld errno %d\n", what, answer, errno); }

static void addresses(void) {
    char *arguments[] = {"true", NULL}, *bad[] = {"A=1", (char *)8, "B=2", NULL};
    char *volatile nowhere = (char *)16, *volatile nothing = NULL;
    int child;
    said("a bad text", execve("/bin/true", arguments, bad));
    said("a bad list", execve("/bin/true", arguments, (char **)nowhere));
    said("a bad path", execve(nowhere, arguments, environ));
    said("a bad text, by syscall", syscall(SYS_execve, "/bin/true", arguments, bad));
    say("a spawn: %d\n", posix_spawn(&child, "/bin/true", NULL, NULL, arguments, bad));
    posix_spawn_file_actions_t elsewhere;
    posix_spawn_file_actions_init(&elsewhere);
    posix_spawn_file_actions_addchdir_np(&elsewhere, "/");
    say("a spawn of nothing: %d\n", posix_spawn(&child, nothing, &elsewhere, NULL, arguments, environ));
    posix_spawn_file_actions_destroy(&elsewhere);
}

/* The same of a program for another machine, which would get a list of its own, and behind LD_PRELOAD. */
static void addresses_behind(void) {
    char *preload = getenv("LD_PRELOAD"), *arguments[] = {"foreign", NULL};
    preload = preload ? preload - strlen("LD_PRELOAD=") : "LD_PRELOAD_=";
    unsigned char header[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1, [18] = 0xff, [19] = 0xff};
    int fd = open("foreign", O_WRONLY | O_CREAT, 0755);
    write(fd, header, sizeof header), close(fd);
    char *sound[] = {"A=1", preload, "B=2", NULL}, *bad[] = {"A=1", preload, (char *)8, NULL};
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + 4096, 4096);
    char **torn = (char **)(pages + 4096) - 2;
    torn[0] = preload, torn[1] = "A=1";
    said("foreign", execve("./foreign", arguments, sound));
    said("a bad text behind it", execve("./foreign", arguments, bad));
    said("a list that ends in nothing", execve("./foreign", arguments, torn));
    said("the same for a program of ours", execve("/bin/true", arguments, torn));
    said("and a bad text", execve("/bin/true", arguments, bad));
    munmap(pages, 4096);
}

static int lock(char **command) {
    struct flock all = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    if (fcntl(open("/proc/self/exe", O_RDONLY), F_SETLK, &all)) say("lock: errno %d\n", errno);
    execvp(*command, command);
    return 9;
}

static int becomes(char *program, int times) {
    if (times > 0) {
        char rest[12];
        snprintf(rest, sizeof rest, "%d", times - 1);
        execl(program, program, "becomes", rest, (char *)NULL);
        return 9;
    }
    int child = fork();
    if (child == 0) {
        struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        if (fcntl(open("/proc/self/exe", O_RDONLY), F_GETLK, &all)) return 9;
        say("locked: %d\n", all.l_type != F_UNLCK);
        log_out();
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return 0;
}

static int odd(char **command) {
    char *given[1000] = {"ODD=1", "NOTHING_EQUAL", "", "=x", "ODD=2", "=", "==y=", "ODD=1", "ODD"};
    int count = 9;
    for (char **entry = environ; *entry && count < 999; entry++) given[count++] = *entry;
    environ = given;
    execvp(*command, command);
    return 9;
}

static int entries(void) {
    for (char **entry = environ; *entry; entry++)
        if (**entry == '=' || !strchr(*entry, '=') || !strncmp(*entry, "ODD=", 4)) say("[%s]\n", *entry);
    log_out();
    return 0;
}

int main(int count, char **arguments) {
    if (count > 2 && !strcmp(arguments[1], "lock")) return lock(arguments + 2);
    if (count > 2 && !strcmp(arguments[1], "becomes")) return becomes(arguments[0], atoi(arguments[2]));
    if (count > 2 && !strcmp(arguments[1], "odd")) return odd(arguments + 2);
    if (count > 1) return entries();
    records(open("warm", O_WRONLY | O_CREAT | O_CLOEXEC, 0644), 'w', 200);
    actions("plain"), actions("chain"), actions("inherit");
    fetched(), taken();
    locks();
    addresses();
    addresses_behind();
    say_file("warm");
    log_out();
    return 0;
}
