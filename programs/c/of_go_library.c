/* See of_go.h: as a library. */
#include "of_go.h"
