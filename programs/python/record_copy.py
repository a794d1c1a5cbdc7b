"""Copies records of 200 bytes: record_copy.py IN OUT"""

import sys

with open(sys.argv[1], "rb", buffering=0) as source, open(sys.argv[2], "wb", buffering=0) as sink:
    while record := source.read(200):
        sink.write(record)
