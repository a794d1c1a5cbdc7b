//! What `top` shows: which programs make many small calls, what a buffer would save, and what to type next.

use crate::numbers::{bytes, count};
use crate::text;
use serde::Serialize;
use std::fmt::Write as _;
use sweetspot_core::cost::{APPEND_PS, Cost, HIT_PS};
use sweetspot_core::policy::SMALL_BYTES_MAX;

/// Changes when a field of the JSON form changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;
/// Programs with fewer calls a second are not listed.
pub const CALLS_MIN: f64 = 10.0;
/// Longer commands are cut in the table; the JSON form has all of them.
const COMMAND_LETTERS_MAX: usize = 160;
/// What a call costs that a buffer answers, in seconds. Reads and writes are not told apart here.
const HIT_SECONDS: f64 = (HIT_PS + APPEND_PS) as f64 / 2.0 / 1e12;
/// The buffer that is reckoned with: what is as large earns none, and larger ones save little more.
const BUFFER_BYTES: f64 = SMALL_BYTES_MAX as f64;

/// One program in the table.
#[derive(Debug, Serialize)]
pub struct Row {
    pub program: String,
    pub file: String,
    pub processes: usize,
    /// The process that makes the most calls.
    pub pid: u32,
    pub calls_per_second: f64,
    pub average_bytes: f64,
    pub bytes_per_second: f64,
    /// Seconds of processor time that a buffer would save in each second.
    pub saving: f64,
    /// Why it would not.
    pub obstacle: Option<String>,
    /// The command to type next.
    pub next: Option<String>,
}

/// One table: what was seen from one look to the next.
#[derive(Debug, Serialize)]
pub struct TopReport {
    pub schema_version: u32,
    pub seconds: f64,
    pub call_nanoseconds: f64,
    pub hidden_processes: usize,
    pub programs: Vec<Row>,
}

/// Seconds of processor time that a buffer would save in each second, for so many calls and
/// bytes a second. The cost is that of a small read from the page cache; writes, network file systems and
/// FUSE cost more, so it is a lower bound. This is the seam for a better model: nothing else decides the
/// order of the table.
pub fn saving(cost: Cost, calls: f64, bytes: f64) -> f64 {
    // Calls as large as the buffer pass through.
    if calls <= 0.0 || bytes / calls >= BUFFER_BYTES {
        return 0.0;
    }
    let left = (bytes / BUFFER_BYTES).min(calls);
    let call_seconds = f64::from(cost.call_ns) / 1e9;
    ((calls - left) * call_seconds - calls * HIT_SECONDS).max(0.0)
}

impl TopReport {
    /// The table, in lines of at most so many letters. `is_root`: all has been seen that root may.
    pub fn text(&self, columns: Option<usize>, is_root: bool) -> String {
        let mut text = String::new();
        if self.programs.is_empty() {
            let _ = writeln!(text, "No program that can be seen makes {CALLS_MIN} calls a second.");
        } else {
            let header = ["calls/s", "average", "bytes/s", "saves", "processes", "program", "next"];
            let line = |row: &Row| {
                [
                    count(row.calls_per_second.round() as u64),
                    bytes(row.average_bytes.round() as u64),
                    bytes(row.bytes_per_second.round() as u64),
                    match row.obstacle {
                        Some(_) => "-".to_owned(),
                        None => format!("{:.1} %", row.saving * 100.0),
                    },
                    row.processes.to_string(),
                    row.program.clone(),
                    advice(row),
                ]
            };
            for line in text::table(header, self.programs.iter().map(line), 0..5).lines() {
                let line: String = line.chars().take(columns.unwrap_or(usize::MAX)).collect();
                let _ = writeln!(text, "{line}");
            }
            text.push_str(
                "\nsaves: share of one CPU that buffering would free, at least (writes cost more)\n",
            );
        }
        if self.hidden_processes > 0 {
            let who = hidden(is_root);
            let processes = match self.hidden_processes {
                1 => "1 process".to_owned(),
                many => format!("{many} processes"),
            };
            let _ = writeln!(text, "{processes} hidden: {who}");
        }
        text
    }
}

/// What to type next for a program, or why nothing is to be typed.
fn advice(row: &Row) -> String {
    match (&row.obstacle, &row.next) {
        (Some(obstacle), _) => format!("no: {obstacle}"),
        (None, Some(next)) => cut(next),
        (None, None) if row.saving > 0.0 => "it has ended".to_owned(),
        (None, None) => "its transfers are large already".to_owned(),
    }
}

/// Who could see the others. Root in a container often may not look at what runs outside.
fn hidden(is_root: bool) -> &'static str {
    match is_root {
        true => "not readable even by root here",
        false => "of other users; run it as root to see all",
    }
}

/// A command as far as it fits into a table.
fn cut(command: &str) -> String {
    let line = command.lines().next().unwrap_or_default();
    if line.len() == command.len() && line.chars().count() <= COMMAND_LETTERS_MAX {
        return line.to_owned();
    }
    line.chars().take(COMMAND_LETTERS_MAX).chain(" ...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn savings() {
        let cost = Cost { call_ns: 500, unit_ns: 0 };
        let check = |calls: f64, bytes: f64, expected: f64| {
            let found = saving(cost, calls, bytes);
            assert!((found - expected).abs() < 1e-6, "{calls} {bytes}: {found}");
        };
        check(0.0, 0.0, 0.0);
        check(100_000.0, 0.0, 0.048_935);
        check(100_000.0, 65_536_000.0, 0.048_435);
        check(1000.0, 65_536_000.0, 0.0);
        check(1000.0, 6_553_600_000.0, 0.0);
    }

    #[test]
    fn root_is_not_sent_to_root() {
        assert!(hidden(false).contains("as root"));
        assert!(!hidden(true).contains("as root"));
    }

    #[test]
    fn who_has_ended_is_not_said_to_have_large_transfers() {
        let row = |saving: f64, next: Option<&str>| Row {
            program: "copy".to_owned(),
            file: "/bin/copy".to_owned(),
            processes: 1,
            pid: 1,
            calls_per_second: 100_000.0,
            average_bytes: 100.0,
            bytes_per_second: 1e7,
            saving,
            obstacle: None,
            next: next.map(str::to_owned),
        };
        assert_eq!(
            advice(&row(0.4, Some("sweetspot profile -- copy"))),
            "sweetspot profile -- copy"
        );
        assert_eq!(advice(&row(0.4, None)), "it has ended");
        assert_eq!(advice(&row(0.0, None)), "its transfers are large already");
        let obstacle = Some("a static program".to_owned());
        assert_eq!(advice(&Row { obstacle, ..row(0.4, None) }), "no: a static program");
    }
}
