/* A child is killed while it writes and holds a lock; anyone who gets the lock next finds all that the
 * child had written, and what he then writes over it stands. */
#include "log.h"
#include "raw.h"
#include <signal.h>
#include <sys/file.h>
#include <sys/sem.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { RECORD = 100, RECORDS = 1200 };
static const char *const ways[] = {"flock", "fcntl", "lockf", "of the description", "semaphore"};
enum { WAYS = sizeof ways / sizeof *ways };

static int semaphore;

static void take(int way, int lock) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct sembuf down = {.sem_num = 0, .sem_op = -1, .sem_flg = SEM_UNDO};
    switch (way) {
    case 0: flock(lock, LOCK_EX); break;
    case 1: fcntl(lock, F_SETLKW, &whole); break;
    case 2: lockf(lock, F_LOCK, 0); break;
    case 3: fcntl(lock, F_OFD_SETLKW, &whole); break;
    default: semop(semaphore, &down, 1);
    }
}

static void child(int way, int ready) {
    char record[RECORD];
    memset(record, 'x', RECORD);
    int lock = open("lock", O_CREAT | O_RDWR, 0644), fd = open("file", O_CREAT | O_WRONLY, 0644);
    take(way, lock);
    write(ready, "r", 1);
    for (int i = 0; i < RECORDS; i++) {
        write(fd, record, RECORD);
        if (i == 100 || i == 300 || i == 500) usleep(15000);
    }
    raw(SYS_kill, raw(SYS_getpid, 0, 0, 0, 0), SIGKILL, 0, 0);
}

int main(void) {
    semaphore = semget(IPC_PRIVATE, 1, 0600);
    long wrong[WAYS] = {0};
    for (int round = 0; round < 3; round++)
        for (int way = 0; way < WAYS; way++) {
            int ready[2];
            char word;
            if (pipe(ready)) return 2;
            semctl(semaphore, 0, SETVAL, 1);
            pid_t process = fork();
            if (process == 0) child(way, ready[1]);
            read(ready[0], &word, 1);
            int lock = open("lock", O_CREAT | O_RDWR, 0644), fd = open("file", O_RDWR);
            take(way, lock);
            struct stat found = {0};
            fstat(fd, &found);
            wrong[way] += found.st_size != RECORD * RECORDS;
            pwrite(fd, "mine", 4, RECORD * (RECORDS - 1));
            waitpid(process, NULL, 0);
            usleep(20000);
            char last[4] = "";
            pread(fd, last, 4, RECORD * (RECORDS - 1));
            wrong[way] += memcmp(last, "mine", 4) != 0;
            close(lock), close(fd), close(ready[0]), close(ready[1]);
            unlink("file");
        }
    semctl(semaphore, 0, IPC_RMID);
    for (int way = 0; way < WAYS; way++) say("%s: %ld wrong\n", ways[way], wrong[way]);
    log_out();
    return 0;
}
