/* What newer C libraries and their headers have, for older ones: the same by its number. */
#ifndef NEWER_H
#define NEWER_H
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2
#endif
#ifndef SEEK_DATA
#define SEEK_DATA 3
#define SEEK_HOLE 4
#endif
/* Room for the registers of every processor that such a library knows. */
#ifndef _SC_MINSIGSTKSZ
#define _SC_MINSIGSTKSZ _SC_PAGESIZE
#endif

#if !defined __GLIBC__ || (__GLIBC__ == 2 && __GLIBC_MINOR__ < 34)
__attribute__((unused)) static int close_range(unsigned first, unsigned last, int flags) {
    return (int)syscall(SYS_close_range, first, last, flags);
}
#endif
#endif
