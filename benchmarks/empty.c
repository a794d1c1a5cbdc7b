/* A library with nothing in it: what does it cost to preload anything at all? */
