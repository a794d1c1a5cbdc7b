//! The handle that the guard holds on a file for this process: asked for, given back, given up.
//!
//! Not here: when it is asked for, and how writes begin to wait by it (`attach`).

use core::sync::atomic::Ordering::{Relaxed, Release};

use sweetspot_core::append::Handle;
use sweetspot_core::learning::Learning;
use sweetspot_core::ledger::{Entry, PLACE_BASE, PLACE_NOWHERE};
use sweetspot_core::pending::waiting_of;
use sweetspot_core::why::Why;

use super::entries::{self, Mapped};
use super::file::{self, Attachment, Held, OpenFile};
use crate::floor::shared;
use crate::floor::signals::SignalsBlocked;

/// The guard was asked for a file, by this entry; `None`: it cannot be asked yet. Until it has answered that is
/// why calls pass through. The registry is held.
pub(super) fn note_asked(file: &OpenFile, by: Option<&Mapped>) {
    if let Some(by) = by {
        file.attachment.ask(by.entry, (by.write_buffer, by.write_buffer_bytes));
    }
    file.note(Why::NotAnswered);
}

/// Lets go of a file's entry: nothing is pending, or what is cannot be written.
#[unsafe(link_section = ".text.startup")]
pub fn let_go(file: &OpenFile) {
    if let Some((entry, (write_buffer, write_buffer_bytes))) = file.attachment.let_go() {
        if waiting_of(entry.word.load(Relaxed)) > 0 {
            entries::mark_failed(entry);
        }
        let error = entries::let_go(Mapped { entry, write_buffer, write_buffer_bytes });
        if error != 0 {
            file.close_error.store(error, Relaxed);
        }
    }
}

/// Writes of this file pass through from now on, at the position that is ours or the kernel's. The
/// lock is held and nothing is pending.
pub(super) fn detach(file: &OpenFile, held: &Held) {
    if !held.nested {
        file.attachment.pass_through();
        if file.is_append_placed() {
            let learned = Learning(file.learned.load(Relaxed)).start_again();
            file.state.store(learned.0, Release);
        }
    }
}

pub(super) fn give_up(file: &OpenFile, why: Why) {
    file.note_no_more(Why::NotAnswered);
    file.note(why);
    file.attachment.give_up();
}

/// Lets go of the memory in which bytes of a file wait; none do.
pub(super) fn drop_write_buffer(file: &OpenFile) {
    let (write_buffer, bytes) = file.attachment.unmap();
    if file.is_append_interrupted() {
        shared::disconnect_write_buffer(write_buffer, bytes);
    } else {
        shared::unmap_write_buffer(write_buffer, bytes);
    }
}

/// Gives every handle back: the process ends or becomes another program. Every file is quiesced.
#[unsafe(link_section = ".text.startup")]
pub fn leave() {
    if !entries::has_slot() {
        return;
    }
    let _signals = SignalsBlocked::new();
    for file in file::used() {
        if file.references.load(Relaxed) > 0 {
            if file.is_append_interrupted() {
                drop_write_buffer(file);
            }
            let_go(file);
        }
    }
    // What was closed is free when this process has ended, or is another program.
    entries::await_let_go();
    entries::leave();
}

/// How a file stands with the guard.
pub fn stand(file: &OpenFile) -> Handle {
    let is_waiting = |entry| matches!(entries::answer(entry), entries::Answer::Waiting);
    match file.attachment.get() {
        Attachment::None => Handle::None,
        Attachment::Asked => Handle::Asked { is_answered: !file.entry().is_some_and(is_waiting) },
        Attachment::Held => Handle::Held,
        Attachment::Never => Handle::Never,
    }
}

/// Another process is about to have the description of a file, too: an answer that is still to come whether it is this
/// process' own would be too old.
pub fn forget_question(file: &OpenFile) {
    forget_if(file, |entry| entry.place.load(Relaxed) == PLACE_NOWHERE);
}

/// A number is about to mean another description than that of a file: the guard, which may have been asked by it, would
/// look at that one, or copy it. (A handle is on the file, whatever the description.)
pub fn forget_number(file: &OpenFile, fd: i32) {
    forget_if(file, |entry| {
        let is_by_number = entry.place.load(Relaxed) != PLACE_BASE;
        is_by_number && entry.fd.load(Relaxed) == fd
    });
}

/// Takes back what the guard was asked, if it has not answered.
fn forget_if(file: &OpenFile, is_to_be: impl Fn(&Entry) -> bool) {
    if file.attachment.get() == Attachment::Asked && file.entry().is_some_and(is_to_be) {
        let _signals = SignalsBlocked::new();
        let_go(file);
    }
}
