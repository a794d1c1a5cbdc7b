/* A program that is told of each of its own writes: by inotify, by a signal.
 * Usage: counts_writes inotify | raw-inotify | signal */
#include "log.h"
#include <signal.h>
#include <sys/inotify.h>
#include <sys/syscall.h>

static volatile int told;
static void on_signal(int number) { told += number == SIGIO; }

/* Writes of equal bytes to one file are one event: in turns they are not. */
static void records(const int *files, int count) {
    for (int i = 0; i < count; i++) {
        if (write(files[i % 2], "0123456789", 10) != 10) say("short\n");
        give_time(files[i % 2]);
    }
}

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "";
    int files[2] = {open("a", O_RDWR | O_CREAT | O_TRUNC, 0644),
                    open("b", O_RDWR | O_CREAT | O_TRUNC, 0644)};
    records(files, 600);
    if (!strcmp(how, "signal")) {
        signal(SIGIO, on_signal);
        say("watch %d: ", fcntl(open(".", O_RDONLY), F_NOTIFY, DN_MODIFY | DN_MULTISHOT));
        for (int i = 0; i < 200; i++) write(files[0], "0123456789", 10);
    } else {
        int watch = inotify_init1(IN_NONBLOCK);
        long made = !strcmp(how, "inotify") ? inotify_add_watch(watch, ".", IN_MODIFY)
                                            : syscall(SYS_inotify_add_watch, watch, ".", IN_MODIFY);
        say("watch %ld: ", made);
        records(files, 100);
        /* A file that is made later, too. */
        files[1] = open("c", O_RDWR | O_CREAT | O_TRUNC, 0644);
        records(files, 600);
        static char events[65536] __attribute__((aligned(8)));
        long n;
        while ((n = read(watch, events, sizeof events)) > 0)
            for (long at = 0; at < n; told++)
                at += (long)(sizeof(struct inotify_event) + ((struct inotify_event *)(events + at))->len);
    }
    say("%s told %d times\n", how, told);
    log_out();
    return 0;
}
