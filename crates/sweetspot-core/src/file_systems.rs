//! File systems, by the number that `statfs` says.

/// Programs serve its files.
pub const FUSE: u64 = 0x6573_5546;
/// A server keeps its files.
pub const NFS: u64 = 0x6969;

/// Whether another process, here or elsewhere, serves its files, which have a device of this major number: a call may
/// take as long as that takes.
///
/// Nobody can list all that ask a server: Lustre, GPFS, BeeGFS and AFS come from elsewhere. So one counts as served that
/// has no disk of its own (major number 0), unless it is known to keep its files on this machine.
pub fn is_served(magic: u64, device_major: u32) -> bool {
    /// 9P, CIFS, SMB, Ceph. What FUSE serves may lie on a disk.
    const SERVED: [u64; 6] = [NFS, FUSE, 0x0102_1997, 0xff53_4d42, 0xfe53_4d42, 0x00c3_6400];
    /// tmpfs, ramfs, huge pages, overlay, aufs, btrfs, ZFS, bcachefs, eCryptfs, UBIFS. What lies below an overlay is not
    /// told.
    const LOCAL: [u64; 10] = [
        0x0102_1994,
        0x8584_58f6,
        0x9584_58f6,
        0x794c_7630,
        0x6175_6673,
        0x9123_683e,
        0x2fc1_2fc1,
        0xca45_1a4e,
        0xf15f,
        0x2405_1905,
    ];
    // Some kernels extend the sign.
    let magic = magic & 0xffff_ffff;
    SERVED.contains(&magic) || device_major == 0 && !LOCAL.contains(&magic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_no_disk_and_is_not_known_to_be_here_is_served() {
        const LUSTRE: u64 = 0x0bd0_0bd0;
        const GPFS: u64 = 0x4750_4653;
        const BTRFS: u64 = 0x9123_683e;
        const EXT: u64 = 0xef53;
        const SIGN: u64 = 0xffff_ffff_0000_0000;
        for (magic, major, expected) in [
            (LUSTRE, 0, true),
            (GPFS, 0, true),
            (NFS, 0, true),
            (FUSE, 0, true),
            (FUSE, 8, true),
            (SIGN | 0xff53_4d42, 0, true),
            (EXT, 8, false),
            (BTRFS, 0, false),
            (SIGN | BTRFS, 0, false),
            (0x794c_7630, 0, false),
            (0x0102_1994, 0, false),
        ] {
            assert_eq!(is_served(magic, major), expected, "{magic:x} {major}");
        }
    }
}
