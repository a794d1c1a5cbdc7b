// A library whose vfork makes a fork, as that of a sanitizer does.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/types.h>

typedef pid_t (*forks)(void);

static pid_t made(void) {
    forks next;
    *(void **)&next = dlsym(RTLD_NEXT, "fork");
    return next();
}

pid_t fork(void) {
    return made();
}

pid_t vfork(void) {
    return made();
}
