//! Locales, messages, character sets, time zones and patterns of dates: libc opens, reads and closes
//! files of its own choosing, which the program may have just written.

use core::ffi::{c_char, c_int};

use super::Pointer;
use crate::engine::own_files;
use crate::front::dispatch;

pass_through! {
    fn catopen(name: *const c_char, flag: c_int) -> Pointer;
    fn iconv_open(to: *const c_char, from: *const c_char) -> Pointer;
    fn getdate(text: *const c_char) -> Pointer;
    fn getdate_r(text: *const c_char, into: Pointer) -> c_int;
}

/// Functions after which messages may come from other catalogues.
macro_rules! changes_catalogues {
    ($(fn $name:ident($($arg:ident: $type:ty),*);)*) => {$(hook! {
        fn $name($($arg: $type),*) -> Pointer, next => {
            let pass = dispatch::pass_through();
            let answer = next($($arg),*);
            own_files::catalogues_changed();
            pass.done();
            answer
        }
    })*};
}
changes_catalogues! {
    fn setlocale(category: c_int, name: *const c_char);
    fn newlocale(mask: c_int, name: *const c_char, base: Pointer);
    fn __newlocale(mask: c_int, name: *const c_char, base: Pointer);
    fn textdomain(name: *const c_char);
    fn bindtextdomain(name: *const c_char, folder: *const c_char);
    fn bind_textdomain_codeset(name: *const c_char, set: *const c_char);
}

/// Functions that may have to read a file first, as `$asked` finds out. All their arguments and answers
/// are words (integers, addresses).
macro_rules! may_read {
    ($($name:ident($($arg:ident)*) $asked:expr;)*) => {$(hook! {
        fn $name($($arg: usize),*) -> usize, next => {
            let pass = $asked;
            let answer = next($($arg),*);
            pass.done();
            answer
        }
    })*};
}

may_read! {
    tzset() dispatch::zone_is_needed();
    localtime(time) dispatch::zone_is_needed();
    localtime_r(time into) dispatch::zone_is_needed();
    gmtime(time) dispatch::zone_is_needed();
    gmtime_r(time into) dispatch::zone_is_needed();
    __gmtime_r(time into) dispatch::zone_is_needed();
    mktime(date) dispatch::zone_is_needed();
    timelocal(date) dispatch::zone_is_needed();
    timegm(date) dispatch::zone_is_needed();
    ctime(time) dispatch::zone_is_needed();
    ctime_r(time into) dispatch::zone_is_needed();
    strftime(into len format date) dispatch::zone_is_needed();
    strftime_l(into len format date locale) dispatch::zone_is_needed();
    __strftime_l(into len format date locale) dispatch::zone_is_needed();
    wcsftime(into len format date) dispatch::zone_is_needed();
    wcsftime_l(into len format date locale) dispatch::zone_is_needed();
    __wcsftime_l(into len format date locale) dispatch::zone_is_needed();
    strptime(text format date) dispatch::zone_is_needed();
    strptime_l(text format date locale) dispatch::zone_is_needed();

    gettext(message) dispatch::message_is_needed(core::ptr::null());
    dgettext(domain message) dispatch::message_is_needed(domain as _);
    __dgettext(domain message) dispatch::message_is_needed(domain as _);
    dcgettext(domain message category) dispatch::message_is_needed(domain as _);
    __dcgettext(domain message category) dispatch::message_is_needed(domain as _);
    ngettext(one many count) dispatch::message_is_needed(core::ptr::null());
    dngettext(domain one many count) dispatch::message_is_needed(domain as _);
    dcngettext(domain one many count category) dispatch::message_is_needed(domain as _);
}
