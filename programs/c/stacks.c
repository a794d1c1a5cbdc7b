/* Calls from small stacks: coroutines, threads of the least size, an alternative signal stack; and
 * signal handlers that leave a call by siglongjmp. */
#include "log.h"
#include "newer.h"
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

#define COROUTINES 8
#define STACK_BYTES 16384
static ucontext_t main_context, contexts[COROUTINES];
static int fd, in;

/* Memory with a page below it that must not be touched. */
static char *stack_of(size_t bytes) {
    char *memory = mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(memory, 4096, PROT_NONE);
    return memory + 4096;
}

static void coroutine(int me) {
    char record[8];
    for (int i = 0; i < 300; i++) {
        record[0] = (char)('a' + me);
        record[1] = '\n';
        write(fd, record, 2);
        if (i % 3 == me % 3) swapcontext(&contexts[me], &main_context);
        if (read(in, record, 3) == 3) write(fd, record, 3);
        if (i % 5 == 0) lseek(in, i, SEEK_SET);
        if (i % 50 == 0) pwrite(fd, "!", 1, i);
    }
    for (;;) swapcontext(&contexts[me], &main_context);
}

static void coroutines(void) {
    for (int me = 0; me < COROUTINES; me++) {
        getcontext(&contexts[me]);
        contexts[me].uc_stack.ss_sp = stack_of(STACK_BYTES);
        contexts[me].uc_stack.ss_size = STACK_BYTES;
        contexts[me].uc_link = &main_context;
        makecontext(&contexts[me], (void (*)(void))coroutine, 1, me);
    }
    for (int round = 0; round < 200; round++)
        for (int me = 0; me < COROUTINES; me++) {
            swapcontext(&main_context, &contexts[(me * 3 + round) % COROUTINES]);
            if (round % 10 == 0) write(fd, "main\n", 5);
        }
}

static void *small_thread(void *argument) {
    char record[16];
    for (int i = 0; i < 1000; i++) {
        if (pread(in, record, 16, i * 16) == 16 && pwrite(fd, record, 16, 100000 + i * 16) != 16) break;
    }
    return argument;
}

static void on_alternative(int number) {
    (void)number;
    write(fd, "on the other stack\n", 19);
    char record[9];
    if (read(in, record, 9) == 9) write(fd, record, 9);
}

static sigjmp_buf back;
static volatile sig_atomic_t jumps, armed;
static void jump(int number) {
    (void)number;
    if (armed) {
        jumps++;
        siglongjmp(back, 1);
    }
}

/* Handlers leave calls in the middle. Each call has happened whole or not at all. */
static void jumping(int flags) {
    int file = open("jumped", O_RDWR | O_CREAT | O_TRUNC | flags, 0644);
    static volatile long returned;
    returned = 0;
    jumps = 0;
    signal(SIGPROF, jump);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        for (int i = 0; i < 200; i++) {
            usleep(100);
            kill(parent, SIGPROF);
        }
        _exit(0);
    }
    sigsetjmp(back, 1);
    armed = 1;
    while (returned < 3000 || (jumps < 20 && returned < 2000000)) {
        if (write(file, "jumping\n", 8) != 8) break;
        returned++;
    }
    armed = 0;
    while (waitpid(child, NULL, 0) < 0) {}
    long position = (long)lseek(file, 0, SEEK_CUR);
    volatile long whole = 0; /* volatile: sigsetjmp returns twice. */
    char record[9] = "";
    lseek(file, 0, SEEK_SET);
    while (read(file, record, 8) == 8 && !memcmp(record, "jumping\n", 8)) whole++;
    say("jumps %s, all there %d, none twice %d, whole %d, at its end %d\n", jumps > 0 ? "some" : "none",
        whole >= returned, whole <= returned + jumps, whole * 8 == position, (long)lseek(file, 0, SEEK_CUR) == position);
    /* Reads: what comes after a jump goes on at a record's border. */
    lseek(file, 0, SEEK_SET);
    armed = 0;
    child = fork();
    if (child == 0) {
        for (int i = 0; i < 100; i++) {
            usleep(100);
            kill(parent, SIGPROF);
        }
        _exit(0);
    }
    static volatile long bad;
    bad = 0;
    sigsetjmp(back, 1);
    armed = 1;
    while (read(file, record, 8) == 8)
        if (memcmp(record, "jumping\n", 8)) bad++;
    armed = 0;
    while (waitpid(child, NULL, 0) < 0) {}
    say("bad %ld, at %d\n", bad, (long)lseek(file, 0, SEEK_CUR) == whole * 8);
    close(file);
    unlink("jumped");
}

int main(void) {
    make_file("in", 50000);
    fd = open("out", O_RDWR | O_CREAT | O_TRUNC, 0644);
    in = open("in", O_RDONLY);
    coroutines();
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    say("stack %d\n", pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN));
    pthread_t thread;
    say("thread %d\n", pthread_create(&thread, &attributes, small_thread, NULL));
    pthread_join(thread, NULL);
    size_t bytes = (size_t)sysconf(_SC_MINSIGSTKSZ) + 3000;
    bytes = (bytes + 4095) / 4096 * 4096;
    stack_t stack = {.ss_sp = stack_of(bytes), .ss_size = bytes};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_handler = on_alternative, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 500; i++) {
        write(fd, "main\n", 5);
        if (i % 7 == 0) raise(SIGUSR1);
        if (i % 90 == 0) lseek(in, i, SEEK_SET);
    }
    jumping(0);
    jumping(O_APPEND);
    close(fd);
    say_file("out");
    log_out();
    return 0;
}
