/* A program that was linked to libraries of its own, in which some names of libc's are something else. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>

struct connection {
    int port;
};

/* As the libraries have them: no header of libc's that knows them is included. */
extern int nice;
extern const char *login;
extern const int acct;
struct connection *connect(const char *, const char *, const char *, int, double, int, int, int);
double truncate(double);
long listen_twice(long);
const char *setlogin(int, int);
int change(void);
int send(int, const char *);
int getppid(void);
int sent(void);
long recv(long, long, long, long, long);
int has_parent(void);
long write(int, const void *, unsigned long);

typedef struct connection *make(const char *, const char *, const char *, int, double, int, int,
                                int);

/* The program's own comes before all libraries, also for who asks by the name. */
extern int getpgrp(void);
int getpgrp(void)
{
    return 77;
}

static void write_some(int fd)
{
    for (int i = 0; i < 300; i++)
        if (write(fd, "abcdefg\n", 8) != 8)
            puts("not written");
}

int main(void)
{
    static make *const table[] = {connect};
    int fd = open("written", O_CREAT | O_TRUNC | O_WRONLY, 0600);
    setvbuf(stdout, 0, _IONBF, 0);
    write_some(fd);
    printf("%d %s %d\n", nice, login, acct);
    printf("%d\n", change());
    printf("%d\n", nice);
    printf("%d\n", connect("db", "scott", "tiger", 1521, 2.5, 9, 10, 11)->port);
    printf("%d\n", table[0]("db", "scott", "tiger", 1522, 2.5, 9, 10, 11)->port);
    make *found = (make *)dlsym(RTLD_DEFAULT, "connect");
    printf("%d\n", found("db", "scott", "tiger", 1523, 2.5, 9, 10, 11)->port);
    found = (make *)dlsym(dlopen(0, RTLD_NOW), "connect");
    printf("%d %d\n", found("db", "scott", "tiger", 1524, 2.5, 9, 10, 11)->port, found == connect);
    /* By the name, a variable is where the program has it, or the library if it has none of its own. */
    int *named = dlsym(RTLD_DEFAULT, "nice");
    nice += 100;
    printf("%d %d\n", *named, named == &nice);
    int (*own)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "getpgrp");
    printf("%d %d\n", getpgrp(), own());
    printf("%g %s %lx\n", truncate(4.75), setlogin(6, 7), listen_twice(3));
    write_some(fd);
    printf("%d %d\n", send(5, "five"), getppid());
    printf("%d %d\n", sent(), has_parent());
    printf("%ld\n", recv(7, 8, 9, 5, 4));
    write_some(fd);
    return 0;
}
