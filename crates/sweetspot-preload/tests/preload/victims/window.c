// Says whether small reads are served without the kernel's offset following: the one difference
// that tells the other victims' runs apart. Its own output is meant to differ.
#include "common.h"

int main(void) {
    int fd = open_warm("data", O_RDONLY);
    char path[64], text[256] = {0};
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    int info = open(path, O_RDONLY);
    if (info < 0 || read(info, text, sizeof text - 1) <= 0) return 1;
    say("%s", strtol(strchr(text, ':') + 1, NULL, 10) == 8000 ? "kernel" : "window");
    return 0;
}
