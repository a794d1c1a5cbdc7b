/* The child of a vfork is killed at any moment before it has become another program. What it leaves undone in
 * its parent's memory harms nobody: the parent writes and starts programs as before. */
#include "log.h"
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { ROUNDS = 200, SPINS = 150 };

static struct {
    pid_t child;
    int spins, rounds;
} *shared;

static int rounds(void) { return __atomic_load_n(&shared->rounds, __ATOMIC_SEQ_CST); }

/* Kills the child of each round, a little later each time. It is nobody else's number yet: its parent waits
 * for it only when the round is over. */
static void kill_each(void) {
    for (int i = 0; i < ROUNDS; i++) {
        pid_t child;
        while (!(child = __atomic_exchange_n(&shared->child, 0, __ATOMIC_SEQ_CST))) sched_yield();
        for (volatile int spins = shared->spins; spins > 0;) spins--;
        kill(child, SIGKILL);
        __atomic_add_fetch(&shared->rounds, 1, __ATOMIC_SEQ_CST);
    }
    _exit(0);
}

static int start_true(void) {
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(9);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

int main(void) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t killer = fork();
    if (killer == 0) kill_each();
    int fd = open("records", O_WRONLY | O_CREAT | O_TRUNC, 0644), wrong = 0;
    for (int i = 0; i < ROUNDS; i++) {
        shared->spins = i * SPINS;
        pid_t child = vfork();
        if (child == 0) {
            __atomic_store_n(&shared->child, getpid(), __ATOMIC_SEQ_CST);
            execl("/bin/true", "true", (char *)NULL);
            _exit(9);
        }
        while (rounds() == i) sched_yield();
        int status = -1;
        waitpid(child, &status, 0);
        wrong += status != 0 && status != SIGKILL;
        for (int j = 0; j < 20; j++) dprintf(fd, "round %d, record %d\n", i, j);
    }
    waitpid(killer, NULL, 0);
    for (int i = 0; i < 3; i++) wrong += start_true() != 0;
    say("wrong: %d\n", wrong);
    close(fd);
    log_out();
    return 0;
}
