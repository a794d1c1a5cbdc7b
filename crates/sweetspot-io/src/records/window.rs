//! The window of a file: some of its bytes, and what was written into them.
//!
//! When to fill it, how far, and when not to, is decided by `sweetspot_core::window`, as in
//! `sweetspot run`.
//!
//! Invariant: the dirty ranges lie in the window, in order, and apart; nothing but them is written.

use crate::sys;
use std::fs::File;
use std::io;
use std::ops::Range;
use sweetspot_core::policy::WINDOW_BYTES_MIN;
use sweetspot_core::window::{Decision, Miss, Pattern};

pub struct Window {
    file: File,
    buffer: Vec<u8>,
    /// Where the window begins in the file.
    at: u64,
    /// Where the bytes of the last read begin in the window.
    cursor: usize,
    dirty: Vec<Range<usize>>,
    pattern: Pattern,
    served: u64,
    served_bytes: u64,
    bytes_max: usize,
}

impl Window {
    pub fn new(file: File, bytes_max: usize) -> Window {
        Window {
            file,
            buffer: Vec::new(),
            at: 0,
            cursor: 0,
            dirty: Vec::new(),
            pattern: Pattern::NEW,
            served: 0,
            served_bytes: 0,
            bytes_max,
        }
    }

    pub fn file_len(&self) -> io::Result<u64> {
        Ok(sys::stat(&self.file)?.st_size as u64)
    }

    /// Makes the window hold `len` bytes at `at`; fewer where the file ends. Says how many.
    pub fn read(&mut self, at: u64, len: usize) -> io::Result<usize> {
        let end = self.at + self.buffer.len() as u64;
        if at < self.at || at + len as u64 > end {
            let fill = self.decide(at, len);
            self.flush()?;
            self.buffer.resize(fill, 0);
            (self.at, self.served, self.served_bytes) = (at, 0, 0);
            let result = sys::read_full_at(&self.file, &mut self.buffer, at);
            self.buffer.truncate(*result.as_ref().unwrap_or(&0));
            result?;
        }
        self.served += 1;
        self.served_bytes += len as u64;
        self.cursor = (at - self.at) as usize;
        Ok(len.min(self.buffer.len() - self.cursor))
    }

    /// The first `len` bytes of the last read.
    pub fn bytes(&self, len: usize) -> &[u8] {
        &self.buffer[self.cursor..self.cursor + len]
    }

    /// How many bytes to read from the place of a miss on.
    fn decide(&mut self, at: u64, len: usize) -> usize {
        let miss = Miss {
            at,
            len: len as u64,
            window_at: self.at,
            window_len: self.buffer.len() as u64,
            served: self.served,
            served_bytes: self.served_bytes,
            bytes_max: self.bytes_max as u64,
            bytes_sweet: self.bytes_max as u64,
            bytes_first: WINDOW_BYTES_MIN,
            dense_bytes: u64::MAX,
        };
        match self.pattern.miss(&miss) {
            Decision::Fill(bytes) => bytes as usize,
            Decision::PassOn => len,
            Decision::Close(_) => {
                // Begin anew: this file stays, and its reads may come in order again.
                self.pattern = Pattern::NEW;
                len
            }
        }
    }

    /// Changes bytes that the window holds, since they were read just before.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let start = (at - self.at) as usize;
        let range = start..start + bytes.len();
        self.buffer[range.clone()].copy_from_slice(bytes);
        match self.dirty.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            Some(last) if last.end > range.start => self.insert(range),
            _ => self.dirty.push(range),
        }
        Ok(())
    }

    /// Adds a range that is not behind all others.
    fn insert(&mut self, range: Range<usize>) {
        let place = self.dirty.partition_point(|other| other.end < range.start);
        let until = self.dirty.partition_point(|other| other.start <= range.end);
        let mut whole = range;
        for other in &self.dirty[place..until] {
            whole = whole.start.min(other.start)..whole.end.max(other.end);
        }
        self.dirty.splice(place..until, [whole]);
    }

    /// Writes what was changed. What could not be written stays, for the next time.
    pub fn flush(&mut self) -> io::Result<()> {
        while let Some(range) = self.dirty.first().cloned() {
            let at = self.at + range.start as u64;
            sys::write_all_at(&self.file, &self.buffer[range], at)?;
            self.dirty.remove(0);
        }
        Ok(())
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // Whoever wants to know calls `finish`.
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dirty_ranges_are_in_order_and_apart() {
        let mut window = Window::new(tempfile::tempfile().unwrap(), 100);
        window.buffer = vec![0; 100];
        for (start, expected) in [
            (10, &[(10, 20)][..]),
            (20, &[(10, 30)]),
            (50, &[(10, 30), (50, 60)]),
            (35, &[(10, 30), (35, 45), (50, 60)]),
            (25, &[(10, 45), (50, 60)]),
            (42, &[(10, 60)]),
            (0, &[(0, 60)]),
            (90, &[(0, 60), (90, 100)]),
            (70, &[(0, 60), (70, 80), (90, 100)]),
        ] {
            window.write(start, &[1; 10]).unwrap();
            let found: Vec<_> = window.dirty.iter().map(|r| (r.start, r.end)).collect();
            assert_eq!(found, expected, "after {start}");
        }
    }
}
