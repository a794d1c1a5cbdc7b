// Starts a program under a restriction that it inherits: a seccomp filter that refuses (deny) or
// kills for (kill) a call of the library's own, or one that refuses what nobody here calls (allow,
// as containers have it), that a process may mark memory for its children (mark), that
// anybody learns of the filter from the call that tells (hide), or that the guard may copy a
// descriptor, as where Yama forbids it (copy), or that the kernel copies memory (by_kernel); memory that
// may never become code (code), or memory that may never become writable again (protect), so that
// nothing of libc's can be. answer:CALL:ERRNO answers one call with an error, or for 0 with a success that
// is none.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "newer.h"

static int install(struct sock_filter *code, unsigned short count) {
    struct sock_fprog program = {count, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Refuses a call with this word as one of its arguments. */
static int filter_word(unsigned call, unsigned argument, unsigned word, unsigned action) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + argument * 8),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, word, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return install(code, sizeof code / sizeof code[0]);
}

static int filter(unsigned call, unsigned action) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return install(code, sizeof code / sizeof code[0]);
}

/* No memory that could not be written becomes writable. */
static int filter_writable(unsigned action) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_WRITE, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return install(code, sizeof code / sizeof code[0]);
}

#ifdef SYS_poll
enum { POLL = SYS_poll, EPOLL_WAIT = SYS_epoll_wait };
#else
enum { POLL = SYS_ppoll, EPOLL_WAIT = SYS_epoll_pwait };
#endif
/* The same on every machine; the headers of glibc 2.31 do not have it. */
enum { FACCESSAT2 = 439 };

static int answer(const char *how) {
    static const struct {
        const char *name;
        unsigned call;
    } calls[] = {
        {"clock_gettime", SYS_clock_gettime}, {"waitid", SYS_waitid},     {"nanosleep", SYS_nanosleep},
        {"pwrite64", SYS_pwrite64},           {"pread64", SYS_pread64},   {"lseek", SYS_lseek},
        {"fcntl", SYS_fcntl},                 {"fstat", SYS_fstat},       {"futex", SYS_futex},
        {"epoll_wait", EPOLL_WAIT},           {"eventfd2", SYS_eventfd2}, {"poll", POLL},
        {"rt_sigaction", SYS_rt_sigaction},   {"statx", SYS_statx},       {"faccessat2", FACCESSAT2},
        {"getrandom", SYS_getrandom},         {"exit_group", SYS_exit_group},
        {"rt_sigprocmask", SYS_rt_sigprocmask}, {"clone", SYS_clone},
        {"geteuid", SYS_geteuid},             {"prlimit64", SYS_prlimit64},
    };
    const char *errno_at = strrchr(how, ':') + 1;
    /* Only those without a limit. */
    if (!strncmp(how, "epoll_wait_for_ever:", 20))
        return filter_word(EPOLL_WAIT, 3, -1u, SECCOMP_RET_ERRNO | atoi(errno_at));
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        size_t len = strlen(calls[i].name);
        if (!strncmp(how, calls[i].name, len) && how + len + 1 == errno_at)
            return filter(calls[i].call, SECCOMP_RET_ERRNO | atoi(errno_at));
    }
    errno = EINVAL;
    return -1;
}

int main(int count, char **words) {
    if (count < 3) return 2;
    const char *how = words[1];
    int failed = !strcmp(how, "allow")  ? filter(SYS_swapon, SECCOMP_RET_ERRNO | EPERM)
                 : !strcmp(how, "mark") ? filter_word(SYS_madvise, 2, MADV_WIPEONFORK, SECCOMP_RET_ERRNO | ENOMEM)
                 : !strcmp(how, "hide") ? filter_word(SYS_prctl, 0, PR_GET_SECCOMP, SECCOMP_RET_ERRNO | EINVAL)
                 : !strcmp(how, "copy") ? filter(SYS_pidfd_getfd, SECCOMP_RET_ERRNO | EPERM)
                 : !strcmp(how, "by_kernel") ? filter(SYS_process_vm_readv, SECCOMP_RET_ERRNO | EPERM)
                 : !strcmp(how, "protect") ? filter_writable(SECCOMP_RET_ERRNO | EACCES)
                 : !strncmp(how, "answer:", 7) ? answer(how + 7)
                 : !strcmp(how, "deny") ? filter(SYS_preadv, SECCOMP_RET_ERRNO | EPERM)
                 : !strcmp(how, "kill") ? filter(SYS_preadv, SECCOMP_RET_KILL_PROCESS)
                                        : prctl(65 /* PR_SET_MDWE */, 1, 0, 0, 0);
    if (failed) {
        perror(how);
        return 77;
    }
    execvp(words[2], words + 2);
    return 127;
}
