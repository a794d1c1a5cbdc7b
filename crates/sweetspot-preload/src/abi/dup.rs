//! Duplicating descriptors, and `fcntl`, which does that among much else.

use core::ffi::c_int;

use sweetspot_core::why::Why;

use crate::ops;

hook! {
    fn dup(fd: c_int) -> c_int, next => {
        ops::life::duplicating(fd);
        let new = next(fd);
        ops::life::duplicated(fd, new);
        new
    }
}

macro_rules! dup2s {
    ($($name:ident)*) => {$(hook! {
        fn $name(old: c_int, new: c_int) -> c_int, next => {
            if old != new {
                ops::life::duplicating(old);
                ops::life::may_be_replaced(new);
            }
            let answer = next(old, new);
            ops::life::duplicated(old, answer);
            answer
        }
    })*};
}
dup2s! { dup2 __dup2 }

hook! {
    fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int, next => {
        if old != new {
            ops::life::duplicating(old);
            ops::life::may_be_replaced(new);
        }
        let answer = next(old, new, flags);
        ops::life::duplicated(old, answer);
        answer
    }
}

macro_rules! fcntls {
    ($($name:ident)*) => {$(hook! {
        fn $name(fd: c_int, command: c_int, argument: usize) -> c_int, next => {
            match command {
                libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
                    ops::life::duplicating(fd);
                    let new = next(fd, command, argument);
                    ops::life::duplicated(fd, new);
                    new
                }
                libc::F_SETFD => {
                    let answer = next(fd, command, argument);
                    if answer == 0 {
                        ops::life::set_close_on_exec(fd, argument as c_int);
                    }
                    answer
                }
                // Questions that reveal nothing and that nobody notices.
                libc::F_GETFD | libc::F_GETFL | libc::F_GETOWN => {
                    next(fd, command, argument)
                }
                // Locks: taking one is listening, releasing one is speaking.
                libc::F_GETLK | libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_GETLK
                | libc::F_OFD_SETLK | libc::F_OFD_SETLKW => {
                    let pass = ops::pass_on();
                    let answer = next(fd, command, argument);
                    pass.done();
                    answer
                }
                // Leases, seals, signals, flags: whatever it is, the kernel must know all.
                libc::F_SETFL => {
                    ops::life::hand_over(fd);
                    next(fd, command, argument)
                }
                _ => {
                    ops::life::special_use(fd, Why::SpecialUse);
                    let pass = ops::pass_on();
                    let answer = next(fd, command, argument);
                    pass.done();
                    answer
                }
            }
        }
    })*};
}
fcntls! { fcntl fcntl64 __fcntl }
