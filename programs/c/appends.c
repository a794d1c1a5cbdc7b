/* Appending: each record stays whole, what others append is never overwritten, and position, size
 * and reads are exact while appended bytes wait.
 * Usage: appends position|beside|flags|family */
#include "log.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

static char record[64];
/* volatile, so that no compiler knows that nothing can be there. */
static void *volatile not_ours = (void *)8;

/* Appends so many numbered records, few enough that some wait at the end. */
static void append(int fd, int count, char who) {
    for (int i = 0; i < count; i++) {
        memset(record, who, sizeof record);
        int n = snprintf(record, sizeof record, "%c%06d", who, i);
        record[n] = ' ';
        record[sizeof record - 1] = '\n';
        if (write(fd, record, sizeof record) != sizeof record) say("append errno %d\n", errno);
    }
}

static void look(int fd, const char *when) {
    char bytes[200];
    struct stat data;
    say("%s: at %ld, ", when, (long)lseek(fd, 0, SEEK_CUR));
    say("end %ld, ", (long)lseek(fd, 0, SEEK_END));
    say("size %ld, ", fstat(fd, &data) ? -1 : (long)data.st_size);
    memset(bytes, 0, sizeof bytes);
    long n = pread(fd, bytes, 100, data.st_size - 100);
    say("pread %ld %.63s|, ", n, bytes);
    say("read %ld, ", (long)read(fd, bytes, sizeof bytes));
    say("back %ld, ", (long)lseek(fd, -200, SEEK_CUR));
    n = read(fd, bytes, 64);
    say("read %ld %016lx\n", n, hash_of(bytes, n > 0 ? (size_t)n : 0));
}

/* Each question alone with bytes that wait. */
static void position(void) {
    struct stat data;
    char bytes[200];
    int fd = open("one", O_RDWR | O_CREAT | O_APPEND, 0644);
    append(fd, 300, 'a');
    say("%ld\n", (long)lseek(fd, 0, SEEK_CUR));
    append(fd, 30, 'b');
    say("%ld\n", (long)lseek(fd, 0, SEEK_END));
    append(fd, 30, 'c');
    say("%d ", fstat(fd, &data));
    say("%ld\n", (long)data.st_size);
    append(fd, 30, 'd');
    say("read %ld\n", (long)read(fd, bytes, 10));
    append(fd, 30, 'e');
    ssize_t got = pread(fd, bytes, 200, 24000);
    say("pread %ld %016lx\n", (long)got, got > 0 ? hash_of(bytes, (size_t)got) : 0);
    append(fd, 300, 'f');
    say("%ld\n", (long)lseek(fd, 100, SEEK_SET));
    /* The position moves to the end with the next append. */
    append(fd, 1, 'g');
    say("%ld\n", (long)lseek(fd, 0, SEEK_CUR));
    append(fd, 30, 'h');
    say("%ld\n", (long)lseek(fd, -10, SEEK_CUR));
    say("read %ld\n", (long)read(fd, bytes, 200));
    append(fd, 300, 'i');
    look(fd, "all");
    append(fd, 100, 'j');
    say("close %d\n", close(fd));
    say_file("one");
}

/* A second description and a plain one of the same file. */
static void beside(void) {
    int fd = open("one", O_WRONLY | O_CREAT | O_APPEND, 0644);
    int other = open("one", O_WRONLY | O_APPEND), plain = open("one", O_RDWR);
    append(fd, 300, 'a');
    append(other, 2, 'b');
    append(fd, 30, 'c');
    append(other, 300, 'd');
    append(fd, 30, 'e');
    say("plain: %ld\n", (long)lseek(plain, 0, SEEK_END));
    append(fd, 30, 'f');
    /* At its own position, which is no longer the end. */
    append(plain, 30, 'p');
    append(fd, 30, 'g');
    look(plain, "plain");
    int twin = dup(fd);
    append(fd, 30, 'h');
    append(twin, 30, 'i');
    append(fd, 30, 'j');
    say("twin: %ld %ld\n", (long)lseek(twin, 0, SEEK_CUR), (long)lseek(fd, 0, SEEK_CUR));
    close(fd);
    append(twin, 300, 'k');
    close(twin);
    close(other);
    close(plain);
    say_file("one");
}

/* Append mode that comes and goes, and writes that are no plain ones. */
static void flags(void) {
    char bytes[100];
    memset(bytes, '#', sizeof bytes);
    struct iovec parts[2] = {{bytes, 7}, {bytes + 7, 30}};
    int fd = open("one", O_RDWR | O_CREAT, 0644);
    append(fd, 300, 'a');
    say("%d\n", fcntl(fd, F_SETFL, O_APPEND));
    lseek(fd, 10, SEEK_SET);
    append(fd, 300, 'b');
    say("%d ", fcntl(fd, F_SETFL, 0));
    say("at %ld\n", (long)lseek(fd, 0, SEEK_CUR));
    lseek(fd, 10, SEEK_SET);
    append(fd, 300, 'c');
    say("%d\n", fcntl(fd, F_SETFL, O_APPEND));
    append(fd, 300, 'd');
    say("pwrite %ld\n", (long)pwrite(fd, bytes, 100, 5));
    say("at %ld\n", (long)lseek(fd, 0, SEEK_CUR));
    append(fd, 30, 'e');
    say("writev %ld\n", (long)writev(fd, parts, 2));
    append(fd, 30, 'f');
    say("pwritev %ld\n", (long)pwritev(fd, parts, 2, 3));
    append(fd, 30, 'g');
    say("nothing %ld, large ", (long)write(fd, bytes, 0));
    static char large[300000];
    memset(large, '+', sizeof large);
    say("%ld\n", (long)write(fd, large, sizeof large));
    append(fd, 300, 'h');
    say("%d\n", ftruncate(fd, 5000));
    append(fd, 300, 'i');
    errno = 0;
    ssize_t put = write(fd, not_ours, 9);
    say("bad address %ld errno %d\n", (long)put, errno);
    append(fd, 30, 'j');
    /* Small reads earn a window; the next append ends it. */
    lseek(fd, 0, SEEK_SET);
    long sum = 0;
    for (int i = 0; i < 300; i++) sum += read(fd, bytes, 50);
    append(fd, 300, 'k');
    say("read %ld, at %ld\n", sum, (long)lseek(fd, 0, SEEK_CUR));
    close(fd);
    say_file("one");
}

/* Four processes append to one file, each by a description of its own, and one by a shared one. */
static void family(void) {
    int shared = open("one", O_WRONLY | O_CREAT | O_APPEND, 0644);
    append(shared, 200, 'p');
    for (int child = 0; child < 4; child++) {
        if (fork()) continue;
        int fd = open("one", O_WRONLY | O_APPEND);
        append(fd, 3000, (char)('a' + child));
        append(shared, 200, (char)('A' + child));
        close(fd);
        _exit(0);
    }
    append(shared, 200, 'q');
    while (wait(NULL) > 0) {}
    append(shared, 200, 'r');
    close(shared);
    /* Which comes first differs; each one's records are whole and in order. */
    FILE *all = fopen("one", "r");
    char line[100];
    long count = 0, wrong = 0, next[256] = {0};
    while (fgets(line, sizeof line, all)) {
        unsigned char who = (unsigned char)line[0];
        if (strlen(line) != sizeof record || atol(line + 1) != next[who]++) wrong++;
        count++;
    }
    fclose(all);
    say("%ld records, %ld wrong\n", count, wrong);
    unlink("one");
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    if (!strcmp(argv[1], "position")) position();
    else if (!strcmp(argv[1], "beside")) beside();
    else if (!strcmp(argv[1], "flags")) flags();
    else if (!strcmp(argv[1], "family")) family();
    else return 2;
    log_out();
    return 0;
}
