//! What the library says on standard error, at the end of a process: that may neither end the program nor hold it up.
#![allow(unsafe_code)]

use super::signals::{blockable_set, set_of};
use super::sys;

/// So long a reader of what is full is waited for, in milliseconds.
const PATIENCE_MS: i64 = 1000;

/// A pipe that takes anything takes so many bytes at once (`PIPE_BUF` of Linux is more).
const TEXT_BYTES_MAX: usize = 1536;

/// A message. What does not fit is cut off.
pub struct Text {
    bytes: [u8; TEXT_BYTES_MAX],
    len: usize,
}

impl Text {
    /// An empty one.
    pub const NEW: Text = Text { bytes: [0; TEXT_BYTES_MAX], len: 0 };

    /// Puts a part at its end.
    pub fn put(&mut self, part: &str) {
        let room = self.bytes.iter_mut().skip(self.len);
        self.len += room.zip(part.bytes()).map(|(to, from)| *to = from).count();
    }

    /// Says it in one piece, where that can be done at once, or soon. Nobody is told that nobody reads it: a signal that
    /// it raises is taken back. A terminal that stops those who write from the background takes it.
    pub fn say(&self) {
        let raised = set_of(libc::SIGPIPE) | set_of(libc::SIGXFSZ);
        let before = sys::change_signal_mask(libc::SIG_BLOCK, blockable_set());
        let waited = sys::pending_signals();
        if sys::can_write(libc::STDERR_FILENO, PATIENCE_MS) {
            // SAFETY: memory of our own.
            unsafe { sys::write(libc::STDERR_FILENO, self.bytes.as_ptr(), self.len) };
        }
        let raised = sys::pending_signals() & raised & !waited;
        if raised != 0 {
            sys::take_signal(raised);
        }
        sys::set_signal_mask(before);
    }
}
