//! One buffer, filled again and again.

use super::Advance;
use crate::input::{Opened, Source};
use std::io;

struct Streaming {
    source: Source,
    buffer: Vec<u8>,
    buffer_bytes: usize,
    end: usize,
}

pub fn new(opened: Opened, buffer_bytes: usize) -> Box<dyn Advance> {
    // The buffer is made when the first byte is wanted.
    let buffer = Vec::new();
    Box::new(Streaming { source: opened.source, buffer, buffer_bytes, end: 0 })
}

impl Advance for Streaming {
    fn advance(&mut self, keep: usize) -> io::Result<usize> {
        let kept = self.end - keep;
        if kept > 0 {
            self.buffer.copy_within(kept..self.end, 0);
        }
        self.end = keep;
        if self.buffer.len() < keep + self.buffer_bytes {
            // A line that does not fit doubles it, so that all its growing costs one more copy.
            let grown = (keep + self.buffer_bytes).max(2 * self.buffer.len());
            self.buffer.resize(grown, 0);
        }
        let fresh = self.source.read(&mut self.buffer[keep..keep + self.buffer_bytes])?;
        self.end += fresh;
        Ok(fresh)
    }

    fn block(&self) -> &[u8] {
        &self.buffer[..self.end]
    }
}
