"""Reads, writes or copies a file by records of one size, as records.c does, with Python's own buffers off.

    python3 records.py read BYTES FROM | write BYTES TO TOTAL | copy BYTES FROM TO
"""

import sys


def opened(path, mode):
    return open(path, mode, buffering=0)


def main():
    what, size, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if what == "write":
        record = bytes(size)
        with opened(path, "wb") as target:
            for _ in range(int(sys.argv[4]) // size):
                target.write(record)
    elif what == "read":
        records = 0
        with opened(path, "rb") as source:
            while source.read(size):
                records += 1
        print(records)
    else:
        with opened(path, "rb") as source, opened(sys.argv[4], "wb") as target:
            while record := source.read(size):
                target.write(record)


main()
