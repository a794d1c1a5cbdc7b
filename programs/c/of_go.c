/* See of_go.h: as a program. */
#include "of_go.h"

int main(void) {
    use();
    return 0;
}
