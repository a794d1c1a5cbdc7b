/* A library with versions that has the older hash table alone. */
long recv(long, long, long, long, long);
long recv(long a, long b, long c, long d, long e)
{
    return a * 1000000000000 + b * 1000 + c * 100 + d * 10 + e;
}
