/* Records are written over what a window holds, and read again before anything makes them leave. */
#include "log.h"

enum { RECORD = 20, RECORDS = 300 };

int main(void) {
    static char model[RECORD * RECORDS * 4], seen[RECORD];
    long wrong = 0;
    make_file("records", sizeof model);
    int fd = open("records", O_RDWR);
    if (pread(fd, model, sizeof model, 0) != sizeof model) return 1;
    for (int pass = 0; pass < 40; pass++) {
        long first = pass % 4 * RECORDS / 4;
        /* A window, which begins before what is written next, and ends after it. */
        lseek(fd, first * RECORD, SEEK_SET);
        for (int i = 0; i < 40; i++)
            if (read(fd, seen, RECORD) != RECORD || memcmp(seen, model + (first + i) * RECORD, RECORD))
                wrong++;
        for (int i = 40; i < 80; i++) {
            char *record = model + (first + i) * RECORD;
            memset(record, 'a' + (pass + i) % 26, RECORD);
            if (write(fd, record, RECORD) != RECORD) wrong++;
            /* The guard gets the time to answer. */
            if (pass < 10 && i % 10 == 0) usleep(300);
        }
        /* Where they are, and on behind them. */
        lseek(fd, (first + 35) * RECORD, SEEK_SET);
        for (int i = 35; i < 90; i++)
            if (read(fd, seen, RECORD) != RECORD || memcmp(seen, model + (first + i) * RECORD, RECORD))
                wrong++;
        if (lseek(fd, 0, SEEK_CUR) != (first + 90) * RECORD) wrong++;
    }
    close(fd);
    say("wrong %ld\n", wrong);
    say_file("records");
    log_out();
    return 0;
}
