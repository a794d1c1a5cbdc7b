//! What a shadow is told and asked, and what it answers.

use crate::cost::Cost;

/// What would have been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Would {
    /// Reads answered from a window.
    Hit,
    HitBytes,
    /// Windows filled.
    Fill,
    FillBytes,
    /// Windows that would have been asked, by fstat, whether they are still right.
    Ask,
    /// Writes that would have waited.
    Append,
    AppendBytes,
    /// Positioned writes of what waited.
    Flush,
    FlushBytes,
    /// Seeks answered without the kernel.
    Seek,
    /// Times a file would have been quiesced, which tells the kernel the position.
    Quiesce,
    /// Files that would have got a window, or begun to wait, which takes some questions.
    Open,
    /// Calls that this was asked about: where only some were, all else is a part of these.
    AskedReads,
    AskedWrites,
    AskedSeeks,
}

impl Would {
    /// How many there are.
    pub const COUNT: usize = Would::AskedSeeks as usize + 1;
}

/// The acquire points and release points of a process, as far as buffers depend on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct World {
    /// Acquire points: whatever may have brought news. A window is asked again after each.
    pub acquires: u64,
    /// Release points: whatever others can notice. Everything that waits is written before each.
    pub releases: u64,
}

impl World {
    /// The process may have learned something new.
    pub fn acquire_point(&mut self) {
        self.acquires = self.acquires.wrapping_add(1);
    }

    /// Others may be about to notice something.
    pub fn release_point(&mut self) {
        self.releases = self.releases.wrapping_add(1);
    }
}

/// One read or write: where it began, what was asked for, what was done, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    pub at: u64,
    pub len: u64,
    pub done: u64,
    /// The call named the place (`pread`).
    pub is_positioned: bool,
}

/// What the engine would ask the kernel about now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Wish {
    Nothing,
    /// Reads have earned a window: answer with [`super::Shadow::open_window`] or [`super::Shadow::refuse`].
    Window,
    /// Writes have earned a handle: answer with [`super::Shadow::ask_for_handle`] or [`super::Shadow::refuse_writes`].
    Handle,
}

/// What transfers of a file cost, as earlier runs have told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    pub read: Option<Cost>,
    pub write: Option<Cost>,
}
