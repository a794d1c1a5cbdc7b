/* Starts a program by a path that is right only in the folder in which it is to begin. Usage: elsewhere FOLDER
 * PROGRAM */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;

int main(int count, char **words) {
    if (count < 3) return 2;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, words[1]);
    char path[4096];
    snprintf(path, sizeof path, "./%s", words[2]);
    setenv("PATH", ".:/bin", 1);
    char *arguments[] = {words[2], NULL};
    pid_t child;
    for (int by_name = 0; by_name < 2; by_name++) {
        int status = -1;
        int error = by_name ? posix_spawnp(&child, words[2], &actions, NULL, arguments, environ)
                            : posix_spawn(&child, path, &actions, NULL, arguments, environ);
        if (error == 0) waitpid(child, &status, 0);
        printf("%d %x\n", error, (unsigned)status);
        fflush(stdout);
    }
    return 0;
}
