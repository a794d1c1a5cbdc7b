"""A program that knows of sweetspot, and does the same where it is not there.

    python3 embed.py out.dat
    sweetspot run -- python3 embed.py out.dat
"""

import ctypes
import os
import sys

ABSENT, OFF, WRITES = 0, 1, 16


class Sweetspot:
    """The functions of sweetspot.h. They do nothing where the library is not loaded."""

    def __init__(self):
        process = ctypes.CDLL(None, use_errno=True)
        self._flush = getattr(process, "sweetspot_flush", None)
        self._status = getattr(process, "sweetspot_status", None)
        self._advise = getattr(process, "sweetspot_advise", None)
        if self._advise:
            self._advise.argtypes = [ctypes.c_int, ctypes.c_longlong]

    def flush(self):
        """Writes everything of this process that waits, or raises OSError."""
        self._check(self._flush and self._flush())

    def status(self, fd):
        """What becomes of reads and writes of a descriptor."""
        return self._status(fd) if self._status else ABSENT

    def advise(self, fd, size):
        """How large the buffer of a file should be."""
        self._check(self._advise and self._advise(fd, size))

    @staticmethod
    def _check(answer):
        if answer:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))


def words(status):
    if status == ABSENT:
        return "sweetspot is not loaded"
    if status == OFF:
        return "nothing of this process is buffered"
    return "writes wait" if status & WRITES else "writes pass through"


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else "out.dat"
    sweetspot = Sweetspot()
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    # It is written from its beginning to its end: a megabyte at a time.
    sweetspot.advise(fd, 1 << 20)
    for _ in range(100_000):
        os.write(fd, b"r" * 200)
    print(words(sweetspot.status(fd)))
    # From here on anyone who looks at the file finds every record, however he learned of it.
    sweetspot.flush()
    os.close(fd)


main()
