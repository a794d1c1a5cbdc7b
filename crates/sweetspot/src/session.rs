//! The seam to the ledger and the guard: what one `run` asks of them, and what it learns.
//!
//! Everything else in this crate sees only these types.

use crate::config::{Promise, Rule};
use crate::home;
use crate::probe;
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;
use sweetspot_core::ledger::{Counter, Way};
use sweetspot_core::shown::Shown;
use sweetspot_core::size::BufferSize;
use sweetspot_core::why::Why;
use sweetspot_guard::session as guarded;
use sweetspot_report::numbers;
use sweetspot_report::shell::quoted;
use sweetspot_report::summary::{FileSummary, NOTHING};

/// How long to wait for the guard to finish what a killed program left.
const FINISH_MAX: Duration = Duration::from_secs(60);

/// What is in force for the whole tree of processes.
#[derive(Debug)]
pub struct Settings {
    /// The size where no rule says otherwise.
    pub buffer: BufferSize,
    /// In order; the first that matches wins. They say no size where one was asked for explicitly.
    pub rules: Vec<Rule>,
    /// A summary is wanted, so names of files are recorded.
    pub summary: bool,
    /// `--max-age`, in milliseconds; `None`: the default of where it runs.
    pub max_age_ms: Option<u32>,
    /// `--stdio`.
    pub stdio: bool,
}

/// What was learned while the program ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Processes that loaded the library: the handshake that says whether it was active. `None`:
    /// there is no ledger in which they could say so.
    pub processes: Option<u32>,
    pub files: Vec<FileSummary>,
    /// Why a whole process was not buffered, if one was not: each reason.
    pub unbuffered: Vec<Why>,
    /// C's stdio makes many calls on files, and they pass through.
    pub has_stdio: bool,
    /// What the reader must know besides: no guard and why, bytes that had to be saved beside.
    pub notes: Vec<String>,
}

/// How a note begins that says why a whole process was not buffered.
const UNBUFFERED: &str = "buffering was off, or stopped, in one process: ";

impl Summary {
    /// What the reader must know besides the files, of a run of `program`.
    pub fn notes(&self, program: &Path) -> Vec<String> {
        let mut notes = self.notes.clone();
        let says = |why: &Why| format!("{UNBUFFERED}{}", reason(*why, program));
        notes.extend(self.unbuffered.iter().map(says));
        notes.extend(self.nothing(program).map(|reason| format!("{NOTHING}{reason}")));
        notes
    }

    /// Why nothing was buffered, where that is so. It is known where a summary was wanted.
    pub fn nothing(&self, program: &Path) -> Option<String> {
        let is_buffered = self.files.iter().any(|file| file.buffered_calls > 0);
        if is_buffered || self.processes.is_none_or(|processes| processes == 0) {
            return None;
        }
        let busiest = self.files.iter().max_by_key(|file| file.requested);
        let of_file = busiest.and_then(|file| file.reasons.first());
        Some(match (self.unbuffered.first(), of_file) {
            (Some(why), _) => reason(*why, program),
            (None, Some(reason)) => reason.clone(),
            (None, None) if self.has_stdio => {
                "its calls are made by C's stdio; try: --stdio".to_owned()
            }
            (None, None) => "no file was read or written often enough".to_owned(),
        })
    }
}

/// A reason, and what helps against it in a run of `program`.
fn reason(why: Why, program: &Path) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    match probe::mend(why, &name) {
        Some(mend) => format!("{}; {mend}", why.text()),
        None => why.text().to_owned(),
    }
}

/// Whether a `run` with these settings can use the ledger of the `run` around it, named by its
/// environment, and needs no guard of its own.
pub fn can_join(settings: &Settings, ledger: Option<&OsStr>) -> bool {
    let plain = !settings.has_rules_of_its_own()
        && !settings.summary
        && !settings.stdio
        && settings.max_age_ms.is_none();
    plain && ledger.is_some_and(|ledger| guarded::can_be_joined(Path::new(ledger)))
}

/// One `run`, from before the program starts until after it has ended.
pub struct RunSession {
    /// None: there is no ledger, so only reads are buffered.
    ledger: Option<guarded::OwnedLedger>,
    notes: Vec<String>,
    /// The guard has not finished in the time that it got.
    is_unfinished: bool,
}

impl Settings {
    /// Whether there are rules besides those of the machine, which are the same for everyone.
    fn has_rules_of_its_own(&self) -> bool {
        self.rules.iter().any(|rule| !rule.for_auto)
    }

    /// The value of [`sweetspot_core::environment::STDIO`], where anything asks for it.
    pub fn stdio_text(&self) -> Option<&'static str> {
        let asks = |rule: &Rule| rule.stdio == Some(crate::config::Stdio::On);
        match self.stdio {
            true => Some("all"),
            false => self.rules.iter().any(asks).then_some("rules"),
        }
    }
}

/// A rule as the library reads it.
pub fn in_ledger(rule: &Rule) -> guarded::Rule {
    guarded::Rule {
        program: rule.program.clone().unwrap_or_default(),
        file: rule.file.clone().unwrap_or_default(),
        buffer: rule.buffer,
        unobserved: rule.promise == Some(Promise::Unobserved),
        stdio: rule.stdio == Some(crate::config::Stdio::On),
        auto: rule.for_auto,
    }
}

impl RunSession {
    /// Prepares a session. Where the ledger cannot be made the program runs all the same, with
    /// reads buffered only; the summary says why.
    pub fn create(settings: &Settings) -> RunSession {
        let notes = home::notes();
        let wanted = guarded::Settings {
            buffer: settings.buffer,
            rules: settings.rules.iter().map(in_ledger).collect(),
            summary: settings.summary,
            max_age: settings.max_age_ms.map(|age| Duration::from_millis(u64::from(age))),
            stdio: settings.stdio,
            guard: !notes.is_empty(),
            notes,
            costs: home::costs(),
        };
        match guarded::OwnedLedger::create(&wanted) {
            Ok(ledger) => {
                RunSession { ledger: Some(ledger), notes: Vec::new(), is_unfinished: false }
            }
            Err(error) => {
                let notes = vec![format!("only reads are buffered: {error}")];
                RunSession { ledger: None, notes, is_unfinished: false }
            }
        }
    }

    /// The ledger's path, for the library.
    pub fn path(&self) -> Option<&Path> {
        self.ledger.as_ref().map(guarded::OwnedLedger::path)
    }

    /// How many seccomp filters are in force that allow what the library does; `None`: none.
    pub fn allowed_filters(&self) -> Option<u32> {
        self.ledger.as_ref().map(guarded::OwnedLedger::allowed_filters).filter(|count| *count > 0)
    }

    /// Starts the guard beside the program: this process, or a child of it.
    pub fn start_guard(&mut self) {
        if let Some(ledger) = &mut self.ledger
            && let Err(error) = ledger.start_guard(std::process::id())
        {
            self.notes.push(format!("only reads are buffered: {error}"));
        }
    }

    /// Whether the program needs the ledger although nothing can wait in it, for rules, the summary
    /// or an age of its own. If not it is removed, as nobody would do that later: a program that
    /// `run` becomes has no one who waits for its end.
    pub fn keep_if_useful(&mut self, settings: &Settings) {
        let useful =
            settings.has_rules_of_its_own() || settings.summary || settings.max_age_ms.is_some();
        if !useful && self.ledger.as_ref().is_some_and(|ledger| !ledger.is_guarded()) {
            self.remove_if_unguarded();
            self.ledger = None;
        }
    }

    /// Waits until everything that the ended program `pid` left is written.
    pub fn finish(&mut self, pid: u32) {
        let ledger = self.ledger.as_ref();
        self.is_unfinished = ledger.is_some_and(|ledger| !ledger.wait_finished(pid, FINISH_MAX));
    }

    /// What is not in the file where it belongs, in plain words: to be said also where nobody asked
    /// for a summary. To be called after [`RunSession::finish`].
    pub fn unfinished(&self) -> Vec<String> {
        self.ledger.as_ref().map_or_else(Vec::new, |ledger| {
            unfinished(&ledger.summary(), ledger.path(), self.is_unfinished)
        })
    }

    /// Removes the ledger where no guard does it at its end. To be called when the program has
    /// ended, or could not be started: until then it reads the rules there. A program that `run`
    /// became leaves one with rules behind, with nothing pending in it, for [`crate::recover`] to remove.
    pub fn remove_if_unguarded(&mut self) {
        if let Some(ledger) = &self.ledger
            && !ledger.is_guarded()
            && let Err(error) = ledger.remove()
        {
            self.notes.push(error.to_string());
        }
    }

    /// What was learned.
    pub fn summary(&self) -> Summary {
        let mut notes = self.notes.clone();
        let Some(ledger) = &self.ledger else {
            return Summary { notes, ..Summary::default() };
        };
        let learned = ledger.summary();
        notes.extend(unfinished(&learned, ledger.path(), self.is_unfinished));
        if learned.files_beyond > 0 {
            notes.push(format!(
                "{} more are not listed one by one",
                numbers::files(learned.files_beyond.into())
            ));
        }
        let files = learned.files.iter().map(describe).collect();
        let (stdio, unbuffered): (Vec<_>, Vec<_>) =
            learned.why.into_iter().partition(|why| *why == Why::Stdio);
        let processes = Some(learned.processes);
        Summary { processes, files, unbuffered, has_stdio: !stdio.is_empty(), notes }
    }
}

fn unfinished(learned: &guarded::Summary, ledger: &Path, is_pending: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if is_pending {
        notes.push(format!(
            "some bytes are still pending; finish them with: sweetspot recover {}",
            quoted(ledger)
        ));
    }
    let saved_path = Shown(&learned.saved_path);
    match learned.saved {
        0 => {}
        1 => notes
            .push(format!("1 part could not be written to its file and was saved as {saved_path}")),
        saved => notes.push(format!(
            "{} parts could not be written to their files and were saved, the last one as \
             {saved_path}",
            numbers::count(saved.into())
        )),
    }
    let again = format!("when there is room again: sweetspot recover {}", quoted(ledger));
    match learned.stuck {
        0 => {}
        1 => notes.push(format!(
            "1 part could be neither written nor saved; it stays in the ledger; {again}"
        )),
        stuck => notes.push(format!(
            "{} parts could be neither written nor saved; they stay in the ledger; {again}",
            numbers::count(stuck.into())
        )),
    }
    notes
}

fn describe(file: &guarded::FileSummary) -> FileSummary {
    let count = |counters: &[Counter]| counters.iter().map(|counter| file.count(*counter)).sum();
    use Counter::*;
    FileSummary {
        path: String::from_utf8_lossy(&file.path).into_owned(),
        buffer: file.buffer.map_or_else(String::new, numbers::size),
        requested: count(&[Hits, PassedReads, Appends, PassedWrites, Seeks]),
        made: count(&[Fills, PassedReads, Flushes, PassedWrites, KernelCalls]),
        read_bytes: count(&[HitBytes, PassedReadBytes]),
        written_bytes: count(&[AppendBytes, PassedWriteBytes]),
        buffered_calls: count(&[Hits, Appends]),
        passed_through_calls: count(&[PassedReads, PassedWrites]),
        reasons: file.why.iter().map(|why| why.text().to_owned()).collect(),
        chosen: chosen(file),
    }
}

/// The sizes that were chosen for a file, and why. Which way they are meant is said where there are two.
fn chosen(file: &guarded::FileSummary) -> Vec<String> {
    let ways = [("reads", Way::Read), ("writes", Way::Write)];
    let known: Vec<_> =
        ways.iter().filter_map(|(name, way)| Some((name, file.chosen(*way)?))).collect();
    let says = |name, chosen| match known.len() {
        1 => words(chosen),
        _ => format!("{name} by {}", words(chosen)),
    };
    known.iter().map(|(name, chosen)| says(*name, *chosen)).collect()
}

fn words(chosen: guarded::Chosen) -> String {
    let call = numbers::seconds(f64::from(chosen.cost.call_ns) / 1e9);
    let byte = numbers::seconds(chosen.cost.byte_ps() as f64 / 1e12);
    let size = numbers::spoken(BufferSize::Bytes(chosen.bytes));
    format!("{size}: a call costs {call} here, a byte {byte}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweetspot_core::cost::Cost;

    #[test]
    fn what_was_chosen_is_said_plainly() {
        let check = |bytes, call_ns, unit_ns, expected: &str| {
            let cost = Cost { call_ns, unit_ns };
            assert_eq!(words(guarded::Chosen { bytes, cost }), expected);
        };
        check(65536, 900, 7250, "64 KiB: a call costs 0.90 us here, a byte 0.11 ns");
        check(4 << 20, 1_003_200, 13_107, "4 MiB: a call costs 1.00 ms here, a byte 0.20 ns");
        check(16384, 449, 0, "16 KiB: a call costs 0.45 us here, a byte 0 s");
    }

    #[test]
    fn what_is_not_where_it_belongs_is_said() {
        let check = |saved, stuck, is_pending, parts: &[&str]| {
            let saved_path = b"/data/saved".to_vec();
            let learned = guarded::Summary { saved, stuck, saved_path, ..Default::default() };
            let notes = unfinished(&learned, Path::new("/l"), is_pending);
            assert_eq!(notes.len(), parts.len(), "{notes:?}");
            for (note, part) in notes.iter().zip(parts) {
                assert!(note.contains(part), "{note}");
            }
        };
        check(0, 0, false, &[]);
        check(0, 0, true, &["recover /l"]);
        check(2, 0, false, &["2 parts could not be written to their files"]);
        check(
            1,
            0,
            false,
            &["1 part could not be written to its file and was saved as /data/saved"],
        );
        check(0, 1, false, &["1 part could be neither written nor saved"]);
        check(1, 1, true, &["still pending", "/data/saved", "recover /l"]);
    }
}
