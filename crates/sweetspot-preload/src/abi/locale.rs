//! Locales, messages, character sets, time zones and patterns of dates: libc opens, reads and closes
//! files of its own choosing, which the program may have just written.
//!
//! Not here: `localtime`, `gettext` and others that look at such a file at most once, after a function
//! that is here.

use core::ffi::{c_char, c_int};

use super::Pointer;

pass_on! {
    fn setlocale(category: c_int, name: *const c_char) -> Pointer;
    fn newlocale(mask: c_int, name: *const c_char, base: Pointer) -> Pointer;
    fn __newlocale(mask: c_int, name: *const c_char, base: Pointer) -> Pointer;
    fn textdomain(name: *const c_char) -> Pointer;
    fn bindtextdomain(name: *const c_char, folder: *const c_char) -> Pointer;
    fn bind_textdomain_codeset(name: *const c_char, set: *const c_char) -> Pointer;
    fn catopen(name: *const c_char, flag: c_int) -> Pointer;
    fn iconv_open(to: *const c_char, from: *const c_char) -> Pointer;
    fn tzset() -> ();
    fn getdate(text: *const c_char) -> Pointer;
    fn getdate_r(text: *const c_char, into: Pointer) -> c_int;
}
