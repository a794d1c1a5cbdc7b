/* What a program, and a library, is with the note that Go's linker leaves: it writes by the C library and, as Go's
 * runtime does, by a system call of its own, in turns. */
#ifndef OF_GO_H
#define OF_GO_H
#include "log.h"
#include "raw.h"

__asm__(".pushsection .note.go.buildid, \"a\", %note\n"
        ".balign 4\n"
        ".long 4, 4, 4\n"
        ".ascii \"Go\\0\\0id.\\0\"\n"
        ".popsection");

enum { ROUNDS = 40, RECORDS = 30 };

/* The one function of the library. */
void use(void) {
    static const char theirs[] = "by the C library\n", own[] = "by a call of its own\n";
    int fd = open("out", O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < RECORDS; i++) {
            if (write(fd, theirs, sizeof theirs - 1) < 0) say("errno %d\n", errno);
            if (round < 10) give_time(fd);
        }
        raw(SYS_write, fd, (long)own, sizeof own - 1, 0);
    }
    say("position %ld\n", (long)lseek(fd, 0, SEEK_CUR));
    close(fd);
    say_file("out");
    log_out();
}
#endif
