/* A library to be preloaded beside ours. */
int getppid(void) { return 42; }
