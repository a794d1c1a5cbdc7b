/* Writes records that wait, lets another process fill the disk, and makes one call whose answer, or effect, follows from
 * what was written. Then there is room again, it writes one record more, and says what each call tells it.
 * Descriptor 0 is of a file that both have. Its offset is 1 when the records wait, 2 when the disk is full, 3 when
 * the call was made, and 4 when there is room again. The last line says how many records it wrote.
 * Usage: asks_unwritten FILE WAY LOG
 * WAY: end, size, statx, own-end, own-size: asks where the file ends; flags, append: sets O_APPEND; stream: as end, by a stream;
 * sync-all, sync-range, and the same with own: syncs, but not by fsync; sync-async, read-async, put-async, put-list: by an operation that goes on
 * meanwhile; control, clone: asks how much is left to read, or copies into another file, by ioctl;
 * stream-read, vector-read, own-read, own-read-at and the same with put: reads at the beginning, or puts there what is there already;
 * start: seeks to the beginning of descriptor 1, which others share; child: so does a child; child-flags: a child sets
 * O_APPEND; limit: limits the size of files to 300 records more; exec, exec-name: becomes a program that is not there;
 * arrived: syncs; reopen: reopens a stream for appending (musl); locked, rights: locks its memory or becomes another
 * group, and says what a duplicate and the next descriptor of that number are told. */
#include "log.h"
#include <aio.h>
#include <linux/fs.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { RECORD_BYTES = 200, RECORDS = 1200, RECORDS_MORE = 300 };
static char record[RECORD_BYTES + 1];

static const char *record_of(long number) {
    memset(record, 'a' + (int)(number % 26), RECORD_BYTES);
    record[snprintf(record, RECORD_BYTES, "%07ld", number)] = ' ';
    return record;
}

static void step(int reached, int awaited) {
    /* No call that could be a release point. */
    kernel_seek(0, reached, SEEK_SET);
    while (kernel_position(0) != awaited) continue;
}

static void in_child(int fd, int is_seek) {
    pid_t child = fork();
    if (child == 0) _exit(is_seek ? lseek(fd, 0, SEEK_SET) != 0 : fcntl(fd, F_SETFL, O_APPEND) != 0);
    int status = -1;
    if (waitpid(child, &status, 0) != child || status) say("no child\n");
}

/* By an operation that goes on while the program waits. */
static long meanwhile(int fd, const char *way) {
    static char byte = '0';
    static struct aiocb block;
    struct aiocb *list[] = {&block};
    const struct aiocb *awaited[] = {&block};
    block = (struct aiocb){.aio_fildes = fd, .aio_buf = &byte, .aio_nbytes = 1, .aio_lio_opcode = LIO_WRITE};
    int begun = !strcmp(way, "sync-async")   ? aio_fsync(O_SYNC, &block)
                : !strcmp(way, "read-async") ? aio_read(&block)
                : !strcmp(way, "put-async")  ? aio_write(&block)
                                             : lio_listio(LIO_WAIT, list, 1, NULL);
    if (begun != 0) return -1;
    while (aio_error(&block) == EINPROGRESS) aio_suspend(awaited, 1, NULL);
    return aio_return(&block);
}

static long call(int fd, const char *way, long count) {
    struct stat status;
    struct statx statuses;
    int left;
    if (!strcmp(way, "end")) return lseek(fd, 0, SEEK_END);
    if (!strcmp(way, "start")) return lseek(fd, 0, SEEK_SET);
    if (!strcmp(way, "size")) return fstat(fd, &status);
    if (!strcmp(way, "statx")) return statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &statuses);
    if (!strcmp(way, "own-end")) return syscall(SYS_lseek, fd, 0, SEEK_END);
    if (!strcmp(way, "own-size")) return syscall(SYS_fstat, fd, &status);
    if (!strcmp(way, "flags")) return fcntl(fd, F_SETFL, O_APPEND);
    if (!strcmp(way, "stream")) return fseek(fdopen(fd, "r+"), 0, SEEK_END);
    if (!strcmp(way, "limit")) {
        rlim_t bytes = (rlim_t)(count + RECORDS_MORE) * RECORD_BYTES;
        return setrlimit(RLIMIT_FSIZE, &(struct rlimit){bytes, RLIM_INFINITY});
    }
    if (!strcmp(way, "append")) return fdopen(fd, "a") ? 0 : -1;
    if (!strcmp(way, "reopen")) return freopen(NULL, "a", fdopen(fd, "r+")) ? 0 : -1;
    if (!strcmp(way, "stream-read")) {
        FILE *stream = fdopen(dup(fd), "r+");
        return fseek(stream, 0, SEEK_SET) == 0 && fgetc(stream) != EOF ? 0 : -1;
    }
    if (!strcmp(way, "stream-put")) {
        FILE *stream = fdopen(dup(fd), "r+");
        return fseek(stream, 0, SEEK_SET) == 0 && fputc('0', stream) == '0' && fflush(stream) == 0 ? 0 : -1;
    }
    if (!strcmp(way, "vector-read")) return preadv2(fd, &(struct iovec){&status, 1}, 1, 0, 0);
    if (!strcmp(way, "vector-put")) return pwritev2(fd, &(struct iovec){"0", 1}, 1, 0, 0);
    if (!strcmp(way, "own-put")) return syscall(SYS_pwrite64, fd, "0", 1, 0);
    if (!strcmp(way, "own-read")) return syscall(SYS_readv, fd, &(struct iovec){&status, 1}, 1);
    if (!strcmp(way, "own-read-at")) {
        return syscall(SYS_preadv, fd, &(struct iovec){&status, 1}, 1, (count - 1) * RECORD_BYTES, 0);
    }
    if (!strcmp(way, "sync-all")) return syncfs(fd);
    if (!strcmp(way, "sync-range")) return sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    if (!strcmp(way, "own-sync-all")) return syscall(SYS_syncfs, fd);
    if (!strcmp(way, "own-sync-range")) return syscall(SYS_sync_file_range, fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    if (strstr(way, "-async") || !strcmp(way, "put-list")) return meanwhile(fd, way);
    if (!strcmp(way, "control")) return ioctl(fd, FIONREAD, &left);
    if (!strcmp(way, "clone")) return ioctl(0, FICLONE, fd);
    if (!strcmp(way, "exec-name")) return execlp("nothing-of-this-name", "nothing", (char *)0);
    if (!strcmp(way, "arrived")) return fsync(fd);
    if (!strcmp(way, "locked")) return mlockall(MCL_CURRENT);
    if (!strcmp(way, "rights")) return setgid(1);
    if (!strcmp(way, "exec")) return execl("/nowhere/nothing", "nothing", (char *)0);
    in_child(fd, !strcmp(way, "child"));
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    const char *way = argv[2];
    int is_given = !strcmp(way, "start") || !strcmp(way, "child");
    int fd = is_given ? 1 : open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
    int log = open(argv[3], O_WRONLY | O_CREAT, 0644);
    signal(SIGXFSZ, SIG_IGN);
    long count = RECORDS;
    for (long i = 0; i < count; i++) {
        if (write(fd, record_of(i), RECORD_BYTES) != RECORD_BYTES) say("early\n");
        /* As many again, as the guard has not answered yet. What goes to a shared offset leaves when that is asked for. */
        int is_early = is_given ? i < 2000 : i < 20000 && kernel_position(fd) == lseek(fd, 0, SEEK_CUR);
        if (is_early) count = i + RECORDS;
        if (is_early && i % 10 == 0) usleep(1000);
    }
    step(1, 2);
    errno = 0;
    long answer = call(fd, way, count);
    say("%s %d %d\n", way, answer < 0 ? -1 : 0, answer < 0 ? errno : 0);
    step(3, 4);
    if (!strncmp(way, "stream-", 7)) lseek(fd, 0, SEEK_END);
    errno = 0;
    int is_limit = !strcmp(way, "limit");
    long written = 0;
    while (written < (is_limit ? RECORDS : 1) && write(fd, record_of(count), RECORD_BYTES) == RECORD_BYTES) {
        written++, count++;
    }
    say("written %ld %d\n", written, errno), errno = 0;
    say("sync %d", fsync(fd)), say(" %d\n", errno);
    if (!strcmp(way, "locked") || !strcmp(way, "rights")) {
        char byte;
        int other = dup(fd);
        say("end %d", (int)lseek(fd, 0, SEEK_END)), say(" duplicate %d", (int)write(other, "x", 1));
        say(" close %d", close(fd)), say(" %d", errno);
        errno = 0, fd = open(argv[1], O_RDWR), say(" next %d", (int)read(fd, &byte, 1)), say(" %d\n", errno);
    }
    say("%ld\n", count);
    if (dup2(log, 1) != 1) return 3;
    log_out();
    return 0;
}
