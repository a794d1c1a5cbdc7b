/* Reads in records into an array whose size the compiler knows: built with -O2 -D_FORTIFY_SOURCE=2 it
 * calls __read_chk and __pread_chk of the C library, as most programs of a distribution do.
 * Usage: fortified read|pread FILE */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **words) {
    char record[4096];
    /* Not known before it runs, so that the check is one of run time. */
    volatile size_t bytes = 200;
    off_t at = 0;
    ssize_t got;
    if (count < 3) return 2;
    int fd = open(words[2], O_RDONLY);
    if (fd < 0) return 9;
    if (!strcmp(words[1], "pread"))
        while ((got = pread(fd, record, bytes, at)) > 0) at += got;
    else
        while ((got = read(fd, record, bytes)) > 0) {}
    return got ? 9 : 0;
}
