/* dup, close and their relatives: numbers that are reused, sparse, out of range, or closed twice. */
#include "errors.h"
#include "newer.h"
#include <limits.h>
#include <sys/resource.h>

static int call(int fd, int number) {
    int other;
    switch (number) {
    case 0: other = dup(fd); CALL(read(other, scratch, 5)); CALL(write(other, "dup", 3)); CALL(lseek(fd, 0, SEEK_CUR)); CALL(close(other)); CALL(close(other)); return 1;
    case 1: CALL(dup2(fd, 500)); CALL(read(500, scratch, 7)); CALL(write(500, "five hundred", 12)); CALL(lseek(fd, 3, SEEK_CUR)); CALL(lseek(500, 0, SEEK_CUR)); CALL(close(500)); CALL(read(500, scratch, 1)); return 1;
    case 2: CALL(dup2(fd, 70000)); CALL(write(70000, "far away", 8)); CALL(read(70000, scratch, 9)); CALL(lseek(fd, 0, SEEK_CUR)); CALL(close(70000)); return 1;
    case 3: CALL(dup2(fd, fd)); CALL(dup3(fd, fd, 0)); CALL(dup3(fd, 600, 77)); CALL(dup2(fd + 1, 500)); CALL(dup2(fd, -1)); CALL(dup2(-1, fd)); return 1;
    case 4: CALL(dup3(fd, 600, O_CLOEXEC)); CALL(fcntl(600, F_GETFD)); CALL(fcntl(fd, F_GETFD)); CALL(write(600, "x", 1)); CALL(close(600)); return 1;
    case 5: CALL(fcntl(fd, F_DUPFD, 300)); CALL(fcntl(fd, F_DUPFD_CLOEXEC, 300)); CALL(read(301, scratch, 3)); CALL(close(300)); CALL(write(301, "dupfd", 5)); CALL(close(301)); return 1;
    case 6:
        /* The number is taken by another file while this one lives on under a second number. */
        other = dup(fd);
        close(fd);
        make_file("second", 3000);
        CALL(open("second", O_RDWR) == fd);
        for (int i = 0; i < 300; i++) { read(fd, scratch, 4); if (i % 3 == 0) write(fd, "2", 1); }
        CALL(write(other, "first", 5)); CALL(lseek(other, 0, SEEK_CUR)); CALL(lseek(fd, 0, SEEK_CUR));
        CALL(dup2(other, fd)); close(other); say_file("second"); unlink("second");
        return 1;
    case 7:
        /* dup2 over a descriptor with pending bytes closes it. */
        make_file("second", 3000);
        other = open("second", O_RDWR);
        for (int i = 0; i < 300; i++) write(other, "pending;", 8);
        CALL(dup2(fd, other) == other); say_file("second");
        CALL(write(other, "both", 4)); CALL(lseek(fd, 0, SEEK_CUR)); CALL(close(other)); unlink("second");
        return 1;
    case 8:
        make_file("second", 3000);
        other = open("second", O_RDWR);
        for (int i = 0; i < 300; i++) write(other, "pending;", 8);
        CALL(close_range((unsigned)other, (unsigned)other, 0)); say_file("second"); CALL(write(other, "x", 1)); unlink("second");
        return 1;
    case 9: CALL(close(-1)); CALL(close(INT_MAX)); CALL(close(fd + 1)); CALL(close_range(100, 50, 0)); CALL(close_range(5000, ~0u, 99)); return 1;
    case 10:
        /* Opened by name through the descriptor: an offset of its own. */
        snprintf(scratch, 100, "/proc/self/fd/%d", fd);
        other = open(scratch, O_RDWR);
        CALL(other >= 0); CALL(lseek(other, 0, SEEK_CUR)); CALL(read(other, scratch, 5)); CALL(write(other, "by name", 7)); CALL(lseek(fd, 0, SEEK_CUR)); CALL(close(other));
        return 1;
    case 11: {
        FILE *stream = fdopen(dup(fd), "r+");
        CALL(stream != NULL);
        if (stream) { CALL(fseek(stream, 10, SEEK_SET)); CALL(fgetc(stream)); CALL(fseek(stream, 0, SEEK_CUR)); CALL(fputs("stdio", stream)); CALL(fflush(stream)); CALL(ftell(stream)); CALL(fclose(stream)); }
        CALL(lseek(fd, 0, SEEK_CUR));
        return 1;
    }
    case 12:
        /* fclose closes behind the back of anyone who watches close. */
        make_file("second", 3000);
        FILE *stream = fopen("second", "r+");
        other = fileno(stream);
        for (int i = 0; i < 300; i++) write(other, "pending;", 8);
        CALL(fclose(stream)); say_file("second");
        other = open("second", O_RDONLY);
        for (int i = 0; i < 300; i++) read(other, scratch, 8);
        CALL(lseek(other, 0, SEEK_CUR)); CALL(write(other, "x", 1)); CALL(close(other)); unlink("second");
        return 1;
    case 13: {
        struct rlimit limit = {64, 0}, old;
        getrlimit(RLIMIT_NOFILE, &old); limit.rlim_max = old.rlim_max;
        CALL(setrlimit(RLIMIT_NOFILE, &limit)); CALL(dup2(fd, 64)); CALL(fcntl(fd, F_DUPFD, 64)); CALL(dup2(fd, 63)); CALL(write(63, "63", 2));
        int last = 0; while ((other = dup(fd)) >= 0) last = other;
        CALL_AS("last", last); CALL_AS("errno", errno); CALL(open("subject", O_RDONLY)); CALL(write(last, "last", 4));
        for (int i = fd + 1; i < 64; i++) close(i);
        setrlimit(RLIMIT_NOFILE, &old);
        return 1;
    }
    default: CALL(close(dup(fd))); return 0;
    }
}

static void opens(void) {
    int fd;
    make_file("subject", 100);
    symlink("subject", "link");
    symlink("link2", "link2");
    mkdir("folder", 0755);
    CALL(open("missing", O_RDONLY)); CALL(open("subject/x", O_RDONLY)); CALL(open("link2", O_RDONLY)); CALL(open("folder", O_WRONLY));
    CALL(open("subject", O_CREAT | O_EXCL | O_RDWR, 0644)); CALL(open("subject", O_DIRECTORY)); CALL(open("link", O_NOFOLLOW)); CALL(open("", O_RDONLY)); CALL(open(NULL, O_RDONLY));
    CALL(openat(AT_FDCWD, "missing", O_RDWR)); CALL(openat(99, "subject", O_RDWR)); CALL(creat("folder", 0644)); CALL(creat("missing/x", 0644));
    fd = open(".", O_TMPFILE | O_RDWR, 0600);
    CALL(fd >= 0);
    for (int i = 0; i < 300; i++) write(fd, "temporary ", 10);
    snprintf(scratch, 100, "/proc/self/fd/%d", fd);
    CALL(linkat(AT_FDCWD, scratch, AT_FDCWD, "linked", AT_SYMLINK_FOLLOW)); say_file("linked");
    for (int i = 0; i < 300; i++) write(fd, "afterwards ", 11);
    CALL(close(fd)); say_file("linked");
    char name[] = "tempXXXXXX", name2[] = "tempXXXXXX.txt";
    fd = mkstemp(name); for (int i = 0; i < 300; i++) write(fd, "mkstemp ", 8); CALL(rename(name, "made")); write(fd, "more", 4); CALL(close(fd)); say_file("made");
    fd = mkostemps(name2, 4, O_APPEND); for (int i = 0; i < 300; i++) write(fd, "mkostemps ", 10); CALL(rename(name2, "made2")); CALL(close(fd)); say_file("made2");
    FILE *stream = tmpfile(); for (int i = 0; i < 3000; i++) fputs("tmpfile ", stream); rewind(stream); CALL(fread(scratch, 1, 30000, stream)); CALL(fclose(stream));
    fd = open("subject", O_RDWR | O_TRUNC); CALL(read(fd, scratch, 10)); for (int i = 0; i < 300; i++) write(fd, "after", 5); CALL(open("subject", O_RDWR | O_TRUNC) >= 0); write(fd, "truncated", 9); CALL(close(fd)); say_file("subject");
    CALL(chmod("subject", 0)); fd = open("subject", O_WRONLY | O_APPEND); CALL(fd >= 0); for (int i = 0; i < 300; i++) write(fd, "closed ", 7); CALL(close(fd)); chmod("subject", 0644); say_file("subject");
    fd = open("only-read", O_RDWR | O_CREAT, 0444); for (int i = 0; i < 300; i++) write(fd, "0444 ", 5); CALL(lseek(fd, 0, SEEK_SET)); CALL(read(fd, scratch, 2000)); CALL(close(fd)); say_file("only-read");
    fd = open("no-mode", O_RDWR | O_CREAT, 0); for (int i = 0; i < 300; i++) write(fd, "0 ", 2); CALL(pread(fd, scratch, 2000, 0)); CALL(close(fd));
    fd = open("only-read", O_RDONLY | O_TRUNC); CALL(fd >= 0); say_file("only-read");
    fd = open("subject", 3); CALL(fd >= 0); CALL(read(fd, scratch, 1)); CALL(write(fd, "x", 1)); close(fd);
}

int main(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    every_state(call);
    opens();
    log_out();
    return 0;
}
