/* A library of which the functions have versions: who was linked to libc alone is not to meet them. */
int send(int number, const char *text)
{
    return number + text[0];
}

int getppid(void)
{
    return -5;
}
