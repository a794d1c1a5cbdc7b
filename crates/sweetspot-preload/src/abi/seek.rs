//! Seeking.

use core::ffi::c_int;

use super::read_write::{follow, in_steps};
use crate::ops::{self, Outcome, observe};

macro_rules! seeks {
    ($($name:ident)*) => {$(in_steps! {
        fn $name(fd: c_int, offset: i64, whence: c_int) -> i64;
        answers (never if ops::seek::may_move(fd)) ops::seek::moved(fd, offset, whence);
        passes ops::seek::passes(fd);
        observed by seek(fd, offset as usize, whence as usize, 0);
        else ops::seek::not_moved(fd, offset, whence);
    })*};
}
seeks! { lseek lseek64 llseek __lseek }
