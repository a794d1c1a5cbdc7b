//! errno: set only together with -1.
#![allow(unsafe_code)]

unsafe extern "C" {
    fn __errno_location() -> *mut i32;
}

/// Sets errno and returns -1, as a C function that failed.
pub fn fail(errno: i32) -> isize {
    set_errno(errno);
    -1
}

/// errno, for what must come back to it later.
pub fn errno() -> i32 {
    // SAFETY: libc gives a valid pointer to this thread's errno.
    unsafe { *__errno_location() }
}

/// Puts errno back to what it was.
pub fn set_errno(errno: i32) {
    // SAFETY: as above.
    unsafe { *__errno_location() = errno };
}
