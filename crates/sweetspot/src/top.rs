//! `sweetspot top`: which of the programs that run now make many small calls, and what to type next.
//!
//! ```text
//! sample    counts of calls and bytes from one look to the next
//! cost      what a call costs here
//! program   which program it is, and why a buffer could not help it
//! ```
//!
//! The table is `sweetspot_report::top`'s. Not here: which calls of a program go to which file (`profile`).

mod cost;
mod program;
mod sample;

use crate::arguments::Top;
use program::{Obstacles, Program, command_of};
use sample::{Activity, Sample, Sampler};
use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use sweetspot_core::cost::Cost;
use sweetspot_report::failure::Failure;
use sweetspot_report::print::printed;
use sweetspot_report::shell::quoted;
use sweetspot_report::shown::shown;
use sweetspot_report::top::{CALLS_MIN, Row, SCHEMA_VERSION, TopReport, saving};

/// Rows where there is no terminal that says how many it has.
const ROWS_MAX: usize = 20;
/// Lines around the rows: title, header, a free line, notes, the prompt.
const LINES_AROUND: usize = 6;
/// The verb that leads from a program to the cause.
const NEXT_VERB: &str = "profile";
/// Clears the screen; goes to its beginning; clears the rest of a line, and of the screen.
const CLEAR: &str = "\x1b[2J";
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

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
        let report = look(sampler.look(), cost, &mut obstacles, rows_max);
        let text = if arguments.json {
            let mut line = serde_json::to_string(&report).unwrap_or_default();
            line.push('\n');
            line
        } else {
            report.text(is_terminal.then_some(columns), rustix::process::geteuid().is_root())
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
fn look(sample: Sample, cost: Cost, obstacles: &mut Obstacles, rows_max: usize) -> TopReport {
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
    TopReport {
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
        saving: saving(cost, calls_per_second, bytes_per_second),
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
