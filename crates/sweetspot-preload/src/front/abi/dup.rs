//! Duplicating descriptors, and `fcntl`, which does that among much else.

use core::ffi::c_int;

use sweetspot_core::why::Why;

use super::locks;
use super::system::asked;
use super::waiting::watching;
use crate::engine::entries::before_descriptors_are_noticed;
use crate::engine::{self, changes, handlers};
use crate::floor::errno::fail;
use crate::front::{dispatch, duplicates};

hook! {
    fn dup(fd: c_int) -> c_int, next => {
        duplicates::duplicate(fd, || next(fd) as isize) as c_int
    }
}

macro_rules! dup2s {
    ($($name:ident)*) => {$(hook! {
        fn $name(old: c_int, new: c_int) -> c_int, next => {
            duplicates::replace(old, new, || next(old, new) as isize) as c_int
        }
    })*};
}
dup2s! { dup2 __dup2 }

hook! {
    fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int, next => {
        duplicates::replace(old, new, || next(old, new, flags) as isize) as c_int
    }
}

/// Whether a lock's region begins at the position, which is ours: the kernel must know it then.
fn lock_follows_position(fd: c_int, lock: usize) -> bool {
    engine::life::is_followed(fd)
        && handlers::peek(lock as *const libc::flock)
            .is_some_and(|lock| libc::c_int::from(lock.l_whence) == libc::SEEK_CUR)
}

/// What `fcntl` does, with the next definition to call.
#[inline(always)]
pub(super) fn control(
    fd: c_int,
    command: c_int,
    argument: usize,
    next: impl FnOnce() -> isize,
) -> isize {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => duplicates::duplicate(fd, next),
        libc::F_SETFD => duplicates::setting_close_on_exec(fd, argument as c_int, next),
        // What others may have set who share the description.
        libc::F_GETFL | libc::F_GETOWN if engine::life::may_be_shared(fd) => asked(next),
        // Questions that reveal nothing and that nobody notices.
        libc::F_GETFD | libc::F_GETFL | libc::F_GETOWN => next(),
        libc::F_GETLK
        | libc::F_SETLK
        | libc::F_SETLKW
        | libc::F_OFD_GETLK
        | libc::F_OFD_SETLK
        | libc::F_OFD_SETLKW => lock(fd, command, argument, next),
        // Flags: the kernel must know all that came before.
        libc::F_SETFL => {
            dispatch::hand_over(fd);
            engine::life::hand_over_flags(fd);
            changes::moving(fd);
            if let Some(errno) = engine::life::incomplete(fd) {
                // It would go to where these flags say.
                return fail(errno);
            }
            let answer = next();
            if answer == 0 {
                dispatch::flags_set(fd, argument as c_int);
            }
            answer
        }
        libc::F_NOTIFY => watching(argument as u64, next),
        // Leases, seals, signals, or something newer.
        _ => {
            dispatch::special_use(fd, Why::SpecialUse);
            let pass = dispatch::pass_through();
            let answer = next();
            pass.done();
            answer
        }
    }
}

fn lock(fd: c_int, command: c_int, argument: usize, next: impl FnOnce() -> isize) -> isize {
    if matches!(command, libc::F_SETLK | libc::F_SETLKW) {
        before_descriptors_are_noticed();
    }
    if lock_follows_position(fd, argument) {
        dispatch::hand_over_offset(fd);
    }
    locks::lock(dispatch::pass_through(), fd, next)
}

macro_rules! fcntls {
    ($($name:ident)*) => {$(hook! {
        fn $name(fd: c_int, command: c_int, argument: usize) -> c_int, next => {
            control(fd, command, argument, || next(fd, command, argument) as isize) as c_int
        }
    })*};
}
fcntls! { fcntl fcntl64 __fcntl }
