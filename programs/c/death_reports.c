/* A child writes and crashes. Its parent, which buffers nothing itself, learns of that by what any call says of an
 * end, and looks at the file. */
#include "log.h"
#include <aio.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>

enum { ROUNDS = 6, RECORDS = 1500 };
static const char *program;
static char bytes[100];
static struct iovec piece = {bytes, 10};
/* Of the child, the ends that it has alone; of the parent, its own. */
static int pair[2], theirs[2], other, file;
static pid_t child;
static volatile long seen;

static long size_of_file(void) {
    struct stat found;
    return stat("out", &found) ? 0 : (long)found.st_size;
}

/* In the way of a handler, which is the one who looks. */
static void look(int number) {
    (void)number;
    if (seen < 0) seen = size_of_file();
}
static void wait_for_handler(void) {
    while (seen < 0) sched_yield();
}

static void start(void) {
    child = fork();
    if (child) return;
    for (int i = 0; i < 2; i++)
        if (theirs[i] >= 0) close(theirs[i]);
    write_and_crash("out", RECORDS);
}

/* By exec, from a parent that has shared memory, and so buffers nothing for good. */
static void start_program(void) {
    static int is_shared;
    int fd = open("shared", O_RDWR | O_CREAT, 0644);
    if (!is_shared++ && (ftruncate(fd, 4096) || mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED)) exit(97);
    close(fd);
    fcntl(pair[0], F_SETFD, FD_CLOEXEC);
    fcntl(pair[1], F_SETFD, FD_CLOEXEC);
    int kept = theirs[0] == pair[0] ? pair[1] : pair[0];
    child = vfork();
    if (child == 0) {
        dup2(kept, 9);
        execl(program, program, "crash", NULL);
        _exit(2);
    }
}

/* The parent keeps the first end, the child the second; or the other way round. */
static void keep(int mine) {
    theirs[0] = pair[mine], theirs[1] = -1;
    other = pair[!mine], file = pair[mine];
}
static void with_pipe(int mine) {
    if (pipe(pair)) exit(98);
    keep(mine);
}
static void with_sockets(int kind) {
    if (socketpair(AF_UNIX, kind, 0, pair)) exit(98);
    keep(0);
}
static void with_fifo(void) {
    unlink("fifo");
    if (mkfifo("fifo", 0600)) exit(98);
    theirs[0] = theirs[1] = -1;
}
/* The parent has the terminal's end, or its master's. */
static void with_terminal(int mine) {
    pair[0] = posix_openpt(O_RDWR | O_NOCTTY);
    if (pair[0] < 0 || grantpt(pair[0]) || unlockpt(pair[0])) exit(98);
    pair[1] = open(ptsname(pair[0]), O_RDWR | O_NOCTTY);
    keep(mine);
}
static void begin(void) { start(), close(other); }
static struct msghdr *message(void) {
    static struct msghdr header;
    header = (struct msghdr){.msg_iov = &piece, .msg_iovlen = 1};
    return &header;
}

static void by_fclose(void) {
    /* A compiler knows that pclose is meant for it. */
    static int (*volatile close_stream)(FILE *) = fclose;
    char command[4200];
    snprintf(command, sizeof command, "exec %s crash", program);
    close_stream(popen(command, "w"));
}
static void by_fgets_of_popen(void) {
    char command[4200];
    snprintf(command, sizeof command, "exec %s crash", program);
    FILE *stream = popen(command, "r");
    while (fgets(bytes, sizeof bytes, stream)) continue;
    seen = size_of_file();
    pclose(stream);
}
static void by_fgetc(void) {
    with_pipe(0), begin();
    FILE *stream = fdopen(file, "r");
    fgetc(stream);
    seen = size_of_file();
    fclose(stream);
}
static void by_fputs(void) {
    with_pipe(1), begin();
    FILE *stream = fdopen(file, "w");
    setbuf(stream, NULL);
    while (fputs("x", stream) >= 0) usleep(50);
    seen = size_of_file();
    fclose(stream);
}
static void child_opens(int flags) {
    child = fork();
    if (child == 0 && open("fifo", flags) >= 0) write_and_crash("out", RECORDS);
}
static void by_fifo_read(void) {
    with_fifo(), child_opens(O_WRONLY);
    file = open("fifo", O_RDONLY);
    while (read(file, bytes, 10) > 0) continue;
}
static void by_fifo_write(void) {
    with_fifo(), child_opens(O_RDONLY);
    file = open("fifo", O_WRONLY);
    while (write(file, "x", 1) == 1) usleep(50);
}
static void by_fifo_stream(void) {
    with_fifo(), child_opens(O_WRONLY);
    FILE *stream = fopen("fifo", "r");
    while (fgetc(stream) != EOF) continue;
    seen = size_of_file();
    fclose(stream);
}
static void by_path_of_pipe(void) {
    with_pipe(0), begin();
    snprintf(bytes, sizeof bytes, "/dev/fd/%d", file);
    int again = open(bytes, O_RDONLY);
    while (read(again, bytes, 10) > 0) continue;
    close(again);
}
static void by_master_read(void) {
    with_terminal(0), begin();
    while (read(file, bytes, 10) > 0) continue;
}
static void by_terminal_read(void) {
    with_terminal(1), begin();
    while (read(file, bytes, 10) > 0) continue;
}
static void by_terminal_write(void) {
    with_terminal(1), begin();
    while (write(file, "x", 1) == 1) usleep(50);
}
static void by_terminal_settings(void) {
    struct termios settings;
    with_terminal(1), begin();
    while (tcgetattr(file, &settings) == 0) usleep(50);
}
static void by_datagram(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "socket"};
    unlink("socket");
    theirs[0] = theirs[1] = -1;
    other = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (bind(other, (void *)&name, sizeof name)) exit(98);
    file = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    if (connect(file, (void *)&name, sizeof name)) exit(98);
    begin();
    while (write(file, "x", 1) == 1 || errno == EAGAIN) usleep(50);
}
static void by_address(void) {
    struct sockaddr_in name = {.sin_family = AF_INET};
    socklen_t length = sizeof name;
    int on = 1;
    theirs[0] = theirs[1] = -1;
    other = socket(AF_INET, SOCK_STREAM, 0), file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(other, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(other, (void *)&name, length) || getsockname(other, (void *)&name, &length)) exit(98);
    if (bind(file, (void *)&name, length) || listen(other, 1)) exit(98);
    begin();
    while (listen(file, 1)) usleep(50);
}
static void by_splice(void) {
    int to[2];
    with_pipe(0);
    if (pipe(to)) exit(98);
    begin();
    while (splice(file, NULL, to[1], NULL, 100, 0) > 0) continue;
    seen = size_of_file();
    close(to[0]), close(to[1]);
}
static void by_tee(void) {
    int to[2];
    with_pipe(0);
    if (pipe(to)) exit(98);
    begin();
    while (tee(file, to[1], 100, 0) > 0) continue;
    seen = size_of_file();
    close(to[0]), close(to[1]);
}
static void by_sendfile(void) {
    int from = open("/proc/self/exe", O_RDONLY);
    off_t at = 0;
    with_pipe(1), begin();
    while (at = 0, sendfile(file, from, &at, 10) > 0) usleep(50);
    seen = size_of_file();
    close(from);
}
static void by_recvmsg(void) {
    with_sockets(SOCK_STREAM), begin();
    while (recvmsg(file, message(), 0) > 0) continue;
}
static void by_recvmmsg(void) {
    with_sockets(SOCK_SEQPACKET), begin();
    struct mmsghdr one = {.msg_hdr = *message()};
    recvmmsg(file, &one, 1, 0, NULL);
}
static void by_sendmsg(void) {
    with_sockets(SOCK_STREAM), begin();
    while (sendmsg(file, message(), 0) > 0) usleep(50);
}
static void by_sendmmsg(void) {
    with_sockets(SOCK_SEQPACKET), begin();
    struct mmsghdr one = {.msg_hdr = *message()};
    while (sendmmsg(file, &one, 1, 0) > 0) usleep(50);
}
static void by_aio(void) {
    with_pipe(0), begin();
    struct aiocb block = {.aio_fildes = file, .aio_buf = bytes, .aio_nbytes = 10};
    aio_read(&block);
    while (aio_error(&block) == EINPROGRESS) usleep(50);
    aio_return(&block);
}
static void print(int fd, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int answer = vdprintf(fd, format, arguments);
    va_end(arguments);
    if (answer > 0) usleep(50);
    seen = answer > 0 ? -1 : size_of_file();
}
static void by_vdprintf(void) {
    with_pipe(1), begin();
    while (seen < 0) print(file, "%d", 1);
}
static void by_raw_splice(void) {
    int to[2];
    with_pipe(0);
    if (pipe(to)) exit(98);
    begin();
    while (syscall(SYS_splice, file, NULL, to[1], NULL, 100L, 0) > 0) continue;
    seen = size_of_file();
    close(to[0]), close(to[1]);
}
static void by_open(void) {
    char command[4200];
    snprintf(command, sizeof command, "cp %s copy", program);
    unlink("copy");
    if (system(command)) exit(98);
    pair[0] = pair[1] = theirs[0] = theirs[1] = -1;
    child = vfork();
    if (child == 0) execl("./copy", "./copy", "crash", NULL), _exit(2);
    while ((file = open("copy", O_WRONLY | O_CLOEXEC)) < 0) usleep(50);
}
static void by_its_memory(void) {
    theirs[0] = theirs[1] = -1, start();
    while (process_vm_readv(child, &piece, 1, &piece, 1, 0) == 10) usleep(50);
}
static void by_memory_written(void) {
    theirs[0] = theirs[1] = -1, start();
    while (process_vm_writev(child, &piece, 1, &piece, 1, 0) == 10) usleep(50);
}
static void by_read_passively(void) {
    with_pipe(0), start_program(), close(other);
    while (read(file, bytes, 10) > 0) continue;
}
static void by_readv_passively(void) {
    with_pipe(0), start_program(), close(other);
    while (readv(file, &piece, 1) > 0) continue;
}
static void by_write_passively(void) {
    with_pipe(1), start_program(), close(other);
    while (write(file, "x", 1) == 1) usleep(50);
}
static void by_sigpipe(void) {
    with_pipe(1);
    signal(SIGPIPE, look);
    begin();
    while (write(file, "x", 1) == 1) usleep(50);
    signal(SIGPIPE, SIG_IGN);
}
static void by_sigio(void) {
    with_sockets(SOCK_STREAM);
    signal(SIGIO, look);
    begin();
    fcntl(file, F_SETOWN, getpid());
    fcntl(file, F_SETFL, O_ASYNC);
    /* It may have ended before that. */
    if (recv(file, bytes, 1, MSG_PEEK | MSG_DONTWAIT) < 0) wait_for_handler();
    signal(SIGIO, SIG_DFL);
}
static void by_signal_of_clone(void) {
    theirs[0] = theirs[1] = -1;
    signal(SIGUSR1, look);
    child = (pid_t)syscall(SYS_clone, SIGUSR1, 0L, 0L, 0L, 0L);
    if (child == 0) write_and_crash("out", RECORDS);
    wait_for_handler();
    waitpid(child, NULL, __WALL);
}

static const struct {
    const char *name;
    void (*way)(void);
} ways[] = {
    {"fclose", by_fclose}, {"fgets of popen", by_fgets_of_popen}, {"fgetc", by_fgetc}, {"fputs", by_fputs},
    {"read of a fifo", by_fifo_read}, {"write to a fifo", by_fifo_write}, {"fgetc of a fifo", by_fifo_stream},
    {"read of a pipe by its path", by_path_of_pipe}, {"read of a master", by_master_read},
    {"read of a terminal", by_terminal_read}, {"write to a terminal", by_terminal_write},
    {"tcgetattr", by_terminal_settings}, {"write of a datagram", by_datagram}, {"listen", by_address},
    {"splice", by_splice}, {"tee", by_tee}, {"sendfile", by_sendfile}, {"recvmsg", by_recvmsg},
    {"recvmmsg", by_recvmmsg}, {"sendmsg", by_sendmsg}, {"sendmmsg", by_sendmmsg}, {"aio_read", by_aio},
    {"vdprintf", by_vdprintf}, {"raw splice", by_raw_splice}, {"open of a program", by_open},
    {"process_vm_readv", by_its_memory}, {"process_vm_writev", by_memory_written},
    {"SIGPIPE", by_sigpipe}, {"SIGIO", by_sigio}, {"the signal of a clone", by_signal_of_clone},
    {"read, passive", by_read_passively}, {"readv, passive", by_readv_passively},
    {"write, passive", by_write_passively},
};
enum { WAYS = sizeof ways / sizeof *ways };

/* Each way in a process of its own, which has not heard of anything. */
static void try(int way) {
    int short_files = 0;
    for (int i = 0; i < ROUNDS; i++) {
        unlink("out");
        pair[0] = pair[1] = other = file = -1, child = 0, seen = -1;
        ways[way].way();
        if (seen < 0) seen = size_of_file();
        short_files += seen != 2 * RECORDS;
        if (file >= 0) close(file);
        if (child > 0) waitpid(child, NULL, 0);
    }
    say("%s: %d of %d files are short\n", ways[way].name, short_files, ROUNDS);
    log_out();
}

int main(int count, char **words) {
    static char own[4096];
    if (count > 1 && strcmp(words[1], "crash") == 0) write_and_crash("out", RECORDS);
    if (readlink("/proc/self/exe", own, sizeof own - 1) < 0) return 96;
    program = own;
    signal(SIGPIPE, SIG_IGN);
    if (count > 1) try(atoi(words[1]) % WAYS);
    for (int way = 0; count == 1 && way < WAYS; way++) {
        char number[12];
        snprintf(number, sizeof number, "%d", way);
        /* No wait, and no child, before the one that counts. */
        if (vfork() == 0) execl(program, program, number, NULL), _exit(3);
        wait(NULL);
    }
    return 0;
}
