/* Says what getppid answers: a number of its own if another library was preloaded, too. */
#include <stdio.h>
#include <unistd.h>

int main(void) { return printf("%d\n", getppid()) < 0; }
