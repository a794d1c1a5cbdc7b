//! A buffer that is filled by someone else (a thread, the kernel), with room before its bytes so
//! that what was kept of the block before can be put there.
//!
//! Invariant: the bytes that are read begin at a multiple of [`ALIGN_BYTES`] in memory, as
//! `O_DIRECT` wants it.

/// The alignment that every disk and file system is content with, in bytes.
pub const ALIGN_BYTES: usize = 4096;

/// Most lines that are cut by the end of a block fit into this many bytes. Of larger ones the next
/// bytes are put behind instead.
const ROOM_BYTES: usize = 4096;

pub struct Chunk {
    store: Vec<u8>,
    /// Where the bytes that are read begin.
    base: usize,
    /// The block.
    start: usize,
    end: usize,
    buffer_bytes: usize,
}

impl Chunk {
    pub fn new(buffer_bytes: usize) -> Chunk {
        let store = vec![0; buffer_bytes + ROOM_BYTES + ALIGN_BYTES];
        let mut chunk = Chunk { store, base: 0, start: 0, end: 0, buffer_bytes };
        chunk.clear();
        chunk
    }

    fn clear(&mut self) {
        self.base = ROOM_BYTES + self.store[ROOM_BYTES..].as_ptr().align_offset(ALIGN_BYTES);
        (self.start, self.end) = (self.base, self.base);
    }

    /// Forgets its bytes; returns where new ones go.
    pub fn space(&mut self) -> &mut [u8] {
        self.clear();
        &mut self.store[self.base..self.base + self.buffer_bytes]
    }

    /// Says how many bytes went there.
    pub fn filled(&mut self, len: usize) {
        debug_assert!(len <= self.buffer_bytes);
        (self.start, self.end) = (self.base, self.base + len);
    }

    pub fn len(&self) -> usize {
        self.end - self.start
    }

    pub fn block(&self) -> &[u8] {
        &self.store[self.start..self.end]
    }

    /// Makes `self` the block that has the last `keep` bytes of `self` and then those of `next`.
    /// Returns the chunk that is not needed any more.
    pub fn follow(&mut self, mut next: Chunk, keep: usize) -> Chunk {
        let kept = self.end - keep..self.end;
        if keep <= next.start {
            next.store[next.start - keep..next.start].copy_from_slice(&self.store[kept]);
            next.start -= keep;
            return std::mem::replace(self, next);
        }
        // Growing by doubling, so that a line of many blocks is not copied at each of them.
        if self.start < kept.start && self.end + next.len() > self.store.capacity() {
            self.store.copy_within(kept.clone(), 0);
            (self.start, self.end) = (0, keep);
        } else {
            self.start = kept.start;
        }
        self.store.truncate(self.end);
        self.store.extend_from_slice(next.block());
        self.end = self.store.len();
        next
    }

    /// The chunk, if it is as good as a new one of that size: one whose store has grown is not.
    pub fn recycled(self, buffer_bytes: usize) -> Option<Chunk> {
        let as_new = self.store.len() == buffer_bytes + ROOM_BYTES + ALIGN_BYTES;
        (as_new && self.buffer_bytes == buffer_bytes).then_some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_bytes_come_before_the_next() {
        for keep_limit in [0, 1, 50, ROOM_BYTES, ROOM_BYTES + 1, 3 * ROOM_BYTES] {
            let content: Vec<u8> = (0..40_000u32).map(|n| (n % 251) as u8).collect();
            let mut current = Chunk::new(1000);
            let (mut at, mut begin) = (0, 0);
            while at < content.len() {
                let keep = keep_limit.min(at - begin);
                let mut next = Chunk::new(1000);
                let len = 1000.min(content.len() - at);
                next.space()[..len].copy_from_slice(&content[at..at + len]);
                assert_eq!(next.store[next.base..].as_ptr().align_offset(ALIGN_BYTES), 0);
                next.filled(len);
                current.follow(next, keep);
                (begin, at) = (at - keep, at + len);
                assert_eq!(current.block(), &content[begin..at]);
            }
        }
    }
}
