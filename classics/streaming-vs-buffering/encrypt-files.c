/* "Encrypts" every file of a folder into another folder:
 *
 *     encrypt-files streaming|buffering|chunks FROM TO THREADS WORK [READ_BUFFER [WRITE_BUFFER]]
 *
 * Each byte of each line is XORed once in every pass with the number of the pass (0, 1, 2 ... WORK-1,
 * its low 8 bits); line ends stay as they are.
 *
 * streaming: read a line, transform it, write it, repeat. buffering: read the whole file, transform
 * all of it, write all of it. Each thread gets its list of files at the start.
 * chunks: one thread reads largish chunks and hands them to the others, which transform and write.
 *
 * The buffers are given in bytes; without them they are the C library's (streaming) or 1 MiB
 * (chunks). */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { THREADS_MAX = 256, CHUNK_BYTES = 1 << 20 };

static const char *source_folder, *target_folder;
static char **names;
static int files, threads;
static unsigned long passes;
static size_t read_buffer_bytes, write_buffer_bytes;

static void fail(const char *path)
{
    fprintf(stderr, "encrypt-files: %s: %s\n", path, strerror(errno));
    exit(1);
}

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (memory == NULL)
        fail("memory");
    return memory;
}

static char *path_of(const char *folder, const char *name)
{
    char *path;
    if (asprintf(&path, "%s/%s", folder, name) < 0)
        fail("memory");
    return path;
}

/* Makes the passes over one line. */
static void encrypt_line(char *line, size_t len)
{
    for (unsigned long pass = 0; pass < passes; pass++) {
        for (size_t i = 0; i < len; i++)
            line[i] ^= (char)pass;
        /* The passes stand for work that takes time: they must not become one. */
        __asm__ volatile("" : : "r"(line) : "memory");
    }
}

/* Makes the passes over each line of a text. */
static void encrypt_lines(char *text, size_t len)
{
    char *end = text + len;
    while (text < end) {
        char *line_end = memchr(text, '\n', (size_t)(end - text));
        if (line_end == NULL)
            line_end = end;
        encrypt_line(text, (size_t)(line_end - text));
        text = line_end + 1;
    }
}

static FILE *open_stream(const char *path, const char *mode, size_t buffer_bytes)
{
    FILE *stream = fopen(path, mode);
    if (stream == NULL || (buffer_bytes && setvbuf(stream, NULL, _IOFBF, buffer_bytes) != 0))
        fail(path);
    return stream;
}

static void stream_file(const char *from, const char *to)
{
    FILE *source = open_stream(from, "r", read_buffer_bytes);
    FILE *target = open_stream(to, "w", write_buffer_bytes);
    char *line = NULL;
    size_t room = 0;
    ssize_t len;
    while ((len = getline(&line, &room, source)) > 0) {
        encrypt_line(line, (size_t)len - (line[len - 1] == '\n'));
        if (fwrite(line, 1, (size_t)len, target) != (size_t)len)
            fail(to);
    }
    free(line);
    if (ferror(source))
        fail(from);
    fclose(source);
    if (fclose(target) != 0)
        fail(to);
}

/* Reads until `len` bytes are there or the file ends; how many there are. */
static size_t read_full(int fd, char *to, size_t len, const char *path)
{
    size_t have = 0;
    while (have < len) {
        ssize_t n = read(fd, to + have, len - have);
        if (n < 0)
            fail(path);
        if (n == 0)
            break;
        have += (size_t)n;
    }
    return have;
}

static void write_full(int fd, const char *from, size_t len, off_t at, const char *path)
{
    while (len > 0) {
        ssize_t n = pwrite(fd, from, len, at);
        if (n < 0)
            fail(path);
        from += n;
        at += n;
        len -= (size_t)n;
    }
}

static int open_source(const char *path)
{
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        fail(path);
    return fd;
}

static int open_target(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0)
        fail(path);
    return fd;
}

static void buffer_file(const char *from, const char *to)
{
    int source = open_source(from);
    struct stat status;
    if (fstat(source, &status) < 0)
        fail(from);
    char *text = allocate((size_t)status.st_size);
    size_t len = read_full(source, text, (size_t)status.st_size, from);
    close(source);
    encrypt_lines(text, len);
    int target = open_target(to);
    write_full(target, text, len, 0, to);
    if (close(target) < 0)
        fail(to);
    free(text);
}

/* A chunk of whole lines on its way from the thread that reads to one that works. */
struct chunk {
    char *text;
    size_t len;
    off_t at;
    int target;
    const char *path;
};

/* The way: a ring of chunks. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct chunk waiting[THREADS_MAX];
    int first, count, under_way, ended;
} way = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void hand_over(struct chunk chunk)
{
    pthread_mutex_lock(&way.lock);
    /* As many wait as work, so memory is bounded. */
    while (way.count == threads)
        pthread_cond_wait(&way.changed, &way.lock);
    way.waiting[(way.first + way.count) % THREADS_MAX] = chunk;
    way.count++;
    pthread_cond_broadcast(&way.changed);
    pthread_mutex_unlock(&way.lock);
}

/* Waits until every chunk is written; after `ended` the workers go. */
static void wait_for_all(int ended)
{
    pthread_mutex_lock(&way.lock);
    way.ended = ended;
    pthread_cond_broadcast(&way.changed);
    while (way.count > 0 || way.under_way > 0)
        pthread_cond_wait(&way.changed, &way.lock);
    pthread_mutex_unlock(&way.lock);
}

static void *work_on_chunks(void *nothing)
{
    (void)nothing;
    pthread_mutex_lock(&way.lock);
    for (;;) {
        while (way.count == 0 && !way.ended)
            pthread_cond_wait(&way.changed, &way.lock);
        if (way.count == 0)
            break;
        struct chunk chunk = way.waiting[way.first];
        way.first = (way.first + 1) % THREADS_MAX;
        way.count--;
        way.under_way++;
        pthread_cond_broadcast(&way.changed);
        pthread_mutex_unlock(&way.lock);
        encrypt_lines(chunk.text, chunk.len);
        /* What is written is as long as what was read, so its place is known. */
        write_full(chunk.target, chunk.text, chunk.len, chunk.at, chunk.path);
        free(chunk.text);
        pthread_mutex_lock(&way.lock);
        way.under_way--;
        pthread_cond_broadcast(&way.changed);
    }
    pthread_mutex_unlock(&way.lock);
    return NULL;
}

/* Cuts a file into chunks that end with a line. */
static void chunk_file(const char *from, const char *to)
{
    size_t room = read_buffer_bytes ? read_buffer_bytes : CHUNK_BYTES, rest = 0;
    int source = open_source(from), target = open_target(to);
    char *text = allocate(room);
    off_t at = 0;
    for (;;) {
        size_t len = rest + read_full(source, text + rest, room - rest, from);
        int is_last = len < room;
        char *line_end = memrchr(text, '\n', len);
        if (!is_last && line_end == NULL) {
            /* A line that is longer than a chunk: the chunk grows. */
            room *= 2;
            if ((text = realloc(text, room)) == NULL)
                fail("memory");
            rest = len;
            continue;
        }
        size_t whole = is_last ? len : (size_t)(line_end + 1 - text);
        rest = len - whole;
        char *next = allocate(room);
        memcpy(next, text + whole, rest);
        hand_over((struct chunk){ text, whole, at, target, to });
        at += (off_t)whole;
        text = next;
        if (is_last)
            break;
    }
    free(text);
    close(source);
    wait_for_all(0);
    if (close(target) < 0)
        fail(to);
}

static void each_file(int first, int step, void (*encrypt_file)(const char *, const char *))
{
    for (int i = first; i < files; i += step) {
        char *from = path_of(source_folder, names[i]), *to = path_of(target_folder, names[i]);
        encrypt_file(from, to);
        free(from);
        free(to);
    }
}

static void (*whole_file)(const char *, const char *);

static void *work_on_files(void *first)
{
    each_file((int)(long)first, threads, whole_file);
    return NULL;
}

static void start(pthread_t *thread, void *(*work)(void *), long with)
{
    int error = pthread_create(thread, NULL, work, (void *)with);
    if (error != 0) {
        errno = error;
        fail("thread");
    }
}

static int is_file_name(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int list_files(void)
{
    struct dirent **entries;
    files = scandir(source_folder, &entries, is_file_name, alphasort);
    if (files < 0)
        return -1;
    names = allocate((size_t)files * sizeof *names);
    for (int i = 0; i < files; i++)
        names[i] = entries[i]->d_name;
    free(entries);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 6 || argc > 8) {
        fprintf(stderr, "usage: %s streaming|buffering|chunks FROM TO THREADS WORK [READ_BUFFER "
                        "[WRITE_BUFFER]]\n", argv[0]);
        return 2;
    }
    source_folder = argv[2];
    target_folder = argv[3];
    threads = atoi(argv[4]);
    passes = strtoul(argv[5], NULL, 10);
    read_buffer_bytes = argc > 6 ? strtoul(argv[6], NULL, 10) : 0;
    write_buffer_bytes = argc > 7 ? strtoul(argv[7], NULL, 10) : 0;
    if (threads < 1 || threads > THREADS_MAX) {
        fprintf(stderr, "%s: there are 1 to %d threads\n", argv[4], THREADS_MAX);
        return 2;
    }
    if (list_files() < 0)
        fail(source_folder);
    if (mkdir(target_folder, 0755) < 0 && errno != EEXIST)
        fail(target_folder);
    int by_chunks = strcmp(argv[1], "chunks") == 0;
    whole_file = strcmp(argv[1], "buffering") == 0 ? buffer_file : stream_file;
    pthread_t started[THREADS_MAX];
    for (int i = 0; i < threads; i++)
        start(&started[i], by_chunks ? work_on_chunks : work_on_files, i);
    if (by_chunks) {
        each_file(0, 1, chunk_file);
        wait_for_all(1);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(started[i], NULL);
    return 0;
}
