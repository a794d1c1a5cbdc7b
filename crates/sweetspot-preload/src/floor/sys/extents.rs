//! Where on its disk a file lies.

use super::syscall;

/// `FS_IOC_FIEMAP`. The kernel hands it to no server in user space.
const FIEMAP: usize = 0xc020_660b;

/// `struct fiemap`, with no room for extents: they are only counted.
#[repr(C)]
struct Map {
    start: u64,
    len: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
}

/// Whether a file can have a byte at a position, as far as its file system has an answer.
pub fn has_place_at(fd: i32, position: u64) -> bool {
    let mut map = Map { start: position, len: 1, flags: 0, mapped: 0, room: 0, reserved: 0 };
    // SAFETY: the kernel reads and writes that structure.
    unsafe { syscall!(SYS_ioctl, fd as isize, FIEMAP, &raw mut map) == 0 }
}
