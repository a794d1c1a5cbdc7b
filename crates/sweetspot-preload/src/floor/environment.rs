//! What the program was started with: variables of its environment, and its name.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char};

unsafe extern "C" {
    static environ: Variables;
    static program_invocation_short_name: *const c_char;
}

/// Strings `name=value`, the last of them null.
pub type Variables = *const *const c_char;

/// The variables as the constructor finds them, which libc hands over as `given`.
pub fn at_start(given: Variables) -> Variables {
    // Before libc's own constructor `environ` is not set yet; where it is, the arguments may not be.
    // SAFETY: a variable of libc.
    let set = unsafe { environ };
    if set.is_null() { given } else { set }
}

/// The value of an environment variable as the program has it now. It is read where libc reads it in
/// the same call, unlocked as there.
pub fn variable_now(name: &[u8]) -> Option<&'static [u8]> {
    // SAFETY: a variable of libc.
    variable(unsafe { environ }, name)
}

/// The value of an environment variable.
pub fn variable(mut entry: Variables, name: &[u8]) -> Option<&'static [u8]> {
    // SAFETY: a list of strings that ends with null; anyone who asks knows that it does not change.
    unsafe {
        if entry.is_null() {
            return None;
        }
        while !(*entry).is_null() {
            // Its length is not asked for: most are other ones, and some are long. No name holds a
            // null, so this ends within the string.
            let same = name.iter().enumerate().all(|(at, byte)| *(*entry).add(at) as u8 == *byte);
            if same && *(*entry).add(name.len()) as u8 == b'=' {
                return Some(CStr::from_ptr((*entry).add(name.len() + 1)).to_bytes());
            }
            entry = entry.add(1);
        }
    }
    None
}

/// The file name of the program, as it was called.
pub fn program_name() -> &'static [u8] {
    // SAFETY: a variable of libc that holds a string for the life of the process.
    unsafe {
        let name = program_invocation_short_name;
        if name.is_null() { b"" } else { CStr::from_ptr(name).to_bytes() }
    }
}
