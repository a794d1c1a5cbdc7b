/* A call waits until another process has acted, which has changed a file first. So the file is not older.
 *
 *   close, dup2, dup3    of a connection that lingers until all is taken
 *   limit                a write that fails until a limit is lifted
 *   refused, short       one that fails, or is short, as soon as a limit is set
 *   placed, cut          the same at a position that is the program's own
 *   accepted             what was written before a limit is set does not meet it
 *   number               a descriptor that is duplicated until a limit is set
 *   appended             the position after an append, which others appended before
 *   printed, logged      what libc writes by itself is read again */
#include "log.h"
#include "raw.h"
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <syslog.h>

enum { BYTES = 65536, PLACE = 3900, LATER_US = 20000 };
static char bytes[BYTES];

static void earn_window(int file) {
    for (int i = 0; i < 300; i++) read(file, bytes, 20);
    pread(file, bytes, 1, PLACE);
}

static int opened(void) {
    int file = open("data", O_RDONLY);
    earn_window(file);
    return file;
}

static void change(void) {
    usleep(LATER_US);
    raw(SYS_pwrite64, open("data", O_WRONLY), (long)"N", 1, PLACE);
}

static void look(int file, const char *way) {
    char now = 0;
    pread(file, &now, 1, PLACE);
    say("%s: %s\n", way, now == 'N' ? "new" : "old");
}

static void take(int from, int go) {
    int peer = accept(from, NULL, NULL);
    char byte;
    raw(SYS_read, go, (long)&byte, 1, 0);
    change();
    while (raw(SYS_read, peer, (long)bytes, BYTES, 0) > 0) continue;
    _exit(0);
}

static void lingers(const char *way) {
    int listens = socket(AF_INET, SOCK_STREAM, 0), sends = socket(AF_INET, SOCK_STREAM, 0), small = 4096, status;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    struct linger lingers = {1, 1};
    int go[2];
    setsockopt(listens, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    bind(listens, (struct sockaddr *)&address, length), listen(listens, 1);
    getsockname(listens, (struct sockaddr *)&address, &length);
    if (pipe(go)) exit(2);
    pid_t child = fork();
    if (child == 0) close(sends), take(listens, go[0]);
    setsockopt(sends, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    connect(sends, (struct sockaddr *)&address, length);
    setsockopt(sends, SOL_SOCKET, SO_LINGER, &lingers, sizeof lingers);
    fcntl(sends, F_SETFL, O_NONBLOCK);
    /* Until the other end takes no more for a while. */
    for (int i = 0; i < 5; usleep(LATER_US), i++)
        while (write(sends, bytes, BYTES) > 0) i = 0;
    fcntl(sends, F_SETFL, 0);
    int other = open("/dev/null", O_RDONLY), file = open("data", O_RDONLY);
    write(go[1], "g", 1), earn_window(file);
    if (!strcmp(way, "dup2")) dup2(other, sends);
    else if (!strcmp(way, "dup3")) dup3(other, sends, O_CLOEXEC);
    else close(sends);
    look(file, way);
    waitpid(child, &status, 0);
}

static void is_limited(const char *way) {
    struct rlimit limit, little;
    int log = open("log", O_WRONLY | O_CREAT | O_TRUNC, 0644), status;
    signal(SIGXFSZ, SIG_IGN), getrlimit(RLIMIT_FSIZE, &limit);
    little = limit, little.rlim_cur = BYTES;
    setrlimit(RLIMIT_FSIZE, &little);
    /* With two numbers it is known from the first write on. */
    if (dup(log) < 0) exit(2);
    for (int i = 0; i < 4; i++) write(log, bytes, BYTES);
    pid_t child = fork();
    if (child == 0) {
        change();
        raw(SYS_prlimit64, getppid(), RLIMIT_FSIZE, (long)&limit, 0);
        _exit(0);
    }
    int file = opened();
    while (write(log, bytes, BYTES) < 0) continue;
    look(file, way), waitpid(child, &status, 0);
}

/* The child's own end would be news. */
static void stays(void) {
    struct timespec time = {0, 10 * LATER_US * 1000};
    raw(SYS_nanosleep, (long)&time, 0, 0, 0);
    _exit(0);
}

static void until_limited(const char *way) {
    int by_number = !strcmp(way, "number"), other, status, resource = by_number ? RLIMIT_NOFILE : RLIMIT_FSIZE;
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN), getrlimit(resource, &limit);
    limit.rlim_cur = by_number ? 3 : BYTES + (strcmp(way, "short") ? 0 : 50);
    pid_t child = fork();
    if (child == 0) {
        change();
        raw(SYS_prlimit64, getppid(), resource, (long)&limit, 0);
        stays();
    }
    int log = open("log", O_WRONLY | O_CREAT | O_TRUNC, 0644), file = opened();
    if (dup(log) < 0) exit(2);
    if (by_number)
        while ((other = dup(log)) >= 0) close(other);
    else
        while (pwrite(log, bytes, 100, BYTES) == 100) continue;
    look(file, way), waitpid(child, &status, 0);
}

static void until_limited_in_place(const char *way) {
    struct rlimit limit;
    int status;
    signal(SIGXFSZ, SIG_IGN), getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = BYTES + (strcmp(way, "cut") ? 0 : 50);
    pid_t child = fork();
    if (child == 0) {
        change();
        raw(SYS_prlimit64, getppid(), RLIMIT_FSIZE, (long)&limit, 0);
        stays();
    }
    make_file("log", 3 * BYTES);
    int log = open("log", O_RDWR), file = opened();
    earn_window(log);
    while (lseek(log, BYTES, SEEK_SET) == BYTES && write(log, bytes, BYTES) == BYTES) continue;
    look(file, way), waitpid(child, &status, 0), unlink("log");
}

static void are_accepted(const char *way) {
    enum { RECORD = 20, RECORDS = 5000, LIMIT = 4096 };
    struct rlimit limit, now;
    int go[2], say_it[2], status;
    char byte;
    getrlimit(RLIMIT_FSIZE, &limit);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = LIMIT;
    if (pipe(go) || pipe(say_it)) exit(2);
    pid_t child = fork();
    if (child == 0) {
        raw(SYS_read, go[0], (long)&byte, 1, 0);
        raw(SYS_prlimit64, getppid(), RLIMIT_FSIZE, (long)&limit, 0);
        stays();
    }
    int log = open("log", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < RECORDS; i++) {
        write(log, bytes, RECORD);
        if (i < RECORDS / 4 && i % 10 == 0) usleep(500);
    }
    raw(SYS_write, go[1], (long)"g", 1, 0);
    do raw(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)&now);
    while (now.rlim_cur != LIMIT);
    say("%s: said %zd", way, write(say_it[1], "s", 1));
    signal(SIGXFSZ, SIG_IGN), errno = 0;
    say(", then %zd", write(log, bytes, RECORD)), say(" %d", errno), say(", closed %d\n", close(log));
    limit.rlim_cur = before, setrlimit(RLIMIT_FSIZE, &limit);
    say_file("log"), unlink("log"), waitpid(child, &status, 0);
}

static void is_appended(const char *way) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        change();
        raw(SYS_write, open("log", O_WRONLY | O_APPEND), (long)bytes, 1000, 0);
        stays();
    }
    int log = open("log", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644), file = opened();
    if (dup(log) < 0) exit(2);
    for (off_t at = 0, before = 0; at <= before + 1; at = lseek(log, 0, SEEK_CUR)) before = at, write(log, "x", 1);
    look(file, way), waitpid(child, &status, 0), unlink("log");
}

static void is_written_by_libc(const char *way) {
    enum { ROUNDS = 20 };
    int by_log = !strcmp(way, "logged"), writes = open("data", O_RDWR), file = opened(), old = 0;
    char place[40], found[40];
    if (by_log) dup2(writes, 2), openlog("told", LOG_PERROR, LOG_USER);
    for (int round = 0; round < ROUNDS; round++) {
        snprintf(place, sizeof place, "told: %020d\n", round);
        lseek(writes, PLACE, SEEK_SET), pread(file, found, sizeof found, PLACE - 10);
        if (by_log) syslog(LOG_INFO, "%020d", round);
        else dprintf(writes, "%s", place);
        pread(file, found, sizeof found, PLACE);
        old += memcmp(found, place, strlen(place)) != 0;
    }
    say("%s: %d of %d times old\n", way, old, ROUNDS);
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "";
    make_file("data", BYTES);
    if (!strcmp(way, "limit")) is_limited(way);
    else if (!strcmp(way, "refused") || !strcmp(way, "short") || !strcmp(way, "number")) until_limited(way);
    else if (!strcmp(way, "placed") || !strcmp(way, "cut")) until_limited_in_place(way);
    else if (!strcmp(way, "accepted")) are_accepted(way);
    else if (!strcmp(way, "appended")) is_appended(way);
    else if (!strcmp(way, "printed") || !strcmp(way, "logged")) is_written_by_libc(way);
    else lingers(way);
    log_out();
    return 0;
}
