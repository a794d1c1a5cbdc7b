/* Records are written far behind the end of a file, and what lies between is read before they leave: by reads,
 * positioned reads, vectors and streams, within the gap, across its beginning and across its end. */
#include "log.h"
#include <sys/stat.h>
#include <sys/uio.h>

enum { LENGTH = 20000, RECORD = 10, RECORDS = 40 };

static char seen[300000];

static void told(const char *what, ssize_t n) {
    say("  %s: %zd %d %lx\n", what, n, n < 0 ? errno : 0, n > 0 ? hash_of(seen, (size_t)n) : 0);
}

static void write_records(int fd, long count, char with) {
    char record[RECORD];
    memset(record, with, RECORD);
    for (long i = 0; i < count; i++)
        if (write(fd, record, RECORD) != RECORD) say("short\n");
}

static void look(int fd, int way, long at, size_t length) {
    memset(seen, '?', length);
    struct iovec parts[] = {{seen, length / 3}, {seen + length / 3, length - length / 3}};
    if (way == 0) told("pread", pread(fd, seen, length, at));
    if (way == 1) told("preadv", preadv(fd, parts, 2, at));
    if (way < 2) return;
    lseek(fd, at, SEEK_SET);
    if (way == 2) told("read", read(fd, seen, length));
    if (way == 3) told("readv", readv(fd, parts, 2));
    if (way == 4) {
        FILE *stream = fdopen(dup(fd), "r");
        told("fread", (ssize_t)fread(seen, 1, length, stream));
        fclose(stream);
    }
    say("  then at %ld\n", (long)lseek(fd, 0, SEEK_CUR));
}

/* The file is of `cut` bytes when the records begin to wait `gap` bytes behind its end. */
static void one(long cut, long gap, int way) {
    int fd = open("gaps", O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < 10; i++) write_records(fd, LENGTH / RECORD / 10, 'a'), give_time(fd);
    if (cut < LENGTH && (way % 2 ? ftruncate(fd, cut) : truncate("gaps", cut)) != 0) say("not cut\n");
    long begin = cut + gap;
    const long places[] = {cut, cut + gap / 2, cut - 30, begin - 30, 0};
    for (int i = 0; i < 5; i++) {
        const size_t lengths[] = {20, 60, 700, 150000};
        for (int j = 0; j < 4; j++) {
            /* Each time farther behind what is the end by then. */
            long more = (i * 4 + j) * (gap + RECORDS * RECORD);
            lseek(fd, begin + more, SEEK_SET);
            write_records(fd, RECORDS, 'b');
            look(fd, way, places[i] + more, lengths[j]);
        }
    }
    struct stat of;
    say("%ld %ld %d: %ld\n", cut, gap, way, fstat(fd, &of) ? -1 : (long)of.st_size);
    close(fd);
}

int main(void) {
    for (int way = 0; way < 5; way++) {
        one(LENGTH, 100, way);
        one(LENGTH, 5000, way);
        one(LENGTH / 2, 100000, way);
    }
    say_file("gaps");
    log_out();
    return 0;
}
