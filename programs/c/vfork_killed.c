/* The child of a vfork is killed at any moment before it has become another program. What it leaves undone in
 * its parent's memory harms nobody: the parent writes and starts programs as before. */
#include "log.h"
#include <signal.h>
#include <sys/wait.h>

enum { ROUNDS = 200, SPINS = 150 };

/* Children's numbers to the killer, and a word from it when a round is over. No memory is shared: then nothing
 * would be buffered. */
static int numbers[2], words[2];

/* Kills the child of each round, a little later each time. It is nobody else's number yet: its parent waits
 * for it only when the round is over. */
static void kill_each(void) {
    pid_t child;
    for (int i = 0; i < ROUNDS && read(numbers[0], &child, sizeof child) == sizeof child; i++) {
        for (volatile int spins = i * SPINS; spins > 0;) spins--;
        kill(child, SIGKILL);
        if (write(words[1], "", 1) != 1) _exit(1);
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
    if (pipe2(numbers, O_CLOEXEC) || pipe2(words, O_CLOEXEC)) return 1;
    pid_t killer = fork();
    if (killer == 0) kill_each();
    int fd = open("records", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), wrong = 0;
    for (int i = 0; i < ROUNDS; i++) {
        pid_t child = vfork();
        if (child == 0) {
            pid_t number = getpid();
            if (write(numbers[1], &number, sizeof number) != sizeof number) _exit(8);
            execl("/bin/true", "true", (char *)NULL);
            _exit(9);
        }
        char word;
        wrong += read(words[0], &word, 1) != 1;
        int status = -1;
        waitpid(child, &status, 0);
        wrong += status != 0 && status != SIGKILL;
        for (int j = 0; j < 100; j++) {
            char record[64];
            size_t length = (size_t)snprintf(record, sizeof record, "round %d, record %d\n", i, j);
            wrong += write(fd, record, length) != (ssize_t)length;
        }
    }
    waitpid(killer, NULL, 0);
    for (int i = 0; i < 3; i++) wrong += start_true() != 0;
    say("wrong: %d\n", wrong);
    close(fd);
    log_out();
    return 0;
}
