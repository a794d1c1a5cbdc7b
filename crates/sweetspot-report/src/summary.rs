//! What a summary of `run --summary` says first, as it is written and as it is read again.

pub const BUFFERED_NO: &str = "buffered  no: ";
pub const NOTE: &str = "note      ";
pub const CALLS: &str = "calls     ";
pub const LEFT: &str = ", left of them ";
/// How a note begins that says why nothing was.
pub const NOTHING: &str = "nothing was buffered: ";

/// What a summary says in figures, for `verify`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Why nothing was buffered.
    pub inactive: Option<String>,
    /// Calls that the program made, and system calls that were left of them, for all files.
    pub calls: Option<(u64, u64)>,
}

impl Figures {
    /// Reads them in the text of a summary.
    pub fn read(text: &str) -> Figures {
        let calls = text.lines().find_map(|line| {
            let (calls, left) = line.strip_prefix(CALLS)?.split_once(LEFT)?;
            Some((calls.parse().ok()?, left.parse().ok()?))
        });
        let inactive = text.lines().find_map(|line| line.strip_prefix(BUFFERED_NO));
        let notes = text.lines().filter_map(|line| line.strip_prefix(NOTE));
        let nothing = notes.filter_map(|note| note.strip_prefix(NOTHING)).next();
        Figures { inactive: inactive.or(nothing).map(str::to_owned), calls }
    }
}
