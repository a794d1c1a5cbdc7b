//! Functions of our own, for programs that know of us. `include/sweetspot.h` says what they promise.

use core::ffi::{c_int, c_longlong};

use crate::engine::embed;
use crate::front::dispatch;

/// Writes out everything that waits.
#[cfg_attr(preload_abi, unsafe(no_mangle))]
pub extern "C" fn sweetspot_flush() -> c_int {
    answer(dispatch::flush())
}

/// What becomes of reads and writes of a descriptor.
#[cfg_attr(preload_abi, unsafe(no_mangle))]
pub extern "C" fn sweetspot_status(fd: c_int) -> c_int {
    embed::status(fd)
}

/// How large the buffer of an open file should be.
#[cfg_attr(preload_abi, unsafe(no_mangle))]
pub extern "C" fn sweetspot_advise(fd: c_int, size: c_longlong) -> c_int {
    answer(embed::advise(fd, size))
}

fn answer(done: Result<(), c_int>) -> c_int {
    match done {
        Ok(()) => 0,
        Err(errno) => crate::floor::errno::fail(errno) as c_int,
    }
}
