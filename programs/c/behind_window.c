/* What lies in memory behind that of a window is the program's: a page of a file that it has mapped, and that nobody has
 * stored to, goes on showing what others write to the file; and its time stays. */
#include "log.h"
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { PAGE = 4096, FILES = 4, PADDINGS = 300 };

static int make(const char *name, char fill) {
    char bytes[16 * PAGE];
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    memset(bytes, fill, sizeof bytes);
    if (write(fd, bytes, sizeof bytes) != sizeof bytes) exit(1);
    close(fd);
    return open(name, O_RDWR);
}

static void read_records(int fd) {
    char record[10];
    for (int i = 0; i < 100; i++)
        if (read(fd, record, sizeof record) != sizeof record) exit(1);
}

/* A mapping below which there is room for a page: where the next window may be. */
static char *map_above_a_gap(int fd, int flags) {
    char *at = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *mapped = mmap(at + PAGE, 2 * PAGE, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0);
    munmap(at, PAGE);
    return mapped;
}

int main(void) {
    int first = make("first", 'f'), shown = make("shown", 's');
    char name[] = "file0";
    /* What the library maps once is mapped then, and no gap is left for the next window. */
    read_records(first);
    for (int i = 0; i < PADDINGS; i++) mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *mapped[FILES];
    for (int i = 0; i < FILES; i++) {
        name[4] = (char)('0' + i);
        int fd = make(name, 'd');
        mapped[i] = i % 2 ? mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, shown, 0) : map_above_a_gap(shown, MAP_PRIVATE);
        read_records(fd);
    }
    if (fork() == 0) _exit(pwrite(open("shown", O_WRONLY), "changed", 7, 0) != 7);
    wait(NULL);
    for (int i = 0; i < FILES; i++) say("%.7s %.7s\n", mapped[i], mapped[i] + PAGE);
    log_out();
    return 0;
}
