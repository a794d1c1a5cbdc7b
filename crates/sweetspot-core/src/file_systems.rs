//! File systems, by the number that `statfs` says.

/// Programs serve its files.
pub const FUSE: u64 = 0x6573_5546;
/// A server keeps its files.
pub const NFS: u64 = 0x6969;

/// Whether another process, here or elsewhere, serves its files.
pub fn is_served(magic: u64) -> bool {
    const PLAN_9: u64 = 0x0102_1997;
    const CIFS: u64 = 0xff53_4d42;
    const SMB2: u64 = 0xfe53_4d42;
    const CEPH: u64 = 0x00c3_6400;
    [FUSE, NFS, PLAN_9, CIFS, SMB2, CEPH].contains(&(magic & 0xffff_ffff))
}
