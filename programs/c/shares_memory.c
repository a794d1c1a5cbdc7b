/* Shares writable memory with other processes, in a way that is named, and then writes small records
 * for as many rounds as are wanted: nobody sees by a call what is said through that memory.
 * Usage: shares_memory none|file|protected|sysv|fork ROUNDS   writes the file out */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#define RECORDS 20000
#define PAGE 4096

static void share(const char *how) {
    int is_protected = !strcmp(how, "protected");
    if (is_protected || !strcmp(how, "file")) {
        int fd = open("shared", O_RDWR | O_CREAT, 0600);
        if (fd < 0 || ftruncate(fd, PAGE)) _exit(9);
        int protection = is_protected ? PROT_READ : PROT_READ | PROT_WRITE;
        void *page = mmap(NULL, PAGE, protection, MAP_SHARED, fd, 0);
        if (page == MAP_FAILED || mprotect(page, PAGE, PROT_READ | PROT_WRITE)) _exit(9);
    } else if (!strcmp(how, "sysv")) {
        int id = shmget(IPC_PRIVATE, PAGE, 0600);
        if (id < 0 || shmat(id, NULL, 0) == (void *)-1 || shmctl(id, IPC_RMID, NULL)) _exit(9);
    } else if (!strcmp(how, "fork")) {
        if (mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
            _exit(9);
        pid_t child = fork();
        if (child == 0) _exit(0);
        if (waitpid(child, NULL, 0) != child) _exit(9);
    }
}

int main(int count, char **words) {
    if (count < 3) return 2;
    share(words[1]);
    for (int round = 0; round < atoi(words[2]); round++) {
        int fd = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (fd < 0) return 9;
        for (int i = 0; i < RECORDS; i++)
            if (write(fd, "a record of 20 bytes", 20) != 20) return 9;
        if (close(fd)) return 9;
    }
    return 0;
}
