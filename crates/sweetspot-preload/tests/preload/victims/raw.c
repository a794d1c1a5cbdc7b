// Calls through `syscall`, after reads that were served from a window.
#include "common.h"
#include <sys/syscall.h>

int main(void) {
    int fd = open_warm("data", O_RDWR), status = 0;
    char bytes[32] = {0};
    TRY(syscall(SYS_read, fd, bytes, 10));
    say("\"%.10s\"", bytes);
    say_next("after SYS_read", fd);
    read_small(fd, 500, lseek(fd, 0, SEEK_CUR));
    TRY(syscall(SYS_lseek, fd, 0, SEEK_CUR));
    TRY(syscall(SYS_lseek, fd, 100, SEEK_SET));
    say_next("after SYS_lseek", fd);
    read_small(fd, 500, lseek(fd, 0, SEEK_CUR));
    TRY(syscall(SYS_pread64, fd, bytes, 10, 5000));
    struct iovec vector = {bytes, 10};
    TRY(syscall(SYS_readv, fd, &vector, 1));
    say_next("after SYS_readv", fd);
    read_small(fd, 500, lseek(fd, 0, SEEK_CUR));
    TRY(syscall(SYS_write, fd, "WRITTEN", 7));
    say_next("after SYS_write", fd);
    read_small(fd, 500, lseek(fd, 0, SEEK_CUR));
    TRY(syscall(SYS_pwrite64, fd, "HERE", 4, lseek(fd, 0, SEEK_CUR) + 2));
    say_next("after SYS_pwrite64", fd);
    read_small(fd, 500, lseek(fd, 0, SEEK_CUR));
    int twin = TRY(syscall(SYS_dup, fd));
    say_next("the duplicate", twin);
    say_next("the first", fd);
    TRY(syscall(SYS_close, twin));
    TRY(read(twin, bytes, 1));
    int again = TRY(syscall(SYS_openat, AT_FDCWD, "data", O_RDONLY));
    read_small(again, 1000, 0);
    say_next("opened", again);
    TRY(syscall(SYS_close_range, again, again, 0));
    again = open("data", O_RDONLY);
    say_next("its number again", again);
    TRY(syscall(SYS_fcntl, fd, F_DUPFD, 20));
    say_next("duplicated by SYS_fcntl", 20);
    TRY(syscall(SYS_sendfile, 1, again, NULL, 12));
    say_next(" after SYS_sendfile", again);
    read_small(again, 500, lseek(again, 0, SEEK_CUR));
    pid_t child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        say_next("raw child", again);
        syscall(SYS_exit_group, 4);
    }
    waitpid(child, &status, 0);
    say("child %d", status);
    say_next("raw parent", again);
    TRY(syscall(SYS_gettid) == getpid());
    TRY(syscall(SYS_getrandom, bytes, 8, 0));
    TRY(syscall(-1));
    TRY(syscall(SYS_openat, AT_FDCWD, "missing", O_RDONLY));
    TRY(syscall(SYS_read, 1000, bytes, 1));
    return 0;
}
