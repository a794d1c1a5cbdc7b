#!/bin/sh
# Installs a Debian package in a clean root, uses it, removes it, and requires that nothing is left.
#
#     scripts/try-deb.sh ROOT.tar PACKAGE.deb
#
# ROOT.tar is what mmdebstrap made. Root is needed. Everything happens in memory, in namespaces that end
# with this script; its /dev/shm has 64 MB, as Docker's has.
set -eu

archive=$1 package=$2
if test "${3-}" != inside; then
    exec unshare --mount --pid --fork --kill-child -- "$0" "$archive" "$package" inside
fi

root=/mnt
mount -t tmpfs tmpfs "$root"
tar -C "$root" -xf "$archive"
mkdir -p "$root/proc" "$root/dev/shm"
mount -t proc proc "$root/proc"
mount -t tmpfs -o size=64m,mode=1777 tmpfs "$root/dev/shm"
test -c "$root/dev/null" || mknod -m 666 "$root/dev/null" c 1 3
cp "$package" "$root/package.deb"

inside() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C chroot "$root" "$@"; }
# What dpkg writes of its own is no part of a package.
files() { inside find / -xdev \( -path /var/lib/dpkg -o -path /var/log \) -prune -o -print | sort; }

before=$(files)
inside dpkg --install /package.deb >/dev/null
inside sh -eu <<'USE'
sweetspot --version
test -s /usr/share/man/man1/sweetspot-run.1.gz
test -s /usr/share/bash-completion/completions/sweetspot
cd /root
seq -w 100000 >in
sweetspot run --require --summary=summary -- dd if=in of=out bs=70 status=none
cmp in out
grep '^buffered .* in 1 process$' summary >/dev/null
grep ' /root/in .* before it had earned its buffer$' summary >/dev/null
sweetspot doctor >doctor
grep 'their reads and writes are buffered' doctor >/dev/null
rm in out summary doctor
USE
test -d "$root/var/cache/sweetspot" || { echo "the library is not where it is looked for" >&2; exit 1; }
inside dpkg --purge sweetspot >/dev/null
after=$(files)
test "$before" = "$after" || {
    echo "left after it was purged:" >&2
    printf '%s\n%s\n' "$before" "$after" | sort | uniq -u >&2
    exit 1
}
echo "installed, used and purged: nothing is left"
