// A library, and a program that loads it.
#include <dlfcn.h>
#include <stdio.h>

#ifdef LIBRARY
int seven(void);

int seven(void) {
    return 7;
}
#else
int main(int argc, char **argv) {
    (void)argc;
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library) {
        puts(dlerror());
        return 1;
    }
    int (*seven)(void);
    *(void **)&seven = dlsym(library, "seven");
    printf("%d\n", seven());
    return 0;
}
#endif
