/* A library that has a version of its own for a function with a name of libc's, and a variable of such a name. */
long connect(long, long, long, long, long);
long connect(long a, long b, long c, long d, long e)
{
    return a * 1000000000000 + b * 1000 + c * 100 + d * 10 + e;
}

int nice = 7010;

long call(void);
long call(void)
{
    return connect(7, 8, 9, 5, 4) + nice;
}
