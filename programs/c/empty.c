/* A library that has nothing. */
extern int nothing;
int nothing;
