//! Reading and writing, every spelling of it.

use core::ffi::{c_int, c_void};

use libc::iovec;

use crate::ops::{self, Outcome, observe};

/// Asks `ops`, and calls the next definition when told to pass on.
macro_rules! follow {
    ($outcome:expr, $next:expr) => {
        match $outcome {
            Outcome::Done(answer) => answer,
            passed_on => {
                let answer = $next;
                passed_on.finish(answer)
            }
        }
    };
}
pub(super) use follow;

macro_rules! reads {
    ($($name:ident)*) => {$(hook! {
        fn $name(fd: c_int, buffer: *mut c_void, len: usize) -> isize, next => {
            if let Some(done) = ops::read::hit(fd, buffer.cast(), len) {
                return done;
            }
            if observe::is_on() {
                // SAFETY: the program made the same call.
                return unsafe { observe::ways::read(fd, buffer as usize, len, 0, $name::next()) };
            }
            follow!(ops::read::not_hit(fd, buffer.cast(), len), next(fd, buffer, len))
        }
    })*};
}
reads! { read __read }

macro_rules! writes {
    ($($name:ident)*) => {$(hook! {
        fn $name(fd: c_int, buffer: *const c_void, len: usize) -> isize, next => {
            if ops::write::waits(fd, buffer.cast(), len) {
                return len as isize;
            }
            if observe::is_on() {
                // SAFETY: the program made the same call.
                return unsafe { observe::ways::write(fd, buffer as usize, len, 0, $name::next()) };
            }
            follow!(ops::write::not_waiting(fd, buffer.cast(), len), next(fd, buffer, len))
        }
    })*};
}
writes! { write __write }

macro_rules! positioned_reads {
    ($($name:ident)*) => {$(hook! {
        fn $name(fd: c_int, buffer: *mut c_void, len: usize, offset: i64) -> isize, next => {
            if let Some(done) = ops::read::hit_at(fd, buffer.cast(), len, offset) {
                return done;
            }
            if observe::is_on() {
                let (into, next) = (buffer as usize, $name::next());
                // SAFETY: the program made the same call.
                return unsafe { observe::ways::read_at(fd, into, len, offset, next) };
            }
            follow!(
                ops::read::not_hit_at(fd, buffer.cast(), len, offset),
                next(fd, buffer, len, offset)
            )
        }
    })*};
}
positioned_reads! { pread pread64 __pread64 }

macro_rules! positioned_writes {
    ($($name:ident)*) => {$(hook! {
        fn $name(fd: c_int, buffer: *const c_void, len: usize, offset: i64) -> isize, next => {
            follow!(
                ops::write::write_at(fd, buffer.cast(), len, offset),
                next(fd, buffer, len, offset)
            )
        }
    })*};
}
positioned_writes! { pwrite pwrite64 __pwrite64 }

hook! {
    fn readv(fd: c_int, vector: *const iovec, count: c_int) -> isize, next => {
        follow!(ops::read::read_vector(fd, vector, count, None), next(fd, vector, count))
    }
}

hook! {
    fn writev(fd: c_int, vector: *const iovec, count: c_int) -> isize, next => {
        follow!(ops::write::write_vector(fd), next(fd, vector, count))
    }
}

macro_rules! positioned_vectors {
    ($($read:ident $write:ident)*) => {$(
        hook! {
            fn $read(fd: c_int, vector: *const iovec, count: c_int, offset: i64) -> isize, next => {
                follow!(
                    ops::read::read_vector(fd, vector, count, Some(offset)),
                    next(fd, vector, count, offset)
                )
            }
        }
        hook! {
            fn $write(fd: c_int, vector: *const iovec, count: c_int, offset: i64) -> isize, next => {
                follow!(
                    ops::write::write_vector_at(fd, offset),
                    next(fd, vector, count, offset)
                )
            }
        }
    )*};
}
positioned_vectors! { preadv pwritev preadv64 pwritev64 }

macro_rules! flagged_vectors {
    ($($read:ident $write:ident)*) => {$(
        hook! {
            fn $read(
                fd: c_int, vector: *const iovec, count: c_int, offset: i64, flags: c_int,
            ) -> isize, next => {
                // Flags ask for something of the kernel: straight on; -1 stands for the position.
                if offset == -1 {
                    ops::life::hand_over(fd);
                }
                let pass = ops::pass_on();
                let answer = next(fd, vector, count, offset, flags);
                pass.finish(answer)
            }
        }
        hook! {
            fn $write(
                fd: c_int, vector: *const iovec, count: c_int, offset: i64, flags: c_int,
            ) -> isize, next => {
                ops::life::hand_over(fd);
                let pass = ops::pass_on();
                let answer = next(fd, vector, count, offset, flags);
                pass.finish(answer)
            }
        }
    )*};
}
flagged_vectors! { preadv2 pwritev2 preadv64v2 pwritev64v2 }

// The fortified forms know the size of the caller's buffer and end the program when it is too
// small: the next definition does that.
hook! {
    fn __read_chk(fd: c_int, buffer: *mut c_void, len: usize, size: usize) -> isize, next => {
        if len > size {
            return next(fd, buffer, len, size);
        }
        follow!(ops::read::read(fd, buffer.cast(), len), next(fd, buffer, len, size))
    }
}

macro_rules! checked_positioned_reads {
    ($($name:ident)*) => {$(hook! {
        fn $name(
            fd: c_int, buffer: *mut c_void, len: usize, offset: i64, size: usize,
        ) -> isize, next => {
            if len > size {
                return next(fd, buffer, len, offset, size);
            }
            follow!(
                ops::read::read_at(fd, buffer.cast(), len, offset),
                next(fd, buffer, len, offset, size)
            )
        }
    })*};
}
checked_positioned_reads! { __pread_chk __pread64_chk }
