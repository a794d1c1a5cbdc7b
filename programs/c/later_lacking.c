/* A library with a function that its C library lacks, and that is of another form elsewhere. */
long posix_close(long, long, long, long, long);
long posix_close(long a, long b, long c, long d, long e)
{
    return a * 1000000000000 + b * 1000 + c * 100 + d * 10 + e;
}

long call(void);
long call(void)
{
    return posix_close(7, 8, 9, 5, 4);
}
