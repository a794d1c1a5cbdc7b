/* Writes a title over the memory of its arguments and its environment, as servers do for `ps`, after it has
 * put the environment elsewhere.
 *   changes  then a child changes a file to which its parent has just written
 *   dies     then it starts a program that writes and dies, and looks at the file */
#include "log.h"
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;
enum { RECORDS = 500, ROUNDS = 10 };

static void set_title(char **words) {
    char *start = words[0], *end = start;
    int count = 0;
    for (int i = 0; words[i] != NULL; i++) end = words[i] + strlen(words[i]);
    for (; environ[count] != NULL; count++) end = environ[count] + strlen(environ[count]);
    char **copy = calloc((size_t)count + 1, sizeof *copy);
    for (int i = 0; i < count; i++) copy[i] = strdup(environ[i]);
    environ = copy;
    memset(start, 0, (size_t)(end - start));
    strcpy(start, "server: idle");
}

/* A process that computes has used so much of a processor: it is known without a word of its own. */
static void wait_until_it_computes(pid_t process) {
    char path[64], text[1024];
    unsigned long ticks = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    while (ticks < 10) {
        int fd = open(path, O_RDONLY);
        ssize_t length = read(fd, text, sizeof text - 1);
        close(fd);
        if (length <= 0) _exit(1);
        text[length] = 0;
        char *fields = strrchr(text, ')');
        const char *form = ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu";
        if (!fields || sscanf(fields, form, &ticks) != 1) _exit(2);
        usleep(1000);
    }
}

static long ms_of(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* For that long, and on a busy machine until it has had its processor for a good part of it: the child waits for that. */
static void compute(void) {
    long begun = ms_of(CLOCK_MONOTONIC), now = begun;
    do {
        for (long from = now; now - from < 20;) now = ms_of(CLOCK_MONOTONIC);
    } while (now - begun < 700 || ms_of(CLOCK_PROCESS_CPUTIME_ID) < 300);
}

static void change(void) {
    pid_t child = fork();
    if (child == 0) {
        wait_until_it_computes(getppid());
        int fd = open("out", O_RDWR);
        if (pwrite(fd, "CHANGED", 7, 6986) != 7 || close(fd) || truncate("out", 6993)) _exit(3);
        _exit(0);
    }
    int fd = file_of_records("out", RECORDS);
    compute();
    say("position %ld\n", (long)lseek(fd, 0, SEEK_CUR));
    close(fd);
    int status = -1;
    waitpid(child, &status, 0);
    struct stat seen = {0};
    stat("out", &seen);
    say("status %d, %ld bytes\n", status, (long)seen.st_size);
}

static void start_and_look(const char *program) {
    int short_files = 0;
    for (int i = 0; i < ROUNDS; i++) {
        char *words[] = {(char *)program, "victim", NULL};
        pid_t child;
        struct stat seen = {0};
        if (posix_spawn(&child, program, NULL, NULL, words, environ)) abort();
        waitpid(child, NULL, 0);
        stat("out", &seen);
        short_files += seen.st_size != RECORDS * 14;
    }
    say("%d of %d files are short\n", short_files, ROUNDS);
}

int main(int count, char **words) {
    char program[4096] = {0};
    if (readlink("/proc/self/exe", program, sizeof program - 1) < 0) return 1;
    int changes = count > 1 && !strcmp(words[1], "changes");
    if (count > 1 && !strcmp(words[1], "victim")) {
        file_of_records("out", RECORDS);
        volatile int *volatile nowhere = NULL;
        *nowhere = 1;
    }
    /* It knows what it shares with others before that. */
    if (changes) close(file_of_records("first", RECORDS));
    set_title(words);
    if (changes) change(); else start_and_look(program);
    log_out();
    return 0;
}
