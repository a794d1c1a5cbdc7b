//! All of the input first, in one buffer, however large it is.

use super::{AUTO_BUFFER_BYTES, Advance, buffer::Buffer};
use crate::input::Opened;
use std::io;

struct Whole {
    /// Until it was read.
    opened: Option<Opened>,
    content: Buffer,
}

pub fn new(opened: Opened) -> Box<dyn Advance> {
    Box::new(Whole { opened: Some(opened), content: Buffer::default() })
}

impl Advance for Whole {
    fn advance(&mut self, keep: usize) -> io::Result<usize> {
        let Some(mut opened) = self.opened.take() else {
            self.content.keep(keep);
            return Ok(0);
        };
        let left = opened.facts.size.saturating_sub(opened.facts.at) as usize;
        // One byte more than there should be, to see the end; a file that grew goes on.
        let mut room = if left == 0 { AUTO_BUFFER_BYTES } else { left.saturating_add(1) };
        // A length that no memory has is an error here, where it would end the process below.
        Vec::<u8>::new().try_reserve(room).map_err(|_| io::ErrorKind::OutOfMemory)?;
        self.content = Buffer::new(room);
        loop {
            let old = self.content.len();
            let fresh = opened.source.read_full(self.content.space_behind(old, room))?;
            self.content.filled(fresh);
            if fresh < room {
                return Ok(old + fresh);
            }
            room = self.content.len().max(AUTO_BUFFER_BYTES);
        }
    }

    fn block(&self) -> &[u8] {
        self.content.block()
    }
}
