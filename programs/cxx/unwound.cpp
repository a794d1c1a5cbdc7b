// A thread is ended, or looked at, in the middle of reads and writes: it is cancelled at any instruction; a signal handler
// ends it, throws, or asks who called. Destructors run, exceptions arrive, and every caller is seen.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

enum Way { CANCELLED, LEFT, THROWN, LOOKED_AT };
static const char *const ways[] = {"cancelled", "left", "thrown", "looked at"};
static Way way;
static int fd, bytes;
static bool writes;
static char space[1 << 16];
static volatile int destroyed, caught, callers, running;

struct Local {
    ~Local() { destroyed = destroyed + 1; }
};

__attribute__((noinline)) static void handler(int) {
    void *found[64];
    if (way == LEFT) pthread_exit(nullptr);
    if (way == THROWN) throw 7;
    callers = backtrace(found, 64);
    running = 2;
}

// Nothing is to be done in it when it is left.
__attribute__((noinline)) static void calls() {
    for (long made = 0; running < 2; made++) {
        if (writes ? write(fd, space, bytes) != bytes : read(fd, space, bytes) < bytes) lseek(fd, 0, SEEK_SET);
        // A file of so many is written again: what waits is written over, too.
        if (writes && made % 5000 == 4999) lseek(fd, 0, SEEK_SET);
        if (made == 2000) running = 1;
    }
}

static void *thread(void *) {
    int before;
    Local local;
    if (way == CANCELLED) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
    try {
        calls();
        __asm__ volatile("");
    } catch (int) {
        caught = 1;
    }
    return nullptr;
}

// How often each of these ways did what it does, of so many.
static void try_each(const char *what, int times) {
    printf("%s:", what);
    for (int next = CANCELLED; next <= LOOKED_AT; next++) {
        way = Way(next);
        int right = 0;
        for (int time = 0; time < times; time++) {
            destroyed = caught = callers = running = 0;
            fd = open(writes ? "out" : "in", writes ? O_WRONLY | O_CREAT : O_RDONLY, 0644);
            pthread_t started;
            pthread_create(&started, nullptr, thread, nullptr);
            while (!running) usleep(100);
            usleep(time * 37);
            if (way == CANCELLED) pthread_cancel(started);
            else pthread_kill(started, SIGUSR1);
            pthread_join(started, nullptr);
            close(fd);
            struct stat file;
            bool is_whole = !writes || (!stat("out", &file) && file.st_size % bytes == 0);
            bool is_seen = (way != THROWN || caught) && (way != LOOKED_AT || callers >= 6);
            right += destroyed == 1 && is_seen && is_whole;
        }
        printf(" %s %d of %d%s", ways[way], right, times, next == LOOKED_AT ? "\n" : ",");
    }
}

int main() {
    int made = open("in", O_WRONLY | O_CREAT, 0644);
    for (int part = 0; part < 14; part++) {
        if (write(made, space, sizeof space) != sizeof space) return 3;
    }
    close(made);
    // What it loads it has then.
    void *found[4];
    backtrace(found, 4);
    struct sigaction action = {};
    action.sa_handler = handler;
    sigaction(SIGUSR1, &action, nullptr);
    const int lengths[] = {30000, 200, 8};
    for (int length : lengths) {
        bytes = length;
        char what[32];
        snprintf(what, sizeof what, "reads of %d", length);
        try_each(what, 10);
    }
    writes = true;
    bytes = 200;
    try_each("writes of 200", 10);
    unlink("in");
    unlink("out");
    return 12;
}
