//! All of the input first, in one buffer, however large it is.

use super::{AUTO_BUFFER_BYTES, Advance};
use crate::input::Opened;
use std::io;

struct Whole {
    /// Until it was read.
    opened: Option<Opened>,
    content: Vec<u8>,
    start: usize,
}

pub fn new(opened: Opened) -> Box<dyn Advance> {
    Box::new(Whole { opened: Some(opened), content: Vec::new(), start: 0 })
}

impl Advance for Whole {
    fn advance(&mut self, keep: usize) -> io::Result<usize> {
        self.start = self.content.len() - keep;
        let Some(mut opened) = self.opened.take() else { return Ok(0) };
        let left = opened.facts.size.saturating_sub(opened.facts.at) as usize;
        let mut len = 0;
        // One byte more than there should be, to see the end; a file that grew goes on.
        let mut room = left + 1;
        if left == 0 {
            room = AUTO_BUFFER_BYTES;
        }
        loop {
            self.content.resize(len + room, 0);
            let fresh = opened.source.read_full(&mut self.content[len..])?;
            len += fresh;
            if fresh < room {
                self.content.truncate(len);
                return Ok(len);
            }
            room = len.max(AUTO_BUFFER_BYTES);
        }
    }

    fn block(&self) -> &[u8] {
        &self.content[self.start..]
    }
}
