/* One file under several descriptions, names and mappings: each sees at once what the others did.
 * Also everything that asks for sizes or moves names while bytes may be pending. */
#include "log.h"
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <aio.h>
#include <dirent.h>

static char bytes[70000];

static void look(int fd, long at, long length) {
    ssize_t n = pread(fd, bytes, (size_t)length, at);
    say("%ld at %ld: %zd %lx\n", length, at, n, n > 0 ? hash_of(bytes, (size_t)n) : 0);
}
static void fill(int fd, int count, char with) {
    char record[12];
    memset(record, with, sizeof record);
    for (int i = 0; i < count; i++)
        if (write(fd, record, sizeof record) != sizeof record) say("short\n");
}
static void drain(int fd, int count) {
    unsigned long hash = 0;
    for (int i = 0; i < count; i++) {
        ssize_t n = read(fd, bytes, 14);
        if (n <= 0) break;
        hash = hash * 31 + hash_of(bytes, (size_t)n);
    }
    say("drained %lx at %ld\n", hash, (long)lseek(fd, 0, SEEK_CUR));
}
static long size_of(const char *name) {
    struct stat data;
    return stat(name, &data) ? -errno : (long)data.st_size;
}

static void two_descriptions(int second_flags) {
    make_file("two", 40000);
    int writer = open("two", O_RDWR), reader = open("two", second_flags);
    for (int round = 0; round < 20; round++) {
        drain(reader, 120);
        fill(writer, 40 + round * 7, (char)('a' + round));
        drain(reader, 100);
        look(reader, (long)lseek(writer, 0, SEEK_CUR) - 30, 60);
        if (round % 4 == 0) lseek(writer, 100 * round, SEEK_SET);
        if (round % 5 == 0) lseek(reader, 300 * round, SEEK_SET);
        if (second_flags != O_RDONLY && round % 3 == 0) fill(reader, 30, (char)('A' + round));
        say("size %ld\n", size_of("two"));
    }
    /* One record each in turns: written by one, read by the other. */
    lseek(writer, 0, SEEK_SET);
    lseek(reader, 0, SEEK_SET);
    for (int i = 0; i < 1500; i++) {
        char record[8], got[8];
        snprintf(record, sizeof record, "%06d", i);
        if (write(writer, record, 7) != 7 || read(reader, got, 7) != 7 || memcmp(record, got, 7))
            say("turn %d: %s %s\n", i, record, got);
    }
    close(writer);
    close(reader);
    say_file("two");
}

/* Appends to one file through three descriptions, whole records each. */
static void appenders(void) {
    unlink("appended");
    int fds[3];
    for (int i = 0; i < 3; i++) fds[i] = open("appended", O_RDWR | O_APPEND | O_CREAT, 0644);
    int plain = open("appended", O_RDWR);
    for (int i = 0; i < 3000; i++) {
        char record[20];
        int length = snprintf(record, sizeof record, "record %d\n", i);
        if (write(fds[(i / 50) % 3], record, (size_t)length) != length) say("short\n");
        if (i % 500 == 0) {
            say("positions %ld %ld %ld size %ld\n", (long)lseek(fds[0], 0, SEEK_CUR),
                (long)lseek(fds[1], 0, SEEK_CUR), (long)lseek(fds[2], 0, SEEK_CUR), size_of("appended"));
            pwrite(plain, "PLAIN", 5, 5 * (i / 500));
            lseek(fds[1], 0, SEEK_SET);
            drain(fds[1], 50);
        }
    }
    pwrite(fds[0], "goes to the end", 15, 0);
    for (int i = 0; i < 3; i++) close(fds[i]);
    close(plain);
    say_file("appended");
}

static void names(void) {
    int fd = open("name", O_RDWR | O_CREAT | O_TRUNC, 0644);
    fill(fd, 300, 'n');
    say("rename %d", rename("name", "renamed"));
    say(" %ld %ld\n", size_of("name"), size_of("renamed"));
    fill(fd, 300, 'r');
    say("link %d", link("renamed", "linked"));
    say(" %ld\n", size_of("linked"));
    fill(fd, 300, 'l');
    int other = open("linked", O_RDONLY);
    drain(other, 2000);
    say("unlink %d", unlink("renamed"));
    say(" %d", unlink("linked"));
    fill(fd, 300, 'u');
    drain(other, 2000);
    struct stat data;
    say(" %d", fstat(fd, &data));
    say(" links %ld size %ld\n", (long)data.st_nlink, (long)data.st_size);
    lseek(fd, 0, SEEK_SET);
    drain(fd, 3000);
    close(fd);
    close(other);
    /* Replace by rename, the way editors save. */
    for (int i = 0; i < 20; i++) {
        fd = open("new", O_WRONLY | O_CREAT | O_EXCL, 0644);
        fill(fd, 200 + i, (char)('a' + i));
        if (i % 2) say("close %d\n", close(fd));
        say("rename %d", rename("new", "saved"));
        say(" %ld\n", size_of("saved"));
        if (i % 2 == 0) {
            fill(fd, 3, '!');
            say("size %ld", size_of("saved"));
            say(" close %d\n", close(fd));
        }
    }
    mkdir("folder", 0755);
    fd = open("folder/inside", O_WRONLY | O_CREAT, 0644);
    fill(fd, 300, 'i');
    say("rename folder %d", rename("folder", "moved"));
    fill(fd, 300, 'j');
    DIR *folder = opendir("moved");
    struct dirent *entry;
    while ((entry = readdir(folder)))
        if (entry->d_name[0] != '.') say(" %s", entry->d_name);
    closedir(folder);
    say(" %ld", size_of("moved/inside"));
    say(" access %d", access("moved/inside", W_OK));
    say(" remove %d\n", remove("moved/inside"));
    close(fd);
    fd = open("swapped", O_RDWR | O_CREAT, 0644);
    fill(fd, 250, 's');
    say("exchange %d", renameat2(AT_FDCWD, "swapped", AT_FDCWD, "saved", RENAME_EXCHANGE));
    fill(fd, 250, 't');
    say(" %ld %ld\n", size_of("swapped"), size_of("saved"));
    close(fd);
}

static void mappings(void) {
    make_file("mapped", 16384);
    int fd = open("mapped", O_RDWR);
    drain(fd, 200);
    fill(fd, 200, 'w');
    char *view = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    say("mapped %lx\n", hash_of(view, 16384));
    for (int i = 0; i < 300; i++) {
        view[i * 13] = '*';
        look(fd, i * 13 - (i > 0), 3);
        lseek(fd, i * 17 % 9000, SEEK_SET);
        char record[9];
        if (read(fd, record, 9) != 9) say("short\n");
        if (write(fd, "written", 7) != 7) say("short\n");
        if (memcmp(view + lseek(fd, 0, SEEK_CUR) - 7, "written", 7)) say("not seen %d\n", i);
    }
    lseek(fd, 0, SEEK_SET);
    for (int i = 0; i < 500; i++) {
        char byte;
        view[i + 1] = (char)('a' + i % 26);
        if (read(fd, &byte, 1) != 1) break;
        say("%c", byte);
    }
    say("\nmsync %d\n", msync(view, 16384, MS_SYNC));
    close(fd);
    /* The mapping outlives the descriptor; the file is opened again. */
    fd = open("mapped", O_RDWR);
    for (int i = 0; i < 400; i++) {
        char byte;
        view[i] = (char)('A' + i % 26);
        if (read(fd, &byte, 1) != 1 || byte != view[i]) say("stale %d\n", i);
    }
    munmap(view, 16384);
    char *private = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    fill(fd, 300, 'p');
    private[0] = '?';
    say("private %lx\n", hash_of(private + 12000, 4384));
    munmap(private, 16384);
    close(fd);
    /* Written from a mapping of itself. */
    fd = open("mapped", O_RDWR);
    view = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
    for (int i = 0; i < 300; i++) write(fd, view + 4096 + i, 11);
    say("at %ld %lx\n", (long)lseek(fd, 0, SEEK_CUR), hash_of(view, 8192));
    /* Written from a mapping whose file became shorter. */
    make_file("shrinks", 8192);
    int other = open("shrinks", O_RDWR);
    char *gone = mmap(NULL, 8192, PROT_READ, MAP_SHARED, other, 0);
    for (int i = 0; i < 300; i++) write(fd, gone + 4096, 10);
    ftruncate(other, 100);
    errno = 0;
    ssize_t n = write(fd, gone + 4096, 10);
    say("from beyond the end %zd errno %d", n, errno);
    say(" at %ld\n", (long)lseek(fd, 0, SEEK_CUR));
    munmap(gone, 8192);
    close(other);
    close(fd);
    say_file("mapped");
}

/* What is written shows in a mapping at once, and other files go on being buffered. */
static void mapped_to_be_read(int how) {
    make_file("read-only", 16384);
    int fd = open("read-only", O_RDWR);
    for (int i = 0; i < 300; i++) fill(fd, 1, 'm'), give_time(fd);
    char *view = mmap(NULL, 16384, PROT_READ, how, fd, 0);
    say("to be read %lx\n", hash_of(view, 16384));
    for (int i = 0; i < 200; i++) {
        long at = (long)lseek(fd, 0, SEEK_CUR);
        fill(fd, 1, (char)('a' + i % 26));
        if (view[at] != 'a' + i % 26) say("not seen %d\n", i);
    }
    int other = open("read-only", O_RDWR);
    for (int i = 0; i < 100; i++) {
        long at = (long)lseek(fd, 0, SEEK_CUR), at_other = i * 12;
        fill(fd, 1, (char)('a' + i % 26));
        fill(other, 1, (char)('A' + i % 26));
        if (view[at] != 'a' + i % 26 || view[at_other + 11] != 'A' + i % 26) say("not seen %d\n", i);
    }
    munmap(view, 16384);
    close(fd);
    close(other);
    say_file("read-only");
}

static void transfers(void) {
    make_file("source", 50000);
    int in = open("source", O_RDWR), out = open("target", O_RDWR | O_CREAT | O_TRUNC, 0644), pipes[2];
    if (pipe(pipes)) return;
    for (int round = 0; round < 25; round++) {
        off_t at = round * 100, to = round * 333;
        drain(in, 30);
        /* At first what earns a buffer, and the time to get it. */
        for (int i = 0; i < 100 && round < 3; i++) fill(out, 1, 'e'), give_time(out);
        fill(out, 60, (char)('a' + round));
        if (round % 5 == 4) fill(in, 10, '#');
        say("sendfile %zd", sendfile(out, in, NULL, 10));
        say(" %zd", sendfile(out, in, &at, 1000));
        say(" copy %zd", copy_file_range(in, NULL, out, NULL, 77, 0));
        at = 50;
        say(" %zd", copy_file_range(in, &at, out, &to, 500, 0));
        say(" splice %zd", splice(in, NULL, pipes[1], NULL, 123, 0));
        say(" %zd", splice(pipes[0], NULL, out, NULL, 123, 0));
        write(pipes[1], "through a pipe", 14);
        say(" %zd", splice(pipes[0], NULL, out, &to, 14, 0));
        struct iovec part = {bytes, 40};
        say(" vmsplice %zd", vmsplice(pipes[1], &part, 1, 0));
        say(" read %zd\n", read(pipes[0], bytes + 100, 40));
        say("at %ld %ld\n", (long)lseek(in, 0, SEEK_CUR), (long)lseek(out, 0, SEEK_CUR));
    }
    /* Raw system calls beside the library's. */
    for (int i = 0; i < 500; i++) {
        char record[9], direct[9];
        if (read(in, record, 9) != 9) break;
        if (syscall(SYS_read, in, direct, 9) != 9) break;
        if (write(out, record, 9) != 9 || syscall(SYS_write, out, direct, 9) != 9) break;
        if (i % 100 == 0) say("raw at %ld %ld\n", (long)syscall(SYS_lseek, in, 0, SEEK_CUR), (long)lseek(out, 0, SEEK_CUR));
    }
    struct aiocb request = {.aio_fildes = out, .aio_buf = "asynchronous", .aio_nbytes = 12, .aio_offset = 5};
    fill(out, 100, 'y');
    const struct aiocb *list[] = {&request};
    say("aio %d", aio_write(&request));
    while (aio_error(&request) == EINPROGRESS) aio_suspend(list, 1, NULL);
    say(" %zd\n", aio_return(&request));
    look(out, 0, 40);
    fill(out, 100, 'z');
    request = (struct aiocb){.aio_fildes = out, .aio_buf = bytes, .aio_nbytes = 100, .aio_offset = lseek(out, -50, SEEK_CUR)};
    aio_read(&request);
    while (aio_error(&request) == EINPROGRESS) aio_suspend(list, 1, NULL);
    say("aio %zd %.50s\n", aio_return(&request), bytes);
    close(in);
    close(out);
    say_file("target");
}

/* stdio on top, and underneath it the descriptor. */
static void streams(void) {
    static const int modes[] = {_IOFBF, _IOLBF, _IONBF};
    for (int mode = 0; mode < 3; mode++) {
        make_file("stream", 30000);
        FILE *stream = fopen("stream", "r+");
        setvbuf(stream, NULL, modes[mode], mode == 0 ? 0 : 100);
        char line[200];
        for (int i = 0; i < 300; i++) {
            if (!fgets(line, sizeof line, stream)) break;
            if (i % 7 == 0) {
                fseek(stream, 0, SEEK_CUR);
                fprintf(stream, "<%d>", i);
                fflush(stream);
            }
            if (i % 50) continue;
            say("ftell %ld", ftell(stream));
            if (modes[mode] == _IONBF) say(" descriptor %ld", (long)lseek(fileno(stream), 0, SEEK_CUR));
            say(" size %ld\n", size_of("stream"));
        }
        fseek(stream, -100, SEEK_END);
        say("read %zu", fread(bytes, 1, 1000, stream));
        say(" eof %d\n", feof(stream));
        clearerr(stream);
        fseek(stream, 10, SEEK_SET);
        ungetc('U', stream);
        say("%c", fgetc(stream));
        say("%c\n", fgetc(stream));
        rewind(stream);
        for (int i = 0; i < 500; i++) fputc('c', stream);
        fflush(stream);
        look(fileno(stream), 490, 20);
        dprintf(fileno(stream), "by dprintf %d %s %.3f", 42, "text", 1.5);
        fseek(stream, 0, SEEK_END);
        for (int i = 0; i < 500; i++) fputs("end;", stream);
        say("size %ld", size_of("stream"));
        stream = freopen("other", "w", stream);
        say(" after freopen %ld\n", size_of("stream"));
        for (int i = 0; i < 3000; i++) fprintf(stream, "%d\n", i);
        say("fclose %d\n", fclose(stream));
        say_file("stream");
        say_file("other");
        stream = fopen("other", "a+");
        setvbuf(stream, NULL, modes[mode], 64);
        say("ftell %ld", ftell(stream));
        for (int i = 0; i < 300; i++) {
            fprintf(stream, "appended %d\n", i);
            if (i % 60 == 0) {
                fseek(stream, i, SEEK_SET);
                say(" %c", fgetc(stream));
                fseek(stream, 0, SEEK_CUR);
            }
        }
        say(" %ld\n", ftell(stream));
        int fd = dup(fileno(stream));
        fclose(stream);
        fill(fd, 200, 'd');
        close(fd);
        say_file("other");
    }
}

/* Special files look like files: /proc, FIFOs, memory files, directories. */
static void special(void) {
    int fd = memfd_create("memory", 0);
    fill(fd, 300, 'm');
    lseek(fd, 0, SEEK_SET);
    drain(fd, 1000);
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    say("%ld\n", size_of(name));
    char *view = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    fill(fd, 100, 'n');
    view[0] = '!';
    look(fd, 0, 10);
    munmap(view, 4096);
    close(fd);
    mkfifo("fifo", 0644);
    fd = open("fifo", O_RDWR);
    for (int i = 0; i < 300; i++) write(fd, "through", 7);
    for (int i = 0; i < 300; i++) {
        char part[7];
        if (read(fd, part, 7) != 7 || memcmp(part, "through", 7)) say("fifo %d\n", i);
    }
    close(fd);
    unlink("fifo");
    for (int i = 0; i < 300; i++) {
        char byte;
        fd = open("/proc/self/comm", O_RDWR);
        if (read(fd, &byte, 1) != 1) say("comm\n");
        close(fd);
    }
    fd = open("/proc/self/comm", O_RDWR);
    for (int i = 0; i < 200; i++) pwrite(fd, "renamed", 7, 0);
    close(fd);
    fd = open("/proc/self/comm", O_RDONLY);
    memset(bytes, 0, 20);
    for (int i = 0; i < 20; i++)
        if (read(fd, bytes + i, 1) != 1) break;
    say("%s", bytes);
    close(fd);
}

int main(void) {
    two_descriptions(O_RDONLY);
    two_descriptions(O_RDWR);
    appenders();
    names();
    transfers();
    streams();
    mapped_to_be_read(MAP_SHARED);
    mapped_to_be_read(MAP_PRIVATE);
    /* Writable mappings end buffering in the whole process, so they come last. */
    special();
    mappings();
    log_out();
    return 0;
}
