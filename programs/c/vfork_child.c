/* What the child of a vfork does with descriptors is its own affair, though it runs in its parent's
 * memory: it closes, opens and duplicates; the parent goes on with its files as before. */
#include "log.h"
#include <signal.h>
#include <sys/wait.h>

enum { RECORD = 16 };

static void fill(const char *name, char letter) {
    char record[RECORD];
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < 2000; i++) {
        memset(record, letter, RECORD);
        record[i % RECORD] = '\n';
        write(fd, record, RECORD);
    }
    close(fd);
}

/* Small reads, enough for a window. */
static void read_on(const char *what, int fd, int count) {
    static char all[2000 * RECORD];
    long n = 0;
    for (int i = 0; i < count; i++) {
        long got = read(fd, all + n, RECORD);
        if (got <= 0) break;
        n += got;
    }
    say("%s: %ld bytes, %016lx\n", what, n, hash_of(all, (size_t)n));
}

static void write_on(int fd, const char *line, int count) {
    for (int i = 0; i < count; i++) {
        if (write(fd, line, strlen(line)) < 0) _exit(9);
        if (i % 10 == 0) give_time(fd);
    }
}

static void wait_for(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    say("status %x\n", status);
}

int main(void) {
    fill("one", '1');
    fill("two", '2');
    int one = open("one", O_RDONLY | O_CLOEXEC), two = open("two", O_RDONLY | O_CLOEXEC);
    int out = open("out", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    read_on("one", one, 50);
    read_on("two", two, 50);
    write_on(out, "before\n", 300);

    pid_t child = vfork();
    if (child == 0) {
        /* There, these numbers mean descriptions of its own from now on. It dies with them open. */
        close(one);
        close(out);
        int first = open("one", O_RDONLY | O_CLOEXEC), second = open("out", O_WRONLY | O_CLOEXEC);
        if (first != one || second != out) _exit(1);
        read_on("the child's", first, 100);
        for (int i = 0; i < 400; i++) {
            write(second, "of the child\n", 13);
            if (i % 20 == 0) usleep(1000);
        }
        kill(getpid(), SIGKILL);
    }
    wait_for(child);
    read_on("one", one, 100);
    read_on("two", two, 100);
    write_on(out, "between\n", 300);

    child = vfork();
    if (child == 0) {
        /* There, `two` is what `one` is. */
        _exit(dup2(one, two) != two || close(out));
    }
    wait_for(child);
    read_on("one", one, 100);
    read_on("two", two, 100);
    read_on("one again", one, 100);
    read_on("two again", two, 1500);
    write_on(out, "after\n", 300);
    say("at %ld %ld %ld\n", (long)lseek(one, 0, SEEK_CUR), (long)lseek(two, 0, SEEK_CUR),
        (long)lseek(out, 0, SEEK_CUR));
    close(out);
    say_file("out");
    log_out();
    return 0;
}
