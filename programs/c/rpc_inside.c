/* Sun RPC as glibc has it inside, for programs that were linked before 2.32. Before each call the client writes to
   a file; the server, a child of it, looks at the file while it answers. Says how often what it saw was not all. */
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* No header has them any more, and the linker takes them by their version alone. */
#ifdef __x86_64__
#define OLD(function) __asm__(".symver " #function "," #function "@GLIBC_2.2.5")
#else
#define OLD(function) __asm__(".symver " #function "," #function "@GLIBC_2.17")
#endif

typedef int convert(void *stream, void *value);
struct client {
    void *rights;
    struct {
        int (*call)(struct client *, unsigned long, convert *, void *, convert *, void *, struct timeval);
    } *functions;
};
struct service {
    int fd;
    unsigned short port;
};

struct client *clnttcp_create(struct sockaddr_in *, unsigned long, unsigned long, int *, unsigned, unsigned);
struct service *svctcp_create(int, unsigned, unsigned);
int svc_register(struct service *, unsigned long, unsigned long, void (*)(void *, struct service *), unsigned long);
void svc_run(void);
int svc_sendreply(struct service *, convert *, void *);
convert xdr_long, xdr_void;
OLD(clnttcp_create);
OLD(svctcp_create);
OLD(svc_register);
OLD(svc_run);
OLD(svc_sendreply);
OLD(xdr_long);
OLD(xdr_void);

enum { PROGRAM = 0x20001234, VERSION = 1, CALLS = 40, RECORDS = 100, RECORD_BYTES = 100, HEADS = 900 };

static int grows;

static void serve(void *request, struct service *service) {
    static int fd = -1;
    struct stat status;
    long seen = -1, other;
    (void)request;
    if (grows && stat("file", &status) == 0)
        seen = status.st_size / RECORD_BYTES / RECORDS;
    if (!grows && fd < 0) {
        fd = open("file", O_RDONLY);
        for (int i = 0; i < HEADS; i++)
            if (pread(fd, &other, sizeof other, i * (long)sizeof other) < 0)
                _exit(1);
    }
    if (!grows && pread(fd, &seen, sizeof seen, 0) != sizeof seen)
        seen = -1;
    svc_sendreply(service, xdr_long, &seen);
}

static void grow(int fd) {
    static char record[RECORD_BYTES];
    for (int i = 0; i < RECORDS; i++)
        if (write(fd, record, sizeof record) != sizeof record)
            _exit(2);
}

static int bad(struct client *client) {
    int fd = open("file", O_CREAT | O_TRUNC | O_WRONLY, 0600), bad = 0;
    if (!grows)
        grow(fd);
    for (long call = 1; call <= CALLS; call++) {
        if (grows)
            grow(fd);
        else if (pwrite(fd, &call, sizeof call, 0) != sizeof call)
            _exit(2);
        long seen = 0;
        struct timeval limit = {25, 0};
        int error = client->functions->call(client, 1, xdr_void, NULL, xdr_long, &seen, limit);
        bad += error != 0 || seen != call;
    }
    return bad;
}

int main(int count, char **arguments) {
    grows = count > 1 && strcmp(arguments[1], "grows") == 0;
    struct service *service = svctcp_create(-1, 0, 0);
    if (!service || !svc_register(service, PROGRAM, VERSION, serve, 0))
        return 1;
    pid_t server = fork();
    if (server == 0) {
        alarm(60);
        svc_run();
        return 1;
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(service->port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = -1;
    struct client *client = clnttcp_create(&address, PROGRAM, VERSION, &fd, 0, 0);
    printf("calls that were answered wrong: %d of %d\n", client ? bad(client) : -1, CALLS);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    return 0;
}
