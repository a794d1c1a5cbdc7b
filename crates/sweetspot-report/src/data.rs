//! A report as data: what `--json` writes, and what every other form is made from.
//!
//! Names are words, times are seconds unless they say otherwise, sizes are bytes. `sweetspot_report`
//! is the version of this schema: it changes when a field changes its meaning or goes away, not when
//! one is added. A report that was written as JSON can be read again, and gives the same page.

use crate::profile::data::Profile;
use serde::{Deserialize, Serialize};

/// The version of the schema.
pub const SCHEMA: u32 = 1;

/// What was measured, and what it says.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// The version of this schema.
    pub sweetspot_report: u32,
    /// The version of sweetspot that wrote it.
    pub version: String,
    /// Experiments: of `tune` and `bench`.
    pub sessions: Vec<Session>,
    /// Profiles of single runs, in the order in which they were named.
    pub profiles: Vec<NamedProfile>,
    /// Summaries of single runs.
    pub summaries: Vec<NamedSummary>,
    /// What else is to be known.
    pub notes: Vec<String>,
}

/// An experiment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Session {
    /// The file that it was read from, without folder and ending.
    #[serde(default)]
    pub file: String,
    /// Its number in that file.
    pub number: i64,
    pub kind: Kind,
    /// The plan's title, or the command.
    pub title: String,
    pub question: Option<String>,
    /// When it began, in UTC.
    pub begun: String,
    /// Whether it came to its end.
    pub finished: bool,
    /// The answer in words.
    pub sentences: Vec<String>,
    /// What became of each claim of a plan, in words.
    pub claims: Vec<Claim>,
    /// How it was measured, in words.
    pub how: String,
    /// Rounds that are whole and count.
    pub rounds: usize,
    /// The order of the runs follows from it.
    pub seed: u64,
    pub cache: String,
    /// Of the figures: `s`, or what the programs say.
    pub unit: String,
    /// A difference that does not matter: 0.02 is 2 %.
    pub margin: f64,
    /// What differs between the cells.
    pub factors: Vec<Factor>,
    /// What is compared, in the order of the factors' levels.
    pub cells: Vec<Cell>,
    /// Of `tune`, places in `cells`: the smallest buffer that is as good as any, if one was found.
    pub sweet_spot: Option<usize>,
    /// Whether fresh runs confirm it.
    pub confirmed: bool,
    /// Of `tune`: the setting to use, if that is known.
    #[serde(default)]
    pub advised: Option<usize>,
    /// Of `tune`: what the curve is drawn against, the cell that most ran beside.
    pub base: Option<usize>,
    pub null_control: Option<NullControl>,
    /// What runs cost, where they can tell it.
    pub costs: Vec<Cost>,
    /// Names of the columns of others' figures.
    pub published: Vec<String>,
    pub notes: Vec<String>,
    /// The machine.
    pub environment: Vec<Fact>,
    /// In the order in which they ran.
    pub runs: Vec<Run>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Tune,
    #[default]
    Bench,
}

/// A condition of a claim about one cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Claim {
    pub text: String,
    pub judgement: Judgement,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    Holds,
    DoesNotHold,
    /// The interval reaches over the bound, or there are too few rounds.
    Open,
    NotMeasured,
}

/// Something that differs between cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Factor {
    pub name: String,
    pub levels: Vec<String>,
}

/// One way of doing the job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cell {
    pub name: String,
    /// In the order of the factors.
    pub levels: Vec<String>,
    /// Of a setting of `tune`: the size of the buffer in bytes.
    pub buffer_bytes: Option<u64>,
    pub cache: String,
    /// Runs that count.
    pub runs: usize,
    /// Of its figures.
    pub median: Option<f64>,
    /// What it is held against: a place among the cells.
    pub baseline: Option<usize>,
    /// Its figures by those of the baseline, round by round.
    pub ratio: Option<Ratio>,
    /// The same by those of `base`.
    pub ratio_to_base: Option<Ratio>,
    /// `faster`, `slower`, `same within 2 %`, `undecided`; `perhaps` before it where the null control
    /// does not allow more.
    pub verdict: Option<String>,
    pub peak_memory_bytes: Option<u64>,
    /// What the programs reported themselves: mean, P50, P90, P99, maximum.
    pub samples: Vec<f64>,
    /// In what unit.
    pub samples_unit: Option<String>,
    /// Others' figures.
    pub published: Vec<String>,
    /// The same without sweetspot: a place among the cells.
    pub without: Option<usize>,
    /// Why it was given up.
    pub given_up: Option<String>,
}

/// How times relate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ratio {
    /// 0.5 is twice as fast.
    pub value: f64,
    /// The 95 % interval, from six rounds on.
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub rounds: usize,
}

/// A cell against itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NullControl {
    /// What it shows, in words.
    pub text: String,
    pub ratio: Ratio,
    /// The share by which equals may seem to differ.
    pub noise_floor: Option<f64>,
    /// How much a run is like the one before it.
    pub autocorrelation: Option<f64>,
    /// The smallest difference that so many rounds can show.
    pub smallest_effect: Option<f64>,
}

// As `sweetspot_lab::cost` fits it, which is more than a cost: how sure it is, too.
/// What runs cost: the sum that has half of the runs above it and half below.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cost {
    /// Whose runs.
    pub name: String,
    /// Of every run.
    pub fixed_seconds: Part,
    /// Of each system call that reads or writes.
    pub call_seconds: Part,
    /// Of each byte; none where that cannot be told from the rest, of which it is then part.
    pub byte_seconds: Option<Part>,
    pub runs: usize,
    /// The median distance between a run and the model, as a share of its time.
    pub error: f64,
    /// The runs: places among the session's cells.
    pub cells: Vec<usize>,
}

/// A part of the cost, with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Part {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

/// Something about the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Fact {
    pub name: String,
    pub value: String,
}

/// One run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Run {
    /// From 0; in `bench` that one warms up and does not count.
    pub round: usize,
    pub place: usize,
    /// A place among the cells.
    pub cell: usize,
    /// What the search wanted to know, in `tune`.
    pub phase: Option<String>,
    /// The machine that a launcher brought it to.
    pub node: Option<String>,
    /// Whether it is among those that are compared.
    pub counts: bool,
    /// What is compared, in the session's unit; none of a run that failed.
    pub figure: Option<f64>,
    pub wall_seconds: f64,
    pub user_seconds: f64,
    pub system_seconds: f64,
    pub peak_memory_bytes: u64,
    /// System calls that read or wrote, and their bytes.
    pub read_calls: u64,
    pub write_calls: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
    /// Whether something waited for a processor or memory for a tenth of its time, or longer.
    pub disturbed: bool,
    pub output: Option<String>,
    /// Why the cell was given up after it.
    pub given_up: Option<String>,
}

/// A profile, and the file that it was in.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NamedProfile {
    pub file: String,
    pub profile: Profile,
}

/// A summary, and the file that it was in.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NamedSummary {
    pub file: String,
    pub text: String,
}

impl Session {
    /// Whether all places are places that there are: a file may have been changed by hand.
    pub fn is_whole(&self) -> bool {
        let cells = self.cells.len();
        let is_place = |place: &usize| *place < cells;
        let mut places = self.runs.iter().map(|run| run.cell);
        let named = self.cells.iter().flat_map(|cell| [cell.baseline, cell.without]);
        let mut named = named.chain([self.sweet_spot, self.base]).flatten();
        let mut costs = self.costs.iter().flat_map(|cost| &cost.cells);
        let levels = |cell: &Cell| cell.levels.len() == self.factors.len();
        places.all(|place| is_place(&place))
            && named.all(|place| is_place(&place))
            && costs.all(is_place)
            && self.cells.iter().all(levels)
    }

    /// The runs that are compared, of one cell.
    pub fn figures(&self, cell: usize) -> Vec<f64> {
        let counted = self.runs.iter().filter(|run| run.counts && run.cell == cell);
        counted.filter_map(|run| run.figure).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `UPDATE_SCHEMA=1 cargo test -p sweetspot-report schema` writes it anew.
    #[test]
    fn the_schema_that_is_documented_is_that_of_the_types() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/report.schema.json");
        let schema = schemars::schema_for!(Report);
        let text = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        let documented = std::fs::read_to_string(path).unwrap_or_default();
        assert!(text == documented, "UPDATE_SCHEMA=1 cargo test -p sweetspot-report schema");
    }
}
