/* The moment at which the calls of streams begin to be seen, in a program whose other thread is using
 * streams; and where memory may not be made executable, or what was writable not executable. Standard output
 * that is opened anew, streams that only get another mode, what is nothing to write, and records of two parts.
 * Usage: streams_taken confined | threads | nothing | modes | records, or lines with how it ends */
#include "log.h"
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define CHILDREN 400
#define RECORDS 100
#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif

static volatile int started;

/* Small reads: after some of them the file earns a window. */
static long records(const char *name) {
    char bytes[50];
    long total = 0;
    int fd = open(name, O_RDWR);
    for (int i = 0; i < RECORDS; i++) total += read(fd, bytes, sizeof bytes);
    return total + close(fd);
}

/* Each of the functions that libc calls through its tables, for the first time. */
static long every_call(const char *name) {
    char bytes[50];
    long total = 0;
    FILE *stream = fopen(name, "r+");
    setvbuf(stream, NULL, _IONBF, 0);
    total += (long)fread(bytes, 1, sizeof bytes, stream);
    fseek(stream, 200, SEEK_SET);
    total += (long)fwrite(bytes, 1, sizeof bytes, stream);
    fseek(stream, 0, SEEK_END);
    total += ftell(stream);
    return total + fclose(stream);
}

static void *other(void *name) {
    started = 1;
    long total = 0;
    for (int i = 0; i < 20; i++) total += every_call(name);
    return (void *)total;
}

static long threads(void) {
    pthread_t thread;
    void *answer = NULL;
    started = 0;
    if (pthread_create(&thread, NULL, other, "b")) return -1;
    while (!started) {}
    long total = records("a");
    pthread_join(thread, &answer);
    return total + (long)answer;
}

/* Standard output becomes a file: whether it is still written line by line, only an abrupt end shows. */
static int lines(const char *end) {
    if (!freopen("lines", "w", stdout)) return 3;
    for (int i = 0; i < 200; i++) printf("line %d\n", i);
    if (!strcmp(end, "fork")) {
        pid_t child = fork();
        if (child == 0) exit(0);
        waitpid(child, NULL, 0);
        exit(0);
    }
    if (!strcmp(end, "append")) {
        if (!freopen("lines", "a", stdout)) return 3;
        for (int i = 0; i < 200; i++) printf("one more %d\n", i);
    }
    _exit(0);
}

/* A stream gets another mode: what is read or written by another descriptor of its description. */
static void modes(const char *mode, int writes) {
    char one[10], other[10];
    unsigned long hash = 0;
    make_file("x", 60000);
    FILE *stream = fopen("x", "r+");
    int beside = dup(fileno(stream));
    if (!writes) say("got %d ", fgetc(stream));
    else fputs("held", stream);
    if (!freopen(NULL, mode, stream)) say("freopen %d\n", errno);
    int fd = fileno(stream);
    for (int i = 0; i < 1000; i++) {
        if (writes) {
            memset(one, 'A' + i % 26, 10), memset(other, 'a' + i % 26, 10);
            if (write(fd, one, 10) != 10 || write(beside, other, 10) != 10) say("short\n");
            if (i % 100 == 50 && i < 500) usleep(5000);
        } else {
            ssize_t p = read(fd, one, 10), q = read(beside, other, 10);
            hash = hash * 31 + hash_of(one, p > 0 ? (size_t)p : 0);
            hash = hash * 31 + hash_of(other, q > 0 ? (size_t)q : 0);
        }
    }
    say("%s: %lx, at %ld and %ld, ", mode, hash, (long)lseek(fd, 0, SEEK_CUR), (long)lseek(beside, 0, SEEK_CUR));
    say("flags %x %d\n", fcntl(fd, F_GETFL) & ~O_LARGEFILE, fcntl(fd, F_GETFD));
    fputs("at the end", stream);
    fclose(stream);
    close(beside);
    say_file("x");
}

/* Nothing is written to standard error, which is closed, or open for reading. */
static void nothing(void) {
    close(2);
    for (int round = 0; round < 2; round++) {
        errno = 0;
        int answer = fprintf(stderr, "%s", "");
        say("%d %d %d\n", answer, answer < 0 ? errno : 0, !!ferror(stderr));
        clearerr(stderr);
        if (round == 0 && open("/dev/null", O_RDONLY) != 2) exit(3);
    }
}

/* Where a line does not fit behind those that the stream holds, or each is written at once, all leave by one call. */
static void append_lines(const char *who, int buffering) {
    FILE *stream = fopen("log", "a");
    setvbuf(stream, NULL, buffering, 1000);
    for (int i = 0; i < 20000; i++) {
        char line[100];
        int len = snprintf(line, sizeof line, "%s %d of %s\n", who, i, who);
        if (buffering == _IOFBF) fwrite(line, 1, (size_t)len, stream);
        else fputs(who, stream), fputs(line + strlen(who), stream);
        if (i == 100) fflush(stream), usleep(20000);
    }
    fclose(stream);
}

/* Two processes append lines to one file: none is torn. */
static void whole_lines(int buffering) {
    char line[200];
    long torn = 0, count = 0;
    pid_t children[2];
    for (int i = 0; i < 2; i++)
        if ((children[i] = fork()) == 0) append_lines(i ? "one" : "another", buffering), _exit(0);
    for (int i = 0; i < 2; i++) waitpid(children[i], NULL, 0);
    FILE *stream = fopen("log", "r");
    while (fgets(line, sizeof line, stream)) {
        char who[50] = "", whom[50] = "", more;
        int i;
        torn += sscanf(line, "%49s %d of %49s%c", who, &i, whom, &more) != 4 || strcmp(who, whom) || more != '\n';
        count++;
    }
    say("%ld lines, %ld torn\n", count, torn);
    fclose(stream);
    unlink("log");
}

int main(int argc, char **argv) {
    if (argc == 3) return lines(argv[2]);
    if (argc != 2) return 2;
    if (!strcmp(argv[1], "nothing")) {
        nothing();
        log_out();
        return 0;
    }
    if (!strcmp(argv[1], "modes")) {
        const char *all[] = {"r+", "r+e", "a+"};
        for (int i = 0; i < 6; i++) modes(all[i / 2], i % 2);
        log_out();
        return 0;
    }
    if (!strcmp(argv[1], "records")) {
        whole_lines(_IOLBF), whole_lines(_IOFBF);
        log_out();
        return 0;
    }
    make_file("a", RECORDS * 60);
    make_file("b", RECORDS * 60);
    if (!strcmp(argv[1], "confined")) {
        /* Where the kernel does not know it (before 6.3) nothing is refused. */
        prctl(PR_SET_MDWE, 1, 0, 0, 0);
        long read = 0;
        for (int i = 0; i < 40; i++) read += records("a");
        say("%ld %ld\n", read, every_call("b"));
        log_out();
        return 0;
    }
    /* No buffer opens in this process, so that each child begins anew. */
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        int status;
        if (child == 0) _exit(threads() == RECORDS * 50 + 20 * (100 + RECORDS * 60) ? 0 : 1);
        if (waitpid(child, &status, 0) != child || status) say("child %d: %x\n", i, status);
    }
    log_out();
    return 0;
}
