/* A process reads a file by one descriptor and writes it by another one, which was handed on, or is used in some other
 * way that lets nothing wait there. It reads what it has just written. */
#include "log.h"
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { PLACE = 20, ROUNDS = 60, PLACES = 2000 };
extern char **environ;
static char *nothing[] = {"true", NULL};
static int status;

static void hand_on(const char *way, int fd) {
    if (!strcmp(way, "fork")) {
        if (fork() == 0) _exit(0);
        wait(&status);
    } else if (!strcmp(way, "system")) status = system("true");
    else if (!strcmp(way, "popen")) pclose(popen("true", "r"));
    else if (!strcmp(way, "spawn")) {
        pid_t process;
        posix_spawnp(&process, "true", NULL, NULL, nothing, environ);
        waitpid(process, &status, 0);
    } else if (!strcmp(way, "owner")) fcntl(fd, F_SETOWN, getpid());
    else if (!strcmp(way, "signal")) fcntl(fd, F_SETSIG, SIGURG);
    else if (!strcmp(way, "sent")) {
        int pair[2];
        struct iovec byte = {"x", 1};
        char control[CMSG_SPACE(sizeof fd)];
        struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
        sendmsg(pair[0], &message, 0);
    }
}

static long put(int fd, int round, const char *place, int at) {
    struct iovec pieces[] = {{(void *)place, 5}, {(void *)(place + 5), PLACE - 5}};
    switch (round % 5) {
    case 0: return pwrite(fd, place, PLACE, at);
    case 1: return pwritev(fd, pieces, 2, at);
    case 2: return pwritev2(fd, pieces, 2, at, 0);
    case 3: return writev(fd, pieces, 2);
    default: return write(fd, place, PLACE);
    }
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "";
    int appends = count > 2, old = 0;
    char place[PLACE + 1], found[PLACE];
    make_file("places", PLACE * PLACES);
    int writes = open("places", O_RDWR | (appends ? O_APPEND : 0));
    hand_on(way, writes);
    int reads = open("places", O_RDONLY);
    for (int i = 0; i < 300; i++) read(reads, found, PLACE);
    for (int round = 0; round < ROUNDS; round++) {
        int at = appends ? PLACE * (PLACES + round) : 5 * PLACE;
        if (!appends) lseek(writes, at, SEEK_SET);
        pread(reads, found, PLACE, at - PLACE);
        snprintf(place, sizeof place, "%0*d", PLACE, round);
        put(writes, appends ? 3 + round % 2 : round, place, at);
        memset(found, 0, PLACE), pread(reads, found, PLACE, at);
        old += memcmp(found, place, PLACE) != 0;
    }
    say("%s: %d of %d old\n", way, old, ROUNDS);
    log_out();
    return 0;
}
