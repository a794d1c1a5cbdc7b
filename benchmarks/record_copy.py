"""Copies a file in records of 200 bytes without a buffer: record_copy.py SOURCE TARGET."""

import sys

RECORD_BYTES = 200

with open(sys.argv[1], "rb", buffering=0) as source, open(sys.argv[2], "wb", buffering=0) as target:
    while record := source.read(RECORD_BYTES):
        target.write(record)
