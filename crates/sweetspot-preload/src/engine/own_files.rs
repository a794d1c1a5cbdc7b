//! Files that libc opens, reads and closes by itself, in the middle of a function that mostly needs
//! none: tables of time zones, catalogues of messages. It keeps what it has read, so only a call that
//! asks for something new is seen to read. All others, which a program may make for every line that it
//! writes, leave what waits alone.

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::children::passive;
use super::{Pass, observe, pass_through};
use crate::floor::environment::variable_now;
use crate::floor::next::Next;

/// The zone that libc has read last; 0: none.
#[unsafe(link_section = ".data")]
static ZONE: AtomicU64 = AtomicU64::new(0);

/// Before a function that needs the time zone: libc reads it where `TZ` names another one than before.
pub fn zone_is_needed() -> Pass {
    if !matters() {
        return Pass::NOTHING;
    }
    let zone = mix(0, variable_now(b"TZ").unwrap_or(b"\0"));
    if ZONE.swap(zone, Relaxed) == zone { Pass::NOTHING } else { pass_through() }
}

/// Catalogues that libc has looked for; 0: none. Where there are more, each message may be read.
const CATALOGUES_MAX: usize = 16;
static CATALOGUES: [AtomicU64; CATALOGUES_MAX] = [const { AtomicU64::new(0) }; CATALOGUES_MAX];
/// How often locales, and the folders of catalogues, have changed.
#[unsafe(link_section = ".data")]
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// The locale, or where catalogues lie, has changed: all may be looked for again.
pub fn catalogues_changed() {
    CHANGES.store(CHANGES.load(Relaxed).wrapping_add(1), Relaxed);
}

/// Before a message of a domain (null: of the one in force) is looked up.
pub fn message_is_needed(domain: *const c_char) -> Pass {
    if !matters() {
        return Pass::NOTHING;
    }
    // SAFETY: libc reads the same string.
    let domain = if domain.is_null() { c"" } else { unsafe { CStr::from_ptr(domain) } };
    let changes = u64::from(CHANGES.load(Relaxed)) << 32;
    let languages = mix(changes, variable_now(b"LANGUAGE").unwrap_or(b"\0"));
    let key = mix(languages ^ locale() as u64, domain.to_bytes_with_nul());
    for known in &CATALOGUES {
        match known.compare_exchange(0, key, Relaxed, Relaxed) {
            Ok(_) => return pass_through(),
            Err(other) if other == key => return Pass::NOTHING,
            Err(_) => {}
        }
    }
    pass_through()
}

/// Whether anybody is to know what libc reads.
fn matters() -> bool {
    !passive() || observe::is_on()
}

/// The locale of this thread.
fn locale() -> usize {
    static USELOCALE: Next = Next::new();
    // SAFETY: uselocale has this signature; null only asks.
    unsafe {
        let uselocale: unsafe extern "C" fn(usize) -> usize =
            core::mem::transmute(USELOCALE.address(c"uselocale"));
        uselocale(0)
    }
}

/// Mixes bytes into a number; never 0.
fn mix(seed: u64, bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
    bytes.iter().fold(seed ^ 0xcbf2_9ce4_8422_2325, add) | 1
}
