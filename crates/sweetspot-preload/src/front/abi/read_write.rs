//! Reading and writing, every spelling of it.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use libc::iovec;

use crate::engine::{self, AtOnce, life, process};
use crate::floor::careful;
use crate::floor::errno::fail;
use crate::front::dispatch;

/// Asks what becomes of a call, and calls the next definition where it says to pass the call through.
macro_rules! follow {
    ($outcome:expr, $next:expr) => {
        match $crate::front::dispatch::Outcome::from($outcome) {
            $crate::front::dispatch::Outcome::Done(answer) => answer,
            passed_through => {
                let answer = $next;
                passed_through.finish(answer)
            }
        }
    };
}
pub(super) use follow;

/// Asks about a call that is a cancellation point.
#[inline(always)]
fn at_point<T>(ask: impl FnOnce() -> T) -> T {
    careful::cancellation_point();
    ask()
}

/// A hook of a call that comes by the million, in steps: what passes through at once, after a look at two
/// words; what is answered from what is kept of a file; what passes through because nothing concerns it;
/// and everything else. Each step is a function of its own, and the one before *jumps* to it, so that none
/// saves registers for what comes after it.
///
/// What passes through at once goes to what stands behind the hook: the next definition, or where the process
/// is observed, the way of the observer, which calls that.
macro_rules! in_steps {
    (
        fn $name:ident($fd:ident: c_int $(, $arg:ident: $type:ty)*) -> $ret:ty;
        at once $at_once:expr;
        kept($kept:ident) $answer:expr;
        before that $answer_alone:expr;
        passes $pass:expr;
        observed by $way:ident($($word:expr),*);
        else $outcome:expr;
    ) => {
        hook! {
            fn $name($fd: c_int $(, $arg: $type)*) -> $ret, _any => {
                /// What stands behind the hook, or what finds it and goes on there.
                #[unsafe(link_section = ".data")]
                static BEHIND: AtomicPtr<()> = AtomicPtr::new((find as *const ()).cast_mut());

                #[unsafe(naked)]
                unsafe extern "C" fn find() {
                    $crate::arch::jump_after!(found)
                }

                extern "C" fn found() -> usize {
                    let next = $name::next();
                    let behind = match dispatch::is_observed() {
                        true => observed as *const () as usize,
                        false => next,
                    };
                    BEHIND.store(behind as *mut (), Relaxed);
                    behind
                }

                unsafe extern "C" fn observed($fd: c_int $(, $arg: $type)*) -> $ret {
                    match $name::known() {
                        // SAFETY: the program made the same call.
                        Some(next) if !process::passive_for_good() => unsafe {
                            dispatch::ways::$way($($word),*, next.get()) as $ret
                        },
                        // SAFETY: as above.
                        _ => unsafe { otherwise($fd $(, $arg)*) },
                    }
                }

                #[inline(never)]
                unsafe extern "C" fn answers_alone(
                    $fd: c_int $(, $arg: $type)*, $kept: u64,
                ) -> $ret {
                    match $answer_alone {
                        Some(answer) => answer as $ret,
                        // SAFETY: the program made the same call.
                        None => unsafe { answers($fd $(, $arg)*, $kept) },
                    }
                }

                #[inline(never)]
                unsafe extern "C" fn answers($fd: c_int $(, $arg: $type)*, $kept: u64) -> $ret {
                    match $answer {
                        Some(answer) => answer as $ret,
                        // SAFETY: the program made the same call.
                        None => unsafe { otherwise($fd $(, $arg)*) },
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
                    let next = calls!($name::next() => ($fd: c_int $(, $arg: $type)*) -> $ret);
                    follow!($outcome, next($fd $(, $arg)*) as isize) as $ret
                }

                match $at_once {
                    AtOnce::Pass => {
                        let behind = BEHIND.load(Relaxed) as usize;
                        let goes_on = calls!(behind => ($fd: c_int $(, $arg: $type)*) -> $ret);
                        goes_on($fd $(, $arg)*)
                    }
                    // SAFETY: as above.
                    AtOnce::Kept(word) => unsafe {
                        answers_alone(
                            $fd $(, $arg)*, word,
                        )
                    },
                    // SAFETY: as above.
                    AtOnce::Ask => unsafe { passes($fd $(, $arg)*) },
                }
            }
        }
    };
}
pub(super) use in_steps;

macro_rules! reads {
    ($($name:ident)*) => {$(in_steps! {
        fn $name(fd: c_int, buffer: *mut c_void, len: usize) -> isize;
        at once engine::read::at_once(fd, len);
        kept(word) engine::read::hit(word, fd, buffer.cast(), len);
        before that engine::read::hit_alone(word, buffer.cast(), len);
        passes engine::read::passes(fd, len);
        observed by read(fd, buffer as usize, len, 0);
        else at_point(|| engine::read::not_hit(fd, buffer.cast(), len));
    })*};
}
reads! { read __read }

macro_rules! writes {
    ($($name:ident)*) => {$(in_steps! {
        fn $name(fd: c_int, buffer: *const c_void, len: usize) -> isize;
        at once engine::write::at_once(fd, len);
        kept(word) engine::write::waits(word, fd, buffer.cast(), len);
        before that engine::write::waits_alone(word, buffer.cast(), len);
        passes engine::write::passes(fd, len);
        observed by write(fd, buffer as usize, len, 0);
        else at_point(|| engine::write::not_waiting(fd, buffer.cast(), len));
    })*};
}
writes! { write __write }

macro_rules! positioned_reads {
    ($($name:ident)*) => {$(in_steps! {
        fn $name(fd: c_int, buffer: *mut c_void, len: usize, offset: i64) -> isize;
        at once engine::read::at_once_at(fd, len, offset);
        kept(word) engine::read::hit_at(word, fd, buffer.cast(), len, offset);
        before that None::<isize>;
        passes engine::read::passes_at(fd, len, offset);
        observed by read_at(fd, buffer as usize, len, offset);
        else at_point(|| engine::read::not_hit_at(fd, buffer.cast(), len, offset));
    })*};
}
positioned_reads! { pread pread64 __pread64 }

macro_rules! positioned_writes {
    ($($name:ident)*) => {$(hook! {
        fn $name(fd: c_int, buffer: *const c_void, len: usize, offset: i64) -> isize, next => {
            follow!(
                at_point(|| dispatch::write_at(fd, buffer.cast(), len, offset)),
                next(fd, buffer, len, offset)
            )
        }
    })*};
}
positioned_writes! { pwrite pwrite64 __pwrite64 }

hook! {
    fn readv(fd: c_int, vector: *const iovec, count: c_int) -> isize, next => {
        follow!(at_point(|| dispatch::read_vector(fd, vector, count, None)), next(fd, vector, count))
    }
}

hook! {
    fn writev(fd: c_int, vector: *const iovec, count: c_int) -> isize, next => {
        follow!(at_point(|| dispatch::write_vector(fd, vector, count)), next(fd, vector, count))
    }
}

macro_rules! positioned_vectors {
    ($($read:ident $write:ident)*) => {$(
        hook! {
            fn $read(fd: c_int, vector: *const iovec, count: c_int, offset: i64) -> isize, next => {
                follow!(
                    at_point(|| dispatch::read_vector(fd, vector, count, Some(offset))),
                    next(fd, vector, count, offset)
                )
            }
        }
        hook! {
            fn $write(fd: c_int, vector: *const iovec, count: c_int, offset: i64) -> isize, next => {
                follow!(
                    at_point(|| dispatch::write_vector_at(fd, offset)),
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
                // Flags ask the kernel for something: pass through. -1 stands for the position.
                if offset == -1 {
                    dispatch::hand_over_offset(fd);
                }
                let pass = dispatch::pass_through();
                let failed = life::incomplete(fd).map(fail);
                pass.finish(failed.unwrap_or_else(|| next(fd, vector, count, offset, flags)))
            }
        }
        hook! {
            fn $write(
                fd: c_int, vector: *const iovec, count: c_int, offset: i64, flags: c_int,
            ) -> isize, next => {
                dispatch::writes_unseen(fd, offset != -1);
                let pass = dispatch::pass_through();
                let failed = life::incomplete(fd).map(fail);
                pass.finish(failed.unwrap_or_else(|| next(fd, vector, count, offset, flags)))
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
        follow!(at_point(|| dispatch::read(fd, buffer.cast(), len)), next(fd, buffer, len, size))
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
                at_point(|| dispatch::read_at(fd, buffer.cast(), len, offset)),
                next(fd, buffer, len, offset, size)
            )
        }
    })*};
}
checked_positioned_reads! { __pread_chk __pread64_chk }
