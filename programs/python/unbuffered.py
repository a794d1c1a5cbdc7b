"""Copies a file line by line and byte by byte through raw, unbuffered files."""
import os
import sys

said = []
with open("in.txt", "rb", buffering=0) as source, open("raw.out", "wb", buffering=0) as target:
    while record := source.read(23):
        target.write(record)
        if source.tell() % 1000 < 23:
            said.append((source.tell(), target.tell(), os.fstat(target.fileno()).st_size))
with open("in.txt", "rb", buffering=0) as source:
    line = source.readline()
    buffer = bytearray(11)
    n = source.readinto(buffer)
    rest = source.readall()
    said.append((line, n, bytes(buffer), len(rest), source.tell()))
    source.seek(-30, os.SEEK_END)
    said.append(source.read(100))
with open("raw.out", "ab", buffering=0) as target:
    for number in range(2000):
        target.write(b"%d\n" % number)
        said.append(target.tell()) if number % 500 == 0 else None
print(said)
sys.exit(len(said) % 100)
