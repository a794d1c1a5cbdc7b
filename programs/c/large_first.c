/* A large write, which passes through, and then small ones, which wait. Then it holds still without a
 * call, and says so in its memory, as kill_victim does. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static char large[1 << 20], small[100] = "small";

int main(void) {
    volatile unsigned long *page =
        mmap((void *)0x200000000, 4096, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    int fds[2] = {open("0-0", O_RDWR | O_CREAT | O_TRUNC, 0644),
                  open("0-1", O_RDWR | O_CREAT | O_TRUNC, 0644)};
    for (int i = 0; i < 700; i++) {
        for (int f = 0; f < 2; f++)
            if (write(fds[f], small, sizeof small) != sizeof small) return 1;
        if (i % 70 == 69) usleep(2000);
    }
    for (int f = 0; f < 2; f++)
        if (write(fds[f], large, sizeof large) != sizeof large) return 1;
    for (int i = 0; i < 3; i++)
        for (int f = 0; f < 2; f++)
            if (write(fds[f], small, sizeof small) != sizeof small) return 1;
    page[0] = 2;
    for (;;) {}
}
