//! Seeking.

use core::ffi::c_int;

use super::read_write::follow;
use crate::ops::{self, Outcome};

macro_rules! seeks {
    ($($name:ident)*) => {$(hook! {
        fn $name(fd: c_int, offset: i64, whence: c_int) -> i64, next => {
            follow!(ops::seek::seek(fd, offset, whence), next(fd, offset, whence) as isize) as i64
        }
    })*};
}
seeks! { lseek lseek64 llseek __lseek }
