//! A profile as data: what `--json` writes, `--compare` reads, and the text is made from.
//!
//! Names are words, units come last in them, times are seconds unless they say otherwise, sizes are
//! bytes. `sweetspot_profile` is the version of this schema: it changes when a field changes its
//! meaning or goes away, not when one is added.

use crate::origin::Origin;
use serde::{Deserialize, Serialize};
use sweetspot_core::cost::of_calls;

/// A file that would save less than this, in seconds, has no gain.
pub const GAIN_SECONDS_MIN: f64 = 0.000_5;

/// The version of the schema.
pub const SCHEMA: u32 = 1;

/// Looks at a run of which its course is drawn.
pub const MOMENTS_MIN: usize = 6;

/// What one run of a program did with files, and what buffering would save.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Profile {
    /// The version of this schema.
    pub sweetspot_profile: u32,
    /// The version of sweetspot that wrote it.
    pub version: String,
    /// Which of many runs it was.
    #[serde(default)]
    pub origin: Origin,
    /// Program and arguments as they were typed.
    pub command: Vec<String>,
    /// How it ended: `exit status 0`, `signal 9`.
    pub ended: String,
    /// The answer in words.
    pub sentence: String,
    /// From start to end, as it ran.
    pub seconds: f64,
    /// Of them, an estimate of what observing cost.
    pub observing_seconds: f64,
    /// Processor time of all its processes.
    pub processor_seconds: f64,
    /// An estimate of how long it waited for a processor that others used.
    pub evicted_seconds: f64,
    /// Time inside reads, writes and seeks on files, over all processes.
    pub file_seconds: f64,
    /// The same on pipes, sockets and terminals, where most of it may be waiting.
    pub other_seconds: f64,
    /// With `sweetspot run`; none where nothing was seen.
    pub prediction: Option<Prediction>,
    /// With `sweetspot run --stdio`; none where that would change little.
    #[serde(default)]
    pub prediction_stdio: Option<Prediction>,
    /// Why `run` could not keep a prediction here, whatever the calls are.
    #[serde(default)]
    pub obstacle: Option<Obstacle>,
    pub coverage: Coverage,
    /// Measured on this machine after the run.
    pub costs: Costs,
    /// What to do about it.
    pub insights: Vec<Insight>,
    /// Sorted by what buffering would save.
    pub files: Vec<File>,
    /// In the order of their start.
    pub processes: Vec<Process>,
    /// What was done when: from nothing to all of it.
    #[serde(default)]
    pub timeline: Vec<Moment>,
    /// Files and processes that there was no room to tell apart.
    pub files_beyond: usize,
    pub processes_beyond: usize,
}

/// What was done so far, over all processes and files, while it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Moment {
    /// Since the start.
    pub seconds: f64,
    /// Reads, writes and seeks.
    pub calls: u64,
    pub bytes: u64,
}

/// What to expect of `sweetspot run`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Prediction {
    pub seconds: f64,
    /// Unobserved time now, divided by that.
    pub ratio: f64,
    /// The true ratio is expected between these in 9 of 10 cases.
    pub ratio_low: f64,
    pub ratio_high: f64,
    /// System calls that would be made for all its reads, writes and seeks. The name before 0.2.0 is
    /// accepted.
    #[serde(default, alias = "calls_left")]
    pub calls_made: u64,
}

/// What hinders, and what mends it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Obstacle {
    /// Nothing is buffered; else: only reads are.
    pub is_whole: bool,
    /// In words.
    pub reason: String,
    /// What to type or to do, where something helps.
    pub mend: Option<String>,
}

/// Was everything seen?
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Coverage {
    pub verdict: Seen,
    /// In words.
    pub reason: String,
    /// The kernel's counters of all processes that were waited for.
    pub kernel: Calls,
    /// What was seen of them.
    pub seen: Calls,
}

/// How much of what the program did was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Seen {
    All,
    Part,
    #[default]
    Nothing,
}

/// Reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Calls {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Insight {
    /// A fixed name, for programs: `will-gain`, `not-seen`, ...
    pub code: String,
    pub severity: Severity,
    /// In words.
    pub text: String,
    /// What to type.
    pub command: Option<String>,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    High,
    Medium,
    Low,
}

/// What one process did with one path, or all processes that were not told apart.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct File {
    /// Its number among what was counted, for the calls of a recording.
    #[serde(skip)]
    pub record: usize,
    /// `FOLDER/*`: the files of a folder that are counted together.
    pub path: String,
    /// How many they are (those that were opened again count again); 0: one file.
    #[serde(default)]
    pub together: u64,
    /// Place in `processes`; none: several.
    pub process: Option<usize>,
    pub kind: FileKind,
    pub verdict: Verdict,
    /// Why, in the words of the contract.
    pub reasons: Vec<String>,
    /// What buffering would save, less what it costs.
    pub saves_seconds: f64,
    /// Time inside its reads, writes and seeks: one call in 64 was timed.
    pub seconds: f64,
    /// Of it, in calls that waited 20 microseconds or longer: for a device, another process, a turn.
    pub waiting_seconds: f64,
    pub opens: u64,
    pub reads: u64,
    pub read_bytes: u64,
    /// Calls by size; the last of more than 16 MiB.
    pub read_sizes: Vec<Size>,
    pub writes: u64,
    pub written_bytes: u64,
    pub write_sizes: Vec<Size>,
    pub seeks: u64,
    /// To where the position was.
    pub seeks_nowhere: u64,
    /// Sizes, syncs, flags and the like.
    pub other_calls: u64,
    /// Bytes moved inside the kernel (sendfile, copy_file_range).
    pub transfers: u64,
    pub transferred_bytes: u64,
    /// Times it was mapped into memory.
    pub maps: u64,
    /// Calls that C's stdio made.
    pub stdio_calls: u64,
    pub pattern: Pattern,
    /// Calls that failed, and reads that found the end.
    pub failed: u64,
    pub ends: u64,
    /// What buffering would have done, by the engine's own rules.
    pub buffered: Buffered,
    /// Times by kind of call.
    pub timed: Timed,
    /// Where in the program its reads, writes and seeks are made, over all processes: a sample of small
    /// ones; with `--where` only, and without those of C's stdio.
    #[serde(default)]
    pub places: Vec<CallSite>,
}

/// Where in a program calls are made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CallSite {
    /// Its part of the calls that were looked at, 0 to 1.
    pub share: f64,
    /// The file of the program or library, and where in it such a call returns to, in bytes from its
    /// start.
    pub module: String,
    pub offset: u64,
    /// The function, as far as symbols tell; file and line where there is debug information.
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    /// Where the compiler has put `function` into another one.
    pub inlined_into: Option<String>,
}

/// Calls of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Size {
    pub bytes_min: u64,
    pub bytes_max: u64,
    pub calls: u64,
}

/// What a path is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FileKind {
    #[default]
    File,
    /// A pipe, socket, terminal, folder or device, or made up by the kernel.
    Other,
}

/// What buffering would do for a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    WillGain,
    #[default]
    NoGain,
    NotBuffered,
}

impl Verdict {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::WillGain => "will gain",
            Verdict::NoGain => "no gain",
            Verdict::NotBuffered => "not buffered",
        }
    }
}

/// Where transfers began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Pattern {
    /// Where the one before had ended.
    pub sequential: u64,
    /// At the same distance as the one before.
    pub strided: u64,
    pub random: u64,
    /// Of bytes read or written before, as far as the longest stretch in one go tells.
    pub re_reads: u64,
    pub re_writes: u64,
}

/// What buffering would have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Buffered {
    /// Reads answered from a window.
    pub hits: u64,
    pub hit_bytes: u64,
    /// Windows filled.
    pub fills: u64,
    pub fill_bytes: u64,
    /// Windows asked whether they are still right.
    pub asks: u64,
    /// Writes that wait.
    pub appends: u64,
    pub append_bytes: u64,
    /// Positioned writes of what waited.
    pub flushes: u64,
    pub flush_bytes: u64,
    /// Seeks answered without the kernel.
    pub seeks: u64,
    /// Times the kernel is told the position. The name before 0.2.0 is accepted.
    #[serde(alias = "settles")]
    pub quiesces: u64,
    /// Times a window was opened, or a file began to wait.
    #[serde(default)]
    pub opens: u64,
}

impl File {
    /// System calls that would be made for its reads, writes and seeks, as `run --summary` counts them.
    pub fn calls_made(&self) -> u64 {
        let Buffered { hits, fills, asks, appends, flushes, seeks, quiesces, .. } = self.buffered;
        let passed_through = self.calls().saturating_sub(total([hits, appends, seeks]));
        total([passed_through, fills, asks, flushes, quiesces])
    }

    /// Its reads, writes and seeks.
    pub fn calls(&self) -> u64 {
        total([self.reads, self.writes, self.seeks])
    }

    /// Its reads and writes.
    pub fn transferring_calls(&self) -> u64 {
        total([self.reads, self.writes])
    }

    /// Bytes that it read or wrote.
    pub fn moved_bytes(&self) -> u64 {
        total([self.read_bytes, self.written_bytes])
    }
}

/// The sum of counts. A file may say anything of them: what is too large to be true stays the largest.
pub fn total(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

/// Times of calls, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Timed {
    pub reads: Times,
    pub writes: Times,
    pub seeks: Times,
}

/// Times of one kind of call: the sample of small ones, and all large ones (32 KiB and more).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Times {
    /// Small calls that were timed and did not wait.
    pub small: u64,
    pub small_ns: u64,
    /// Small calls that were timed and waited.
    pub waits: u64,
    pub waits_ns: u64,
    pub large: u64,
    pub large_ns: u64,
}

/// A program in a process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Process {
    pub pid: u32,
    pub parent: u32,
    pub program: String,
    /// Reasons for which nothing of it would be buffered.
    pub reasons: Vec<String>,
    pub calls: u64,
    pub bytes: u64,
    pub seconds: f64,
    /// How long its first thread waited for a processor that others used; 0 where it was killed.
    #[serde(default)]
    pub delayed_seconds: f64,
    /// Calls that are no reads, writes or seeks and that buffering would notice.
    pub other_calls: u64,
}

/// What calls cost here, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Costs {
    /// Passed through.
    #[serde(alias = "straight")]
    pub passed_through: CostsOfCalls,
    /// Under `sweetspot run`, in order, with full windows and flushes.
    pub buffered: CostsOfCalls,
    /// What observing adds to a call.
    pub observing_ns: f64,
    /// What the library adds to a call that passes through.
    pub passing_ns: f64,
    /// Asking a file for its size and times.
    pub ask_ns: f64,
    /// Starting a program under `sweetspot run`.
    pub start_ns: f64,
    /// Of it, what each further process of the program costs too, observed or buffered.
    #[serde(default)]
    pub process_ns: f64,
    /// By how much a time that was taken of a call is longer than the call: one look at the clock.
    pub sampling_ns: f64,
    /// How far repeated measurements of one cost lay apart, as a part of it.
    pub spread: f64,
}

/// Costs of reads, writes and seeks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CostsOfCalls {
    pub read: Cost,
    pub write: Cost,
    pub seek_ns: f64,
}

// As `sweetspot_core::cost::Cost`, but in fractions of nanoseconds: what the engine takes for a byte is a few
// hundredths of one.
/// A cost that grows with the number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cost {
    pub call_ns: f64,
    pub byte_ns: f64,
}

impl Cost {
    /// Of that many calls with that many bytes together.
    pub fn of(self, calls: u64, bytes: u64) -> f64 {
        of_calls([self.call_ns, self.byte_ns], calls as f64, bytes as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `UPDATE_SCHEMA=1 cargo test -p sweetspot-report schema` writes it anew.
    #[test]
    fn the_schema_that_is_documented_is_that_of_the_types() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/profile.schema.json");
        let schema = schemars::schema_for!(Profile);
        let text = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        let documented = std::fs::read_to_string(path).unwrap_or_default();
        assert!(text == documented, "UPDATE_SCHEMA=1 cargo test -p sweetspot-report schema");
    }

    #[test]
    fn the_first_field_tells_the_version() {
        let text = serde_json::to_string_pretty(&Calls::default()).unwrap();
        assert!(text.starts_with("{\n  \"reads\""), "order is kept: {text}");
    }
}
