//! What an open file is to the ledger: how far its attachment has come, and where what waits goes.
#![allow(unsafe_code)]

use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
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

/// How an open file is attached: how far that has come, by which entry, where its write buffer is mapped, and
/// whether writes wait in it. What belongs together changes together, and only here.
#[repr(C)]
pub struct Attached {
    /// Address in the write buffer at which what waits begins; 0: writes pass through.
    write_buffer: AtomicU64,
    /// Null: none.
    entry: AtomicPtr<Entry>,
    /// Where the write buffer is mapped, also while writes pass through; 0: nowhere.
    mapped_at: AtomicU64,
    mapped_bytes: AtomicU64,
    /// An [`Attachment`].
    come: AtomicU32,
}

/// Where a write buffer is mapped: address (0: nowhere) and bytes.
pub type MappedAt = (u64, u64);

impl Attached {
    /// Not asked for.
    pub const fn new() -> Attached {
        Attached {
            write_buffer: AtomicU64::new(0),
            entry: AtomicPtr::new(core::ptr::null_mut()),
            mapped_at: AtomicU64::new(0),
            mapped_bytes: AtomicU64::new(0),
            come: AtomicU32::new(Attachment::None as u32),
        }
    }

    /// How far it has come.
    #[inline(always)]
    pub fn get(&self) -> Attachment {
        match self.come.load(Relaxed) {
            0 => Attachment::None,
            1 => Attachment::Asked,
            2 => Attachment::Held,
            _ => Attachment::Never,
        }
    }

    fn has_come(&self, attachment: Attachment) {
        self.come.store(attachment as u32, Relaxed);
    }

    /// Whether writes wait, or may begin to.
    pub fn may_wait(&self) -> bool {
        matches!(self.get(), Attachment::Asked | Attachment::Held)
    }

    /// The entry in the ledger, if there is one.
    #[inline(always)]
    pub fn entry(&self) -> Option<&'static Entry> {
        // SAFETY: entries are in the ledger, which stays mapped.
        unsafe { self.entry.load(Relaxed).as_ref() }
    }

    /// The same where it is known that there is one.
    ///
    /// # Safety
    /// There is.
    #[inline(always)]
    pub unsafe fn entry_unchecked(&self) -> &'static Entry {
        // SAFETY: as the caller says, and as in `entry`.
        unsafe { &*self.entry.load(Relaxed) }
    }

    /// Whether writes wait.
    #[inline(always)]
    pub fn waits(&self) -> bool {
        self.write_buffer() != 0
    }

    /// Where in memory what waits begins; 0: writes pass through.
    #[inline(always)]
    pub fn write_buffer(&self) -> u64 {
        self.write_buffer.load(Relaxed)
    }

    /// Where its write buffer is mapped.
    pub fn mapped(&self) -> MappedAt {
        (self.mapped_at.load(Relaxed), self.mapped_bytes.load(Relaxed))
    }

    fn set_mapped(&self, (at, bytes): MappedAt) {
        self.mapped_at.store(at, Relaxed);
        self.mapped_bytes.store(bytes, Relaxed);
    }

    /// An open file begins, without one.
    pub fn begin(&self) {
        self.write_buffer.store(0, Relaxed);
        self.entry.store(core::ptr::null_mut(), Relaxed);
        self.mapped_at.store(0, Relaxed);
        self.has_come(Attachment::None);
    }

    /// The guard was asked, by an entry for which a write buffer may be mapped already.
    pub fn ask(&self, entry: &'static Entry, mapped: MappedAt) {
        self.set_mapped(mapped);
        self.entry.store((&raw const *entry).cast_mut(), Relaxed);
        self.has_come(Attachment::Asked);
    }

    /// The guard holds a handle, and the write buffer is mapped.
    pub fn hold(&self, mapped: MappedAt) {
        self.set_mapped(mapped);
        self.has_come(Attachment::Held);
    }

    /// From now on writes wait, the first of them so many bytes behind where the write buffer is mapped.
    #[inline(always)]
    pub fn wait_from(&self, start: u64) {
        self.write_buffer.store(self.mapped_at.load(Relaxed) + start, Relaxed);
    }

    /// From now on writes pass through.
    pub fn pass_through(&self) {
        self.write_buffer.store(0, Relaxed);
    }

    /// It is let go of. Returns the entry and where its write buffer is mapped, which the caller gives back.
    pub fn let_go(&self) -> Option<(&'static Entry, MappedAt)> {
        self.pass_through();
        // SAFETY: as in `entry`.
        let entry = unsafe { self.entry.swap(core::ptr::null_mut(), Relaxed).as_ref() };
        let left = entry.map(|entry| (entry, self.unmap()));
        // Last: from here on another thread may ask again.
        if self.get() != Attachment::Never {
            self.has_come(Attachment::None);
        }
        left
    }

    /// Nothing more is to come of it. An entry that there is stays until it is let go of.
    pub fn give_up(&self) {
        self.has_come(Attachment::Never);
    }

    /// The entry is another process', and nothing more is to come of it here.
    pub fn disown(&self) {
        self.pass_through();
        self.entry.store(core::ptr::null_mut(), Relaxed);
        self.give_up();
    }

    /// Where the write buffer is mapped; from now on it counts as mapped nowhere.
    pub fn unmap(&self) -> MappedAt {
        (self.mapped_at.swap(0, Relaxed), self.mapped_bytes.load(Relaxed))
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
