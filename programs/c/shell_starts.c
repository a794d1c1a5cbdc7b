/* What happens to who starts a shell while that runs: a handler reads, one leaves by a jump, one sets a variable,
 * or the thread is cancelled.
 * Usage: shell_starts reads|leaves|sets|cancelled [filter|little]
 * filter: under a seccomp filter that allows all; little: with little room for data. */
#include "log.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

/* Seen from the shell. */
#define AS_LONG_AS_IT_RUNS "while kill -0 $PPID; do sleep 0.1; done > /dev/null 2>&1"
enum { RECORD = 10, AT = 800, BYTES = 4096 };
static int fd;
static sigjmp_buf place;

/* Earns a window, up to the place that changes. */
static char read_up_to_it(void) {
    char record[RECORD];
    lseek(fd, 0, SEEK_SET);
    for (int at = 0; at <= AT; at += RECORD)
        if (read(fd, record, RECORD) != RECORD) _exit(3);
    return record[0];
}
static void reads(int signal) {
    (void)signal;
    close(open("handled", O_WRONLY | O_CREAT, 0644));
    /* Nothing comes after these: no other call is news. */
    for (int pass = 0; pass < 5; pass++) read_up_to_it();
}
static void leaves(int signal) {
    (void)signal;
    siglongjmp(place, 1);
}
static void sets(int signal) {
    (void)signal;
    setenv("SET_BY_A_HANDLER", "1", 1);
}

static void handle(void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
}

/* Nobody else uses that part of the stack any more. */
__attribute__((noinline)) static void use_stack(void) {
    volatile char bytes[200000];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = 'Z';
}

static void *cancelled(void *ready) {
    (void)ready;
    system(": > ready; " AS_LONG_AS_IT_RUNS);
    return NULL;
}

/* System calls until now that read. */
static long calls(void) {
    static char text[4096];
    int io = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
    if (io < 0 || read(io, text, sizeof text - 1) <= 0) exit(4);
    close(io);
    return atol(strstr(text, "syscr:") + 6);
}
static long calls_of_passes(void) {
    long earlier = calls();
    for (int pass = 0; pass < 10; pass++) read_up_to_it();
    return calls() - earlier;
}

int main(int count, char **arguments) {
    /* Static: a jump comes back here. */
    static const char *way, *how;
    way = count > 1 ? arguments[1] : "", how = count > 2 ? arguments[2] : "";
    struct sock_filter allow[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    struct sock_fprog all = {1, allow};
    if (!strcmp(how, "filter")) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 2;
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all)) return 2;
    }
    if (!strcmp(how, "little")) setrlimit(RLIMIT_DATA, &(struct rlimit){120 << 20, 120 << 20});
    setenv("MINE", "1", 1);
    make_file("data", BYTES);
    fd = open("data", O_RDONLY | O_CLOEXEC);
    if (!strcmp(way, "reads")) {
        handle(reads);
        int status = system("kill -USR1 $PPID; while ! test -e handled; do sleep 0.1; done; sleep 0.2; "
                            "printf '\\377' > piece; dd if=piece of=data conv=notrunc bs=1 seek=800 2> /dev/null");
        char after = read_up_to_it();
        say("status %d, changed %d\n", status, after == '\377');
    }
    if (!strcmp(way, "leaves")) {
        handle(leaves);
        if (!sigsetjmp(place, 1)) system("kill -USR1 $PPID; " AS_LONG_AS_IT_RUNS), say("no jump\n");
    }
    if (!strcmp(way, "sets")) {
        handle(sets);
        say("status %d\n", system("kill -USR1 $PPID; exit 3"));
    }
    if (!strcmp(way, "cancelled")) {
        long before = calls_of_passes();
        pthread_t thread;
        void *answer;
        pthread_create(&thread, NULL, cancelled, NULL);
        while (access("ready", R_OK)) usleep(1000);
        pthread_cancel(thread), pthread_join(thread, &answer);
        say("cancelled %d\n", answer == PTHREAD_CANCELED);
        /* Where it is buffered, most of the reads ask nobody, as before. */
        say("%s\n", calls_of_passes() < before + 300 ? "as before" : "every read is a call");
    }
    use_stack();
    say("PATH %d, MINE %s, set %d\n", getenv("PATH") != NULL, getenv("MINE"), getenv("SET_BY_A_HANDLER") != NULL);
    log_out();
    return 0;
}
