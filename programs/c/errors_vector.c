/* readv, writev, preadv, pwritev, preadv2, pwritev2: counts, lengths, pointers, flags. */
#include "errors.h"
#include <limits.h>
#include <sys/mman.h>
#include <sys/uio.h>

static struct iovec many[2000];
static char *two_pages;

#define ALL(parts, count)                                                                         \
    CALL_AS("readv", readv(fd, parts, count)), CALL_AS("writev", writev(fd, parts, count)),       \
        CALL_AS("preadv", preadv(fd, parts, count, 100)),                                         \
        CALL_AS("pwritev", pwritev(fd, parts, count, 200)),                                       \
        CALL_AS("preadv2", preadv2(fd, parts, count, -1, 0)),                                     \
        CALL_AS("pwritev2", pwritev2(fd, parts, count, -1, 0))
#undef ALL
static void all(int fd, const struct iovec *parts, int count, long at) {
    CALL_AS("readv", readv(fd, parts, count));
    CALL_AS("writev", writev(fd, parts, count));
    CALL_AS("preadv", preadv(fd, parts, count, at));
    CALL_AS("pwritev", pwritev(fd, parts, count, at));
    CALL_AS("preadv2", preadv2(fd, parts, count, at, 0));
    CALL_AS("pwritev2", pwritev2(fd, parts, count, at, 0));
    CALL_AS("preadv2 here", preadv2(fd, parts, count, -1, 0));
    CALL_AS("pwritev2 here", pwritev2(fd, parts, count, -1, 0));
}

static int call(int fd, int number) {
    long page = sysconf(_SC_PAGESIZE);
    char *edge = two_pages + page - 8;
    struct iovec three[3] = {{scratch, 7}, {scratch + 100, 0}, {scratch + 50, 11}};
    struct iovec null_empty[2] = {{NULL, 0}, {scratch, 9}};
    struct iovec null_full[2] = {{scratch, 5}, {NULL, 9}};
    struct iovec first_bad[2] = {{(void *)8, 5}, {scratch, 9}};
    struct iovec over_edge[3] = {{scratch, 3}, {edge, 20}, {scratch, 4}};
    struct iovec negative[2] = {{scratch, 5}, {scratch, (size_t)-1}};
    struct iovec sum[2] = {{scratch, SSIZE_MAX}, {scratch, SSIZE_MAX}};
    struct iovec empty[3] = {{scratch, 0}, {scratch, 0}, {scratch, 0}};
    struct iovec large[3] = {{scratch, 3}, {scratch, 70000}, {scratch, 4}};
    memset(scratch, 'v', 300);
    switch (number) {
    case 0: all(fd, three, 3, 100); return 1;
    case 1: all(fd, three, 0, 100); return 1;
    case 2: all(fd, three, -1, 100); return 1;
    case 3: all(fd, NULL, 0, 100); return 1;
    case 4: all(fd, NULL, 1, 100); return 1;
    case 5: all(fd, (struct iovec *)8, 2, 100); return 1;
    case 6: all(fd, null_empty, 2, 100); return 1;
    case 7: all(fd, null_full, 2, 100); return 1;
    case 8: all(fd, first_bad, 2, 100); return 1;
    case 9: all(fd, over_edge, 3, 100); return 1;
    case 10: all(fd, negative, 2, 100); return 1;
    case 11: CALL(readv(fd, sum, 2)); return 1;
    case 12: all(fd, empty, 3, 100); return 1;
    case 13: all(fd, large, 3, 5000); return 1;
    case 14: all(fd, many, IOV_MAX, 100); return 1;
    case 15: all(fd, many, IOV_MAX + 1, 100); return 1;
    case 16: all(fd, many, INT_MAX, 100); return 1;
    case 17: all(fd, three, 3, -1); return 1;
    case 18: all(fd, three, 3, -2); return 1;
    case 19: all(fd, three, 3, LONG_MAX); return 1;
    case 20: all(fd, three, 3, FILE_BYTES - 3); return 1;
    case 21: all(fd, three, 3, FILE_BYTES + 300); return 1;
    case 22: all(-1, three, 3, 100); all(fd + 1, three, 3, 0); return 1;
    case 23: CALL(preadv2(fd, three, 3, 0, RWF_HIPRI)); CALL(pwritev2(fd, three, 3, 0, RWF_DSYNC)); return 1;
    case 24: CALL(pwritev2(fd, three, 3, 0, RWF_APPEND)); CALL(pwritev2(fd, three, 3, -1, RWF_APPEND)); return 1;
    case 25: CALL(preadv2(fd, three, 3, 0, 1 << 30)); CALL(pwritev2(fd, three, 3, -1, RWF_SYNC)); return 1;
    case 26: CALL(preadv2(fd, three, 3, -1, RWF_NOWAIT)); return 1;
    case 27: CALL(preadv64(fd, three, 3, 5)); CALL(pwritev64(fd, three, 3, 6)); return 1;
    default: all(fd, three, 1, 0); return 0;
    }
}

int main(void) {
    long page = sysconf(_SC_PAGESIZE);
    two_pages = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(two_pages + page, (size_t)page, PROT_NONE);
    for (int i = 0; i < 2000; i++) many[i] = (struct iovec){scratch + i, (size_t)(i % 4)};
    every_state(call);
    log_out();
    return 0;
}
