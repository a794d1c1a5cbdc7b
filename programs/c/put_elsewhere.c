/* A description from outside is kept under another number, and a second one of the same file takes its place, about when
 * the guard copies it. Then the program crashes: what it has written by the first one stands behind what was there.
 *   put_elsewhere FILE LOOPS   FILE is open as standard output, too; LOOPS of nothing before the numbers change */
#include "log.h"

enum { BEFORE = 64, RECORDS = 400 };

static void write_record(int fd, int number) {
    char record[33];
    int length = snprintf(record, sizeof record, "record %06d of many ........\n", number);
    if (write(fd, record, (size_t)length) != length) _exit(1);
}

int main(int words, char **word) {
    if (words < 3) return 1;
    int second = open(word[1], O_WRONLY);
    for (int i = 0; i < BEFORE; i++) write_record(1, i);
    for (volatile int i = atoi(word[2]); i > 0; i--) continue;
    int first = dup(1);
    dup2(second, 1);
    for (int i = BEFORE; i < RECORDS; i++) {
        if (i < BEFORE + 20) give_time(first);
        write_record(first, i);
    }
    volatile int *volatile nowhere = NULL;
    *nowhere = 1;
}
