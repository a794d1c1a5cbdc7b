//! What a shadow is told and asked, and what it answers.

use crate::cost::Cost;
use crate::threshold::Asked;

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

/// What all files of a process have in common, as far as buffers depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct World {
    /// Acquire points: whatever may have brought news. A window is asked again after each.
    pub acquires: u64,
    /// Release points: whatever others can notice. Everything that waits is written before each.
    pub releases: u64,
    /// What other open file descriptions of this process have of the file that is asked about.
    pub beside: Use,
    /// The calls that files must make before they get buffers.
    pub asked: Asked,
    /// Reads in order that this one has brought to an end.
    pub ended_reads: u32,
}

/// What an open file description has of its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// A window, which others' bytes are news to.
    pub window: bool,
    /// Bytes that wait.
    pub pending: bool,
}

impl Use {
    /// What one and another have together.
    #[must_use]
    pub fn and(self, other: Use) -> Use {
        Use { window: self.window || other.window, pending: self.pending || other.pending }
    }
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

    /// The file is about to be read by the kernel, and other descriptions of it may have bytes that wait.
    pub(super) fn before_read(&mut self) {
        if self.beside.pending {
            self.release_point();
        }
    }

    /// A write of the file goes to the kernel: before it all that waits does, and windows of it are old.
    pub(super) fn write_passes(&mut self) {
        self.release_point();
        if self.beside.window {
            self.acquire_point();
        }
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
    /// A window of a file that was changed lately was filled: answer with [`super::Shadow::note_times`].
    Times,
    /// Writes have earned a handle: answer with [`super::Shadow::ask_for_handle`] or [`super::Shadow::refuse_writes`].
    Handle,
}

/// What transfers of a file cost, as earlier runs have told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    pub read: Option<Cost>,
    pub write: Option<Cost>,
}
