//! Locks and System V semaphores: taking one is listening, releasing one is speaking.
//!
//! `fcntl` locks are in `dup`. POSIX semaphores and process-shared mutexes make no call that could
//! be seen; they live in shared memory, which ends buffering (`memory`).

use core::ffi::c_int;

use super::Pointer;

talk! {
    fn flock(fd: c_int, operation: c_int) -> c_int;
    fn semget(key: c_int, count: c_int, flags: c_int) -> c_int;
    fn semop(id: c_int, operations: Pointer, count: usize) -> c_int;
    fn semtimedop(id: c_int, operations: Pointer, count: usize, timeout: Pointer) -> c_int;
    fn semctl(id: c_int, index: c_int, command: c_int, argument: usize) -> c_int;
    fn lckpwdf() -> c_int;
    fn ulckpwdf() -> c_int;
}

// The region begins at the position.
hand_over! {
    fn lockf(fd: c_int, command: c_int, len: i64) -> c_int;
    fn lockf64(fd: c_int, command: c_int, len: i64) -> c_int;
}
