/* Functions and variables of a library that have names of libc's, and are something else. */
#include <string.h>

struct connection {
    int port;
};

int nice = 7;
const char *login = "scott";
const int acct = 42;

static int answer;

struct connection *connect(const char *database, const char *user, const char *password, int port,
                           double timeout, int flags, int retries, int trace)
{
    static struct connection made;
    int right = !strcmp(database, "db") && !strcmp(user, "scott") && !strcmp(password, "tiger") &&
                timeout == 2.5 && flags == 9 && retries == 10 && trace == 11;
    made.port = right ? port : -1;
    return &made;
}

double truncate(double number)
{
    return number - 0.5;
}

/* What it calls itself by such a name is its own, too. */
long listen(long word)
{
    return word << 40 | answer;
}

long listen_twice(long word)
{
    return listen(word) + listen(1);
}

/* Only other C libraries than glibc have this one. */
const char *setlogin(int a, int b)
{
    answer = a * b;
    return "set";
}

int change(void)
{
    return ++nice + acct;
}
