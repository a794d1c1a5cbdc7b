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

/// A hook of a call that comes by the million, in three steps. What is answered at once, from what is
/// kept of a file; what passes through, as nothing concerns it; and everything else. Each is a function
/// of its own, to which the one before *jumps*: so that none saves registers for what comes after it.
macro_rules! in_steps {
    (
        fn $name:ident($fd:ident: c_int $(, $arg:ident: $type:ty)*) -> $ret:ty;
        answers ($inline:ident if $may_answer:expr) $answer:expr;
        passes $pass:expr;
        observed by $way:ident($($word:expr),*);
        else $outcome:expr;
    ) => {
        hook! {
            fn $name($fd: c_int $(, $arg: $type)*) -> $ret, _any => {
                #[inline($inline)]
                unsafe extern "C" fn answers($fd: c_int $(, $arg: $type)*) -> $ret {
                    match $answer {
                        Some(answer) => answer as $ret,
                        // SAFETY: the program made the same call.
                        None => unsafe { passes($fd $(, $arg)*) },
                    }
                }

                #[inline(never)]
                unsafe extern "C" fn passes($fd: c_int $(, $arg: $type)*) -> $ret {
                    if let Some(address) = $name::known()
                        && let Some(pass) = $pass
                    {
                        let next = calls!(address.get() => ($fd: c_int $(, $arg: $type)*) -> $ret);
                        return pass.finish_alone(next($fd $(, $arg)*) as isize) as $ret;
                    }
                    // SAFETY: the program made the same call.
                    unsafe { otherwise($fd $(, $arg)*) }
                }

                #[inline(never)]
                unsafe extern "C" fn otherwise($fd: c_int $(, $arg: $type)*) -> $ret {
                    if observe::is_on() {
                        // SAFETY: as above.
                        return unsafe { observe::ways::$way($($word),*, $name::next()) } as $ret;
                    }
                    let next = calls!($name::next() => ($fd: c_int $(, $arg: $type)*) -> $ret);
                    follow!($outcome, next($fd $(, $arg)*) as isize) as $ret
                }

                match $may_answer {
                    // SAFETY: as above.
                    true => unsafe { answers($fd $(, $arg)*) },
                    // SAFETY: as above.
                    false => unsafe { passes($fd $(, $arg)*) },
                }
            }
        }
    };
}
pub(super) use in_steps;

macro_rules! reads {
    ($($name:ident)*) => {$(in_steps! {
        fn $name(fd: c_int, buffer: *mut c_void, len: usize) -> isize;
        answers (always if true) ops::read::hit(fd, buffer.cast(), len);
        passes ops::read::passes(fd, len);
        observed by read(fd, buffer as usize, len, 0);
        else ops::read::not_hit(fd, buffer.cast(), len);
    })*};
}
reads! { read __read }

macro_rules! writes {
    ($($name:ident)*) => {$(in_steps! {
        fn $name(fd: c_int, buffer: *const c_void, len: usize) -> isize;
        answers (always if true) ops::write::waits(fd, buffer.cast(), len).then_some(len as isize);
        passes ops::write::passes(fd, len);
        observed by write(fd, buffer as usize, len, 0);
        else ops::write::not_waiting(fd, buffer.cast(), len);
    })*};
}
writes! { write __write }

macro_rules! positioned_reads {
    ($($name:ident)*) => {$(in_steps! {
        fn $name(fd: c_int, buffer: *mut c_void, len: usize, offset: i64) -> isize;
        answers (always if true) ops::read::hit_at(fd, buffer.cast(), len, offset);
        passes ops::read::passes_at(fd, len, offset);
        observed by read_at(fd, buffer as usize, len, offset);
        else ops::read::not_hit_at(fd, buffer.cast(), len, offset);
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
