//! How large a buffer is to be.

/// The largest buffer, in bytes: 1 GiB. More is cut to it.
const BUFFER_BYTES_MAX: u32 = 1 << 30;

/// How large a buffer is to be.
///
/// ```
/// use sweetspot_io::{BufferSize, ReadOptions};
///
/// let options = ReadOptions::new().buffer_size(BufferSize::Bytes(1 << 20));
/// # let _ = options;
/// assert_eq!(BufferSize::default(), BufferSize::Auto);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BufferSize {
    /// As small as the work allows: a byte, a record, a disk's sector.
    Off,
    /// The library chooses: mostly 128 KiB, and no more than a file has.
    #[default]
    Auto,
    /// That many bytes, 1 GiB at most. Too few for the work are made as many as it needs.
    Bytes(u32),
}

impl BufferSize {
    /// The size in bytes, where [`BufferSize::Auto`] stands for `auto`; at least `least`.
    pub(crate) fn bytes(self, auto: usize, least: usize) -> usize {
        match self {
            BufferSize::Off => least,
            BufferSize::Auto => auto.max(least),
            BufferSize::Bytes(bytes) => (bytes.min(BUFFER_BYTES_MAX) as usize).max(least),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_within_their_limits() {
        for (size, least, expected) in [
            (BufferSize::Off, 1, 1),
            (BufferSize::Off, 512, 512),
            (BufferSize::Auto, 1, 1000),
            (BufferSize::Auto, 2000, 2000),
            (BufferSize::Bytes(0), 1, 1),
            (BufferSize::Bytes(7), 1, 7),
            (BufferSize::Bytes(7), 512, 512),
            (BufferSize::Bytes(1 << 30), 1, 1 << 30),
            (BufferSize::Bytes((1 << 30) + 1), 1, 1 << 30),
            (BufferSize::Bytes(u32::MAX), 1, 1 << 30),
        ] {
            assert_eq!(size.bytes(1000, least), expected, "{size:?} {least}");
        }
    }
}
