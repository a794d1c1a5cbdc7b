/* RLIMIT_FSIZE: the same error at the same call, with the same bytes in the file; and SIGXFSZ. */
#include "errors.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/uio.h>

static volatile sig_atomic_t signals;
static void on_signal(int number) { signals++; (void)number; }

static void limited(int flags, long limit_bytes, long each) {
    struct rlimit old, limit;
    getrlimit(RLIMIT_FSIZE, &old);
    limit = (struct rlimit){(rlim_t)limit_bytes, old.rlim_max};
    unlink("subject");
    int fd = open("subject", flags | O_CREAT, 0644);
    pattern(scratch, each, 9);
    /* Buffering is on before the limit comes. */
    for (int i = 0; i < 300; i++) {
        if (i >= 70) give_time(fd);
        write(fd, "before  ", 8);
    }
    CALL(setrlimit(RLIMIT_FSIZE, &limit));
    signals = 0;
    long written = 0, n, calls = 0;
    while ((n = write(fd, scratch, (size_t)each)) > 0 && ++calls < 5000) written += n;
    CALL_AS("last", n); CALL_AS("written", written); CALL_AS("calls", calls); CALL_AS("signals", signals);
    CALL(write(fd, "again", 5)); CALL_AS("signals", signals);
    CALL(pwrite(fd, "inside", 6, 10)); CALL(pwrite(fd, "at the edge", 11, limit_bytes - 4)); CALL(ftruncate(fd, limit_bytes + 1)); CALL_AS("signals", signals);
    struct iovec parts[2] = {{scratch, 10}, {scratch, 10}};
    lseek(fd, limit_bytes - 13, SEEK_SET);
    CALL(writev(fd, parts, 2)); CALL(lseek(fd, 0, SEEK_CUR));
    setrlimit(RLIMIT_FSIZE, &old);
    CALL(write(fd, "free", 4)); CALL(close(fd)); say_file("subject");
}

int main(int argc, char **argv) {
    (void)argv;
    signal(SIGXFSZ, argc > 1 ? SIG_DFL : on_signal);
    if (argc > 1) {
        /* The default action kills. */
        struct rlimit limit = {5000, RLIM_INFINITY};
        int fd = open("killed", O_WRONLY | O_CREAT, 0644);
        for (int i = 0; i < 300; i++) write(fd, "before  ", 8);
        setrlimit(RLIMIT_FSIZE, &limit);
        for (;;) write(fd, "until the limit ", 16);
    }
    for (long each = 1; each < 3000; each = each * 5 + 2) {
        limited(O_WRONLY, 10000, each);
        limited(O_RDWR, 4096, each);
        limited(O_WRONLY | O_APPEND, 5001, each);
    }
    log_out();
    return 0;
}
