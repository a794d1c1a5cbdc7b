//! Seeking.

use core::ffi::c_int;

use super::read_write::follow;
use crate::ops::{self, Outcome, observe};

macro_rules! seeks {
    ($($name:ident)*) => {$(hook! {
        fn $name(fd: c_int, offset: i64, whence: c_int) -> i64, next => {
            if let Some(position) = ops::seek::moved(fd, offset, whence) {
                return position as i64;
            }
            if observe::is_on() {
                let (offset, whence) = (offset as usize, whence as usize);
                // SAFETY: the program made the same call.
                return unsafe { observe::ways::seek(fd, offset, whence, 0, $name::next()) } as i64;
            }
            follow!(ops::seek::not_moved(fd, offset, whence), next(fd, offset, whence) as isize) as i64
        }
    })*};
}
seeks! { lseek lseek64 llseek __lseek }
