/* The child of a vfork runs in its parent's memory, also in a process that is not buffered any more. It says what a
 * signal does ("fault"), becomes another group ("group"), or both: that is its own affair. Its parent catches its
 * next fault, and has all that another program wrote before that was killed. */
#include "log.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { RECORD = 16, RECORDS = 3000, TURNS = 6 };

static sigjmp_buf back;

static void caught(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

static volatile char *nowhere;

static void fault(void) {
    if (sigsetjmp(back, 1)) say("caught\n");
    else *nowhere = 1, say("no fault\n");
}

static void end_buffering(void) {
    char record[RECORD];
    int fd = open("shared", O_RDWR | O_CREAT | O_TRUNC, 0644);
    memset(record, 'r', RECORD);
    for (int i = 0; i < RECORDS; i++) write(fd, record, RECORD);
    lseek(fd, 0, SEEK_SET);
    for (int i = 0; i < RECORDS; i++) read(fd, record, RECORD);
    if (mmap(NULL, RECORD, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED) exit(4);
}

static void in_child(const char *way) {
    pid_t child = vfork();
    if (child == 0) {
        if (strcmp(way, "group")) signal(SIGSEGV, SIG_DFL);
        if (strcmp(way, "fault") && setgid(getgid())) _exit(5);
        _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status) say("the child: %x\n", status);
}

/* Another program writes and is killed: a process that has waited for it finds all its bytes. */
static int missing(const char *own) {
    pid_t child = fork();
    if (child == 0) {
        execl(own, own, "writes", (char *)0);
        _exit(6);
    }
    int status;
    struct stat written;
    waitpid(child, &status, 0);
    return !WIFSIGNALED(status) || stat("written", &written) || written.st_size != RECORD * RECORDS;
}

static int writes(void) {
    char record[RECORD];
    int fd = open("written", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    memset(record, 'w', RECORD);
    for (int i = 0; i < RECORDS; i++) {
        write(fd, record, RECORD);
        if (i < 1000 && i % 10 == 0) give_time(fd);
    }
    raise(SIGKILL);
    return 0;
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "both";
    if (!strcmp(way, "writes")) return writes();
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = caught;
    sigaction(SIGSEGV, &action, NULL);
    end_buffering();
    in_child(way);
    fault();
    int wrong = 0;
    for (int i = 0; i < TURNS; i++) wrong += missing(arguments[0]);
    say("%s: %d missing\n", way, wrong);
    log_out();
    return 0;
}
