// Formatted output to a descriptor, between reads and writes of the same open file.
#include "common.h"

static int forward(int fd, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int answer = vdprintf(fd, format, arguments);
    va_end(arguments);
    return answer;
}

int main(void) {
    int fd = open_warm("data", O_RDWR);
    TRY(dprintf(fd, "%s %f %d %g %ld %c %e %d %d %d %.3f %s|", "first", 1.5, 1, 2.25, 3L, 'x', 1e10, 4, 5, 6, 7.125, "last"));
    say("at %lld", (long long)lseek(fd, 0, SEEK_CUR));
    read_small(fd, 0, 0);
    TRY(forward(fd, "%f %f %f %f %f %f %f %f %f %d|", 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10));
    TRY(write(fd, "between", 7));
    TRY(dprintf(fd, "<%08.3f>", 3.14159));
    TRY(dprintf(-1, "%d", 1));
    char bytes[200] = {0};
    TRY(pread(fd, bytes, 160, 8000));
    say("%s", bytes);

    // A stream over a descriptor that was read in small pieces, and the other way round.
    close(fd);
    fd = open_warm("data", O_RDWR);
    FILE *stream = fdopen(fd, "r+");
    say("stream at %ld", ftell(stream));
    say("stream byte %d", fgetc(stream));
    fseek(stream, 100, SEEK_SET);
    fputs("written", stream);
    TRY(fflush(stream));
    say_next("after the stream", fd);
    TRY(fclose(stream));
    TRY(close(fd));

    // The number of a closed stream means something else.
    for (int n = 0; n < 3; n++) {
        make_file("other", 50000);
        stream = fopen("other", "r");
        int number = fileno(stream);
        read_small(number, 500, 0);
        fclose(stream);
        int again = open_warm("data", O_RDONLY);
        say("same number %d", number == again);
        say_next("reused", again);
        close(again);
    }
    // freopen replaces what is behind a number.
    stream = fopen("other", "r");
    read_small(fileno(stream), 500, 0);
    stream = freopen("data", "r", stream);
    say("freopen %d", stream != NULL);
    say_next("reopened", fileno(stream));
    fclose(stream);
    stream = tmpfile();
    fputs("temporary", stream);
    rewind(stream);
    say("tmpfile %d", fgetc(stream));
    TRY(fclose(stream));
    stream = fopen("data", "r");
    TRY(fclose(fmemopen(bytes, sizeof bytes, "r")));
    TRY(fcloseall());
    return 0;
}
