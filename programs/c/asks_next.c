/* A library that asks the loader for the definition of `write` behind its own place. */
#define _GNU_SOURCE
#include <dlfcn.h>
void *write_behind(void) { return dlsym(RTLD_NEXT, "write"); }
