/* A file becomes swap space while it is written: from then on the system refuses each write. Who may not do that, or
 * on another file system, goes on writing. */
#include "log.h"
#include <sys/swap.h>

enum { PAGE_BYTES = 4096, PAGES = 16, RECORD = 50, RECORDS = 1000 };

int main(void) {
    static char pages[PAGES * PAGE_BYTES];
    unsigned *header = (unsigned *)(pages + 1024);
    header[0] = 1, header[1] = PAGES - 1;
    memcpy(pages + PAGE_BYTES - 10, "SWAPSPACE2", 10);
    int file = open("space", O_RDWR | O_CREAT | O_TRUNC, 0600), refused = 0;
    write(file, pages, sizeof pages), fsync(file);
    lseek(file, PAGE_BYTES, SEEK_SET);
    for (int i = 0; i < 300; i++) {
        write(file, pages, RECORD);
        if (i % 50 == 0) give_time(file);
    }
    int is_on = swapon("space", 0) == 0;
    for (int i = 0; i < RECORDS; i++) refused += write(file, pages, RECORD) < 0;
    say("%d of %d refused\n", refused, RECORDS);
    if (is_on) swapoff("space");
    say("close %d\n", close(file));
    log_out();
    return 0;
}
