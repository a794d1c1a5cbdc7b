//! Texts in shared memory.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::TEXT_BYTES_MAX;

/// A short text in shared memory.
#[repr(C)]
pub struct Text {
    len: AtomicU32,
    _reserved: AtomicU32,
    bytes: [AtomicU64; TEXT_BYTES_MAX / 8],
}

impl Text {
    /// An empty one.
    #[allow(clippy::new_without_default, reason = "texts lie in shared memory, which is zero")]
    pub const fn new() -> Text {
        Text {
            len: AtomicU32::new(0),
            _reserved: AtomicU32::new(0),
            bytes: [const { AtomicU64::new(0) }; TEXT_BYTES_MAX / 8],
        }
    }

    /// Stores as much of `text` as fits: its end, which says more than the start of a path.
    pub fn store(&self, text: &[u8]) {
        let text = &text[text.len().saturating_sub(TEXT_BYTES_MAX)..];
        for (word, bytes) in self.bytes.iter().zip(text.chunks(8)) {
            let mut buffer = [0; 8];
            buffer[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(buffer), Relaxed);
        }
        self.len.store(text.len() as u32, Relaxed);
    }

    /// Whether [`Text::store`] of `text` left what is there.
    pub fn is(&self, text: &[u8]) -> bool {
        let kept = &text[text.len().saturating_sub(TEXT_BYTES_MAX)..];
        let word = |bytes: &[u8]| {
            let mut buffer = [0; 8];
            buffer[..bytes.len()].copy_from_slice(bytes);
            u64::from_ne_bytes(buffer)
        };
        self.len.load(Relaxed) as usize == kept.len()
            && kept.chunks(8).zip(&self.bytes).all(|(bytes, own)| word(bytes) == own.load(Relaxed))
    }

    /// Copies the text into `buffer` and returns it.
    pub fn load<'a>(&self, buffer: &'a mut [u8; TEXT_BYTES_MAX]) -> &'a [u8] {
        let len = (self.len.load(Relaxed) as usize).min(TEXT_BYTES_MAX);
        let words = &self.bytes[..len.div_ceil(8)];
        for (bytes, word) in buffer.chunks_mut(8).zip(words) {
            bytes.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
        &buffer[..len]
    }
}
