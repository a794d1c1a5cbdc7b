//! Seeking.

use core::ffi::c_int;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use super::read_write::{follow, in_steps};
use crate::engine::{self, AtOnce, process};
use crate::front::dispatch;

macro_rules! seeks {
    ($($name:ident)*) => {$(in_steps! {
        fn $name(fd: c_int, offset: i64, whence: c_int) -> i64;
        at once engine::seek::at_once(fd, offset, whence);
        kept(word) engine::seek::moved(word, fd, offset, whence);
        before that None::<isize>;
        passes engine::seek::passes(fd, whence);
        observed by seek(fd, offset as usize, whence as usize, 0);
        else engine::seek::not_moved(fd, offset, whence);
    })*};
}
seeks! { lseek lseek64 llseek __lseek }
