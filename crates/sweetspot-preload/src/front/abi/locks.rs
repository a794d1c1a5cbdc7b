//! Locks and System V semaphores: taking one is an acquire point, giving one back is a release point.
//!
//! `fcntl` locks are in `dup`. POSIX semaphores and process-shared mutexes make no call that could
//! be seen; they live in shared memory, which ends buffering (`memory`).

use core::ffi::c_int;

use super::Pointer;
use crate::engine::deaths;
use crate::engine::entries::before_descriptors_are_noticed;
use crate::front::dispatch;

// The kernel frees the locks of a process that is killed before anybody can wait for it.
learns_of_deaths! {
    fn flock(fd: c_int, operation: c_int);
    fn semop(id: c_int, operations: Pointer, count: usize);
    fn semtimedop(id: c_int, operations: Pointer, count: usize, timeout: Pointer);
    fn semctl(id: c_int, index: c_int, command: c_int, argument: usize);
}

public_sync_point! {
    fn semget(key: c_int, count: c_int, flags: c_int) -> c_int;
    fn lckpwdf() -> c_int;
    fn ulckpwdf() -> c_int;
}

macro_rules! record_locks {
    ($($name:ident)*) => {$(hook! {
        fn $name(fd: c_int, command: c_int, len: i64) -> c_int, next => {
            before_descriptors_are_noticed();
            // The region begins at the position.
            dispatch::hand_over_offset(fd);
            let pass = dispatch::pass_through();
            let answer = next(fd, command, len);
            deaths::learned();
            pass.done();
            answer
        }
    })*};
}
record_locks! { lockf lockf64 }
