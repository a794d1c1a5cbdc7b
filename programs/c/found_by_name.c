/* libc's functions, found by their names: what they do comes between the calls before and after.
 * Arguments: a library that asks for the next definition, and whether it is there from the start. */
#include "log.h"
#include <dlfcn.h>

#ifdef __x86_64__
#define VERSION "GLIBC_2.2.5"
#else
#define VERSION "GLIBC_2.17"
#endif

typedef ssize_t write_function(int, const void *, size_t);

static void *opened(const char *name) {
    void *library = dlopen(name, RTLD_NOW);
    if (!library) say("%s: %s\n", name, dlerror());
    return library;
}

/* Writes some records by its own call, one by the function that was found, and so on. */
static void both_ways(const char *how, void *found) {
    write_function *other = (write_function *)found;
    char record[32];
    int fd = open("out", O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < 1500; i++) {
        int length = sprintf(record, "%09d\n", i);
        if (write(fd, record, (size_t)length) != length) say("short\n");
        give_time(fd);
        if (i % 300 == 299 && found && other(fd, "the other\n", 10) != 10) say("short\n");
    }
    say("%s: %s, ", how, found ? "found" : "not found");
    close(fd);
    say_file("out");
}

int main(int count, char **words) {
    void *libc = opened("libc.so.6");
    if (count > 2) {
        /* It must not be the first to be asked: where nobody knows, buffering ends. */
        void *(*behind)(void) = (void *(*)(void))dlsym(RTLD_DEFAULT, "write_behind");
        both_ways("the next one of a library", behind ? behind() : NULL);
    }
    both_ways("libc's", dlsym(libc, "write"));
    both_ways("libc's of a version", dlvsym(libc, "write", VERSION));
    both_ways("that of a library which needs libc", dlsym(opened("libm.so.6"), "write"));
    both_ways("one for all", dlsym(RTLD_DEFAULT, "write"));
    both_ways("one for all, of a version", dlvsym(RTLD_DEFAULT, "write", VERSION));
    both_ways("the program's", dlsym(opened(NULL), "write"));
    both_ways("the program's of a version", dlvsym(opened(NULL), "write", VERSION));
    both_ways("the next one", dlsym(RTLD_NEXT, "write"));
    both_ways("the next one of a version", dlvsym(RTLD_NEXT, "write", VERSION));
    both_ways("no such version", dlvsym(libc, "write", "GLIBC_1.0"));
    both_ways("in the program's namespace",
              dlsym(dlmopen(LM_ID_BASE, "libc.so.6", RTLD_NOW), "write"));
    if (count == 2) {
        void *(*behind)(void) = (void *(*)(void))dlsym(opened(words[1]), "write_behind");
        both_ways("the next one of a library that came later", behind ? behind() : NULL);
    }
    say("as ever: %d %d\n", dlsym(libc, "strlen") != NULL, dlsym(libc, "no_such_function") != NULL);
    log_out();
    return 0;
}
