// Says hello, and whether its environment names a library of ours.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    const char *preload = getenv("LD_PRELOAD");
    puts(preload && strstr(preload, "library.so") ? "with" : "without");
    return 6;
}
