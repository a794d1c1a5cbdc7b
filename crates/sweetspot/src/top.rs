//! `sweetspot top`: which of the programs that run now make many small calls, and what to type next.
//!
//! ```text
//! sample    counts of calls and bytes from one look to the next
//! cost      what a buffer would save
//! program   which program it is, and why a buffer could not help it
//! ```
//!
//! Not here: which calls of a program go to which file (`profile`).

mod cost;
mod program;
mod sample;

use crate::arguments::Top;
use program::{Obstacles, Program, command_of};
use sample::{Activity, Sample, Sampler};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use sweetspot_core::cost::Cost;
use sweetspot_report::failure::Failure;
use sweetspot_report::numbers::{bytes, count};
use sweetspot_report::print::printed;
use sweetspot_report::shell::quoted;
use sweetspot_report::shown::shown;
use sweetspot_report::text;

/// Changes when a field of the JSON form changes its meaning or goes away.
const SCHEMA_VERSION: u32 = 1;
/// Programs with fewer calls a second are not listed.
const CALLS_MIN: f64 = 10.0;
/// Rows where there is no terminal that says how many it has.
const ROWS_MAX: usize = 20;
/// Lines around the rows: title, header, a free line, notes, the prompt.
const LINES_AROUND: usize = 6;
/// The verb that leads from a program to the cause.
const NEXT_VERB: &str = "profile";
/// Longer commands are cut in the table; the JSON form has all of them.
const COMMAND_LETTERS_MAX: usize = 160;
/// Clears the screen; goes to its beginning; clears the rest of a line, and of the screen.
const CLEAR: &str = "\x1b[2J";
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// One program in the table.
#[derive(Debug, Serialize)]
struct Row {
    program: String,
    file: String,
    processes: usize,
    /// The process that makes the most calls.
    pid: u32,
    calls_per_second: f64,
    average_bytes: f64,
    bytes_per_second: f64,
    /// Seconds of processor time that a buffer would save in each second.
    saving: f64,
    /// Why it would not.
    obstacle: Option<String>,
    /// The command to type next.
    next: Option<String>,
}

/// One table.
#[derive(Debug, Serialize)]
struct Shown {
    schema_version: u32,
    seconds: f64,
    call_nanoseconds: f64,
    hidden_processes: usize,
    programs: Vec<Row>,
}

/// Looks, and shows what was seen, until Ctrl-C or once.
///
/// # Errors
/// Where standard output takes no more; but a reader who has gone away ends it.
pub fn top(arguments: &Top) -> Result<u8, Failure> {
    let cost = cost::measure();
    let is_terminal = rustix::termios::isatty(io::stdout());
    let is_live = is_terminal && !arguments.once && !arguments.json;
    let mut obstacles = Obstacles::default();
    let mut sampler = Sampler::new();
    if is_live {
        write(&format!("{CLEAR}{HOME}looking for {:?} ...\n", arguments.interval))?;
    }
    loop {
        std::thread::sleep(arguments.interval);
        let (rows, columns) = size();
        let rows_max = if arguments.json { usize::MAX } else { rows };
        let shown = look(sampler.look(), cost, &mut obstacles, rows_max);
        let text = if arguments.json {
            let mut line = serde_json::to_string(&shown).unwrap_or_default();
            line.push('\n');
            line
        } else {
            table(&shown, is_terminal.then_some(columns))
        };
        let text = match is_live {
            true => {
                format!("{HOME}{}{CLEAR_BELOW}", text.replace('\n', &format!("{CLEAR_LINE}\n")))
            }
            false => text,
        };
        let has_reader = write(&text)?;
        if !has_reader || arguments.once || !(is_live || arguments.json) {
            return Ok(0);
        }
    }
}

/// Says whether there is still a reader.
fn write(text: &str) -> Result<bool, Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    let has_reader = written.is_ok();
    printed(written).map(|()| has_reader)
}

/// Rows and columns that may be used.
fn size() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_row > 0 => {
            let rows = usize::from(size.ws_row).saturating_sub(LINES_AROUND).max(1);
            (rows, usize::from(size.ws_col))
        }
        _ => (ROWS_MAX, usize::MAX),
    }
}

/// Groups by program, in the order of what a buffer would save.
fn look(sample: Sample, cost: Cost, obstacles: &mut Obstacles, rows_max: usize) -> Shown {
    let mut groups: HashMap<Program, Vec<Activity>> = HashMap::new();
    let worth = |activity: &Activity| activity.counts.calls as f64 >= CALLS_MIN * sample.seconds;
    for activity in sample.active.iter().filter(|activity| worth(activity)) {
        if let Some(program) = Program::of(activity.pid) {
            groups.entry(program).or_default().push(*activity);
        }
    }
    let mut rows: Vec<Row> =
        groups.iter().map(|(program, all)| row(program, all, sample.seconds, cost)).collect();
    rows.sort_by(|left, right| {
        let by = |row: &Row| (row.saving, row.calls_per_second);
        by(right).partial_cmp(&by(left)).unwrap_or(std::cmp::Ordering::Equal)
    });
    rows.truncate(rows_max);
    // First what a process tells of itself, as it may be about to end; to find an obstacle takes longer.
    for row in rows.iter_mut().filter(|row| row.saving > 0.0) {
        row.next = next(row.pid);
    }
    for row in &mut rows {
        row.obstacle = obstacles.of(row.pid);
        if row.obstacle.is_some() {
            row.next = None;
        }
    }
    // What can be helped first; the sort keeps the order otherwise.
    rows.sort_by_key(|row| row.obstacle.is_some());
    Shown {
        schema_version: SCHEMA_VERSION,
        seconds: sample.seconds,
        call_nanoseconds: f64::from(cost.call_ns),
        hidden_processes: sample.hidden,
        programs: rows,
    }
}

fn row(program: &Program, all: &[Activity], seconds: f64, cost: Cost) -> Row {
    let calls: u64 = all.iter().map(|activity| activity.counts.calls).sum();
    let bytes: u64 = all.iter().map(|activity| activity.counts.bytes).sum();
    let busiest = all.iter().max_by_key(|activity| activity.counts.calls);
    let (calls_per_second, bytes_per_second) = (calls as f64 / seconds, bytes as f64 / seconds);
    Row {
        program: shown(program.name()),
        file: shown(&program.file),
        processes: all.len(),
        pid: busiest.map_or(0, |activity| activity.pid),
        calls_per_second,
        average_bytes: bytes as f64 / calls as f64,
        bytes_per_second,
        saving: cost::saving(cost, calls_per_second, bytes_per_second),
        obstacle: None,
        next: None,
    }
}

/// The command to type next, where it was started. What it reads as its standard input belongs to it:
/// without that it would wait for the terminal.
fn next(pid: u32) -> Option<String> {
    let words = command_of(pid);
    let command = words.iter().map(quoted).collect::<Vec<_>>().join(" ");
    if command.is_empty() {
        return None;
    }
    let there = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    let input = input(pid, &there).map_or(String::new(), |input| format!(" <{}", quoted(input)));
    let next = format!("sweetspot {NEXT_VERB} -- {command}{input}");
    if std::env::current_dir().is_ok_and(|here| here == there) {
        return Some(next);
    }
    Some(format!("cd {} && {next}", quoted(there)))
}

/// The file that is a process's standard input, as it is called in the folder `there`.
fn input(pid: u32, there: &Path) -> Option<String> {
    let link = format!("/proc/{pid}/fd/0");
    let path = fs::read_link(&link).ok()?;
    let (open, named) = (fs::metadata(&link).ok()?, fs::metadata(&path).ok()?);
    let is_there = (open.dev(), open.ino()) == (named.dev(), named.ino());
    let name = path.strip_prefix(there).unwrap_or(&path);
    (open.is_file() && is_there).then(|| name.to_string_lossy().into_owned())
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

fn table(shown: &Shown, columns: Option<usize>) -> String {
    let mut text = String::new();
    if shown.programs.is_empty() {
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
        for line in text::table(header, shown.programs.iter().map(line), 0..5).lines() {
            let line: String = line.chars().take(columns.unwrap_or(usize::MAX)).collect();
            let _ = writeln!(text, "{line}");
        }
        text.push_str(
            "\nsaves: share of one CPU that buffering would free, at least (writes cost more)\n",
        );
    }
    if shown.hidden_processes > 0 {
        let who = hidden(rustix::process::geteuid().is_root());
        let processes = match shown.hidden_processes {
            1 => "1 process".to_owned(),
            many => format!("{many} processes"),
        };
        let _ = writeln!(text, "{processes} hidden: {who}");
    }
    text
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
