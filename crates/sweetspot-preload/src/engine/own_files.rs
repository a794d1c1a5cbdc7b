//! Files that libc opens, reads and closes by itself, in the middle of a function that mostly needs
//! none: tables of time zones, catalogues of messages. It keeps what it has read, so only a call that
//! asks for something new is seen to read. All others, which a program may make for every line that it
//! writes, leave what waits alone.

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::floor::environment::variable_now;
use crate::floor::next::Next;

/// The zone that libc has read last; 0: none.
#[unsafe(link_section = ".data")]
static ZONE: AtomicU64 = AtomicU64::new(0);

/// Whether libc reads the time zone now that it is needed: where `TZ` names another one than before.
pub fn zone_is_news() -> bool {
    let zone = mix(0, variable_now(b"TZ").unwrap_or(b"\0"));
    ZONE.swap(zone, Relaxed) != zone
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

/// Whether libc may read a catalogue, now that a message of a domain (null: of the one in force) is looked up.
pub fn message_is_news(domain: *const c_char) -> bool {
    // SAFETY: libc reads the same string.
    let domain = if domain.is_null() { c"" } else { unsafe { CStr::from_ptr(domain) } };
    let changes = u64::from(CHANGES.load(Relaxed)) << 32;
    let languages = mix(changes, variable_now(b"LANGUAGE").unwrap_or(b"\0"));
    let key = mix(languages ^ locale() as u64, domain.to_bytes_with_nul());
    for known in &CATALOGUES {
        match known.compare_exchange(0, key, Relaxed, Relaxed) {
            Ok(_) => return true,
            Err(other) if other == key => return false,
            Err(_) => {}
        }
    }
    true
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
