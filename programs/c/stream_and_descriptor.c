/* One file through a descriptor and through streams, and files that libc opens by itself: what was
 * written is there, however libc asks.
 * Usage: stream_and_descriptor ends | reads | mapped | own-files | leaves | modes | library */
#define _GNU_SOURCE
#include "log.h"
#include <sys/stat.h>
#include <sys/wait.h>
#include <dlfcn.h>
#include <link.h>
#include <time.h>

#define RECORDS 1500

/* Writes small pieces, with time for anyone who lets them wait from some number on. */
static void write_pieces(int fd, const char *bytes, long total, long each) {
    for (long at = 0, count = 1; at < total; at += each, count++) {
        long len = total - at < each ? total - at : each;
        if (write(fd, bytes + at, (size_t)len) != len) say("short write\n");
        if (count % 100 == 50 && count < 500) usleep(5000);
    }
}

/* Where does a file end that grows through a descriptor? */
static void ends(const char *mode, int by_path) {
    char record[37], piece[20];
    memset(record, 'x', sizeof record);
    int fd = open("grows", O_RDWR | O_CREAT | O_TRUNC, 0644);
    FILE *stream = by_path ? fopen("grows", mode) : fdopen(dup(fd), mode);
    long wrong = 0, size = 0;
    for (int i = 0; i < RECORDS; i++) {
        size += write(fd, record, sizeof record);
        if (i % 100 == 50 && i < 500) usleep(5000);
        if (i % 7) continue;
        if (fseek(stream, 0, SEEK_END)) say("fseek: %d\n", errno);
        wrong += ftell(stream) != size;
        if (by_path) continue;
        size += snprintf(piece, sizeof piece, "TRAILER %d;", i);
        fputs(piece, stream);
        fflush(stream);
    }
    say("%s %d: %ld wrong ends of %ld\n", mode, by_path, wrong, size);
    fclose(stream);
    close(fd);
    say_file("grows");
}

static int lines_left(FILE *stream) {
    char line[100];
    int count = 0;
    clearerr(stream);
    while (fgets(line, sizeof line, stream)) count++;
    return count;
}

/* Streams whose reads are no cancellation points go another way inside libc. */
static void reads(const char *mode) {
    char line[21] = "0123456789012345678\n", many[20 * 610];
    for (int i = 0; i < 610; i++) memcpy(many + i * 20, line, 20);
    int fd = open("lines", O_RDWR | O_CREAT | O_TRUNC, 0644);
    write_pieces(fd, many, sizeof many, 20);
    FILE *stream = fopen("lines", mode);
    say("%s: %d", mode, lines_left(stream));
    write_pieces(fd, many, 53 * 20, 20);
    say(" %d", lines_left(stream));
    stream = freopen("lines", mode, stream);
    write_pieces(fd, many, 50 * 20, 20);
    say(" %d", lines_left(stream));
    write_pieces(fd, many, 50 * 20, 20);
    fseek(stream, 0, SEEK_END);
    say(" %ld\n", ftell(stream));
    fclose(stream);
    close(fd);
}

/* A stream may read from a mapping: what is written by a call shows there at once. */
static void mapped(const char *mode, int by_descriptor) {
    static char bytes[200000];
    memset(bytes, 'a', sizeof bytes);
    int fd = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0644), fresh = 0;
    write_pieces(fd, bytes, sizeof bytes, 100);
    FILE *stream = by_descriptor ? fdopen(open("mapped", O_RDONLY), mode) : fopen("mapped", mode);
    int first = fgetc(stream);
    lseek(fd, 0, SEEK_SET);
    memset(bytes, 'b', sizeof bytes);
    write_pieces(fd, bytes, sizeof bytes - 50, 100);
    for (int i = 1; i < (int)sizeof bytes; i++) fresh += fgetc(stream) == 'b';
    say("%s %d: first %c, then %d new bytes, end %d\n", mode, by_descriptor, first, fresh,
        fgetc(stream));
    fclose(stream);
    close(fd);
}

/* libc opens, reads and closes these itself, while the program has them open and has just written. */
static void own_files(void) {
    static char patterns[20 * 700];
    for (int i = 0; i < 699; i++) memcpy(patterns + i * 20, "%H:%M never matches\n", 20);
    strcpy(patterns + 699 * 20, "%Y-%m-%d\n");
    int fd = open("patterns", O_RDWR | O_CREAT | O_TRUNC, 0644);
    write_pieces(fd, patterns, (long)strlen(patterns), 20);
    setenv("DATEMSK", "patterns", 1);
    struct tm *date = getdate("2020-02-03");
    say("date: %d, %d\n", date ? date->tm_mon : -1, date ? 0 : getdate_err);

    /* The smallest table of a time zone: one kind of time, nine hours east, named EEE. */
    char zone[54] = "TZif";
    zone[39] = 1, zone[43] = 4, zone[46] = 0x7e, zone[47] = (char)0x90;
    memcpy(zone + 50, "EEE", 4);
    int table = open("zone", O_RDWR | O_CREAT | O_TRUNC, 0644);
    lseek(table, sizeof zone, SEEK_SET);
    write_pieces(table, patterns, 600, 1);
    lseek(table, 0, SEEK_SET);
    write_pieces(table, zone, sizeof zone, 2);
    char path[4200] = ":";
    if (!getcwd(path + 1, sizeof path - 10)) return;
    strcat(path, "/zone");
    setenv("TZ", path, 1);
    tzset();
    say("zone: %s %ld\n", tzname[0], timezone);
    close(fd);
    close(table);
}

/* A library that was written here, piece by piece, and is loaded before it is closed. What is written to
 * it later stands in memory at once: that is its file. */
static void library(const char *from) {
    static char bytes[8 << 20];
    int in = open(from, O_RDONLY);
    long len = read(in, bytes, sizeof bytes);
    int fd = open("mine.so", O_RDWR | O_CREAT | O_TRUNC, 0755);
    write_pieces(fd, bytes, len, 100);
    void *mine = dlopen("./mine.so", RTLD_NOW);
    double (*absolute)(double) = mine ? (double (*)(double))dlsym(mine, "fabs") : NULL;
    say("library: %s %g\n", mine ? "loaded" : dlerror(), absolute ? absolute(-3) : 0.0);
    /* Bytes of its head that nobody looks at. */
    enum { UNUSED_AT = 9, UNUSED = 7 };
    struct link_map *map = NULL;
    if (!mine || dlinfo(mine, RTLD_DI_LINKMAP, &map)) exit(3);
    const volatile char *head = (const volatile char *)map->l_addr;
    for (int again = 0; again < 2; again++) {
        long late = 0;
        lseek(fd, 0, SEEK_END), write_pieces(fd, bytes, 60000, 100);
        for (int i = 0; i < 200; i++) {
            char byte = (char)('a' + i % 26);
            lseek(fd, UNUSED_AT + i % UNUSED, SEEK_SET);
            late += write(fd, &byte, 1) != 1 || head[UNUSED_AT + i % UNUSED] != byte;
        }
        say("late in memory: %ld of 200\n", late);
        close(fd), fd = open("mine.so", O_RDWR);
    }
    close(fd);
}

/* What glibc's streams call to reach their file, called by its name. */
static void leaves(void) {
#ifdef __GLIBC__
    extern ssize_t _IO_file_write(FILE *, const void *, ssize_t);
    extern ssize_t _IO_file_read(FILE *, void *, ssize_t);
    extern off_t _IO_file_seek(FILE *, off_t, int);
    extern int _IO_file_stat(FILE *, void *);
    static char many[53 * 200], back[20];
    memset(many, 'm', sizeof many);
    FILE *stream = fopen("leaves", "w+");
    int fd = fileno(stream);
    for (int round = 0; round < 3; round++) {
        struct stat status;
        write_pieces(fd, many, sizeof many, 20);
        say("stat %d,", _IO_file_stat(stream, &status));
        say(" size %ld,", (long)status.st_size);
        write_pieces(fd, many, sizeof many, 20);
        say(" at %ld,", (long)_IO_file_seek(stream, 0, SEEK_CUR));
        write_pieces(fd, many, sizeof many, 20);
        say(" written %zd", _IO_file_write(stream, "the other way\n", 14));
        lseek(fd, -20, SEEK_CUR);
        say(" read %zd:", _IO_file_read(stream, back, 20));
        say(" %.20s", back);
    }
    fclose(stream);
    say_file("leaves");
#endif
}

/* Reads after a word. */
static int inherits(int fd, int word) {
    char byte, record[10];
    int count = 0;
    read(word, &byte, 1);
    while (count < 5 && read(fd, record, sizeof record) > 0) count++;
    return count;
}

/* Whether a stream's descriptor is another program's, too, an "e" in the mode may say; libc looks at the first
 * letters alone, and the name of a character set is another thing. */
static void mode_of(const char *program, const char *mode, int again) {
    char record[10], number[12], number_of_word[12];
    int word[2], status = -1;
    FILE *stream = fopen("in", mode);
    if (again) stream = freopen("in", mode, stream);
    if (pipe(word)) exit(2);
    fcntl(word[1], F_SETFD, FD_CLOEXEC);
    int fd = fileno(stream);
    for (int i = 0; i < 300; i++) read(fd, record, sizeof record);
    snprintf(number, sizeof number, "%d", fd);
    snprintf(number_of_word, sizeof number_of_word, "%d", word[0]);
    pid_t child = vfork();
    if (child == 0) execl(program, program, "inherits", number, number_of_word, NULL), _exit(9);
    for (int i = 0; i < 300; i++) read(fd, record, sizeof record);
    write(word[1], "w", 1);
    waitpid(child, &status, 0);
    say("%s: %d, %x, at %ld\n", mode, fcntl(fd, F_GETFD), status, (long)lseek(fd, 0, SEEK_CUR));
    fclose(stream), close(word[0]), close(word[1]);
}

static void modes(const char *program) {
    const char *all[] = {"r", "re", "rbbbbbe", "rbbbbbbe", "rbbbbbbbe", "r+bbbbbbe", "r,e",
                         "r,ccs=UTF-8", "re,ccs=UTF-8", "r,ccs=UTF-8,e", "r+,ccs=UTF-8"};
    make_file("in", 60000);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int again = 0; again < 2; again++) mode_of(program, all[i], again);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    if (argc > 3) return inherits(atoi(argv[2]), atoi(argv[3]));
    if (!strcmp(argv[1], "ends")) {
        ends("r", 1);
        ends("r+", 0);
        ends("a+", 0);
        ends("r+c", 0);
    } else if (!strcmp(argv[1], "reads")) {
        reads("r");
        reads("rc");
    } else if (!strcmp(argv[1], "mapped")) {
        mapped("rm", 0);
        mapped("rcm", 0);
        mapped("rm", 1);
    } else if (!strcmp(argv[1], "own-files")) {
        own_files();
    } else if (!strcmp(argv[1], "leaves")) {
        leaves();
    } else if (!strcmp(argv[1], "modes")) {
        modes(argv[0]);
    } else {
        struct link_map *map;
        void *libm = dlopen("libm.so.6", RTLD_NOW);
        if (!libm || dlinfo(libm, RTLD_DI_LINKMAP, &map)) return 3;
        library(map->l_name);
    }
    log_out();
    return 0;
}
