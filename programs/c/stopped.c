/* A program that starts others without end is stopped, at any moment: anyone who waits for that sees it,
 * each time. */
#include "log.h"
#include <signal.h>
#include <sys/wait.h>

enum { STOPS = 400 };

static void never(int number) {
    (void)number;
    static const char text[] = "it was never seen to stop\n";
    write(1, text, sizeof text - 1);
    _exit(1);
}

int main(void) {
    pid_t child = fork();
    if (child == 0)
        for (;;) execl("/nonexistent", "x", NULL);
    signal(SIGALRM, never);
    for (int i = 0; i < STOPS; i++) {
        int status;
        usleep((useconds_t)(i * 7 % 200));
        kill(child, SIGSTOP);
        alarm(10);
        waitpid(child, &status, WUNTRACED);
        alarm(0);
        if (!WIFSTOPPED(status)) return 2;
        kill(child, SIGCONT);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    say("%d stops were seen\n", STOPS);
    log_out();
    return 0;
}
