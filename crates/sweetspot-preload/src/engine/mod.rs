//! The engine: open files, windows, pending bytes; plain Rust that answers with a value.
//!
//! A front door asks, gets an [`Outcome`], and only the door calls the next definition; so that "call the
//! original" is a value and not an accident.
//!
//! What is known (`table`, `file`, `inodes`, `ledger`, ...) imports nothing of what is done (`read`, `write`,
//! `flush`, ...).

pub mod age;
pub mod alone;
mod answers;
pub mod append;
pub mod attach;
pub mod auto;
pub mod changes;
pub mod children;
pub mod concerns;
mod copied_up;
pub mod deaths;
pub mod dirty;
pub mod duplicates;
pub mod eligible;
pub mod embed;
pub mod ending;
pub mod entries;
pub mod failing;
pub mod file;
mod fill;
pub mod flush;
pub mod handle;
pub mod handlers;
pub mod hold;
pub mod inodes;
pub mod lane;
pub mod ledger;
pub mod life;
pub mod mapping;
pub mod others;
pub mod own_files;
pub mod pass;
mod patience;
pub mod pool;
pub mod process;
mod put_off;
mod quiesce;
pub mod read;
pub mod records;
pub mod rules;
pub mod seek;
pub mod sharing;
pub mod space;
pub mod spawns;
pub mod streams;
pub mod table;
pub mod thresholds;
pub mod transition;
pub mod unseen;
mod vector;
pub mod write;

pub use self::dirty::{before_it_is_shown, release_point};
pub use self::pass::{AtOnce, Outcome, Pass};
use self::pass::{
    Kind, disturbed, enter, enter_alone, enter_given_up, is_append_placed, is_followed, jumped,
};
use self::spawns::passive;

/// A release point that only other processes can notice, as the call looks at no file: what nobody else
/// looks at goes on waiting. The call is an acquire point, too.
#[inline(always)]
pub fn public_sync_point() -> Pass {
    if passive() {
        return Pass::NOTHING;
    }
    entries::await_let_go();
    if dirty::is_pending() {
        dirty::flush_public();
    }
    Pass::ACQUIRE
}

/// Before a call that shows whether what was closed is free, and one that starts a process, which may
/// make such a call.
#[inline(always)]
pub fn before_it_is_seen_free() {
    if !passive() {
        entries::await_let_go();
    }
}

/// What becomes of a transfer by a descriptor (if it follows from its bytes) where the process is passive.
#[cold]
#[inline(never)]
fn passed_for_good(fd: Option<i32>, pass: Pass) -> Outcome {
    match fd.filter(|_| flush::any_failed()).and_then(failing::failing_for_good) {
        Some(errno) => Outcome::Done(crate::floor::errno::fail(errno)),
        None => Outcome::PassThrough(pass),
    }
}

/// The common call on nothing that is buffered: a release point before it, an acquire point after it.
#[inline(always)]
pub fn pass_through() -> Pass {
    if passive() {
        return Pass::NOTHING;
    }
    release_point();
    Pass::ACQUIRE
}
