#!/bin/sh
# Runs the plan on one file system after the other, as root: those that are made here, and that of a
# folder. Each report lies in RESULTS afterwards, with the load of the machine before and after it.
#
#   file-systems.sh SWEETSPOT FOLDER RESULTS [ext4|xfs|btrfs|tmpfs|overlay|bindfs|slow]... [-- OPTIONS]
#
# FOLDER is on a disk (ext4, say); OPTIONS are those of `sweetspot bench`, such as: --scale short
set -eu
here=$(cd "$(dirname "$0")" && pwd)
sweetspot=$1 folder=$2 results=$3
shift 3
wanted=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    wanted="$wanted $1"
    shift
done
[ $# -eq 0 ] || shift
mkdir -p "$folder" "$results"

# measure NAME FOLDER OPTIONS...
measure() {
    name=$1 place=$2
    shift 2
    mkdir -p "$place/bench"
    {
        echo "load before: $(cat /proc/loadavg)"
        "$sweetspot" bench --dir "$place/bench" --store "$results/$name.sqlite" "$@" "$here" || true
        echo "load after: $(cat /proc/loadavg)"
    } > "$results/$name.txt" 2>&1
    rm -rf "$place/bench"
}

for name in ${wanted:-ext4 xfs btrfs tmpfs overlay bindfs slow}; do
    mount=$folder/$name
    mkdir -p "$mount"
    case $name in
    ext4)
        measure "$name" "$mount" "$@"
        ;;
    xfs | btrfs)
        # In a file in memory: on the disk, what is written back would disturb what runs next.
        mkdir -p "$folder/memory"
        mount -t tmpfs -o size=3g tmpfs "$folder/memory"
        truncate -s 2G "$folder/memory/$name"
        "mkfs.$name" "$folder/memory/$name" > /dev/null
        mount -o loop "$folder/memory/$name" "$mount"
        measure "$name" "$mount" "$@"
        umount "$mount" "$folder/memory"
        ;;
    tmpfs)
        mount -t tmpfs -o size=2g tmpfs "$mount"
        measure "$name" "$mount" "$@"
        umount "$mount"
        ;;
    overlay)
        # Not upon another overlay, as in a container: on a tmpfs.
        mount -t tmpfs -o size=2g tmpfs "$mount"
        mkdir "$mount/lower" "$mount/upper" "$mount/work" "$mount/whole"
        mount -t overlay overlay "$mount/whole" \
            -o "lowerdir=$mount/lower,upperdir=$mount/upper,workdir=$mount/work"
        measure "$name" "$mount/whole" "$@"
        umount "$mount/whole" "$mount"
        ;;
    bindfs)
        mkdir -p "$folder/bound"
        bindfs "$folder/bound" "$mount"
        measure "$name" "$mount" "$@"
        umount "$mount"
        ;;
    slow)
        # A server that takes a millisecond for each request.
        gcc -O2 -o "$folder/slow-server" "$here/slow.c" $(pkg-config fuse3 --cflags --libs)
        mkdir -p "$folder/far" "$folder/near"
        "$folder/slow-server" 1000 "$folder/far" "$folder/near"
        measure "$name" "$folder/near" "$@"
        umount "$folder/near"
        ;;
    *)
        echo "file-systems.sh: $name is none of ext4 xfs btrfs tmpfs overlay bindfs slow" >&2
        exit 2
        ;;
    esac
done
