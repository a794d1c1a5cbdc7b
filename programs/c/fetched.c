/* A process takes a descriptor of another one, which computes and is not told of it; both write. All
 * that they write stands in one file in the order in which they wrote it. */
#include "log.h"
#include "newer.h"
#include "raw.h"
#include <pthread.h>
#include <sys/wait.h>

enum { RECORD = 100 };

static void records(int fd, char letter, int count) {
    char record[RECORD];
    memset(record, letter, RECORD);
    for (int i = 0; i < count; i++) {
        write(fd, record, RECORD);
        if (i % 40 == 0 && letter == 'a') give_time(fd);
    }
}

/* Which letters come how often behind each other. */
static void letters(const char *name) {
    static char bytes[1 << 20];
    int fd = open(name, O_RDONLY);
    long length = read(fd, bytes, sizeof bytes), run = 0;
    for (long i = 0; i < length; i++, run++)
        if (i > 0 && bytes[i] != bytes[i - 1]) say("%ld %c, ", run, bytes[i - 1]), run = 0;
    say("%ld %c\n", run, length > 0 ? bytes[length - 1] : '-');
    close(fd);
}

static void *waits(void *unused) {
    pause();
    return unused;
}

/* Takes and writes as often as it is told, by calls that no library sees. */
static void takes(int number, int go, int done, int threads) {
    pthread_t thread;
    pid_t owner = getppid();
    if (threads == 0) {
        /* Here it is the child of a vfork. */
        int status;
        pid_t child = vfork();
        if (child > 0) _exit(waitpid(child, &status, 0) < 0);
    }
    if (threads > 1) pthread_create(&thread, NULL, waits, NULL);
    int parent = (int)syscall(SYS_pidfd_open, owner, 0);
    char byte;
    while (raw(SYS_read, go, (long)&byte, 1, 0) == 1) {
        int fd = (int)syscall(SYS_pidfd_getfd, parent, number, 0);
        if (fd < 0) byte = '-'; /* The system does not let us. */
        else records(fd, byte, 70);
        close(fd);
        raw(SYS_write, done, (long)&byte, 1, 0);
    }
    _exit(0);
}

static void with(const char *name, int flags, int number, int threads) {
    int go[2], done[2];
    pipe2(go, O_CLOEXEC), pipe2(done, O_CLOEXEC);
    if (fork() == 0) close(go[1]), takes(number, go[0], done[1], threads);
    int fd = open(name, flags | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    dup3(fd, number, O_CLOEXEC), close(fd);
    records(number, 'a', 950);
    for (char letter = 'b'; letter < 'f'; letter++) {
        char byte = letter;
        raw(SYS_write, go[1], (long)&byte, 1, 0);
        raw(SYS_read, done[0], (long)&byte, 1, 0);
        records(number, (char)(letter - 'a' + 'A'), 90);
    }
    say("at %ld: ", (long)lseek(number, 0, SEEK_CUR));
    close(number), close(go[0]), close(go[1]), close(done[0]), close(done[1]);
    wait(NULL);
    letters(name);
}

int main(void) {
    with("written", O_RDWR, 41, 1);
    with("only written", O_WRONLY, 42, 1);
    with("appended", O_RDWR | O_APPEND, 43, 1);
    with("taken beside a thread", O_RDWR, 44, 2);
    with("taken by the child of a vfork", O_RDWR, 45, 0);
    log_out();
    return 0;
}
