//! What the engine would do with the calls of a file.

/// Who answers the calls of a file: the engine's own states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The kernel, so far.
    Learning,
    /// The engine: its position would be ours, and seeks answered.
    On,
    /// The kernel, but for writes, which wait for the end of the file: its offset stays the position.
    AppendPlaced,
    /// The kernel, for good.
    PassThrough,
}
