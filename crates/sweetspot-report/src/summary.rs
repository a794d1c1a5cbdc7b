//! What a summary of `run --summary` says first, as it is written and as it is read again.

use crate::numbers::{count, counted};

pub const BUFFERED_NO: &str = "buffered  no: ";
pub const NOTE: &str = "note      ";
const CALLS: &str = "calls     ";
const REQUESTED: &str = " requested, ";
const MADE: &str = " made";
/// How a note begins that says why nothing was.
pub const NOTHING: &str = "nothing was buffered: ";

/// The line that says how many calls the program requested, and how many were made.
pub fn calls(requested: u64, made: u64) -> String {
    format!("{CALLS}{}{REQUESTED}{}{MADE}", count(requested), count(made))
}

/// What a summary says in figures, for `verify`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Why nothing was buffered.
    pub inactive: Option<String>,
    /// Calls that the program requested, and system calls that were made, for all files.
    pub calls: Option<(u64, u64)>,
}

impl Figures {
    /// Reads them in the text of a summary.
    pub fn read(text: &str) -> Figures {
        let calls = text.lines().find_map(|line| {
            let counts = line.strip_prefix(CALLS)?.strip_suffix(MADE)?;
            let (requested, made) = counts.split_once(REQUESTED)?;
            Some((counted(requested)?, counted(made)?))
        });
        let inactive = text.lines().find_map(|line| line.strip_prefix(BUFFERED_NO));
        let notes = text.lines().filter_map(|line| line.strip_prefix(NOTE));
        let nothing = notes.filter_map(|note| note.strip_prefix(NOTHING)).next();
        Figures { inactive: inactive.or(nothing).map(str::to_owned), calls }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_calls_is_read_again() {
        assert_eq!(Figures::read(&calls(200_002, 244)).calls, Some((200_002, 244)));
    }
}
