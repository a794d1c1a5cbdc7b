#!/bin/sh
# Installs a package in a clean root, uses it, removes it, and requires that nothing is left.
#
#     scripts/try-package.sh ROOT PACKAGE [EMULATOR]
#
# PACKAGE is a .deb, a .whl or a .tar.gz; ROOT is a folder that mmdebstrap made, which stays as it is:
# what is written goes to memory. Root is needed. Everything happens in namespaces that end with this
# script; its /dev/shm has 64 MB, as Docker's has. A root of another machine needs the path of its
# EMULATOR: qemu-aarch64-static. The kernel starts it for programs of that machine, in these
# namespaces only. An emulator has a thread of its own, and no robust futex by which a guard is known
# to live: so there only reads are buffered, and what doctor says of writes is not required.
set -eu

base=$1 package=$2 emulator=${3-}
if test "${4-}" != inside; then
    users=
    test -z "$emulator" || users='--user --map-root-user'
    # shellcheck disable=SC2086 # words
    exec unshare $users --mount --pid --fork --kill-child -- \
        "$0" "$base" "$package" "$emulator" inside
fi

if test -n "$emulator"; then
    mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
    elf='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
    mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    printf '%s' ":emulator:M::$elf:$mask:$emulator:F" >/proc/sys/fs/binfmt_misc/register
fi
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
root=/mnt/root
# In a namespace of users, overlayfs keeps its notes where users may write.
mount -t overlay -o "lowerdir=$base,upperdir=/mnt/upper,workdir=/mnt/work${emulator:+,userxattr}" \
    overlay "$root"
mkdir -p "$root/proc" "$root/dev/shm" "$root/usr/local/bin"
mount -t proc proc "$root/proc"
mount -t tmpfs -o size=64m,mode=1777 tmpfs "$root/dev/shm"
for device in null zero urandom tty; do
    test -e "$root/dev/$device" || touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
cp "$package" "$root/root"
package=/root/${package##*/}

inside() { env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C \
    PYTHONDONTWRITEBYTECODE=1 chroot "$root" "$@"; }
pip() {
    if test -z "$emulator"; then
        inside /opt/python/bin/pip "$@"
    else
        inside env -u PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX=/dev/shm/python PYTHONPATH=/opt/pip \
            /opt/python/bin/python3 -m pip "$@"
    fi
}
# To install pip, or to read it from an archive, takes minutes under an emulator. In a root that was
# only unpacked nobody has put together the certificates that it reads when it starts.
unpack_pip() {
    python3 -m zipfile -e "$root"/usr/share/python-wheels/pip-*.whl "$root/opt/pip"
    mkdir -p "$root/etc/ssl/certs"
    cat "$root"/usr/share/ca-certificates/mozilla/*.crt >"$root/etc/ssl/certs/ca-certificates.crt"
}
# What dpkg writes of its own is no part of a package.
files() {
    inside find / -xdev \( -path /var/lib/dpkg -o -path /var/log -o -name partial \) -prune -o -print |
        sort
}

case $package in
*.whl)
    # A folder of its own for Python's packages, as every Python has it that the user may change.
    inside python3 -m venv ${emulator:+--without-pip} /opt/python
    inside ln -s /opt/python/bin/sweetspot /usr/local/bin/sweetspot
    test -z "$emulator" || unpack_pip
    ;;
esac
before=$(files)
case $package in
*.deb)
    # A root that was only unpacked knows of no package; a small one leaves out manuals.
    inside dpkg ${emulator:+--force-depends} --path-include='/usr/*' --install "$package" >/dev/null
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
sweetspot run --require --summary=summary -- dd if=in of=out bs=70 status=none
cmp in out
grep '^buffered .* in 1 process$' summary >/dev/null
grep ' /root/in .* before it had a buffer$' summary >/dev/null
rm in out summary
test -z "$1" || exit 0
sweetspot doctor >doctor
grep 'their reads and writes are buffered' doctor >/dev/null
rm doctor
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
# The library, which is written at the first use, and what was learned of the file systems are the package's
# only where Debian removes them. Of the notes of guards none is left.
case $package in
*.deb) ;;
*)
    rm -r "$root$cache"
    rm -rf "$root/var/lib/sweetspot/costs"
    rmdir "$root/var/lib/sweetspot/ledgers" "$root/var/lib/sweetspot" 2>/dev/null || true
    ;;
esac
# What runs of its own made is the user's: here, which programs were found to be buffered.
rm -rf "$root/root/.cache/sweetspot"
rmdir "$root/root/.cache" 2>/dev/null || true
after=$(files)
test "$before" = "$after" || {
    echo "left after it was removed:" >&2
    printf '%s\n%s\n' "$before" "$after" | sort | uniq -u >&2
    exit 1
}
echo "installed, used and removed: nothing is left"
