/* A thread sets again and again what a signal does, to what it does already. Another one hears that signal, which tells
 * of a change of a file, and reads it. */
#include "log.h"
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

enum { TURNS = 400, WAYS = 2 };

static volatile int over, heard, way;

static void hear(int number) {
    (void)number;
    heard = 1;
}

static void *set(void *nothing) {
    sigset_t all;
    struct sigaction action;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    memset(&action, 0, sizeof action);
    action.sa_handler = hear;
    while (!over) {
        if (way == 0) sigaction(SIGUSR1, &action, NULL);
        if (way == 1) signal(SIGUSR1, hear);
    }
    return nothing;
}

/* What a word from `asked` says is in the file when the signal is sent. */
static void tell(int asked, pid_t reader) {
    int fd = open("told", O_RDWR);
    int turn;
    while (read(asked, &turn, sizeof turn) == sizeof turn) {
        struct timespec soon = {0, 50000};
        nanosleep(&soon, NULL);
        pwrite(fd, &turn, sizeof turn, 0);
        kill(reader, SIGUSR1);
    }
    _exit(0);
}

int main(void) {
    char zeros[4096] = {0};
    int fd = open("told", O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < 64; i++) write(fd, zeros, sizeof zeros);
    close(fd);
    signal(SIGUSR1, hear);
    int asked[2];
    if (pipe(asked)) return 9;
    pid_t reader = getpid(), teller = fork();
    if (teller == 0) {
        close(asked[1]);
        tell(asked[0], reader);
    }
    pthread_t setter;
    pthread_create(&setter, NULL, set, NULL);
    fd = open("told", O_RDONLY);
    int said;
    for (int i = 0; i < 3000; i++) read(fd, &said, sizeof said);
    int turn = 0;
    for (way = 0; way < WAYS; way++) {
        int old = 0;
        for (int i = 0; i < TURNS; i++) {
            turn++;
            heard = 0;
            if (write(asked[1], &turn, sizeof turn) < 0) return 8;
            for (int at = 0; at < 20; at++) pread(fd, &said, sizeof said, at % 8 * 4);
            while (!heard) {}
            pread(fd, &said, sizeof said, 0);
            old += said != turn;
        }
        say("way %d: %d of %d reads are old\n", way, old, TURNS);
    }
    over = 1;
    pthread_join(setter, NULL);
    close(asked[1]);
    waitpid(teller, NULL, 0);
    log_out();
    return 0;
}
