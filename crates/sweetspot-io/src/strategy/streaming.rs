//! One buffer, filled again and again.

use super::{Advance, buffer::Buffer};
use crate::input::{Opened, Source};
use std::io;

struct Streaming {
    source: Source,
    /// Takes its memory when the first byte is wanted.
    buffer: Buffer,
    buffer_bytes: usize,
}

pub fn new(opened: Opened, buffer_bytes: usize) -> Box<dyn Advance> {
    Box::new(Streaming { source: opened.source, buffer: Buffer::default(), buffer_bytes })
}

impl Advance for Streaming {
    fn advance(&mut self, keep: usize) -> io::Result<usize> {
        let fresh = self.source.read(self.buffer.space_behind(keep, self.buffer_bytes))?;
        self.buffer.filled(fresh);
        Ok(fresh)
    }

    fn block(&self) -> &[u8] {
        self.buffer.block()
    }
}
