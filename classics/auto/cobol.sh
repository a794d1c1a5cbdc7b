#!/bin/sh
# cobol.sh SOURCE PROGRAM: PROGRAM-8 and so on, for each length of record that the plan has.
set -eu
for bytes in 8 200 4096; do
    sed "s/RECORD-BYTES/$bytes/" "$1" > "$2-$bytes.cob"
    cobc -x -O2 -o "$2-$bytes" "$2-$bytes.cob"
done
