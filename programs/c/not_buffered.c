/* What a process that is not buffered does to a file for which another one has bytes waiting. How it comes not to be
 * buffered is the second argument (uring, ignore; none: it is buffered). The first one:
 *
 *   cuts      it opens and cuts the file by openat2, then writes there
 *   root      the same, and the folder of that call is the root of the path
 *   opened    it writes at positions, by a descriptor that no library saw it open, as one that was inherited
 *   received  the same, by one that came by a message
 *   fetched   the same, by one that it took from another process
 *   sends     it has sent a descriptor of a file that its child reads, and takes it out of the socket again */
#include "log.h"
#include "newer.h"
#include "raw.h"
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { RECORD = 10, RECORDS = 500, BYTES = 8000, WRITES = 40, APART = 100, FIRST = 33 };
enum { IN_ROOT = 0x10, OPENAT2 = 437 };

struct how { unsigned long flags, mode, resolve; };

static int ready[2], go[2], connection[2];

static void told(int pipe_end) {
    char byte;
    raw(SYS_read, pipe_end, (long)&byte, 1, 0);
}

static void tell(int pipe_end) {
    raw(SYS_write, pipe_end, (long)"x", 1, 0);
}

static void end_buffering(const char *how) {
    if (!strcmp(how, "uring")) syscall(SYS_io_uring_setup, 1, 0);
    if (!strcmp(how, "ignore")) {
        signal(SIGSEGV, SIG_IGN);
        int fd = open("mine", O_RDWR | O_CREAT, 0644);
        for (int i = 0; i < 300; i++) write(fd, "x", 1);
        close(fd);
    }
}

/* Writes, and keeps what waits until it is told. */
static pid_t writer(int flags) {
    pid_t child = fork();
    if (child != 0) return told(ready[0]), child;
    int fd = open("folder/data", O_RDWR | flags, 0644);
    for (int i = 0; i < RECORDS; i++) {
        write(fd, "0123456789", RECORD);
        if (i > 60 && i < 400) give_time(fd);
    }
    tell(ready[1]), told(go[0]);
    close(fd);
    _exit(0);
}

static void cuts(const char *how, const char *path, unsigned long resolve) {
    pid_t child = writer(O_CREAT | O_TRUNC);
    int folder = open("folder", O_RDONLY | O_DIRECTORY), status = -1;
    struct how opened = {O_WRONLY | O_TRUNC, 0, resolve};
    end_buffering(how);
    int fd = (int)syscall(OPENAT2, folder, path, &opened, sizeof opened);
    write(fd, "new", 3);
    tell(go[1]), waitpid(child, &status, 0);
    say("%d %x ", fd > 0, status), say_file("folder/data");
}

/* A message with a descriptor. */
struct message {
    struct msghdr header;
    struct iovec bytes;
    char byte;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
};

static struct cmsghdr *with_descriptor(struct message *message) {
    memset(message, 0, sizeof *message);
    message->bytes = (struct iovec){&message->byte, 1};
    message->header = (struct msghdr){.msg_iov = &message->bytes, .msg_iovlen = 1,
        .msg_control = message->control, .msg_controllen = sizeof message->control};
    struct cmsghdr *control = CMSG_FIRSTHDR(&message->header);
    *control = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    return control;
}

static void send_it(int fd) {
    struct message message;
    memcpy(CMSG_DATA(with_descriptor(&message)), &fd, sizeof fd);
    sendmsg(connection[0], &message.header, 0);
}

static int receive_it(void) {
    struct message message;
    int fd = -1;
    struct cmsghdr *control = with_descriptor(&message);
    if (recvmsg(connection[1], &message.header, 0) == 1) memcpy(&fd, CMSG_DATA(control), sizeof fd);
    return fd;
}

static int opened_unseen(void) {
    return (int)raw(SYS_openat, AT_FDCWD, (long)"folder/data", O_RDWR, 0);
}

/* A file of which nobody is known to have opened it. */
static void make_unseen(void) {
    static char bytes[BYTES];
    int fd = (int)raw(SYS_openat, AT_FDCWD, (long)"folder/data", O_WRONLY | O_CREAT, 0644);
    pattern(bytes, BYTES, 0);
    raw(SYS_write, fd, (long)bytes, BYTES, 0);
    raw(SYS_close, fd, 0, 0, 0);
}

/* Has a descriptor for others to take. */
static pid_t holder(int *fd) {
    *fd = -1;
    pid_t child = fork();
    if (child != 0) return read(ready[0], fd, sizeof *fd), child;
    *fd = opened_unseen();
    raw(SYS_write, ready[1], (long)fd, sizeof *fd, 0);
    for (;;) pause();
}

/* How many of its writes at positions stay. */
static void writes(const char *by, const char *how) {
    static char bytes[BYTES];
    int fd = -1, status = -1, stay = 0, held = -1;
    make_unseen();
    pid_t other = !strcmp(by, "fetched") ? holder(&held) : 0;
    if (!strcmp(by, "received")) fd = opened_unseen(), send_it(fd), close(fd);
    if (!strcmp(by, "opened")) fd = opened_unseen();
    pid_t child = writer(0);
    end_buffering(how);
    if (!strcmp(by, "received")) fd = receive_it();
    if (other != 0) fd = (int)syscall(SYS_pidfd_getfd, (int)syscall(SYS_pidfd_open, other, 0), held, 0);
    for (int i = 0; i < WRITES; i++) pwrite(fd, "PPPP", 4, APART * i + FIRST);
    tell(go[1]), waitpid(child, &status, 0);
    if (other != 0) kill(other, SIGKILL), waitpid(other, NULL, 0);
    int data = open("folder/data", O_RDONLY);
    read(data, bytes, BYTES);
    for (int i = 0; i < WRITES; i++) stay += !memcmp(bytes + APART * i + FIRST, "PPPP", 4);
    /* Where descriptors may not be taken, none stays. */
    say("%x %d, ", status, fd < 0 ? WRITES : stay);
    if (fd >= 0) say_file("folder/data");
}

/* The child reads what is its standard input, in the middle of it when its parent reads there, too. */
static int reads(void) {
    char record[RECORD];
    for (int i = 0; i < 2007; i++) {
        read(0, record, RECORD);
        if (i % 100 == 0 && getenv("SWEETSPOT_LEDGER")) usleep(20000);
    }
    write(1, "x", 1);
    read(3, record, 1);
    for (int i = 0; i < 3; i++) read(0, record, RECORD);
    return 0;
}

static void sends(const char *program, const char *how) {
    char record[RECORD + 1] = "";
    int status = -1;
    make_file("in", 500000);
    end_buffering(how);
    int in = open("in", O_RDONLY);
    send_it(in);
    pid_t child = fork();
    if (child == 0) {
        dup2(in, 0), dup2(ready[1], 1), dup2(go[0], 3), signal(SIGSEGV, SIG_DFL), close(in);
        execl(program, program, "reads", NULL);
        _exit(9);
    }
    close(in), told(ready[0]);
    int taken = receive_it();
    for (int i = 0; i < 5; i++) read(taken, record, RECORD), say("%s|", record);
    say("at %ld, ", (long)lseek(taken, 0, SEEK_CUR));
    tell(go[1]), waitpid(child, &status, 0);
    say("%x, at %ld\n", status, (long)lseek(taken, 0, SEEK_CUR));
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "", *how = count > 2 ? arguments[2] : "";
    if (!strcmp(what, "reads")) return reads();
    mkdir("folder", 0755);
    pipe2(ready, O_CLOEXEC), pipe2(go, O_CLOEXEC);
    socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, connection);
    if (!strcmp(what, "cuts")) cuts(how, "data", 0);
    else if (!strcmp(what, "root")) cuts(how, "/data", IN_ROOT);
    else if (!strcmp(what, "sends")) sends(arguments[0], how);
    else writes(what, how);
    log_out();
    return 0;
}
