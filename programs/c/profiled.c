/* libc writes the profile of a program, `gmon.out`, by calls of its own: what the program has written there before is
 * cut off, and what it reads there afterwards is the profile. */
#include "log.h"

enum { RECORD = 10, RECORDS = 300, AREA = 4096 };

extern void monstartup(unsigned long, unsigned long), _mcleanup(void);

int main(void) {
    char record[RECORD] = "123456789", start[5] = "";
    int file = open("gmon.out", O_RDWR | O_CREAT | O_TRUNC, 0644);
    monstartup(AREA, 2 * AREA);
    for (int i = 0; i < RECORDS; i++) {
        write(file, record, RECORD);
        if (i % 50 == 0) give_time(file);
    }
    _mcleanup();
    pread(file, start, 4, 0);
    say("begins with %s, %d bytes", start, (int)lseek(file, 0, SEEK_END));
    close(file);
    file = open("gmon.out", O_RDONLY);
    say(", in the end %d\n", (int)lseek(file, 0, SEEK_END)), unlink("gmon.out");
    log_out();
    return 0;
}
