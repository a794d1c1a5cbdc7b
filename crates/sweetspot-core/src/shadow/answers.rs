//! What a shadow is answered: what the kernel, the guard or the ledger would have said to the engine.

use super::{Shadow, State, Told, World, Would};
use crate::append::Handle;
use crate::policy::WINDOW_BYTES_MIN;
use crate::why::Why;

impl Shadow {
    /// What earlier runs have told of its file system.
    pub fn tell(&mut self, told: Told) {
        self.told = told;
    }

    /// The window that reads have earned opens: the file has that many bytes. One from outside is the process'
    /// alone, of which the guard has to be asked: it answers before the next window is earned.
    pub fn open_window(&mut self, size: u64) {
        self.size = size;
        let left = size.saturating_sub(self.position);
        if left < WINDOW_BYTES_MIN / 2 || self.outside && !self.is_known_alone(left) {
            self.learning = self.learning.back_off();
        } else {
            self.turn_on(State::On);
        }
    }

    /// Whether the file was changed so shortly before its window was filled that a change since would not show in
    /// its times: then the window is not believed when the file is asked.
    pub fn note_times(&mut self, is_recent: bool) {
        self.is_recent = is_recent;
    }

    fn is_known_alone(&mut self, left: u64) -> bool {
        if self.is_asked_after {
            self.outside = false;
            self.learning = self.learning.without_backoff();
            return true;
        }
        self.is_asked_after = self.learning.asks_whether_alone(left);
        false
    }

    /// The handle that writes have earned was asked for: the file has that many bytes. The guard answers before
    /// the next write; where it takes longer, as many more writes pass through.
    pub fn ask_for_handle(&mut self, size: u64) {
        self.size = self.size.max(size);
        self.handle = Handle::Asked { is_answered: true };
    }

    /// The same for a file with append placement: it is open for appending, or came from outside.
    pub fn ask_for_handle_to_append(&mut self, size: u64) {
        self.at_end = true;
        self.ask_for_handle(size);
    }

    /// While nothing waits, it was set whether its writes are appended.
    pub fn place(&mut self, appends: bool) {
        self.at_end = appends || self.outside;
    }

    /// Writes never wait, for this reason.
    pub fn refuse_writes(&mut self, why: Why) {
        self.why |= why.bit();
        self.handle = Handle::Never;
        if self.is_append_placed() {
            self.turn_off();
        }
    }

    /// No window of it opens any more, as the process reads memory that others may write.
    pub fn refuse_windows(&mut self) {
        self.why |= Why::SharedMemory.bit();
    }

    /// Calls on the file pass through for good, for this reason.
    pub fn refuse(&mut self, why: Why, world: &mut World, mut count: impl FnMut(Would, u64)) {
        self.quiesce(world, &mut count);
        self.state = State::PassThrough;
        self.why |= why.bit();
    }
}
