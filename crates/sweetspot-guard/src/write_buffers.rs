//! Write buffers, in which bytes wait: a buddy allocator over their region of a ledger.
//!
//! It deals in offsets only; memory is given to and taken from a range by the caller. Write buffers are
//! powers of two and aligned to their size; two free halves become one again, so that a long run
//! with changing sizes does not wear the region out.

use std::collections::BTreeSet;

/// A range of the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteBuffer {
    /// From the start of the region, in bytes.
    pub at: u64,
    /// A power of two.
    pub bytes: u64,
}

/// Free ranges, by the logarithm of their size.
pub(crate) struct WriteBuffers {
    free: Vec<BTreeSet<u64>>,
    bytes_min: u64,
    taken_bytes: u64,
}

impl WriteBuffers {
    /// An allocator over `region_bytes` with write buffers of at least `bytes_min`, both powers of two.
    pub(crate) fn new(region_bytes: u64, bytes_min: u64) -> WriteBuffers {
        debug_assert!(region_bytes.is_power_of_two() && bytes_min.is_power_of_two());
        let order = region_bytes.ilog2() as usize;
        let mut free = vec![BTreeSet::new(); order + 1];
        free[order].insert(0);
        WriteBuffers { free, bytes_min, taken_bytes: 0 }
    }

    /// The size of the write buffer that would serve `wanted_bytes`; none where no region could.
    pub(crate) fn bytes_for(&self, wanted_bytes: u64) -> Option<u64> {
        let bytes = wanted_bytes.max(self.bytes_min).checked_next_power_of_two()?;
        ((bytes.ilog2() as usize) < self.free.len()).then_some(bytes)
    }

    /// Bytes in all write buffers that are taken.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.taken_bytes
    }

    /// Takes a write buffer of at least `wanted_bytes`.
    pub(crate) fn take(&mut self, wanted_bytes: u64) -> Option<WriteBuffer> {
        let bytes = self.bytes_for(wanted_bytes)?;
        let wanted_order = bytes.ilog2() as usize;
        let order = (wanted_order..self.free.len()).find(|order| !self.free[*order].is_empty())?;
        let at = self.free[order].pop_first()?;
        // Of what is too large the upper halves stay free.
        for half in wanted_order..order {
            self.free[half].insert(at + (1 << half));
        }
        self.taken_bytes += bytes;
        Some(WriteBuffer { at, bytes })
    }

    /// Gives a write buffer back.
    pub(crate) fn give_back(&mut self, write_buffer: WriteBuffer) {
        self.taken_bytes -= write_buffer.bytes;
        let (mut at, mut order) = (write_buffer.at, write_buffer.bytes.ilog2() as usize);
        while order + 1 < self.free.len() && self.free[order].remove(&(at ^ (1 << order))) {
            at &= !(1 << order);
            order += 1;
        }
        self.free[order].insert(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let write_buffers = WriteBuffers::new(1 << 20, 4096);
        for (wanted, expected) in [
            (0, Some(4096)),
            (1, Some(4096)),
            (4096, Some(4096)),
            (4097, Some(8192)),
            (1 << 20, Some(1 << 20)),
            ((1 << 20) + 1, None),
            (u64::MAX, None),
        ] {
            assert_eq!(write_buffers.bytes_for(wanted), expected, "{wanted}");
        }
    }

    #[test]
    fn write_buffers_never_overlap_and_the_region_heals() {
        let mut write_buffers = WriteBuffers::new(1 << 20, 4096);
        let mut taken: Vec<WriteBuffer> = Vec::new();
        let mut seed = 7u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
            let dice = seed >> 33;
            if dice % 5 < 3 {
                let Some(write_buffer) = write_buffers.take(1 << (dice / 8 % 19)) else { continue };
                assert_eq!(write_buffer.at % write_buffer.bytes, 0);
                assert!(write_buffer.at + write_buffer.bytes <= 1 << 20);
                let apart = |other: &WriteBuffer| {
                    write_buffer.at + write_buffer.bytes <= other.at
                        || other.at + other.bytes <= write_buffer.at
                };
                assert!(taken.iter().all(apart));
                taken.push(write_buffer);
            } else if !taken.is_empty() {
                let index = dice as usize / 8 % taken.len();
                write_buffers.give_back(taken.swap_remove(index));
            }
            assert_eq!(
                write_buffers.taken_bytes(),
                taken.iter().map(|write_buffer| write_buffer.bytes).sum::<u64>()
            );
        }
        taken.into_iter().for_each(|write_buffer| write_buffers.give_back(write_buffer));
        assert_eq!(write_buffers.take(1 << 20), Some(WriteBuffer { at: 0, bytes: 1 << 20 }));
        assert_eq!(write_buffers.take(1), None, "the region is taken as a whole");
    }
}
