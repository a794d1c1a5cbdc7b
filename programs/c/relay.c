/* Copies lines through streams with small buffers, and after each part starts another program that
 * goes on with the same files, as an old job does; or becomes it after the last one. Either may be of
 * another C library than the other.
 * Usage: relay IN OUT fork|spawn|system|last PROGRAM [ARGUMENT...] */
#include "log.h"
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;
enum { PARTS = 4, LINES = 400, ROOM = 128 };

static int started(const char *how, char **words) {
    int status = -1;
    pid_t child = -1;
    if (!strcmp(how, "system")) {
        char line[4096] = "";
        for (int i = 0; words[i]; i++) {
            strcat(line, words[i]);
            strcat(line, " ");
        }
        return system(line);
    }
    if (!strcmp(how, "last")) return execvp(words[0], words);
    if (!strcmp(how, "fork") && (child = fork()) == 0) {
        execvp(words[0], words);
        _exit(127);
    }
    if (!strcmp(how, "spawn") && posix_spawnp(&child, words[0], NULL, NULL, words, environ)) return -1;
    waitpid(child, &status, 0);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 5) return 2;
    FILE *in = fopen(argv[1], "r"), *out = fopen(argv[2], "a+");
    if (!in || !out) return perror("open"), 1;
    static char rooms[2][ROOM];
    setvbuf(in, rooms[0], _IOFBF, ROOM);
    setvbuf(out, rooms[1], _IOFBF, ROOM);
    char line[500];
    for (int part = 0; part < PARTS; part++) {
        for (int i = 0; i < LINES && fgets(line, sizeof line, in); i++) fputs(line, out);
        say("part %d: read to %ld, wrote to %ld\n", part, ftell(in), ftell(out));
        fflush(out);
        fseek(in, -100, SEEK_CUR);
        if (part + 1 == PARTS) log_out();
        else if (!strcmp(argv[3], "last")) continue;
        say("ended with %d\n", started(argv[3], argv + 4));
        fseek(out, 0, SEEK_END);
        say("it is %ld long\n", ftell(out));
    }
    say("closed %d %d\n", fclose(in), fclose(out));
    log_out();
    return 0;
}
