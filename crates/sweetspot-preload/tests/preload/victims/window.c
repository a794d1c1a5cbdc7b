// Says whether small reads are served without the kernel's offset following: the one difference
// that tells the other victims' runs apart; and the same after each way in which an exec can fail.
// Its own output is meant to differ.
#include "common.h"

extern char **environ;

static void say_where(void) {
    int fd = open_warm("data", O_RDONLY);
    char path[64], text[256] = {0};
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    int info = open(path, O_RDONLY);
    if (info < 0 || read(info, text, sizeof text - 1) <= 0) _exit(1);
    say("%s", strtol(strchr(text, ':') + 1, NULL, 10) == 8000 ? "kernel" : "window");
    close(info);
    close(fd);
}

int main(void) {
    const char *none = "/no/such";
    char *arguments[] = {"x", NULL};
    say_where();
    execl(none, "x", "1", "2", "3", "4", "5", "6", "7", (char *)NULL);
    say_where();
    execle(none, "x", "1", "2", "3", "4", "5", "6", (char *)NULL, environ);
    say_where();
    execlp("no such", "x", (char *)NULL);
    say_where();
    execv(none, arguments), execvp(none, arguments), execve(none, arguments, environ);
    execvpe(none, arguments, environ), fexecve(99, arguments, environ);
    execveat(AT_FDCWD, none, arguments, environ, 0);
    say_where();
    return 0;
}
