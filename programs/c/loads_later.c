/* Loads libraries one after the other, as plugins, and calls a function of each. */
#include "log.h"
#include <dlfcn.h>

static void use(const char *path, int flags) {
    void *library = dlopen(path, flags);
    if (!library) {
        say("%s\n", dlerror());
        return;
    }
    long (*call)(void) = (long (*)(void))dlsym(library, "call");
    say("%s %ld\n", path, call ? call() : -1);
    dlclose(library);
}

int main(int count, char **words) {
    for (int i = 1; i < count; i++) {
        use(words[i], RTLD_NOW);
        use(words[i], RTLD_LAZY);
    }
    log_out();
    return 0;
}
