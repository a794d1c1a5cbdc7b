/* Signals that the kernel raises for what a thread does itself, at any moment of a call.
 *
 *   gone    another thread takes away the memory that is written from, and gives it back: an error, or a short write
 *   steps   the program steps through its own instructions, and its handler counts them, and writes */
#include "log.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

enum { PAGES = 18, RECORD = 32, LONG = 70000 };
static char *memory;
static volatile int is_over;

static void *takes(void *nothing) {
    while (!is_over) {
        mprotect(memory, 16 * 4096, PROT_NONE);
        for (volatile int i = 0; i < 300;) i++;
        mprotect(memory, 16 * 4096, PROT_READ | PROT_WRITE);
        for (volatile int i = 0; i < 900;) i++;
    }
    return nothing;
}

static void gone(void) {
    enum { WRITES = 20000 };
    pthread_t thread;
    char record[RECORD];
    long wrong = 0;
    make_file("in", 1000000);
    int fd = open("in", O_RDWR);
    memory = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 'x', PAGES * 4096);
    pthread_create(&thread, NULL, takes, NULL);
    for (int i = 0; i < WRITES; i++) {
        lseek(fd, 0, SEEK_SET);
        for (int n = 0; n < 40; n++) wrong += read(fd, record, RECORD) != RECORD;
        lseek(fd, 100, SEEK_SET);
        errno = 0;
        long written = write(fd, memory, LONG);
        wrong += written < 0 ? errno != EFAULT : written == 0 || written > LONG;
        wrong += lseek(fd, 0, SEEK_CUR) != 100 + (written < 0 ? 0 : written);
        lseek(fd, 96, SEEK_SET);
        wrong += written > RECORD && (read(fd, record, RECORD) != RECORD || record[4] != 'x');
    }
    is_over = 1;
    pthread_join(thread, NULL);
    say("gone: %ld wrong\n", wrong);
    unlink("in");
}

static volatile long steps;
static int out, beside;

static void on_step(int signal) {
    (void)signal;
    if (++steps % 97 == 0) write(beside, "0123456789abcdef0123456789abcde\n", RECORD);
}

/* The trap flag of the processor, where it has one that a program can set. */
static inline void step(int begin) {
#ifdef __x86_64__
    if (begin) __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
    else __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
#else
    if (begin) raise(SIGTRAP);
#endif
}

static void stepped(int calls) {
    char record[RECORD] = "", got[RECORD];
    long wrong = 0;
    memset(record, 'r', RECORD);
    step(1);
    for (int i = 0; i < calls; i++) wrong += write(out, record, RECORD) != RECORD;
    step(0);
    lseek(out, 0, SEEK_SET);
    step(1);
    for (int i = 0; i < calls; i++) wrong += read(out, got, RECORD) != RECORD || memcmp(got, record, RECORD);
    wrong += lseek(out, 0, SEEK_END) < RECORD;
    step(0);
    say("%ld wrong\n", wrong);
}

static void through(void) {
    struct sigaction action = {.sa_handler = on_step, .sa_flags = SA_RESTART};
    char record[RECORD];
    memset(record, 'r', RECORD);
    out = open("out", O_RDWR | O_CREAT | O_TRUNC, 0644), beside = open("beside", O_RDWR | O_CREAT | O_TRUNC, 0644);
    sigaction(SIGTRAP, &action, NULL);
    for (int i = 0; i < 400; i++) {
        write(out, record, RECORD), write(beside, "0123456789abcdef0123456789abcde\n", RECORD);
        if (i % 10 == 0) give_time(out);
    }
    stepped(200);
    stepped(100);
    step(1), close(out), step(0);
    long size = lseek(beside, 0, SEEK_END);
    say("steps %d, beside %d\n", steps > 0, size == (400 + steps / 97) * RECORD);
    close(beside), unlink("beside");
    say_file("out");
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "";
    if (!strcmp(way, "gone")) gone();
    if (!strcmp(way, "steps")) through();
    log_out();
    return 0;
}
