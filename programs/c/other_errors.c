/* A program puts another stream in the place of the one for errors: a message goes there, by a duplicate of its
 * descriptor. (musl's cannot be put elsewhere.) */
#include "log.h"

enum { RECORD = 17, RECORDS = 3000, READ = 1000, MORE = 100 };

__attribute__((unused)) static void write_some(int fd, int records, const char *record) {
    for (int i = 0; i < records; i++)
        if (write(fd, record, RECORD) != RECORD) say("not written\n");
}

int main(void) {
#ifdef __GLIBC__
    char record[RECORD + 1] = "";
    FILE *errors = fopen("errors.log", "w+");
    if (!errors) return 3;
    stderr = errors;
    int fd = fileno(errors);
    write_some(fd, RECORDS, "0123456789abcdef\n");
    lseek(fd, 0, SEEK_SET);
    for (int i = 0; i < READ; i++)
        if (read(fd, record, RECORD) != RECORD) say("not read\n");
    errno = ENOENT;
    perror("here");
    for (int i = 0; i < 3; i++) say("%ld %s\n", (long)read(fd, record, RECORD), record);
    write_some(fd, MORE, "0123456789abcdeF\n");
    say("%ld\n", (long)lseek(fd, 0, SEEK_END));
    log_out();
    fclose(errors);
#endif
    return 0;
}
