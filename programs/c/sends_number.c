// A descriptor that is read in small pieces is sent by a message, whose memory was used before.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RECORDS = 2000 };

static void hand(int to, int number) {
    char nothing = 0;
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control;
    memset(&control, 0xff, sizeof control);
    struct iovec piece = {&nothing, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_len = CMSG_LEN(sizeof(int));
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    memcpy(CMSG_DATA(header), &number, sizeof number);
    if (sendmsg(to, &message, 0) != 1) _exit(1);
}

static int taken(int from) {
    char nothing;
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec piece = {&nothing, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (recvmsg(from, &message, 0) != 1) _exit(1);
    int number;
    memcpy(&number, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof number);
    return number;
}

int main(void) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 1;
    pid_t child = fork();
    if (child == 0) {
        char text[9] = {0};
        int fd = taken(pair[1]);
        printf("%d: ", (int)read(fd, text, 8));
        puts(text);
        return 0;
    }
    int fd = open("numbers", O_CREAT | O_TRUNC | O_WRONLY, 0644);
    for (int i = 0; i < 2 * RECORDS; i++) dprintf(fd, "%07d\n", i);
    close(fd);
    fd = open("numbers", O_RDONLY);
    char text[8];
    for (int i = 0; i < RECORDS; i++)
        if (read(fd, text, sizeof text) != sizeof text) return 1;
    hand(pair[0], fd);
    int status;
    waitpid(child, &status, 0);
    printf("%d %.7s\n", (int)read(fd, text, sizeof text), text);
    return status;
}
