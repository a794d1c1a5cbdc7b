/* A file that a server makes while it is read (FUSE, `FOPEN_DIRECT_IO`): each read reaches the server, as it was made.
 *   each FOLDER    each answer says which one it is
 *   steps FOLDER   an answer is given when all that was asked for is there, and the reader says when there is more
 *   cached FOLDER  the kernel keeps the file, so who reads it does not reach the server with each read
 *   records FOLDER what is written to it is as many requests as there were writes; the file may be read, too, or not,
 *                  or is open for appending
 *   few FOLDER     a server that takes few bytes at a time keeps what is written
 *   kept FOLDER    the kernel keeps the file, and drops its pages whenever it hears of another time: whether what is
 *                  written to it is few requests
 * Root can do it. */
#include "log.h"
#include <linux/fuse.h>
#include <poll.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { LITTLE = 500, RECORD = 100, FIRST = 300, RECORDS = 600, MANY = 3000, SIZE = 1 << 20, PAGE = 4096, STILL_SECONDS = 10 };

static int device;
static long answers, there, size, requests;
static const char *way;

static _Noreturn void cannot(const char *what) {
    perror(what);
    _exit(3);
}

static void reply(uint64_t to, int error, const void *with, size_t len) {
    static char text[SIZE];
    struct fuse_out_header head = {sizeof head + len, -error, to};
    memcpy(text, &head, sizeof head);
    if (len) memcpy(text + sizeof head, with, len);
    if (write(device, text, head.len) < 0 && errno != ENOENT) _exit(4);
}

/* A read that waits until all of it is there. */
static struct {
    uint64_t unique;
    long at, len;
} waiting;

static void answer_read(void) {
    static char text[SIZE];
    if (!waiting.unique || (!strcmp(way, "steps") && waiting.at + waiting.len > there)) return;
    memset(text, ' ', (size_t)waiting.len);
    snprintf(text, RECORD, "%ld", strcmp(way, "each") ? waiting.at / RECORD : answers);
    answers++;
    reply(waiting.unique, 0, text, (size_t)waiting.len);
    waiting.unique = 0;
}

static int is_written(void) {
    return !strcmp(way, "records") || !strcmp(way, "few") || !strcmp(way, "kept");
}

static void reply_to(const struct fuse_in_header *to, const void *asked) {
    const struct fuse_read_in *read_in = asked;
    struct fuse_attr file = {.ino = 2, .mode = S_IFREG | 0644, .nlink = 1, .blksize = PAGE, .size = SIZE};
    struct fuse_init_out init = {.major = 7, .minor = 31, .max_write = 131072, .time_gran = 1};
    if (!strcmp(way, "kept")) init.flags = FUSE_AUTO_INVAL_DATA;
    struct fuse_entry_out entry = {.nodeid = 2, .entry_valid = 100, .attr_valid = 100, .attr = file};
    struct fuse_attr_out attr = {.attr_valid = 100, .attr = file};
    int is_kept = strcmp(way, "records") && strcmp(way, "each") && strcmp(way, "steps");
    const struct fuse_write_in *write_in = asked;
    if (is_written()) attr.attr.size = entry.attr.size = size, attr.attr_valid = entry.attr_valid = 0;
    struct fuse_open_out open_out = {.open_flags = is_kept ? 0 : FOPEN_DIRECT_IO};
    struct fuse_statfs_out room = {.st = {.blocks = 1 << 22, .bfree = 1 << 21, .bavail = 1 << 21, .bsize = PAGE}};
    room.st.frsize = PAGE, room.st.namelen = 255;
    switch (to->opcode) {
    case FUSE_INIT: return reply(to->unique, 0, &init, sizeof init);
    case FUSE_LOOKUP:
        return strcmp(asked, "file") ? reply(to->unique, ENOENT, 0, 0) : reply(to->unique, 0, &entry, sizeof entry);
    case FUSE_SETATTR:
    case FUSE_GETATTR:
        /* It was cut. */
        if (to->opcode == FUSE_SETATTR) attr.attr.size = size = requests = 0;
        attr.attr.mtime = requests;
        if (to->nodeid == 1) attr.attr = (struct fuse_attr){.ino = 1, .mode = S_IFDIR | 0755, .nlink = 2};
        return reply(to->unique, 0, &attr, sizeof attr);
    case FUSE_OPEN: return reply(to->unique, 0, &open_out, sizeof open_out);
    case FUSE_READ:
        waiting.unique = to->unique, waiting.at = (long)read_in->offset, waiting.len = read_in->size;
        return answer_read();
    case FUSE_WRITE:
        if (!strcmp(way, "few") && write_in->size > LITTLE) return reply(to->unique, EINVAL, 0, 0);
        requests++, size = (long)(write_in->offset + write_in->size);
        return reply(to->unique, 0, &(struct fuse_write_out){.size = write_in->size}, sizeof(struct fuse_write_out));
    case FUSE_STATFS: return reply(to->unique, 0, &room, sizeof room);
    case FUSE_FLUSH:
    case FUSE_RELEASE: return reply(to->unique, 0, 0, 0);
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT: return;
    default: return reply(to->unique, ENOSYS, 0, 0);
    }
}

/* Standard input says when there is one record more. */
static _Noreturn void serve(void) {
    static struct fuse_in_header request[1 << 16];
    struct pollfd ends[2] = {{device, POLLIN, 0}, {0, POLLIN, 0}};
    char more;
    for (there = FIRST * RECORD;;) {
        poll(ends, 2, -1);
        if (ends[1].revents) {
            if (read(0, &more, 1) != 1) _exit(0);
            there += RECORD;
            answer_read();
        }
        if (ends[0].revents & POLLIN && read(device, request, sizeof request) > 0) reply_to(request, request + 1);
        if (ends[0].revents & POLLERR) _exit(0);
    }
}

static void mount_on(const char *folder) {
    char options[128];
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
    if (device < 0 || mount("own", folder, "fuse", 0, options)) cannot("fuse");
}

static pid_t server;

/* Ends the server if the reader stands still: it might wait for good, and no signal would reach it. */
static void be_watched(void) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) cannot("pipe");
    if (fork()) {
        close(ends[0]);
        return;
    }
    close(ends[1]);
    struct pollfd end = {ends[0], POLLIN, 0};
    if (poll(&end, 1, STILL_SECONDS * 1000) == 0) kill(server, SIGKILL);
    _exit(0);
}

static void write_records(const char *path, int flags) {
    char record[RECORD] = "";
    struct stat status;
    int fd = open(path, flags | O_TRUNC), wrong = 0;
    for (int i = 0; i < MANY; i++) {
        wrong += write(fd, record, RECORD) != RECORD;
        if (i < MANY / 2) give_time(fd);
    }
    say("%d wrong, close %d", wrong, close(fd));
    stat(path, &status);
    say(", %ld bytes", (long)status.st_size);
    /* Where the kernel keeps the file, how many there were nobody is to know. */
    if (!strcmp(way, "records")) say(" in %ld requests", (long)status.st_mtime);
    if (!strcmp(way, "kept")) say(" in %s requests", status.st_mtime < MANY / 2 ? "few" : "many");
    say("\n");
}

int main(int count, char **words) {
    if (count < 3) return 2;
    char path[4096], record[RECORD];
    int ends[2], fd;
    way = words[1];
    if (count > 3) mount_on(words[2]), serve();
    mkdir(words[2], 0700);
    snprintf(path, sizeof path, "%s/file", words[2]);
    if (pipe(ends)) cannot("pipe");
    server = fork();
    if (server == 0) {
        dup2(ends[0], 0), close(ends[0]), close(ends[1]);
        execle("/proc/self/exe", "direct", way, words[2], "serve", NULL, (char *[]){"SWEETSPOT=off", NULL});
    }
    close(ends[0]);
    be_watched();
    while ((fd = open(path, O_RDONLY)) < 0 && waitpid(server, NULL, WNOHANG) == 0) usleep(1000);
    if (fd < 0) cannot(path);
    if (is_written()) write_records(path, O_WRONLY), write_records(path, O_RDWR), write_records(path, O_WRONLY | O_APPEND);
    long first = -1, last = 0;
    for (int i = 0; !is_written() && i < RECORDS; i++) {
        if (i >= FIRST && write(ends[1], "", 1) != 1) break;
        if (read(fd, record, RECORD) != RECORD) {
            say("no answer to read %d\n", i);
            break;
        }
        last = atol(record);
        if (first < 0) first = last;
    }
    /* Where the kernel keeps the file, most records were asked for with others. */
    if (strcmp(way, "cached")) say("%ld answers\n", last - first + 1);
    say("done\n");
    close(fd);
    umount2(words[2], MNT_DETACH);
    kill(server, SIGKILL), waitpid(server, NULL, 0);
    log_out();
    return 0;
}
