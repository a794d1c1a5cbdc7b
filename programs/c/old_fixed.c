/* The same as old_versions.c in a program for a fixed address, which has no name that others could ask for. */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#if defined __GLIBC__ && defined __x86_64__
int old_pthread_kill(pthread_t thread, int signal);
__asm__(".symver old_pthread_kill,pthread_kill@GLIBC_2.2.5");
#else
#define old_pthread_kill pthread_kill
#endif

static void *ends(void *nothing) { return nothing; }

int main(void) {
    pthread_t thread;
    int answer = 0;
    if (pthread_create(&thread, NULL, ends, NULL)) return 1;
    for (int i = 0; i < 2000 && (answer = old_pthread_kill(thread, 0)) == 0; i++) usleep(1000);
    pthread_join(thread, NULL);
    return answer;
}
