// Bytes and descriptors that go elsewhere at the kernel's offset, after reads served from a window.
#include "common.h"
#include <aio.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>

static void pass(int through, int fd) {
    char control[CMSG_SPACE(sizeof fd)] = {0}, byte = 'x';
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    TRY(sendmsg(through, &message, 0));
}

static int receive(int through) {
    char control[CMSG_SPACE(sizeof(int))] = {0}, byte;
    int fd = -1;
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    TRY(recvmsg(through, &message, 0));
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

int main(void) {
    int fd = open_warm("data", O_RDWR), status = 0;
    TRY(sendfile(1, fd, NULL, 10));
    say_next(" after sendfile", fd);
    read_small(fd, 500, lseek(fd, 0, SEEK_CUR));
    off_t offset = 50;
    TRY(sendfile(1, fd, &offset, 10));
    say_next(" after sendfile with an offset", fd);
    read_small(fd, 500, lseek(fd, 0, SEEK_CUR));
    int pair[2];
    TRY(pipe(pair));
    TRY(splice(fd, NULL, pair[1], NULL, 10, 0));
    say_next("spliced", pair[0]);
    say_next("after splice", fd);
    read_small(fd, 500, lseek(fd, 0, SEEK_CUR));
    int other = open("other", O_RDWR | O_CREAT | O_TRUNC, 0600);
    TRY(copy_file_range(fd, NULL, other, NULL, 100, 0));
    say_next("after copy_file_range", fd);
    say("copied to %lld", (long long)lseek(other, 0, SEEK_CUR));
    read_small(fd, 500, lseek(fd, 0, SEEK_CUR));
    int left = 0;
    TRY(ioctl(fd, FIONREAD, &left));
    say("left %d", left);

    // A lock at the position, seen by another process.
    read_small(fd, 500, lseek(fd, 0, SEEK_CUR));
    TRY(lockf(fd, F_LOCK, 10));
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_start = 100, .l_len = 5};
    read_small(fd, 500, lseek(fd, 0, SEEK_CUR));
    TRY(fcntl(fd, F_SETLK, &lock));
    pid_t child = fork();
    if (child == 0) {
        int mine = open("data", O_RDWR);
        struct flock found = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        while (found.l_len == 0 || found.l_type != F_UNLCK) {
            off_t from = found.l_start + found.l_len;
            found = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = from};
            fcntl(mine, F_GETLK, &found);
            if (found.l_type == F_UNLCK) break;
            say("locked from %lld for %lld", (long long)found.l_start, (long long)found.l_len);
        }
        _exit(0);
    }
    waitpid(child, &status, 0);
    TRY(flock(fd, LOCK_EX));

    // A descriptor passed on shares its offset.
    close(fd);
    fd = open_warm("data", O_RDONLY);
    int sockets[2];
    TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
    pass(sockets[0], fd);
    int received = receive(sockets[1]);
    say_next("received", received);
    say_next("sent", fd);
    read_small(fd, 500, lseek(fd, 0, SEEK_CUR));
    say_next("received", received);
    TRY(sendmsg(sockets[0], (void *)16, 0));
    struct msghdr bad = {.msg_control = (void *)16, .msg_controllen = 64};
    TRY(sendmsg(sockets[0], &bad, 0));

    // A mapping shows what is written, also in small pieces, and whatever else is written there.
    close(fd);
    fd = open_warm("data", O_RDWR);
    int writer = open("data", O_RDWR);
    for (int n = 0; n < 200; n++) pwrite(writer, "before", 6, n * 6);
    char *view = mmap(NULL, 65536, PROT_READ, MAP_SHARED, writer, 0);
    say("in the view \"%.12s\"", view);
    for (int n = 0; n < 200; n++) write(writer, "after.", 6);
    say("in the view \"%.12s\" \"%.12s\"", view, view + 1194);
    say_next("after the view", fd);
    close(writer);
    munmap(view, 65536);

    // A mapping sees what is written, and reads see what is stored in it.
    close(fd);
    fd = open_warm("data", O_RDWR);
    char *map = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    say("mapped %d", map != MAP_FAILED);
    memcpy(map + 8000, "STORED IN THE MAPPING", 21);
    say_next("after a store", fd);
    TRY(pwrite(fd, "WRITTEN", 7, 30000));
    say("in the mapping \"%.7s\"", map + 30000);
    TRY(munmap(map, 65536));

    // Asynchronous reads.
    close(fd);
    fd = open_warm("data", O_RDWR);
    char bytes[16] = {0};
    struct aiocb block = {.aio_fildes = fd, .aio_buf = bytes, .aio_nbytes = 10, .aio_offset = 8000};
    const struct aiocb *list[] = {&block};
    TRY(aio_read(&block));
    TRY(aio_suspend(list, 1, NULL));
    TRY(aio_return(&block));
    say("\"%.10s\"", bytes);
    say_next("after aio_read", fd);
    return 0;
}
