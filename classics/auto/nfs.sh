#!/bin/sh
# Runs the plan on NFS, as root: in a virtual machine whose kernel is client and server. The report lies
# in RESULTS afterwards, beside what the machine said.
#
#   nfs.sh SWEETSPOT FOLDER RESULTS [-- OPTIONS]
#
# FOLDER is on a disk with 3 GB free; the machine's system stays there for the next time. OPTIONS are
# those of `sweetspot bench`. The machine is emulated unless ACCEL=kvm is in the environment: some twenty
# times slower, in all it does, so take --scale short. MIRROR says from where Debian comes, if not from the usual
# place. Needs mmdebstrap, qemu-system-x86 and e2fsprogs.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
sweetspot=$1 folder=$2 results=$3
shift 3
[ "${1-}" != -- ] || shift
mkdir -p "$folder" "$results"
system=$folder/bookworm disk=$folder/disk

if [ ! -d "$system" ]; then
    # With namespaces of its own, whose mounts end with it.
    unshare --mount --pid --fork --kill-child --propagation private -- \
        mmdebstrap --mode=root --format=directory --variant=apt --dpkgopt=force-unsafe-io \
        --include=linux-image-cloud-amd64,kmod,mount,iproute2,nfs-kernel-server,gcc,libc6-dev,gnucobol4,python3-minimal \
        bookworm "$system.begun" ${MIRROR:+"$MIRROR"}
    mv "$system.begun" "$system"
fi

rm -rf "$system/plan"
cp -R "$here" "$system/plan"
cp "$sweetspot" "$system/usr/local/bin/sweetspot"
chmod 755 "$system/usr/local/bin/sweetspot"
cat > "$system/init" << 'INIT'
#!/bin/sh
export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs tmpfs /run
ln -sfn /proc/self/fd /dev/fd
ip link set lo up
modprobe nfsd
mkdir -p /export /near /result /run/rpc_pipefs /var/lib/nfs/v4recovery
mount -t nfsd nfsd /proc/fs/nfsd
echo '/export 127.0.0.1(rw,fsid=0,no_root_squash,no_subtree_check)' > /etc/exports
exportfs -a
rpc.mountd --no-nfs-version 3
rpc.nfsd --no-nfs-version 3 --grace-time 10 --lease-time 10 4
mount -t nfs -o vers=4.2 127.0.0.1:/ /near && mkdir /near/bench && {
    grep ' /near ' /proc/mounts
    sh -c "sweetspot bench --dir /near/bench --store /result/nfs.sqlite $(cat /options) /plan"
}
umount /near
echo "END:$?"
sync
mount -o remount,ro / 2> /dev/null || true
echo o > /proc/sysrq-trigger
sleep 60
INIT
chmod 755 "$system/init"
echo "$@" > "$system/options"

rm -f "$disk"
used=$(du -sm "$system" | cut -f 1)
mke2fs -q -t ext4 -d "$system" "$disk" "$((used + used / 8 + 1500))M"
kernel=$(ls "$system"/boot/vmlinuz-*)
{
    echo "load before: $(cat /proc/loadavg)"
    qemu-system-x86_64 -M q35 -cpu max -accel "${ACCEL:-tcg,thread=multi}" -smp 2 -m 2048 \
        -nographic -nodefaults -serial stdio -no-reboot \
        -drive "if=none,id=disk,format=raw,cache=unsafe,file=$disk" -device nvme,drive=disk,serial=disk \
        -kernel "$kernel" -append "console=ttyS0 root=/dev/nvme0n1 rootwait rootfstype=ext4 rw \
init=/init panic=-1 quiet cryptomgr.notests"
    echo "load after: $(cat /proc/loadavg)"
} > "$results/nfs.txt" 2>&1 < /dev/null
e2fsck -fp "$disk" > /dev/null || true
debugfs -R "dump /result/nfs.sqlite $results/nfs.sqlite" "$disk" 2> /dev/null
test -s "$results/nfs.sqlite"
rm -f "$disk"
