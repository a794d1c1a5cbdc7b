//! Locks and System V semaphores: taking one is an acquire point, giving one back is a release point. Who has taken one
//! on a file reads it with what others have waiting for it.
//!
//! `fcntl` locks are in `dup`. POSIX semaphores and process-shared mutexes make no call that could
//! be seen; they live in shared memory, which ends buffering (`memory`).

use core::ffi::c_int;

use super::Pointer;
use crate::engine::entries::before_descriptors_are_noticed;
use crate::engine::{Pass, changes, deaths};
use crate::front::dispatch;

// The kernel frees the locks of a process that is killed before anybody can wait for it.
learns_of_deaths! {
    fn semop(id: c_int, operations: Pointer, count: usize);
    fn semtimedop(id: c_int, operations: Pointer, count: usize, timeout: Pointer);
    fn semctl(id: c_int, index: c_int, command: c_int, argument: usize);
}

public_sync_point! {
    fn semget(key: c_int, count: c_int, flags: c_int) -> c_int;
    fn lckpwdf() -> c_int;
    fn ulckpwdf() -> c_int;
}

/// Takes a lock on a file.
pub(super) fn lock(pass: Pass, fd: c_int, next: impl FnOnce() -> isize) -> isize {
    let answer = next();
    deaths::learned();
    if answer == 0 {
        changes::reading(fd);
    }
    pass.done();
    answer
}

hook! {
    fn flock(fd: c_int, operation: c_int) -> c_int, next => {
        lock(dispatch::public_sync_point(), fd, || next(fd, operation) as isize) as c_int
    }
}

macro_rules! record_locks {
    ($($name:ident)*) => {$(hook! {
        fn $name(fd: c_int, command: c_int, len: i64) -> c_int, next => {
            before_descriptors_are_noticed();
            // The region begins at the position.
            dispatch::hand_over_offset(fd);
            lock(dispatch::pass_through(), fd, || next(fd, command, len) as isize) as c_int
        }
    })*};
}
record_locks! { lockf lockf64 }
