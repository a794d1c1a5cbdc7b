//! How a file is there: whether it has a name, and on which mount it lies. As the kernel knows it: no server
//! is asked.
#![allow(unsafe_code)]

use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::floor::sys;

/// What is known of a file's place.
pub struct Presence {
    pub inode: u64,
    /// Whether any name leads to it.
    pub has_name: bool,
    /// The number of its mount; `None`: not known to this kernel (before Linux 5.8).
    mount: Option<u64>,
}

impl Presence {
    /// Of an open file.
    pub fn of(fd: i32) -> Option<Presence> {
        Presence::at(fd, c"", libc::AT_EMPTY_PATH)
    }

    fn at(folder: i32, path: &CStr, flags: i32) -> Option<Presence> {
        let mut status = MaybeUninit::<libc::statx>::zeroed();
        let flags = flags | libc::AT_STATX_DONT_SYNC;
        let wanted = libc::STATX_INO | libc::STATX_NLINK | libc::STATX_MNT_ID;
        let (folder, path) = (folder as isize, path.as_ptr());
        // SAFETY: a string that ends in a zero, and a structure that the kernel fills.
        let status = unsafe {
            match sys::syscall!(SYS_statx, folder, path, flags, wanted, status.as_mut_ptr()) {
                0 => status.assume_init(),
                _ => return None,
            }
        };
        let knows_mount = status.stx_mask & libc::STATX_MNT_ID != 0;
        Some(Presence {
            inode: status.stx_ino,
            has_name: status.stx_nlink > 0,
            mount: knows_mount.then_some(status.stx_mnt_id),
        })
    }

    /// Whether it lies where nobody can unmount anything: on the mount of the root, which was looked at once.
    pub fn is_on_root(&self) -> bool {
        /// The number of the root's mount, and one; 0: not looked at.
        #[unsafe(link_section = ".data")]
        static ROOT: AtomicU64 = AtomicU64::new(0);
        if ROOT.load(Relaxed) == 0 {
            let root = Presence::at(libc::AT_FDCWD, c"/", 0).and_then(|root| root.mount);
            ROOT.store(root.map_or(u64::MAX, |mount| mount + 1), Relaxed);
        }
        self.mount.is_some_and(|mount| ROOT.load(Relaxed) == mount + 1)
    }
}
