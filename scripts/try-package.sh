#!/bin/sh
# Installs a package in a clean root, uses it, removes it, and requires that nothing is left.
#
#     scripts/try-package.sh ROOT.tar PACKAGE [EMULATOR]
#
# PACKAGE is a .deb, a .whl or a .tar.gz; ROOT.tar is what mmdebstrap made. Root is needed. Everything
# happens in memory, in namespaces that end with this script; its /dev/shm has 64 MB, as Docker's has.
# A root of another machine needs the path of its EMULATOR: qemu-aarch64-static. The kernel starts it
# for programs of that machine, in these namespaces only. What is emulated is not what is buffered (an
# emulator has no robust futex, by which the guard is known to live), so there that is not required.
set -eu

archive=$1 package=$2 emulator=${3-}
if test "${4-}" != inside; then
    users=
    test -z "$emulator" || users='--user --map-root-user'
    # shellcheck disable=SC2086 # words
    exec unshare $users --mount --pid --fork --kill-child -- \
        "$0" "$archive" "$package" "$emulator" inside
fi

if test -n "$emulator"; then
    mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
    elf='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
    mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    printf '%s' ":emulator:M::$elf:$mask:$emulator:F" >/proc/sys/fs/binfmt_misc/register
fi
root=/mnt
mount -t tmpfs tmpfs "$root"
tar -C "$root" --no-same-owner --exclude=./dev/* -xf "$archive"
mkdir -p "$root/proc" "$root/dev/shm" "$root/usr/local/bin"
mount -t proc proc "$root/proc"
mount -t tmpfs -o size=64m,mode=1777 tmpfs "$root/dev/shm"
for device in null zero urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
cp "$package" "$root/root"
package=/root/${package##*/}

inside() { env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C \
    PYTHONDONTWRITEBYTECODE=1 chroot "$root" "$@"; }
# Debian's pip, run from the file in which it comes: to install it takes minutes under an emulator.
pip() {
    inside sh -euc 'file=$(echo /usr/share/python-wheels/pip-*.whl)
        exec /opt/python/bin/python3 "$file/pip" "$@"' pip "$@"
}
# What dpkg writes of its own is no part of a package.
files() { inside find / -xdev \( -path /var/lib/dpkg -o -path /var/log \) -prune -o -print | sort; }

case $package in
*.whl)
    # A folder of its own for Python's packages, as every Python has it that the user may change.
    inside python3 -m venv --without-pip /opt/python
    inside ln -s /opt/python/bin/sweetspot /usr/local/bin/sweetspot
    ;;
esac
before=$(files)
case $package in
*.deb)
    # A root that was only unpacked knows of no package.
    inside dpkg ${emulator:+--force-depends} --install "$package" >/dev/null
    ;;
*.whl) pip install --quiet --no-index --no-cache-dir "$package" ;;
*) inside tar -C /usr/local --strip-components=1 --no-same-owner -xf "$package" ;;
esac
case $package in
*.whl) ;;
*)
    inside sh -euc 'test -s "$(find /usr -name sweetspot-run.1.gz)"
        test -s "$(find /usr -path "*bash-completion/completions/sweetspot")"'
    ;;
esac
inside sh -eu -s "$emulator" <<'USE'
sweetspot --version
cd /root
seq -w 100000 >in
if test -n "$1"; then
    sweetspot run -- dd if=in of=out bs=70 status=none
    cmp in out
    rm in out
    exit
fi
sweetspot run --require --summary=summary -- dd if=in of=out bs=70 status=none
cmp in out
grep '^buffered .* in 1 process$' summary >/dev/null
grep ' /root/in .* before it had earned its buffer$' summary >/dev/null
sweetspot doctor >doctor
grep 'their reads and writes are buffered' doctor >/dev/null
rm in out summary doctor
USE
cache=/var/cache/sweetspot
test -d "$root$cache" || { echo "the library is not where it is looked for" >&2; exit 1; }
case $package in
*.deb) inside dpkg --purge sweetspot >/dev/null ;;
*.whl) pip uninstall --quiet --yes sweetspot ;;
*)
    inside tar -tf "$package" | sed -n 's,^[^/]*/\(..*[^/]\)$,/usr/local/\1,p' |
        while read -r file; do rm -f "$root$file"; done
    inside tar -tf "$package" | sed -n 's,^[^/]*/\(..*\)/$,/usr/local/\1,p' | sort -r |
        while read -r folder; do
            printf '%s\n' "$before" | grep -qxF "$folder" || rmdir "$root$folder"
        done
    ;;
esac
# The library, which is written at the first use, is the package's only where Debian removes it.
case $package in *.deb) ;; *) rm -r "$root$cache" ;; esac
after=$(files)
test "$before" = "$after" || {
    echo "left after it was removed:" >&2
    printf '%s\n%s\n' "$before" "$after" | sort | uniq -u >&2
    exit 1
}
echo "installed, used and removed: nothing is left"
