/* Calls that are rarely made, and that a library in between may take for others: unusual WAY.
 *
 * direct     a file that is written becomes one of direct access: short writes fail from then on
 * frozen     another process makes a file that nobody can write: what was written is in it, and no more
 * dispatch   the program has its own system calls sent to it by a signal, and changes what it writes
 * answer     a raw call's answer is a number under which a description is open a second time
 * acquires   acquire points without shared memory that can be written: see `ways`
 * messages   what the C library says on descriptor 2 by itself stands where it belongs
 * edges      positions near the last one that there is; a bad address of a piece without bytes
 * window     a file that was written here is read, and a word comes through memory that is only read */
#include "log.h"
#include "newer.h"
#include "raw.h"
#include <execinfo.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <netdb.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <ucontext.h>

enum { RECORD = 10, WARM = 400, READ = 5000 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

/* Works, without a call that anybody sees. */
static void work(double ms) {
    for (double until = now() + ms; now() < until;) {}
}

/* Without a call that a library sees. */
static void rest(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    raw(SYS_nanosleep, (long)&time, 0, 0, 0);
}

static long size_of(const char *name) {
    struct stat status;
    long answer = raw(SYS_newfstatat, AT_FDCWD, (long)name, (long)&status, 0);
    return answer < 0 ? -1 : (long)status.st_size;
}

static void more(int fd, int records) {
    for (int i = 0; i < records; i++)
        if (write(fd, "abcdefghi\n", RECORD) != RECORD) abort();
}

/* A file whose writes wait from now on. */
static int warm(const char *name, int flags) {
    int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY | flags, 0644);
    for (int i = 0; i < WARM; i++) {
        more(fd, 1);
        give_time(fd);
    }
    usleep(1000);
    return fd;
}

static void fill(const char *name, char letter) {
    char *bytes = malloc(READ * RECORD);
    int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    memset(bytes, letter, READ * RECORD);
    if (write(fd, bytes, READ * RECORD) != READ * RECORD) abort();
    close(fd);
    free(bytes);
}

static void direct(void) {
    static char bytes[8192] __attribute__((aligned(4096)));
    memset(bytes, 'z', sizeof bytes);
    int fd = open("direct", O_CREAT | O_TRUNC | O_RDWR, 0644), refused = 0;
    for (int i = 0; i < WARM; i++) {
        if (write(fd, bytes, 1024) != 1024) abort();
        give_time(fd);
    }
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_DIRECT)) say("no direct access: %d\n", errno);
    for (int i = 0; i < 40; i++)
        if (write(fd, bytes, 4096) != 4096) say("%d: %d\n", i, errno);
    for (int i = 0; i < 10; i++) refused += write(fd, "0123456789", 10) != 10;
    long then = write(fd, bytes, 4096);
    int synced = fsync(fd);
    long size = lseek(fd, 0, SEEK_END);
    say("refused %d, then %ld, sync %d, size %ld, close %d\n", refused, then, synced, size, close(fd));
}

static int flags_of(const char *name, int set, int clear) {
    int fd = open(name, O_RDONLY), flags = 0;
    int answer = ioctl(fd, FS_IOC_GETFLAGS, &flags);
    flags = (flags | set) & ~clear;
    if (!answer) answer = ioctl(fd, FS_IOC_SETFLAGS, &flags);
    close(fd);
    return answer;
}

static void frozen(void) {
    int ask[2], tell[2], refused = 0;
    char byte;
    if (pipe(ask) || pipe(tell)) abort();
    pid_t child = fork();
    if (!child) {
        if (read(ask[0], &byte, 1) != 1) _exit(1);
        rest(100);
        int answer = flags_of("frozen", FS_IMMUTABLE_FL, 0);
        byte = answer ? 'n' : 'y';
        _exit(write(tell[1], &byte, 1) != 1);
    }
    int fd = warm("frozen", 0);
    if (write(ask[1], "x", 1) != 1) abort();
    more(fd, 50);
    work(300);
    if (read(tell[0], &byte, 1) != 1) abort();
    say("frozen %c, %ld bytes", byte, size_of("frozen"));
    for (int i = 0; i < 100; i++) refused += write(fd, "refused!!\n", RECORD) != RECORD;
    say(", refused %d, close %d\n", refused, close(fd));
    waitpid(child, NULL, 0);
    flags_of("frozen", 0, FS_IMMUTABLE_FL);
    say_file("frozen");
}

#ifdef __x86_64__
static volatile char selector;
static volatile int data = -1, seen;

static void on_call(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    static char bytes[4096];
    (void)number, (void)info;
    selector = 0;
    if (registers[REG_RAX] == SYS_write && registers[REG_RDI] == data) {
        for (long i = 0; i < registers[REG_RDX]; i++)
            bytes[i] = (char)(((char *)registers[REG_RSI])[i] & ~32);
        registers[REG_RSI] = (long)bytes;
        seen++;
    }
    registers[REG_RAX] = raw(registers[REG_RAX], registers[REG_RDI], registers[REG_RSI],
                             registers[REG_RDX], registers[REG_R10]);
    selector = 1;
}

static void dispatch(void) {
    struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO};
    struct { void *handler; unsigned long flags; void *restorer; unsigned long mask; } known;
    sigaction(SIGSYS, &action, NULL);
    data = warm("upper", 0);
    /* The way back from the handler is not to be looked at. */
    raw(SYS_rt_sigaction, SIGSYS, 0, (long)&known, 8);
    if (prctl(59, 1, known.restorer, 16, &selector)) {
        say("no dispatch: %d\n", errno);
        return;
    }
    selector = 1;
    for (int i = 0; i < 100; i++)
        if (write(data, "abcdefghi\n", RECORD) != RECORD) break;
    selector = 0;
    prctl(59, 0, 0, 0, 0);
    say("close %d, seen %d\n", close(data), seen);
    say_file("upper");
}
#else
static void dispatch(void) { say("no dispatch: 22\n"); }
#endif

/* Two numbers of one description, after a raw call that gave the second. */
static void answer(int by_status) {
    char line[RECORD + 1] = {0}, bytes[1024] = {0};
    make_file("numbers", READ * RECORD);
    int first = open("numbers", O_RDWR), second = by_status ? 0 : dup(first);
    for (int i = 0; i < 100; i++)
        if (read(first, line, RECORD) != RECORD) abort();
    if (by_status) {
        dup2(first, 0);
        if (syscall(SYS_fstat, 1, bytes)) abort();
    } else {
        int sink = open("/dev/null", O_WRONLY);
        struct iovec piece = {bytes, (size_t)second};
        if (syscall(SYS_writev, sink, &piece, 1) != second) abort();
    }
    syscall(SYS_close_range, second, second, 1 << 30);
    for (int i = 0; i < 100; i++)
        if (read(first, line, RECORD) != RECORD) abort();
    for (int i = 0; i < 3; i++) {
        if (read(i % 2 ? first : second, line, RECORD) != RECORD) abort();
        say("%d: %016lx\n", i, hash_of(line, RECORD));
    }
    for (int i = 0; i < 3000; i++) {
        more(first, 1);
        give_time(first);
        if (i % 300 == 299) more(second, 1);
    }
    long at = lseek(first, 0, SEEK_CUR);
    say("%ld %ld\n", at, (long)lseek(second, 0, SEEK_CUR));
    say_file("numbers");
}

static const int in_program __attribute__((aligned(4096))) = 0;

/* The child of each way waits for a word and says how large "data" is then. */
enum way { FUTEX, FUTEX_OF_FILE, UNMAP, MAP_OVER, RAW_UNMAP, SPLICE, FIFO, TERMINAL, WAYS };
static const char *const ways[WAYS] = {
    "futex in the program", "futex in a file", "unmap", "map over", "raw unmap", "splice", "FIFO",
    "terminal",
};
static const int *word = &in_program;
static int ends[2], master;

static void wait_for_word(enum way way) {
    char bytes[4096];
    int lock;
    switch (way) {
    case FUTEX:
    case FUTEX_OF_FILE: syscall(SYS_futex, word, FUTEX_WAIT, *word, NULL, NULL, 0); break;
    case UNMAP:
    case MAP_OVER:
    case RAW_UNMAP:
        lock = open("lock", O_RDWR);
        flock(lock, LOCK_EX);
        break;
    case SPLICE:
        rest(100);
        raw(SYS_read, ends[0], (long)bytes, 4096, 0);
        break;
    case FIFO:
        lock = open("fifo", O_RDWR);
        memset(bytes, 0, sizeof bytes);
        for (int i = 0; i < 17; i++)
            if (write(lock, bytes, 4096) != 4096) _exit(1);
        break;
    case TERMINAL:
        rest(300);
        break;
    default: break;
    }
    long size = size_of("data");
    if (way == TERMINAL && write(master, "x\n", 2) != 2) _exit(1);
    char text[80];
    int len = snprintf(text, sizeof text, "%s: %ld bytes\n", ways[way], size);
    _exit(write(1, text, (size_t)len) != len);
}

static void acquires(enum way way) {
    int go[2], lock = open("lock", O_CREAT | O_RDWR, 0644);
    char byte, *mapped = NULL;
    if (pipe(go) || pipe(ends) || ftruncate(lock, 4096)) abort();
    close(lock);
    if (way == FUTEX_OF_FILE) {
        lock = open("lock", O_RDONLY);
        word = mmap(NULL, 4096, PROT_READ, MAP_SHARED, lock, 0);
        close(lock);
    }
    if (way == FIFO) mkfifo("fifo", 0600);
    if (way == TERMINAL) {
        master = posix_openpt(O_RDWR | O_NOCTTY);
        grantpt(master);
        unlockpt(master);
    }
    pid_t child = fork();
    if (!child) {
        if (read(go[0], &byte, 1) != 1) _exit(1);
        wait_for_word(way);
    }
    if (way == UNMAP || way == MAP_OVER || way == RAW_UNMAP) {
        lock = open("lock", O_RDONLY);
        flock(lock, LOCK_EX);
        mapped = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, lock, 0);
        close(lock);
    }
    if (way == SPLICE) mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int from = way == FIFO ? open("fifo", O_RDWR | O_CLOEXEC)
               : way == TERMINAL ? open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC) : -1;
    int fd = warm("data", 0);
    if (way == SPLICE) {
        struct iovec page = {mapped, 4096};
        memset(mapped, 'A', 4096);
        if (vmsplice(ends[1], &page, 1, 0) != 4096) abort();
    }
    if (write(go[1], "x", 1) != 1) abort();
    usleep(50000);
    more(fd, 5);
    char bytes[4096];
    switch (way) {
    case FUTEX:
    case FUTEX_OF_FILE:
        /* On a slow machine nobody may wait yet. */
        while (syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0) == 0) usleep(1000);
        break;
    case UNMAP: munmap(mapped, 4096); break;
    case MAP_OVER:
        mmap(mapped, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        break;
    case RAW_UNMAP: syscall(SYS_munmap, mapped, 4096); break;
    case SPLICE: *(volatile char *)mapped = 'B'; break;
    default:
        if (read(from, bytes, sizeof bytes) <= 0) abort();
    }
    work(200);
    waitpid(child, NULL, 0);
}

static void messages(int which) {
    char line[64];
    int fd = open("log", O_RDWR | O_CREAT | O_TRUNC, 0644);
    dup2(fd, 2);
    close(fd);
    for (int i = 0; i < 3000; i++) {
        int len = snprintf(line, sizeof line, "line %d\n", i);
        if (write(2, line, (size_t)len) != len) abort();
        give_time(2);
    }
    void *address = (void *)0x1000;
    siginfo_t info = {.si_signo = SIGTRAP};
    errno = EIO;
    h_errno = 1;
    switch (which) {
    case 0: perror("perror"); break;
    case 1: herror("herror"); break;
    case 2: psiginfo(&info, "psiginfo"); break;
    case 3: backtrace_symbols_fd(&address, 1, 2); break;
    default:
        openlog("unusual", LOG_PERROR, LOG_USER);
        syslog(LOG_DEBUG, "syslog");
    }
    dprintf(2, "dprintf\n");
    struct iovec piece = {"writev\n", 7};
    if (writev(2, &piece, 1) != 7) abort();
    for (int i = 0; i < 20; i++)
        if (write(2, "further\n", 8) != 8) abort();
    say("%d: ", which);
    say_file("log");
}

static void edges(void) {
    char bytes[64];
    const long last = 0x7fffffffffffffff;
    make_file("short", READ * RECORD);
    int fd = open("short", O_RDWR);
    for (int i = 0; i < 100; i++)
        if (read(fd, bytes, RECORD) != RECORD) abort();
    for (int len = 5; len < 12; len += 3) {
        long got = pread(fd, bytes, (size_t)len, last - 10);
        say("%d: %ld %d\n", len, got, got < 0 ? errno : 0);
    }
    struct iovec pieces[2] = {{bytes, RECORD}, {(void *)0xffff800000000000, 0}};
    long got = readv(fd, pieces, 2);
    say("piece: %ld %d\n", got, got < 0 ? errno : 0);
}

static void window(void) {
    char record[RECORD], byte;
    int ask[2];
    fill("flag", 0);
    if (pipe(ask)) abort();
    pid_t child = fork();
    if (!child) {
        if (read(ask[0], &byte, 1) != 1) _exit(1);
        rest(100);
        int fd = open("both", O_WRONLY);
        for (int i = 0; i < WARM; i++)
            if (pwrite(fd, "NNNNNNNNN\n", RECORD, RECORD * i) != RECORD) _exit(1);
        close(fd);
        fd = open("flag", O_RDWR);
        *(volatile char *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) = 1;
        _exit(0);
    }
    int fd = open("flag", O_RDONLY);
    volatile char *flag = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    fd = open("both", O_CREAT | O_TRUNC | O_RDWR, 0644);
    for (int i = 0; i < WARM; i++) {
        more(fd, 1);
        give_time(fd);
    }
    if (write(ask[1], "x", 1) != 1) abort();
    lseek(fd, 0, SEEK_SET);
    for (int i = 0; i < 50; i++)
        if (read(fd, record, RECORD) != RECORD) abort();
    for (double until = now() + 8000; !*flag && now() < until;) {}
    if (read(fd, record, RECORD) != RECORD) abort();
    say("%s, then %.9s\n", *flag ? "heard" : "nothing heard", record);
    waitpid(child, NULL, 0);
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "";
    int which = count > 2 ? atoi(arguments[2]) : 0;
    if (!strcmp(way, "direct")) direct();
    if (!strcmp(way, "frozen")) frozen();
    if (!strcmp(way, "dispatch")) dispatch();
    if (!strcmp(way, "answer")) answer(which);
    if (!strcmp(way, "acquires")) acquires((enum way)which);
    if (!strcmp(way, "messages")) messages(which);
    if (!strcmp(way, "edges")) edges();
    if (!strcmp(way, "window")) window();
    log_out();
    return 0;
}
