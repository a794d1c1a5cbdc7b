/* libc reads these by itself, while the program has them open and has just written to them: a table of
 * a time zone, a catalogue of messages. One function for each run, as libc keeps what it has read.
 * Usage: own_files FUNCTION */
#include "log.h"
#include <libintl.h>
#include <locale.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>
#include <wchar.h>

/* Writes in small pieces what is read in large ones. */
static void write_pieces(int fd, const char *bytes, long length) {
    for (long at = 0; at < length; at += 10) {
        long rest = length - at < 10 ? length - at : 10;
        if (write(fd, bytes + at, (size_t)rest) != rest) say("short\n");
        give_time(fd);
    }
}

/* A head of a table: how many changes of the time, of kinds of time, of bytes of their names. */
static char *head(char *at, int changes, int kinds, int letters) {
    memcpy(at, "TZif2", 5);
    at[34] = (char)(changes >> 8), at[35] = (char)(changes & 255);
    at[39] = (char)kinds, at[43] = (char)letters;
    return at + 44;
}

/* A table with many changes of the time, the last one to ten hours east, named NOW; and behind it, what
 * holds from then on. */
static void zone(void) {
    enum { CHANGES = 2000 };
    static char table[CHANGES * 9 + 200];
    char *at = head(table, 0, 1, 4);
    memcpy(at + 6, "OLD", 4);
    at = head(at + 10, CHANGES, 2, 8);
    for (long i = 0; i < CHANGES; i++)
        for (int byte = 0; byte < 8; byte++) *at++ = (char)(800000 * (i + 1) >> (56 - 8 * byte));
    at[CHANGES - 1] = 1;
    at += CHANGES;
    at[6 + 2] = (char)0x8c, at[6 + 3] = (char)0xa0, at[6 + 5] = 4;
    memcpy(at + 12, "OLD\0NOW", 8);
    at = stpcpy(at + 20, "\nNOW-10\n");
    char path[4200] = ":";
    if (!getcwd(path + 1, sizeof path - 10)) return;
    strcat(path, "/zone");
    setenv("TZ", path, 1);
    int fd = open("zone", O_RDWR | O_CREAT | O_TRUNC, 0644);
    write_pieces(fd, table, at - table);
}

/* A catalogue of messages, for `bindtextdomain`. */
static void catalogue(void) {
    enum { MESSAGES = 200, HEAD = 28 };
    static union { char bytes[40000]; uint32_t words[10000]; } file;
    uint32_t head[] = {0x950412de, 0, MESSAGES, HEAD, HEAD + 8 * MESSAGES, 0, HEAD + 16 * MESSAGES};
    memcpy(file.words, head, sizeof head);
    uint32_t at = HEAD + 16 * MESSAGES;
    for (int side = 0; side < 2; side++)
        for (uint32_t i = 0; i < MESSAGES; i++) {
            uint32_t *entry = file.words + HEAD / 4 + 2 * (MESSAGES * (uint32_t)side + i);
            const char *first = side ? "Content-Type: text/plain; charset=UTF-8\n" : "";
            entry[1] = at;
            entry[0] = (uint32_t)(i ? sprintf(file.bytes + at, side ? "Nachricht %03u" : "message %03u", i)
                                    : sprintf(file.bytes + at, "%s", first));
            at += entry[0] + 1;
        }
    char folder[4200];
    if (!getcwd(folder, sizeof folder)) return;
    mkdir("xx", 0755);
    mkdir("xx/LC_MESSAGES", 0755);
    /* Any locale but that of C. */
    if (!setlocale(LC_ALL, "C.UTF-8")) setlocale(LC_ALL, "C.utf8");
    setenv("LANGUAGE", "xx", 1);
    bindtextdomain("own", folder);
    textdomain("own");
    int fd = open("xx/LC_MESSAGES/own.mo", O_RDWR | O_CREAT | O_TRUNC, 0644);
    write_pieces(fd, file.bytes, at);
}

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "";
    time_t time = 1700000000;
    struct tm date = {0};
    char text[64] = "";
    wchar_t wide[64] = L"";
    if (strstr(how, "text")) {
        catalogue();
        const char *message = "message 150";
        if (!strcmp(how, "gettext")) message = gettext(message);
        if (!strcmp(how, "dgettext")) message = dgettext("own", message);
        if (!strcmp(how, "dcgettext")) message = dcgettext("own", message, LC_MESSAGES);
        if (!strcmp(how, "ngettext")) message = ngettext(message, "messages", 1);
        if (!strcmp(how, "dngettext")) message = dngettext("own", message, "messages", 1);
        if (!strcmp(how, "dcngettext")) message = dcngettext("own", message, "messages", 1, LC_MESSAGES);
        say("%s: %s\n", how, message);
        log_out();
        return 0;
    }
    zone();
    if (!strcmp(how, "tzset")) tzset();
    if (!strcmp(how, "localtime")) date = *localtime(&time);
    if (!strcmp(how, "localtime_r")) localtime_r(&time, &date);
    /* It reads the table, too, which the next one then knows. */
    if (!strcmp(how, "gmtime")) date = *gmtime(&time), date = *localtime(&time);
    if (!strcmp(how, "ctime")) strcpy(text, ctime(&time));
    if (!strcmp(how, "ctime_r")) ctime_r(&time, text);
    if (!strcmp(how, "mktime")) date.tm_year = 123, date.tm_mday = 14, say("%ld ", (long)mktime(&date));
    if (!strcmp(how, "strftime")) strftime(text, sizeof text, "%Z", &date);
    if (!strcmp(how, "wcsftime")) wcsftime(wide, 64, L"%Z", &date);
    say("%s: %d %s %ls", how, date.tm_hour, text, wide);
    tzset();
    say(" %s %s\n", tzname[0], tzname[1]);
    log_out();
    return 0;
}
