/* Copies a file of lines with fgetc and fputs: a program that is buffered by the C library already.
 *
 *     stdio-copy SOURCE TARGET */
#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s SOURCE TARGET\n", argv[0]);
        return 2;
    }
    FILE *source = fopen(argv[1], "r"), *target = fopen(argv[2], "w");
    if (source == NULL || target == NULL) {
        perror(source ? argv[2] : argv[1]);
        return 1;
    }
    static char line[4096];
    size_t len = 0;
    int c;
    while ((c = fgetc(source)) != EOF) {
        line[len++] = (char)c;
        if (c == '\n' || len == sizeof line - 1) {
            line[len] = 0;
            fputs(line, target);
            len = 0;
        }
    }
    line[len] = 0;
    fputs(line, target);
    if (ferror(source) || fclose(target) != 0) {
        perror(argv[2]);
        return 1;
    }
    return 0;
}
