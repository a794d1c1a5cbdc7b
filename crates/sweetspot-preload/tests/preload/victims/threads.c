// Cancellation points stay cancellation points, and cleanup handlers run.
#include "common.h"
#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>

static int pair[2], sockets[2];
static void cleanup(void *what) { say("cleaned up %s", (char *)what); }

static void *waiter(void *what) {
    char byte;
    struct timespec long_time = {.tv_sec = 100};
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    struct pollfd list = {.fd = pair[0], .events = POLLIN};
    const char *name = what;
    pthread_cleanup_push(cleanup, what);
    if (!strcmp(name, "read")) read(pair[0], &byte, 1);
    if (!strcmp(name, "readv")) readv(pair[0], &vector, 1);
    if (!strcmp(name, "poll")) poll(&list, 1, -1);
    if (!strcmp(name, "select")) select(0, NULL, NULL, NULL, NULL);
    if (!strcmp(name, "nanosleep")) nanosleep(&long_time, NULL);
    if (!strcmp(name, "sleep")) sleep(100);
    if (!strcmp(name, "pause")) pause();
    if (!strcmp(name, "recv")) recv(sockets[0], &byte, 1, 0);
    if (!strcmp(name, "recvmsg")) recvmsg(sockets[0], &message, 0);
    if (!strcmp(name, "waitpid")) waitpid(-1, NULL, 0);
    say("%s came back", name);
    pthread_cleanup_pop(0);
    return NULL;
}

int main(void) {
    int fd = open_warm("data", O_RDONLY);
    if (pipe(pair) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets)) return 1;
    pid_t sleeper = fork();
    if (sleeper == 0) { pause(); _exit(0); }
    char *ways[] = {"read", "readv", "poll", "select", "nanosleep", "sleep", "pause", "recv", "recvmsg", "waitpid"};
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        pthread_t thread;
        void *answer = NULL;
        pthread_create(&thread, NULL, waiter, ways[way]);
        usleep(20000);
        pthread_cancel(thread);
        pthread_join(thread, &answer);
        say("%s cancelled %d", ways[way], answer == PTHREAD_CANCELED);
        int other = open_warm("data", O_RDONLY);
        say_next("small reads go on", other);
        close(other);
    }
    kill(sleeper, SIGKILL);
    say("waited %d", waitpid(sleeper, NULL, 0) == sleeper);
    say_next("the first file", fd);
    return 0;
}
