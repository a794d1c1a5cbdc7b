/* What a random program does in company: with threads, handlers, children, a neighbour that it talks to,
 * streams, and names and mappings of its own files. One at a time is at work, so all is determined. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static void one_call(long wildness);
extern char **environ;
static const char *own_path;

/* Takes the log from here on back, and says its hash. */
static void say_hash_from(size_t begin, const char *who) {
    unsigned long hash = hash_of(log_text + begin, log_length - begin);
    if (!getenv("FUZZ_WORDS")) log_length = begin;
    say("%s %lx\n", who, hash);
}

static void several_calls(const char *who, long wildness) {
    size_t begin = log_length;
    for (long count = 1 + random_below(4); count > 0; count--) one_call(wildness);
    say_hash_from(begin, who);
}

/* A thread that is called and waited for without a word that anybody could see. */
static pthread_mutex_t turn_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
static int is_threads_turn;

static void pass_turn(int to_thread) {
    is_threads_turn = to_thread;
    pthread_cond_broadcast(&turn_changed);
    while (is_threads_turn == to_thread) pthread_cond_wait(&turn_changed, &turn_mutex);
}

static void *thread_works(void *unused) {
    (void)unused;
    pthread_mutex_lock(&turn_mutex);
    while (!is_threads_turn) pthread_cond_wait(&turn_changed, &turn_mutex);
    for (;;) several_calls("thread", 8), pass_turn(0);
    return NULL;
}

static void by_thread(void) {
    static int is_there;
    if (!is_there) {
        pthread_t thread;
        pthread_mutex_lock(&turn_mutex);
        pthread_create(&thread, NULL, thread_works, NULL);
        is_there = 1;
    }
    pass_turn(1);
}

/* A thread that is cancelled before a call: the call is the point at which it ends. */
static void *works_until_cancelled(void *unused) {
    (void)unused;
    int fd = fds[random_below(FDS)];
    stream(fd, 100);
    if (random_below(2)) pthread_cancel(pthread_self());
    if (random_below(2)) write(fd, "cancelled", 9);
    else read(fd, bytes, 9);
    return NULL;
}

static void cancel(void) {
    pthread_t thread;
    void *answer;
    pthread_create(&thread, NULL, works_until_cancelled, NULL);
    pthread_join(thread, &answer);
    say("cancelled %d\n", answer == PTHREAD_CANCELED);
}

static void handler_works(int number) {
    (void)number;
    several_calls("handler", 8);
}

static void by_handler(void) {
    signal(SIGUSR1, handler_works);
    random_below(2) ? raise(SIGUSR1) : kill(getpid(), SIGUSR1);
}

/* Children that share every description, and tell what they met through a pipe. */
static void told_by(int from, pid_t child, const char *who) {
    static char told[1 << 18];
    size_t length = 0;
    /* All of it is one text, however many reads it took. */
    for (ssize_t n = 1; n > 0; length += (size_t)(n > 0 ? n : 0))
        n = read(from, told + length, sizeof told - length);
    close(from);
    int status = 0;
    waitpid(child, &status, 0);
    say("%s %x %lx\n", who, (unsigned)status, hash_of(told, length));
}

static void by_child(void) {
    int pair[2];
    long way = random_below(4);
    pipe2(pair, O_CLOEXEC);
    pid_t child = fork();
    if (child == 0) {
        log_length = 0;
        several_calls("child", 8);
        write(pair[1], log_text, log_length);
        /* What is written after the last word is there when its death is known. */
        stream(fds[random_below(FDS)], 90);
        if (way == 0) raise(SIGKILL);
        if (way == 1) execlp("true", "true", NULL);
        if (way == 2) abort();
        _exit(3);
    }
    close(pair[1]);
    told_by(pair[0], child, "child");
}

static void by_vfork(void) {
    int fd = fds[random_below(FDS)], other = fds[random_below(FDS)];
    long way = random_below(4);
    pid_t child = vfork();
    if (child == 0) {
        if (way == 0) lseek(fd, 1000, SEEK_SET);
        if (way == 1) write(fd, "by vfork", 8);
        if (way == 2 && dup2(fd, 1) == 1) execlp("echo", "echo", "by vfork", NULL);
        if (way == 3 && dup2(other, 0) == 0) execlp("head", "head", "-c", "100", NULL);
        _exit(4);
    }
    int status = 0;
    waitpid(child, &status, 0);
    say("vfork %ld %x %ld %ld\n", way, (unsigned)status, (long)lseek(fd, 0, SEEK_CUR),
        (long)lseek(other, 0, SEEK_CUR));
}

/* This program again, with two descriptions of ours; see `main`. */
static void by_spawn(void) {
    int pair[2], first = fds[random_below(FDS)], second = fds[random_below(FDS)];
    char seed[24];
    posix_spawn_file_actions_t actions;
    pipe2(pair, O_CLOEXEC);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pair[1], 9);
    if (first >= 0) posix_spawn_file_actions_adddup2(&actions, first, 10);
    if (second >= 0) posix_spawn_file_actions_adddup2(&actions, second, 11);
    posix_spawn_file_actions_addopen(&actions, 12, names[random_below(FILES)], O_RDWR, 0);
    if (random_below(2)) posix_spawn_file_actions_addclose(&actions, 0);
    snprintf(seed, sizeof seed, "%lu", random_next() % 100000);
    pid_t child = 0;
    int failed = posix_spawn(&child, own_path, &actions, NULL,
                             (char *[]){"fuzz_calls", seed, "0", "spawned", NULL}, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pair[1]);
    if (failed) say("spawn fails with %d\n", failed), close(pair[0]);
    else told_by(pair[0], child, "spawned");
}

static void spawned(void) {
    for (int i = 0; i < FDS; i++) fds[i] = 10 + i % 3;
    several_calls("spawned", 8);
    write(9, log_text, log_length);
    several_calls("after", 8);
    exit(0);
}

/* Another process with descriptions of its own to the same files. It is told what to do by one of
 * several words, and answers likewise. */
struct word {
    long ask, file, at, length, seed;
};
static int neighbour_socket, neighbour_event;
static pid_t neighbour;

static long answer_to(const struct word *word) {
    static int own[FILES];
    struct stat data;
    if (!own[0])
        for (int i = 0; i < FILES; i++) own[i] = open(names[i], O_RDWR | (i == 1 ? O_APPEND : 0));
    int fd = own[word->file];
    size_t begin = log_length;
    switch (word->ask) {
    case 0: case 1:
        random_state = 88172645463325252ul + (unsigned long)word->seed;
        stream(fd, 30 + random_below(200));
        break;
    case 2:
        pattern(bytes, word->length, word->seed);
        say("%zd", pwrite(fd, bytes, (size_t)word->length, word->at));
        break;
    case 3:
        say("%zd %d", pread(fd, bytes, (size_t)word->length, word->at), truncate(names[word->file], word->at));
        break;
    case 4:
        fstat(fd, &data), say("%ld %ld", (long)data.st_size, (long)lseek(fd, 0, SEEK_CUR));
        break;
    case 5:
        lseek(fd, word->at, SEEK_SET);
        break;
    case 6:
        stream(fd, 100), raise(SIGKILL);
        break;
    default:
        say_file(names[word->file]);
    }
    long answer = (long)hash_of(log_text + begin, log_length - begin);
    log_length = begin;
    return answer;
}

static void live_beside(int socket, int event) {
    struct word word;
    for (int i = 0; i < FDS; i++) close(fds[i]);
    while (read(socket, &word, sizeof word) == sizeof word) {
        long answer = answer_to(&word);
        if (word.seed % 3) write(socket, &answer, sizeof answer);
        else eventfd_write(event, (eventfd_t)answer | 1);
    }
    _exit(0);
}

static void by_neighbour(void) {
    struct word word = {random_below(40) ? random_below(6) : 6, random_below(FILES), random_below(20000),
                        size_any(), (long)(random_next() % 100000)};
    if (random_below(4) == 0) word.ask = 7;
    if (!neighbour) {
        int pair[2];
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
        neighbour_event = eventfd(0, EFD_CLOEXEC);
        if ((neighbour = fork()) == 0) close(pair[0]), live_beside(pair[1], neighbour_event);
        close(pair[1]), neighbour_socket = pair[0];
    }
    long answer = 0;
    write(neighbour_socket, &word, sizeof word);
    if (word.ask == 6) {
        waitpid(neighbour, NULL, 0);
        close(neighbour_socket), close(neighbour_event), neighbour = 0;
    } else if (word.seed % 3) {
        read(neighbour_socket, &answer, sizeof answer);
    } else {
        eventfd_read(neighbour_event, (eventfd_t *)&answer);
    }
    say("neighbour %ld %ld %ld: %lx\n", word.ask, word.file, word.at, answer | 1);
}

/* Streams on the same files. */
static void by_stream(void) {
    static FILE *streams[3];
    static char room[3][512];
    static const char *modes[] = {"r", "r+", "a", "a+", "re", "r+e"};
    long i = random_below(3), kind = random_below(12), n = 0;
    FILE *file = streams[i];
    if (!file) {
        int fd = random_below(2) ? dup(fds[random_below(FDS)]) : -1;
        const char *mode = modes[random_below(6)];
        streams[i] = file = fd >= 0 ? fdopen(fd, mode) : fopen(names[random_below(FILES)], mode);
        if (!file && fd >= 0) close(fd);
        if (file && random_below(3) == 0) setvbuf(file, room[i], random_below(2) ? _IOFBF : _IOLBF, 512);
        say("stream %ld: %d\n", i, file ? fileno(file) : -errno);
        return;
    }
    long length = size_small(), at = random_below(12000);
    switch (kind) {
    case 0: case 1:
        for (long k = 0; k < 50; k++) n += (long)fread(bytes + n, 1, (size_t)length % 40 + 1, file);
        break;
    case 2: case 3:
        pattern(bytes, length, at), n = (long)fwrite(bytes, 1, (size_t)length, file);
        break;
    case 4: n = fseek(file, at, SEEK_SET); break;
    case 5: n = fseek(file, -at / 4, random_below(2) ? SEEK_END : SEEK_CUR); break;
    case 6: n = ftell(file); break;
    case 7: n = fflush(random_below(4) ? file : NULL); break;
    case 8: n = fgets(bytes, 200, file) ? (long)strlen(bytes) : -1; break;
    case 9: n = ungetc(getc(file), file); break;
    case 10: n = fprintf(file, "%ld and %s\n", at, "text"); break;
    default: n = fclose(file), streams[i] = NULL;
    }
    say("stream %ld kind %ld: %ld %lx\n", i, kind, n,
        (kind < 2 || kind == 8) && n > 0 ? hash_of(bytes, (size_t)n) : 0);
    if (streams[i]) clearerr(file);
}

/* Other ways to the same bytes, the same description, or the same name. */
static void other_ways(void) {
    int slot = (int)random_below(FDS), fd = fds[slot];
    const char *name = names[random_below(FILES)];
    long kind = random_below(13), at = random_below(20000), n = 0;
    char path[40];
    struct stat data;
    switch (kind) {
    case 0:
        snprintf(path, sizeof path, random_below(2) ? "/proc/self/fd/%d" : "/dev/fd/%d", fd);
        close(fds[(slot + 1) % FDS]), n = fds[(slot + 1) % FDS] = open(path, open_flags(), 0644);
        break;
    case 1:
        unlink("link"), n = link(name, "link");
        fd = open("link", O_RDWR), pattern(bytes, 300, at);
        for (long k = 0; k < 90; k++) n += pwrite(fd, bytes + k, 20, at + k * 20);
        close(fd);
        break;
    case 2: {
        struct timespec times[2] = {{at, 5000}, {at, 7000}};
        n = random_below(2) ? futimens(fd, times) : utimensat(AT_FDCWD, name, times, 0);
        break;
    }
    case 3: n = fstat(fd, &data) ? -1 : data.st_mtime < 100000 ? data.st_mtime : 100000; break;
    case 4: n = lseek(fd, at, random_below(2) ? SEEK_DATA : SEEK_HOLE); break;
    case 5: n = flock(fd, random_below(2) ? LOCK_SH : LOCK_UN); break;
    case 6: n = lockf(fd, random_below(2) ? F_LOCK : F_ULOCK, 100); break;
    case 7: n = syscall(SYS_write, fd, "by its number", 13) + syscall(SYS_lseek, fd, 0L, SEEK_CUR); break;
    case 8: n = syscall(SYS_read, fd, bytes, 50), n = n > 0 ? (long)hash_of(bytes, (size_t)n) : n; break;
    case 9: n = dprintf(fd, "printed %ld\n", at); break;
    case 10: {
        const char *said = dlopen("./one", RTLD_NOW) ? "" : dlerror();
        n = (long)strlen(said);
        break;
    }
    case 11: {
        int pair[2], made;
        union {
            struct cmsghdr head;
            char room[CMSG_SPACE(sizeof(int))];
        } control = {{CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}, };
        struct iovec one = {bytes, 1};
        struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
        socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
        memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
        if ((n = sendmsg(pair[0], &message, 0)) == 1 && recvmsg(pair[1], &message, 0) == 1) {
            memcpy(&made, CMSG_DATA(&control.head), sizeof made);
            close(fds[(slot + 1) % FDS]), fds[(slot + 1) % FDS] = made;
        }
        close(pair[0]), close(pair[1]);
        break;
    }
    default: {
        /* Rarely: a file that was ever mapped is not buffered any more. */
        if (random_below(8)) break;
        char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED) n = -errno;
        else if (fstat(fd, &data) == 0 && data.st_size >= 8192) memcpy(map + at % 8000, "mapped", 6);
        if (map != MAP_FAILED) munmap(map, 8192);
    }
    }
    say("way %ld at %ld: %ld errno %d\n", kind, at, n, n < 0 ? errno : 0);
}

#include "fuzz_rare.h"

/* Each program has a few of these habits: after a fork most files are shared for good, and nothing of them
 * waits any more. */
static void in_company(void) {
    static void (*const ways[])(void) = {by_thread, cancel,       by_handler, by_child,  by_vfork,
                                         by_spawn,  by_neighbour, by_stream,  other_ways, rare_ways};
    enum { WAYS = sizeof ways / sizeof *ways, HABITS = 3 };
    static long habits[HABITS];
    static int is_chosen;
    for (int i = 0; !is_chosen && i < HABITS; i++) habits[i] = random_below(WAYS);
    is_chosen = 1;
    ways[habits[random_below(HABITS)]]();
}
