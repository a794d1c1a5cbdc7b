/* Forks while another thread is in the middle of something of which the child has only a copy.
 *   vfork   it waits in a vfork: the child's next thread gets its stack, and with it its thread pointer
 *   action  it asks what a signal of a bad address does: the child reads to one
 *   reads   the same without a fork: the other threads read and write to bad addresses meanwhile */
#include "log.h"
#include <pthread.h>
#include <signal.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { RECORDS = 1000, CHILDREN = 300, TRIES = 20000 };

static volatile int in_vfork, go_on, turn, stop;
static int fd;
/* What the compiler does not know to be one. */
static void *volatile bad_address = (void *)8;

static void *wait_in_vfork(void *unused) {
    pid_t child = vfork();
    if (child == 0) {
        in_vfork = 1;
        while (!go_on) continue;
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return unused;
}

static void *write_a_vector(void *unused) {
    while (turn != 1) continue;
    struct iovec piece = {"a vector here\n", 14};
    if (writev(fd, &piece, 1) != 14) say("short vector\n");
    say("position %ld\n", (long)lseek(fd, 0, SEEK_CUR));
    turn = 2;
    return unused;
}

static void beside_a_vfork(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, wait_in_vfork, NULL);
    while (!in_vfork) continue;
    pid_t child = fork();
    if (child == 0) {
        pthread_t writer;
        pthread_create(&writer, NULL, write_a_vector, NULL);
        fd = file_of_records("out", RECORDS);
        turn = 1;
        while (turn != 2) continue;
        if (write(fd, "the main one\n", 13) != 13) say("short write\n");
        close(fd);
        pthread_join(writer, NULL);
        log_out();
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    go_on = 1;
    pthread_join(thread, NULL);
    say("status %d\n", status);
}

static void *ask(void *unused) {
    struct sigaction action;
    while (!stop) sigaction(SIGSEGV, NULL, &action), sigaction(SIGBUS, NULL, &action);
    return unused;
}

/* The numbers of its own handler, set and taken away. */
static void on_fault(int signal) { _exit(signal); }
static void *set(void *unused) {
    struct sigaction caught = {.sa_handler = on_fault}, ignored = {.sa_handler = SIG_DFL};
    while (!stop) sigaction(SIGSEGV, &caught, NULL), sigaction(SIGSEGV, &ignored, NULL);
    return unused;
}

static int reads_well(int in) {
    char word[8];
    for (int i = 0; i < 100; i++)
        if (read(in, word, sizeof word) != sizeof word) return 0;
    errno = 0;
    return read(in, bad_address, 8) == -1 && errno == EFAULT;
}

static void beside_an_action(void *(*what)(void *)) {
    close(file_of_records("in", RECORDS));
    pthread_t thread;
    pthread_create(&thread, NULL, what, NULL);
    int bad = 0;
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        if (child == 0) _exit(!reads_well(open("in", O_RDONLY)));
        int status = -1;
        waitpid(child, &status, 0);
        bad += status != 0;
    }
    stop = 1;
    pthread_join(thread, NULL);
    say("%d of %d children read otherwise\n", bad, CHILDREN);
}

static void read_beside_an_action(void) {
    int out = file_of_records("out", RECORDS), in = open("out", O_RDONLY), bad = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, ask, NULL);
    for (int i = 0; i < TRIES; i++) {
        errno = 0;
        bad += write(out, bad_address, 10) != -1 || errno != EFAULT;
        errno = 0;
        bad += read(in, bad_address, 8) != -1 || errno != EFAULT;
        if (i % 10 == 0 && write(out, "more\n", 5) != 5) bad++;
    }
    stop = 1;
    pthread_join(thread, NULL);
    say("%d calls saw anything else than a bad address\n", bad);
}

int main(int count, char **words) {
    const char *way = count > 1 ? words[1] : "";
    if (!strcmp(way, "vfork")) beside_a_vfork();
    if (!strcmp(way, "action")) beside_an_action(ask), stop = 0, beside_an_action(set);
    if (!strcmp(way, "reads")) read_beside_an_action();
    log_out();
    return 0;
}
