//! The end of buffering in this process, or of the process itself: why it ends, and what is quiesced
//! before.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use sweetspot_core::shown;
use sweetspot_core::why::Why;

use super::dirty::release_point;
use super::handlers::Uncovered;
use super::process::{PASSIVE_FOR_GOOD, passive_reasons, set_passive};
use super::sharing::{Sharing, quiesce_all, stop_transitions};
use super::spawns::{is_spawned_child, passive};
use super::{dirty, entries, file, handle, handlers, ledger, others, pool, spawns, streams};
use crate::floor::atomic::single_threaded;
use crate::floor::next::{self, Unseen};
use crate::floor::standard_error::Text;
use crate::floor::{proc, sys};

/// Whether anything may be buffered here: only where what stdio does is seen, where libc reads and
/// writes, and where none of its messages goes unseen. Where that never will be, the process is passive from here on,
/// so that no call tries again what cannot be, and each costs what it costs where buffering is off. No lock is held.
pub fn can_buffer() -> bool {
    if ends_by_library() {
        return false;
    }
    if !next::data_is_libcs() {
        end_because(Why::OtherLibrary);
        return false;
    }
    if next::needs_rpc() {
        end_because(Why::Rpc);
        return false;
    }
    if streams::are_seen() {
        if handlers::ignores() {
            end_because(Why::FaultsIgnored);
            return false;
        }
        return true;
    }
    if streams::are_never_seen() {
        // The reason has been noted where it was found.
        others::writing_unseen();
        end();
    }
    // Else another thread is finding out.
    false
}

/// Why what was loaded since the last look makes calls that are not seen; `None`: it does not.
pub fn unseen_library() -> Option<Why> {
    // The child of a vfork would look in its parent's place.
    if spawns::is_filtered() || is_spawned_child() {
        return None;
    }
    next::later().map(|unseen| match unseen {
        Unseen::Uring => Why::IoUring,
        Unseen::Go => Why::Go,
        Unseen::Homonym => Why::OtherLibrary,
    })
}

/// The same, and buffering ends then. No lock is held.
pub fn ends_by_library() -> bool {
    let why = unseen_library();
    why.into_iter().for_each(end_because);
    why.is_some()
}

/// After a function that set or asked what a signal does: our handler is in front again.
#[inline(always)]
pub fn cover(uncovered: Uncovered) {
    handlers::cover(uncovered);
    if uncovered != Uncovered::No && handlers::ignores() && !passive() {
        end_because(Why::FaultsIgnored);
    }
}

/// The process ends: every file is quiesced, and from now on every call passes through.
pub fn end() {
    end_with(None);
}

/// The process can no longer be followed, or may no longer do what we would do: as `end`, and the
/// summary says why.
pub fn end_because(why: Why) {
    end_with(Some(why));
}

/// Whether bytes that the program wrote could not be put into their files at its end.
#[unsafe(link_section = ".data")]
static LOST: AtomicBool = AtomicBool::new(false);

/// See `LOST`.
pub fn has_lost() -> bool {
    LOST.load(Relaxed)
}

/// What a descriptor is closed with cannot tell the program that its bytes could not be written: its end does.
pub fn lose() {
    LOST.store(true, Relaxed);
}

/// In the child of a fork: what its parent has lost, that one's end tells.
pub(super) fn forget() {
    LOST.store(false, Relaxed);
}

/// EX_IOERR of sysexits.h.
const STATUS_LOST: i32 = 74;

/// Before this process makes a child and ends inside libc, where it can neither say nor end with what it has lost; the
/// child would know nothing of it. The error with which that must not begin; `None`: nobody has to learn anything.
pub fn ends_unreported() -> Option<i32> {
    if is_spawned_child() {
        return None;
    }
    let error = |file: &file::OpenFile| {
        let of = [&file.error, &file.close_error].map(|error| error.load(Relaxed));
        let is_open = file.references.load(Relaxed) > 0;
        of.into_iter().find(|errno| is_open && *errno != 0)
    };
    let failed = file::used().find_map(error).or(has_lost().then_some(libc::EIO));
    if failed.is_none() && entries::any_failed() {
        say_what_failed();
    }
    failed
}

/// The status with which a program ends that ends with `status`: success means that all it wrote is
/// in its files.
pub fn end_status(status: i32) -> i32 {
    // What is kept here is not of the child of a vfork, but of its parent.
    if has_lost() && status == 0 && !is_spawned_child() { STATUS_LOST } else { status }
}

#[unsafe(link_section = ".text.startup")]
fn end_with(why: Option<Why>) {
    if !passive() {
        // Other threads may go on until the process is gone: nothing of theirs may begin to wait.
        stop_transitions();
        release_point();
        quiesce_all(Sharing::All, why);
        if let Some(why) = why {
            ledger::note(why);
            others::writing_unseen();
        }
        set_passive(PASSIVE_FOR_GOOD);
        if dirty::is_pending() || entries::any_failed() && entries::unwritten().next().is_some() {
            lose();
        }
        if has_lost() || entries::any_failed() {
            say_what_failed();
        }
        handle::leave();
    }
    if matches!(why, Some(Why::SharedMemory | Why::IoUring | Why::MemoryLocked)) {
        // Of its memory, which is the parent's.
        spawns::leave_behind();
    }
    if why.is_some_and(Why::opens_unseen) && !is_spawned_child() {
        others::opens_unseen();
    }
    // Also where buffering had ended before; but the child of a vfork has its parent's memory.
    let lets_go = matches!(why, Some(Why::Confined | Why::MemoryLocked));
    if lets_go && passive_reasons() & PASSIVE_FOR_GOOD != 0 && !is_spawned_child() {
        ledger::let_go();
        if why == Some(Why::MemoryLocked) && single_threaded() {
            pool::unmap_free();
        }
    }
}

/// A seccomp filter is asked for, by which calls of ours may be the end of the process: none is made any more.
pub fn filtering() {
    if !spawns::is_filtered() {
        handlers::leave();
    }
    spawns::filtering();
}

/// Whether a seccomp filter is in force at the start that may kill for a call of ours. Not the ones
/// that `run` started under: it has tried what the library does, and a filter can neither be taken
/// away nor exchanged, so as many filters as then are the same ones. `allowed` is what `run` says of their number:
/// the ledger is not looked into before it is known that no call of that kills.
///
/// A kernel without seccomp, and an emulator of another machine, answer the call with an error; so
/// may a filter. What the kernel says about the process in /proc tells them apart, and opening a file
/// is no call that a filter could kill for: the dynamic linker has just done it. Where nothing can be
/// read there, a filter is taken to be in force.
pub fn confined(allowed: impl FnOnce() -> Option<&'static [u8]>) -> bool {
    // SAFETY: no memory is handed over.
    let mode = unsafe { sys::syscall!(SYS_prctl, libc::PR_GET_SECCOMP, 0, 0, 0, 0) };
    if mode == 0 || mode < 0 && status_number(b"Seccomp:\t") == Some(0) {
        return false;
    }
    let said = || allowed().and_then(sys::decimal);
    let allowed = ledger::allowed_filters().or_else(said).unwrap_or(0);
    // No number before Linux 5.9.
    allowed == 0 || status_number(b"Seccomp_filters:\t") != Some(allowed)
}

/// A number that the kernel says about this process; `None`: not all of it can be read (a process in
/// many groups has a long line of them). A kernel without such a thing has no line of it.
fn status_number(name: &[u8]) -> Option<u64> {
    proc::number_in(c"/proc/thread-self/status", name)
}

/// At the end of the process: says which files have bytes that could not be written. Where standard error has become
/// something else nobody could tell that from the program's data.
pub(super) fn say_what_failed() {
    if !streams::errors_are_read() {
        return;
    }
    for entry in entries::unwritten() {
        let mut path = [0; sweetspot_core::ledger::TEXT_BYTES_MAX];
        let mut text = Text::NEW;
        text.put("sweetspot: ");
        shown::each_part(entry.path.load(&mut path), |part| text.put(part));
        text.put(
            ": the last bytes cannot be written; when this process has ended they are saved beside \
             the file, or if there is no room, where `sweetspot recover --list` says\n",
        );
        text.say();
    }
}
