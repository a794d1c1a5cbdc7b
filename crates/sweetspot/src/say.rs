//! What is said on stderr beside the answer: failures, warnings, notes.

use std::fmt;
use sweetspot_guard::process::with_size_errors;
use sweetspot_report::shown;

/// Says one line on stderr. A stderr that is closed, full, or a file at the limit of its size is no reason to fail.
pub fn say(line: impl fmt::Display) {
    use std::io::Write;
    let line = shown::lines(&line.to_string());
    let _ = with_size_errors(|| writeln!(std::io::stderr(), "{line}"));
}
