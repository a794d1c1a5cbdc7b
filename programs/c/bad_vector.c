/* readv and preadv by a vector at a bad address, before anything was buffered: of a descriptor that has a duplicate, and
 * of the standard input. */
#include "log.h"
#include <sys/uio.h>

static void reads(const char *what, int fd) {
    char bytes[8];
    const struct iovec *volatile nowhere = (const struct iovec *)8;
    errno = 0;
    ssize_t here = readv(fd, nowhere, 1);
    say("%s: %zd %d", what, here, errno);
    errno = 0;
    ssize_t there = preadv(fd, nowhere, 2, 4);
    say(", %zd %d", there, errno);
    say(", %zd at %ld\n", read(fd, bytes, sizeof bytes), (long)lseek(fd, 0, SEEK_CUR));
}

int main(void) {
    static const char text[100];
    int fd = open("bytes", O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (write(fd, text, sizeof text) != sizeof text || lseek(fd, 0, SEEK_SET)) return 1;
    int other = dup(fd);
    reads("a duplicate", other);
    reads("the first", fd);
    if (dup2(fd, 0)) return 1;
    reads("the standard input", 0);
    log_out();
    return 0;
}
