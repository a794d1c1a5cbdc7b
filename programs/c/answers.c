/* A program of which one thread answers for what another one does: what that does waits for the answer.
 *   fuse FOLDER         it serves a file system there, which it uses itself
 *   served FOLDER       a child serves one, and changes another file at each write
 *   small FOLDER        a child serves a small one, which likes to be written by much at a time
 *   freeze FOLDER       it freezes the file system there, and thaws it
 *   shutdown FOLDER     it shuts the file system there down, on which a child writes, too
 *   fanotify FOLDER     it is asked whether a file may be read
 *   userfaultfd FOLDER  it brings the memory into which a file is read
 * Another process ends it if it stands still. Root can do all of it. */
#include "log.h"
#include <linux/fuse.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0)
#endif

enum { RECORD = 100, RECORDS = 3000, LARGE = 20000000, PAGE = 4096, STILL_MS = 10000 };

static char record[RECORD];
static char content[1 << 20];

static _Noreturn void cannot(const char *what) {
    perror(what);
    _exit(3);
}

/* Ends this process if it stands still, and what it waits for: the file system in that folder is given up, or thawed by
 * a descriptor. */
static void be_watched(const char *folder, int frozen) {
    int ends[2];
    pid_t watched = getpid();
    if (pipe2(ends, O_CLOEXEC)) cannot("pipe");
    if (fork()) {
        close(ends[0]);
        return;
    }
    close(ends[1]);
    struct pollfd end = {ends[0], POLLIN, 0};
    if (poll(&end, 1, STILL_MS) == 0) {
        kill(watched, SIGKILL);
        if (frozen >= 0) ioctl(frozen, FITHAW, 0);
        umount2(folder, MNT_FORCE);
    }
    _exit(0);
}

static void beside(void *(*what)(void *), void *with) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, what, with)) cannot("thread");
}

static void spin(int us) {
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do clock_gettime(CLOCK_MONOTONIC, &to);
    while ((to.tv_sec - from.tv_sec) * 1000000 + (to.tv_nsec - from.tv_nsec) / 1000 < us);
}

static int opened(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) cannot(path);
    return fd;
}

/* Writes records, until writes wait if they can, and reads them. */
static void use(int fd) {
    for (int i = 0; i < RECORDS; i++) {
        if (i > 65 && i < 200) give_time(fd);
        if (write(fd, record, RECORD) != RECORD) say("short write\n");
    }
    lseek(fd, 0, SEEK_SET);
    char read_back[RECORD];
    for (int i = 0; i < RECORDS; i++)
        if (read(fd, read_back, RECORD) != RECORD || memcmp(read_back, record, RECORD)) say("record %d\n", i);
}

/* Lets records wait, and reads so much elsewhere in the same file. */
static void write_and_read(int fd, char *into, size_t len) {
    for (int i = 0; i < 30; i++) {
        lseek(fd, i * 1000, SEEK_SET);
        for (int k = 0; k < 5; k++)
            if (write(fd, record, RECORD) != RECORD) say("short write\n");
        spin(2000);
        lseek(fd, 10000000 + i * 150000, SEEK_SET);
        for (int k = 0; k < 3; k++)
            if (read(fd, into, len) != (ssize_t)len) say("short read\n");
    }
}

static int device, changes = -1;
/* Bytes that a small file system has; 0: nobody counts. */
static unsigned long long small_bytes;
static struct fuse_attr attributes = {.ino = 2, .mode = S_IFREG | 0644, .nlink = 1, .blksize = PAGE};

static void reply(const struct fuse_in_header *to, int error, const void *with, size_t len) {
    static char text[1 << 20];
    struct fuse_out_header head = {sizeof head + len, -error, to->unique};
    memcpy(text, &head, sizeof head);
    if (len) memcpy(text + sizeof head, with, len);
    if (write(device, text, head.len) < 0 && errno != ENOENT) _exit(4);
}

static void reply_to(const struct fuse_in_header *to, const void *asked) {
    const struct fuse_read_in *read_in = asked;
    const struct fuse_write_in *write_in = asked;
    struct fuse_init_out init = {.major = 7, .minor = 31, .max_write = 131072, .time_gran = 1};
    struct fuse_entry_out entry = {.nodeid = 2, .entry_valid = 100, .attr = attributes};
    struct fuse_attr_out attr = {.attr = attributes};
    struct fuse_open_out open_out = {0};
    struct fuse_write_out write_out = {0};
    struct fuse_statfs_out room = {.st = {.blocks = 1 << 22, .bfree = 1 << 21, .bavail = 1 << 21, .bsize = PAGE}};
    room.st.frsize = PAGE, room.st.namelen = 255;
    if (small_bytes) {
        room.st.bsize = 1 << 20, room.st.blocks = small_bytes / PAGE;
        room.st.bfree = room.st.bavail = (small_bytes - attributes.size) / PAGE;
    }
    switch (to->opcode) {
    case FUSE_INIT: return reply(to, 0, &init, sizeof init);
    case FUSE_LOOKUP: return strcmp(asked, "file") ? reply(to, ENOENT, 0, 0) : reply(to, 0, &entry, sizeof entry);
    case FUSE_GETATTR:
    case FUSE_SETATTR:
        if (to->nodeid == 1) attr.attr = (struct fuse_attr){.ino = 1, .mode = S_IFDIR | 0755, .nlink = 2};
        return reply(to, 0, &attr, sizeof attr);
    case FUSE_OPEN: return reply(to, 0, &open_out, sizeof open_out);
    case FUSE_READ: return reply(to, 0, content + read_in->offset, read_in->size);
    case FUSE_WRITE:
        if (changes >= 0 && pwrite(changes, write_in + 1, 1, 100) != 1) _exit(5);
        if (small_bytes && write_in->offset + write_in->size > small_bytes) return reply(to, ENOSPC, 0, 0);
        if (!small_bytes) memcpy(content + write_in->offset, write_in + 1, write_in->size);
        if (attributes.size < write_in->offset + write_in->size) attributes.size = write_in->offset + write_in->size;
        write_out.size = write_in->size;
        return reply(to, 0, &write_out, sizeof write_out);
    case FUSE_STATFS: return reply(to, 0, &room, sizeof room);
    case FUSE_FLUSH:
    case FUSE_RELEASE:
    case FUSE_FSYNC: return reply(to, 0, 0, 0);
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT: return;
    default: return reply(to, ENOSYS, 0, 0);
    }
}

static void *serve(void *unused) {
    static struct fuse_in_header request[1 << 16];
    for (;;)
        if (read(device, request, sizeof request) > 0) reply_to(request, request + 1);
    return unused;
}

static void mount_on(const char *folder) {
    char options[128];
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
    if (device < 0 || mount("own", folder, "fuse", 0, options)) cannot("fuse");
}

static void serve_and_use(const char *folder, const char *path) {
    mount_on(folder);
    beside(serve, NULL);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) cannot(path);
    use(fd);
    fsync(fd);
    say("%llu bytes\n", (unsigned long long)attributes.size);
    close(fd);
    umount2(folder, MNT_DETACH);
}

/* A process of somebody else, which tells nobody what it does, and its file. */
static pid_t begin_server(const char *way, const char *folder, const char *path, int *file) {
    pid_t server = fork();
    if (server == 0) execle("/proc/self/exe", "answers", way, folder, NULL, (char *[]){"SWEETSPOT=off", NULL});
    while ((*file = open(path, O_WRONLY)) < 0 && waitpid(server, NULL, WNOHANG) == 0) usleep(1000);
    return server;
}

static void fill_up(const char *folder, const char *path) {
    int fd, written = 0, last;
    pid_t server = begin_server("small-server", folder, path, &fd);
    while ((last = (int)write(fd, content, 1000)) == 1000) written++;
    say("%d written, then %d; close: %d\n", written, last, close(fd));
    kill(server, SIGKILL), waitpid(server, NULL, 0);
    umount2(folder, MNT_DETACH);
}

static void be_served(const char *folder, const char *path) {
    enum { ROUNDS = 5 }; /* Too few for any to wait. */
    char byte;
    int asks, old = 0;
    make_file("data", 100000);
    pid_t server = begin_server("server", folder, path, &asks);
    int data = open("data", O_RDONLY);
    /* With two numbers it is known from the first write on. */
    if (dup(asks) < 0) cannot(path);
    for (int i = 0; i < 300; i++) read(data, &byte, 1);
    for (int round = 0; round < ROUNDS; round++) {
        char asked = (char)('a' + round % 26);
        pread(data, &byte, 1, 50), write(asks, &asked, 1), pread(data, &byte, 1, 100);
        old += byte != asked;
    }
    say("%d of %d times old\n", old, ROUNDS);
    kill(server, SIGKILL), waitpid(server, NULL, 0);
    umount2(folder, MNT_DETACH);
}

static volatile int is_frozen_next, is_over;

static void *append(void *path) {
    int fd = opened(path);
    for (int i = 0; !is_over; i++) {
        if (write(fd, record, RECORD) != RECORD) say("short write\n");
        if (i > 65 && i < 200) give_time(fd);
        is_frozen_next = i > RECORDS;
        spin(20);
    }
    is_over = close(fd) ? -1 : 2;
    return NULL;
}

/* Mounts a file system of its own. */
static int make_and_mount(const char *folder) {
    char make[256];
    snprintf(make, sizeof make, "truncate -s 400M image && mkfs.ext4 -q -F image && mount -o loop image %s", folder);
    if (system(make)) cannot(make);
    return open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void freeze_and_thaw(const char *folder, char *path) {
    int top = make_and_mount(folder);
    be_watched(folder, top);
    beside(append, path);
    while (!is_frozen_next) usleep(1000);
    if (ioctl(top, FIFREEZE, 0)) cannot("freeze");
    for (int i = 0; i < 30; i++) {
        int fd = opened("other");
        if (write(fd, record, RECORD) != RECORD) say("short write\n");
        close(fd);
        spin(4000);
    }
    if (ioctl(top, FITHAW, 0)) cannot("thaw");
    is_over = 1;
    while (is_over == 1) usleep(1000);
    say("close: %d\n", is_over == 2);
    close(top);
    umount2(folder, MNT_DETACH);
    remove("image");
}

/* How many writes a file takes. */
static int taken(int fd) {
    int writes = 0;
    for (int i = 0; i < 100; i++) writes += write(fd, record, RECORD) == RECORD;
    return writes;
}

static void shut_down(const char *folder, const char *path) {
    int top = make_and_mount(folder), words[2], told, flags = 2;
    char word, theirs[256];
    snprintf(theirs, sizeof theirs, "%s/theirs", folder);
    if (pipe(words)) cannot("pipe");
    pid_t child = fork();
    int fd = opened(child ? path : theirs);
    for (int i = 0; i < 3; i++) use(fd);
    if (child == 0) {
        told = read(words[0], &word, 1) == 1;
        say("told: %d, writes that a child's file takes: %d\n", told, taken(fd));
        log_out();
        _exit(0);
    }
    usleep(200000);
    /* FS_IOC_SHUTDOWN, without a write of the journal. */
    if (ioctl(top, _IOR('X', 125, __u32), &flags)) cannot("shutdown");
    say("writes that a file takes: %d\n", taken(fd));
    log_out();
    if (write(words[1], "", 1) != 1 || waitpid(child, NULL, 0) != child) cannot("child");
    close(fd), close(top);
    umount2(folder, MNT_DETACH);
    remove("image");
}

static void *allow(void *group) {
    int fd = *(int *)group;
    struct fanotify_event_metadata events[8], *event;
    for (;;) {
        ssize_t len = read(fd, events, sizeof events);
        for (event = events; FAN_EVENT_OK(event, len); event = FAN_EVENT_NEXT(event, len)) {
            struct fanotify_response answer = {event->fd, FAN_ALLOW};
            if (write(fd, &answer, sizeof answer) < 0) _exit(4);
            close(event->fd);
        }
    }
    return NULL;
}

static int large_file(const char *path) {
    int fd = opened(path);
    for (int i = 0; i < LARGE; i += sizeof content)
        if (write(fd, content, sizeof content) != sizeof content) say("short write\n");
    lseek(fd, 0, SEEK_SET);
    return fd;
}

static void ask_and_answer(const char *path) {
    static int group;
    group = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, O_RDONLY | O_CLOEXEC);
    close(opened(path));
    if (group < 0 || fanotify_mark(group, FAN_MARK_ADD, FAN_ACCESS_PERM, AT_FDCWD, path)) cannot("fanotify");
    beside(allow, &group);
    int fd = large_file(path);
    use(fd);
    write_and_read(fd, content, RECORD);
    close(fd);
}

static void *bring(void *faults) {
    static char page[PAGE];
    for (struct uffd_msg fault;;) {
        if (read(*(int *)faults, &fault, sizeof fault) != sizeof fault) continue;
        struct uffdio_copy copy = {.dst = fault.arg.pagefault.address & -(unsigned long)PAGE,
                                   .src = (unsigned long)page, .len = PAGE};
        ioctl(*(int *)faults, UFFDIO_COPY, &copy);
    }
    return NULL;
}

static void read_into_what_is_brought(const char *path) {
    enum { BYTES = 200 * PAGE };
    static int faults;
    struct uffdio_api api = {.api = UFFD_API};
    faults = ioctl(open("/dev/userfaultfd", O_RDWR | O_CLOEXEC), USERFAULTFD_IOC_NEW, O_CLOEXEC);
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register all = {.range = {(unsigned long)memory, BYTES}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api) || ioctl(faults, UFFDIO_REGISTER, &all)) cannot("userfaultfd");
    beside(bring, &faults);
    int fd = large_file(path);
    use(fd);
    write_and_read(fd, memory, BYTES / 4);
    madvise(memory, BYTES, MADV_DONTNEED);
    write_and_read(fd, memory, BYTES / 2);
    close(fd);
}

int main(int count, char **words) {
    if (count < 3) return 2;
    char path[4096];
    if (!strcmp(words[1], "small-server")) small_bytes = 20 << 20, mount_on(words[2]), serve(NULL);
    if (!strcmp(words[1], "server")) mount_on(words[2]), changes = open("data", O_WRONLY), serve(NULL);
    snprintf(path, sizeof path, "%s/file", words[2]);
    memset(record, 'x', RECORD);
    mkdir(words[2], 0700);
    if (!strcmp(words[1], "freeze")) {
        freeze_and_thaw(words[2], path);
    } else if (!strcmp(words[1], "shutdown")) {
        shut_down(words[2], path);
    } else if (!strcmp(words[1], "small")) {
        fill_up(words[2], path);
    } else if (!strcmp(words[1], "served")) {
        be_served(words[2], path);
    } else {
        be_watched(words[2], -1);
        if (!strcmp(words[1], "fuse")) serve_and_use(words[2], path);
        if (!strcmp(words[1], "fanotify")) ask_and_answer(path);
        if (!strcmp(words[1], "userfaultfd")) read_into_what_is_brought(path);
    }
    say("done\n");
    log_out();
    _exit(0);
}
