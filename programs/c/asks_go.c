/* A library that Go has not made, but one that it needs and loads by itself. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

static void (*use)(void);

__attribute__((constructor)) static void begin(void) {
    /* By way of a variable, as no pointer to an object is one to a function. */
    void *found = dlopen("./of_go.so", RTLD_NOW | RTLD_GLOBAL) ? dlsym(RTLD_DEFAULT, "use") : NULL;
    *(void **)&use = found;
}

void use_needed(void) {
    if (use) use();
}
