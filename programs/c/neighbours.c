// Updates every second record of a file, twice over, while another process updates those in between:
// only bytes that were written may ever be written, never what lay between them and was only read.
// Usage: neighbours FILE 0|1
#include "log.h"

#define RECORDS 4000
#define BYTES 24

int main(int count, char **words) {
    if (count != 3) return 2;
    int mine = atoi(words[2]);
    int fd = open(words[1], O_RDWR | O_CREAT, 0644);
    char record[64];
    for (int round = 0; round < 20; round++) {
        // In order, and in the middle of the rounds with the records of the other one read too.
        for (int i = mine; i < RECORDS; i += 2) {
            if (round % 4 == 2 && i > 0) {
                if (pread(fd, record, BYTES, (off_t)(i - 1) * BYTES) < 0) return 3;
            }
            snprintf(record, sizeof record, "record %06d round %04d\n", i, round);
            record[BYTES - 1] = '\n';
            if (round % 2) {
                if (pwrite(fd, record, BYTES, (off_t)i * BYTES) != BYTES) return 4;
            } else {
                lseek(fd, (off_t)i * BYTES, SEEK_SET);
                if (write(fd, record, BYTES) != BYTES) return 5;
            }
        }
        // The guard gets a moment to answer.
        if (round == 0) usleep(100000);
    }
    return 0;
}
