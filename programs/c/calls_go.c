/* Loads a library of Go's, or one that needs such a library, and calls a function of it. */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **words) {
    void *library = count > 1 ? dlopen(words[1], RTLD_NOW) : NULL;
    void *use = library ? dlsym(library, count > 2 ? words[2] : "use") : NULL;
    if (!use) return puts("no function"), 1;
    ((void (*)(void))use)();
    return 0;
}
