//! A buffer that blocks are read into, with room before them so that what was kept of the block
//! before can be put there.
//!
//! Where the bytes come to lie in memory counts. `O_DIRECT` wants it so; and a processor that copies
//! strings of bytes by itself (`rep movsb`, the kernel's way where there is FSRM) takes one and a half
//! to three and a half times as long where, within their pages, the target is up to 31 bytes behind
//! the source (seen with an AMD EPYC of the fourth generation). Memory that malloc takes from the
//! kernel begins 16 bytes behind a page.
//!
//! Invariant: reads go to a multiple of [`ALIGN_BYTES`] in memory, unless more is kept than there is
//! room for.

/// The alignment that every disk and file system is content with, in bytes; and a page.
pub const ALIGN_BYTES: usize = 4096;

/// Most lines that are cut by the end of a block fit into this many bytes. Of larger ones the next
/// bytes are put behind instead.
const ROOM_BYTES: usize = 4096;

#[derive(Default)]
pub struct Buffer {
    store: Vec<u8>,
    /// The block.
    start: usize,
    end: usize,
}

impl Buffer {
    /// One with space for reads of that many bytes. The memory is taken when it is used.
    pub fn new(buffer_bytes: usize) -> Buffer {
        Buffer { store: vec![0; store_bytes(buffer_bytes)], start: 0, end: 0 }
    }

    /// Keeps the last `keep` bytes of the block; returns where the next `len` go, right behind them.
    pub fn space_behind(&mut self, keep: usize, len: usize) -> &mut [u8] {
        let kept = self.end - keep..self.end;
        if keep > ROOM_BYTES {
            self.start = kept.start;
            let needed = kept.end + len;
            if needed > self.store.len() {
                // By doubling, so that a line of many blocks is not copied at each of them.
                self.store.resize(needed.max(2 * self.store.len()), 0);
            }
        } else {
            let needed = store_bytes(len);
            if needed > self.store.len() {
                self.store.resize(needed, 0);
            }
            let base = self.base();
            self.store.copy_within(kept, base - keep);
            (self.start, self.end) = (base - keep, base);
        }
        &mut self.store[self.end..self.end + len]
    }

    /// Forgets its bytes; returns where `len` new ones go.
    pub fn space(&mut self, len: usize) -> &mut [u8] {
        self.space_behind(0, len)
    }

    /// Says how many bytes went there.
    pub fn filled(&mut self, len: usize) {
        self.end += len;
    }

    pub fn len(&self) -> usize {
        self.end - self.start
    }

    pub fn block(&self) -> &[u8] {
        &self.store[self.start..self.end]
    }

    /// Makes the last `len` bytes the block.
    pub fn keep(&mut self, len: usize) {
        self.start = self.end - len;
    }

    /// Makes `self` the block that has the last `keep` bytes of `self` and then those of `next`.
    /// Returns the buffer that is not needed any more.
    pub fn follow(&mut self, mut next: Buffer, keep: usize) -> Buffer {
        if keep <= next.start {
            let kept = self.end - keep..self.end;
            next.store[next.start - keep..next.start].copy_from_slice(&self.store[kept]);
            next.start -= keep;
            return std::mem::replace(self, next);
        }
        self.space_behind(keep, next.len()).copy_from_slice(next.block());
        self.filled(next.len());
        next
    }

    /// The buffer, if it is as good as a new one of that size: one whose store has grown is not.
    pub fn recycled(self, buffer_bytes: usize) -> Option<Buffer> {
        (self.store.len() == store_bytes(buffer_bytes)).then_some(self)
    }

    /// The first multiple of the alignment with room before it.
    fn base(&self) -> usize {
        ROOM_BYTES + self.store[ROOM_BYTES..].as_ptr().align_offset(ALIGN_BYTES)
    }
}

fn store_bytes(buffer_bytes: usize) -> usize {
    buffer_bytes + ROOM_BYTES + ALIGN_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER_BYTES: usize = 1000;

    /// Reads `content` in blocks and keeps up to `keep_max` bytes of each for the next.
    fn check(keep_max: usize, read: impl Fn(&mut Buffer, usize, &[u8])) {
        let content: Vec<u8> = (0..40_000u32).map(|n| (n % 251) as u8).collect();
        let mut current = Buffer::default();
        let (mut at, mut begin) = (0, 0);
        while at < content.len() {
            let keep = keep_max.min(at - begin);
            let bytes = &content[at..content.len().min(at + BUFFER_BYTES)];
            read(&mut current, keep, bytes);
            (begin, at) = (at - keep, at + bytes.len());
            assert_eq!(current.block(), &content[begin..at]);
            let fresh = current.block()[keep..].as_ptr();
            assert!(keep > ROOM_BYTES || fresh.align_offset(ALIGN_BYTES) == 0, "keep {keep}");
        }
        current.keep(17);
        assert_eq!(current.block(), &content[content.len() - 17..]);
    }

    #[test]
    fn kept_bytes_come_before_the_next() {
        for keep_max in [0, 1, 50, ROOM_BYTES, ROOM_BYTES + 1, 3 * ROOM_BYTES] {
            check(keep_max, |current, keep, bytes| {
                current.space_behind(keep, BUFFER_BYTES)[..bytes.len()].copy_from_slice(bytes);
                current.filled(bytes.len());
            });
            check(keep_max, |current, keep, bytes| {
                let mut next = Buffer::new(BUFFER_BYTES);
                next.space(BUFFER_BYTES)[..bytes.len()].copy_from_slice(bytes);
                next.filled(bytes.len());
                current.follow(next, keep);
            });
        }
    }

    #[test]
    fn only_a_buffer_that_has_not_grown_is_used_again() {
        let mut buffer = Buffer::new(BUFFER_BYTES);
        buffer.space(BUFFER_BYTES);
        buffer.filled(BUFFER_BYTES);
        let mut buffer = buffer.recycled(BUFFER_BYTES).expect("it is as new");
        buffer.space_behind(0, 10 * ROOM_BYTES);
        assert!(buffer.recycled(BUFFER_BYTES).is_none());
    }
}
