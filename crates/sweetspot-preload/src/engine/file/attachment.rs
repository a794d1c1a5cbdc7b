//! What an open file is to the ledger: how far its attachment has come, and where what waits goes.

use core::sync::atomic::{
    AtomicU32,
    Ordering::{Relaxed, SeqCst},
};

use sweetspot_core::ledger::{Entry, PLACE_BASE, PLACE_END, PLACE_OFFSET};

/// How far the attachment of an open file has come. ARCHITECTURE.md has what belongs to each.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Attachment {
    /// The guard was not asked for a handle on the file.
    None = 0,
    /// It was, and no answer was seen.
    Asked = 1,
    /// The guard holds a handle.
    Held = 2,
    /// Not to be had, or not worth having: final.
    Never = 3,
}

/// An [`Attachment`], as an open file keeps it.
pub struct Attached(AtomicU32);

impl Attached {
    /// Not asked for.
    pub const fn new() -> Attached {
        Attached(AtomicU32::new(Attachment::None as u32))
    }

    /// How far it has come.
    #[inline(always)]
    pub fn get(&self) -> Attachment {
        match self.0.load(Relaxed) {
            0 => Attachment::None,
            1 => Attachment::Asked,
            2 => Attachment::Held,
            _ => Attachment::Never,
        }
    }

    /// It has come so far.
    pub fn set(&self, attachment: Attachment) {
        self.0.store(attachment as u32, Relaxed);
    }
}

/// Where the writes of an open file go.
#[expect(clippy::enum_variant_names, reason = "each is said as where it is")]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// At its position, which is ours while it is `ON`.
    AtPosition,
    /// At the end of the file, as it is open for appending.
    AtEnd,
    /// At the kernel's offset, which others share, or where they append, at the end: it came from outside.
    AtSharedOffset,
}

impl Placement {
    /// Of an open file with these flags.
    pub fn of(is_from_outside: bool, flags: i32) -> Placement {
        match flags & libc::O_APPEND {
            _ if is_from_outside => Placement::AtSharedOffset,
            0 => Placement::AtPosition,
            _ => Placement::AtEnd,
        }
    }

    /// Of what waits in an entry.
    pub fn of_entry(entry: &Entry) -> Placement {
        match entry.place.load(SeqCst) {
            PLACE_BASE => Placement::AtPosition,
            PLACE_OFFSET => Placement::AtSharedOffset,
            _ => Placement::AtEnd,
        }
    }

    /// As an entry says it to the guard.
    pub fn place(self) -> u32 {
        match self {
            Placement::AtPosition => PLACE_BASE,
            Placement::AtEnd => PLACE_END,
            Placement::AtSharedOffset => PLACE_OFFSET,
        }
    }

    /// Whether it is an append placement: the position stays the kernel's, and what waits leaves by a
    /// plain write.
    pub fn is_append(self) -> bool {
        self != Placement::AtPosition
    }
}
