//! The window of a file: some of its bytes, and what was written into them.
//!
//! How much to read is learned from the reads. Where they follow on one another, each window is twice
//! as large as the one before. After a jump it is as large as what the last window was good for.
//! So reading in order takes few calls, and reading at random takes about twice the bytes that it asks
//! for, at most.
//!
//! Invariant: the dirty ranges lie in the window, in order, and apart; nothing but them is written.

use crate::sys;
use std::fs::File;
use std::io;
use std::ops::Range;

pub struct Window {
    file: File,
    buffer: Vec<u8>,
    /// Where the window begins in the file.
    at: u64,
    /// Where the bytes of the last read begin in the window.
    cursor: usize,
    dirty: Vec<Range<usize>>,
    /// How many bytes were asked of the window since it was filled.
    served_bytes: usize,
    /// The largest window, unless one record is larger.
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
            let fill_bytes = self.fill_bytes(at, len);
            self.flush()?;
            self.buffer.resize(fill_bytes, 0);
            (self.at, self.served_bytes) = (at, 0);
            let result = sys::read_full_at(&self.file, &mut self.buffer, at);
            self.buffer.truncate(*result.as_ref().unwrap_or(&0));
            result?;
        }
        self.served_bytes = self.served_bytes.saturating_add(len);
        self.cursor = (at - self.at) as usize;
        Ok(len.min(self.buffer.len() - self.cursor))
    }

    /// How many bytes to read for `len` bytes at `at`, which are not all in the window.
    fn fill_bytes(&self, at: u64, len: usize) -> usize {
        let window_bytes = self.buffer.len();
        let follows = (self.at..=self.at + window_bytes as u64).contains(&at);
        let bytes = match follows {
            true => 2 * window_bytes,
            // What was asked for twice was of use once.
            false => self.served_bytes.min(window_bytes).next_power_of_two(),
        };
        bytes.min(self.bytes_max).max(len)
    }

    /// The first `len` bytes of the last read.
    pub fn bytes(&self, len: usize) -> &[u8] {
        &self.buffer[self.cursor..self.cursor + len]
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
        // Anyone who wants to know calls `finish`.
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fault;

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
    const FILE_BYTES: usize = 1 << 20;

    /// Makes reads and says how many calls they took, and how many bytes.
    fn cost(reads: impl Iterator<Item = (u64, usize)>, bytes_max: usize) -> (u64, usize) {
        let content: Vec<u8> = (0..FILE_BYTES).map(|at| (at % 251) as u8).collect();
        let mut window = Window::new(tempfile::tempfile().unwrap(), bytes_max);
        sys::write_all_at(&window.file, &content, 0).unwrap();
        let mut bytes = 0;
        let read = || {
            for (at, len) in reads {
                let window_before = (window.at, window.buffer.len());
                let expected = &content[at as usize..content.len().min(at as usize + len)];
                let found = window.read(at, len).unwrap();
                assert_eq!(window.bytes(found), expected);
                assert!(window.buffer.len() <= bytes_max.max(len), "{}", window.buffer.len());
                if window_before != (window.at, window.buffer.len()) {
                    bytes += window.buffer.len();
                }
            }
        };
        let ((), calls, _) = fault::count(read);
        (calls, bytes)
    }

    #[test]
    fn reading_in_order_takes_few_calls() {
        for (len, bytes_max) in [(1, 65536), (200, 65536), (200, 4096), (5000, 65536)] {
            let reads = (0..FILE_BYTES / len).map(|number| ((number * len) as u64, len));
            let (calls, bytes) = cost(reads, bytes_max);
            let buffers = FILE_BYTES / bytes_max;
            // A window for each doubling; and records that the end of a window cuts are read again.
            assert!(calls as usize <= buffers + buffers / 10 + 20, "{len}: {calls} calls");
            assert!(bytes <= FILE_BYTES + FILE_BYTES / 10, "{len}: {bytes} bytes");
        }
    }

    #[test]
    fn reading_at_random_takes_few_bytes() {
        for (len, bytes_max) in [(1, 65536), (100, 65536), (200, 4096), (5000, 65536)] {
            let mut state = 1_u64;
            let records = (FILE_BYTES / len) as u64;
            let reads = std::iter::repeat_with(|| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                ((state >> 33) % records * len as u64, len)
            });
            let (calls, bytes) = cost(reads.take(2000), bytes_max);
            assert!(calls <= 2000, "{calls} calls");
            assert!(bytes * 10 <= 2000 * len * 21, "{len}: {bytes} bytes");
            // Backwards, and in leaps.
            let backwards = (0..1000).rev().map(|number| (number * 200, 200));
            let leaps = (0..1000).map(|number| (number * 1000, 200));
            for (_, bytes) in [cost(backwards, bytes_max), cost(leaps, bytes_max)] {
                assert!(bytes * 10 <= 1000 * 200 * 21, "{bytes} bytes");
            }
        }
    }

    #[test]
    fn after_a_jump_a_window_is_as_large_as_the_last_was_good_for() {
        let in_order = |from: u64, reads: u64| (from..from + reads).map(|n| (n * 100, 100));
        // Windows of 100, 200, 400 and 800 bytes serve 15 records.
        let ahead = in_order(0, 15);
        // The last window served 800 bytes; the one after the jump serves one record.
        let jumps = [(500_000, 100), (600_000, 100), (700_000, 100)].into_iter();
        assert_eq!(cost(ahead.chain(jumps), 65536), (7, 1500 + 1024 + 128 + 128));
        // The same record again and again is worth one record.
        let again = std::iter::repeat_n((100, 100), 1000).chain([(5000, 100)]);
        assert_eq!(cost(again, 65536), (2, 100 + 128));
    }
}
