/* One thread does what ends buffering, or the process, while others write: whatever it is, all that they were
 * told is written is in their files. They say so by an instruction that no library sees, in files of their
 * own. */
#include "log.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "raw.h"

enum { WRITERS = 3, BYTES = 100, ROUNDS = 2, TIMES = 8, LATER_US = 1000 };

static char record[BYTES];
static int fds[WRITERS], said[WRITERS];
static volatile long begun;

static void *writes(void *argument) {
    int which = *(int *)argument;
    while (write(fds[which], record, BYTES) == BYTES) {
        raw(SYS_write, said[which], (long)"x", 1, 0);
        __atomic_fetch_add(&begun, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void waited_for(pid_t child) {
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
}

static void ends_at_once(const char *way) {
    if (!strcmp(way, "exec")) execl("/bin/true", "true", (char *)NULL);
    if (!strcmp(way, "exit")) exit(0);
    if (!strcmp(way, "_exit")) _exit(0);
    if (!strcmp(way, "quick_exit")) quick_exit(0);
    if (!strcmp(way, "raw exit_group")) raw(SYS_exit_group, 0, 0, 0, 0);
    if (!strcmp(way, "abort")) abort();
    if (!strcmp(way, "kill")) raise(SIGKILL);
    if (!strcmp(way, "a fault")) *(volatile int *)8 = 1;
}

static void does_again(const char *way) {
    static char *arguments[] = {"true", NULL};
    extern char **environ;
    pid_t child;
    for (int time = 0; time < TIMES; time++) {
        if (!strcmp(way, "an exec that fails")) execl("/nonexistent", "x", (char *)NULL);
        if (!strcmp(way, "fork")) waited_for(fork());
        if (!strcmp(way, "spawn") && posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ) == 0)
            waited_for(child);
        for (int which = 0; which < WRITERS; which++) {
            if (!strcmp(way, "dup")) close(dup(fds[which]));
            if (!strcmp(way, "fchmod")) fchmod(fds[which], 0600 | time);
            if (!strcmp(way, "a mapping")) mmap(NULL, 1, PROT_READ, MAP_SHARED, fds[which], 0);
        }
    }
}

static void gives_up(const char *way) {
    struct rlimit limit = {RLIM_INFINITY / 4, RLIM_INFINITY / 4};
    char parameters[120] = {0};
    int failed = 0;
    if (!strcmp(way, "another user")) failed = setresuid(65534, 65534, 65534);
    if (!strcmp(way, "a table of its own")) failed = unshare(CLONE_FILES);
    if (!strcmp(way, "another root")) failed = chroot(".");
    if (!strcmp(way, "locked memory")) failed = mlockall(MCL_CURRENT);
    if (!strcmp(way, "a limit on sizes")) failed = setrlimit(RLIMIT_FSIZE, &limit);
    if (!strcmp(way, "ignored faults")) failed = signal(SIGSEGV, SIG_IGN) == SIG_ERR;
    if (!strcmp(way, "io_uring")) syscall(SYS_io_uring_setup, 4, parameters);
    if (!strcmp(way, "shared memory")) {
        mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        waited_for(fork());
    }
    /* Not for everyone. */
    (void)failed;
    usleep(LATER_US);
}

static void process(const char *way) {
    static int numbers[WRITERS] = {0, 1, 2};
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    begun = 0;
    for (int which = 0; which < WRITERS; which++) {
        pthread_t thread;
        char name[] = {'f', (char)('0' + which), 0};
        fds[which] = open(name, O_CREAT | O_RDWR | O_TRUNC | (which == 1 ? O_APPEND : 0), 0666);
        name[0] = 's';
        said[which] = open(name, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0666);
        if (pthread_create(&thread, NULL, writes, &numbers[which]) != 0) _exit(9);
    }
    while (begun < 3000) sched_yield();
    ends_at_once(way);
    does_again(way);
    gives_up(way);
    _exit(0);
}

/* Records that were said to be written, and are not, or are there twice. A record whose write was interrupted
 * may be there in part. */
static int wrong(void) {
    int wrong = 0;
    for (int which = 0; which < WRITERS; which++) {
        struct stat file, words;
        char name[] = {'f', (char)('0' + which), 0};
        if (stat(name, &file) != 0) wrong++;
        name[0] = 's';
        if (stat(name, &words) != 0) wrong++;
        long more = file.st_size - BYTES * words.st_size;
        wrong += more < 0 || more > BYTES;
    }
    return wrong;
}

int main(void) {
    static const char *const ways[] = {"exec", "an exec that fails", "exit", "_exit", "quick_exit",
        "raw exit_group", "abort", "kill", "a fault", "fork", "spawn", "dup", "fchmod", "a mapping",
        "another user", "a table of its own", "another root", "locked memory", "a limit on sizes",
        "ignored faults", "io_uring", "shared memory"};
    memset(record, 'r', BYTES);
    for (unsigned way = 0; way < sizeof ways / sizeof *ways; way++) {
        int bad = 0;
        for (int round = 0; round < ROUNDS; round++) {
            pid_t child = fork();
            if (child == 0) process(ways[way]);
            waitpid(child, NULL, 0);
            bad += wrong();
        }
        say("%s: %d wrong\n", ways[way], bad);
    }
    for (int which = 0; which < WRITERS; which++) {
        char name[] = {'f', (char)('0' + which), 0};
        unlink(name);
        name[0] = 's';
        unlink(name);
    }
    log_out();
    return 0;
}
