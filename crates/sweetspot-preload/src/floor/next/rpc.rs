//! Sun RPC inside glibc, for programs that were linked before 2.32: its messages go by calls that pass no hook, so
//! no release or acquire point is seen.
//!
//! No hook stands in front of its functions. libtirpc has others of the same names, a program may have both, and
//! only the loader knows by their versions which of them a library calls. So it is looked which versions the
//! loaded objects were linked to.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::names::Names;
use super::{Object, has_glibc, loaded, objects};

/// Whether the program, or a library that it was loaded with, calls others by glibc's RPC, or serves such calls.
pub fn needs_rpc() -> bool {
    /// 0: not asked; 1: one does; 2: none does.
    #[unsafe(link_section = ".data")]
    static ANSWER: AtomicU32 = AtomicU32::new(0);
    if ANSWER.load(Relaxed) == 0 {
        let needs = has_glibc() && loaded().take(1).chain(objects()).any(calls_rpc);
        ANSWER.store(if needs { 1 } else { 2 }, Relaxed);
    }
    ANSWER.load(Relaxed) == 1
}

fn calls_rpc(object: &Object) -> bool {
    // SAFETY: an object of the start, which stays.
    let names = unsafe { Names::of(object.base, object.dynamic) };
    // SAFETY: as above.
    let own = unsafe { names.own_name() };
    // NIS: it asks servers of names alone, in functions that nobody calls while a file is to be looked at.
    let asks_for_names = own.starts_with(b"libnsl.so") || own.starts_with(b"libnss_");
    // SAFETY: as above.
    !asks_for_names && unsafe { names.needs(b"GLIBC_", is_rpc) }
}

/// Whether a function of glibc's is one that makes calls, serves them, or is of use only with those.
fn is_rpc(name: &[u8]) -> bool {
    [&b"clnt"[..], b"svc", b"pmap_"].iter().any(|begin| name.starts_with(begin))
        || matches!(name, b"callrpc" | b"registerrpc" | b"getrpcport")
}
