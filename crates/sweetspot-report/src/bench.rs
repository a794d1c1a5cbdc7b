//! What was found, in the order in which people want it: a sentence for each claim, a table, and how
//! it was measured; or the same as JSON.

pub mod dry;
mod text;

use crate::numbers::{percent, three_digits};
use crate::published::Published;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;
use sweetspot_lab::environment::Environment;
use sweetspot_lab::matrix::{Compared, Judged, Judgement, Matrix, NullControl, Shift};
use sweetspot_lab::paired::{Effect, Verdict};
use sweetspot_lab::plan::{Check, Figure, Plan, Program};
use sweetspot_lab::statistics::{self, Interval};
use sweetspot_lab::store::{CellRun, Observed};

/// The version of the JSON: a field that changes its meaning raises it.
const SCHEMA: u32 = 1;
const MIB: f64 = 1024.0 * 1024.0;
/// Quantiles of what programs report.
pub const QUANTILES: [(&str, f64); 4] = [("P50", 0.5), ("P90", 0.9), ("P99", 0.99), ("max", 1.0)];

/// Why a session ended before it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stopped {
    Interrupted,
    /// The time of `--budget` is up.
    Budget,
    /// The machine is restarted before it goes on.
    Restart,
}

/// A program that cannot run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its number.
    pub program: usize,
    /// What is said about it.
    pub why: String,
}

impl Skipped {
    /// What was once said of a program that was skipped, again: about which program.
    pub fn said(plan: &Plan, why: &str) -> Option<Skipped> {
        let is_about = |program: &Program| why.starts_with(&format!("'{}' needs ", program.name));
        let program = plan.programs.iter().position(is_about)?;
        Some(Skipped { program, why: why.to_owned() })
    }
}

/// Everything that a report is made of.
pub struct Findings<'a> {
    pub matrix: Matrix<'a>,
    pub stopped: Option<Stopped>,
    pub published: &'a Published,
    pub skipped: &'a [Skipped],
    pub notes: &'a [String],
    pub environment: Option<&'a Environment>,
    pub store: &'a Path,
}

/// What is said.
#[derive(Serialize)]
pub struct BenchReport {
    pub schema: u32,
    pub title: String,
    pub question: Option<String>,
    pub sentences: Vec<String>,
    pub claims: Vec<Claimed>,
    pub stopped: Option<Stopped>,
    pub rounds: usize,
    pub runs: usize,
    /// The numbers of the cells in the order in which they ran, round by round.
    pub order: Vec<Vec<usize>>,
    pub seed: u64,
    pub margin: f64,
    pub confidence: f64,
    pub figure: &'static str,
    /// The names of the factors with more than one level, then the cells.
    pub factors: Vec<String>,
    pub cells: Vec<Row>,
    pub null_control: Option<NullControl>,
    /// The machine became faster or slower meanwhile.
    pub shift: Option<Shift>,
    /// The machines that a launcher brought the runs to.
    pub nodes: Vec<String>,
    /// The names of the columns of others' figures.
    pub published: Vec<String>,
    pub skipped: Vec<String>,
    pub notes: Vec<String>,
    /// The machine, and the versions of what programs need.
    pub environment: Option<Environment>,
    pub store: String,
}

/// One condition of a claim about one cell.
#[derive(Serialize)]
pub struct Claimed {
    pub name: String,
    pub cell: String,
    pub against: String,
    pub condition: String,
    pub judgement: Judgement,
    /// Open only because so many claims at once need more rounds.
    pub needs_more_rounds: bool,
    pub effect: Option<Effect>,
}

/// One cell.
#[derive(Serialize)]
pub struct Row {
    pub name: String,
    pub levels: Vec<String>,
    pub cache: &'static str,
    pub runs: usize,
    /// The median of the figures; what unit that is, for samples, the program says.
    pub median: Option<f64>,
    pub unit: String,
    pub reference: Option<String>,
    /// How it relates to its reference: ratios of the figures.
    pub effect: Option<Effect>,
    pub peak_memory_bytes: Option<u64>,
    /// How many ran it at once; the figures are those of the slowest.
    pub ranks: usize,
    /// Processor time by elapsed time: 1 is one processor.
    pub processors: Option<f64>,
    pub output_bytes: Option<u64>,
    /// Writing the output to the device afterwards: not in the figure.
    pub sync_seconds: Option<f64>,
    pub output: Option<String>,
    /// Mean, then [`QUANTILES`], each the median over the runs.
    pub samples: Vec<f64>,
    pub published: Vec<String>,
    pub given_up: Option<String>,
    /// Whether it is the baseline once more (`--check`).
    pub is_twin: bool,
    /// Every figure, in the order of the rounds.
    pub figures: Vec<f64>,
}

impl Findings<'_> {
    /// Puts everything together.
    ///
    /// # Errors
    /// Where figures are no numbers.
    pub fn report(&self) -> Result<BenchReport, sweetspot_lab::Error> {
        let Matrix { plan, seed, runs, .. } = self.matrix;
        let judged = self.matrix.judge()?;
        let null_control = self.matrix.null_control()?;
        let is_doubtful = null_control.is_some_and(|control| !control.is_same());
        let claims: Vec<Claimed> = judged.iter().map(|judged| self.claimed(judged)).collect();
        let mut sentences: Vec<String> =
            claims.iter().map(|claim| claim.sentence(is_doubtful)).collect();
        if sentences.is_empty() {
            sentences.extend(self.fastest(is_doubtful)?);
        }
        let cells = (0..plan.cells.len()).map(|cell| self.row(cell));
        Ok(BenchReport {
            schema: SCHEMA,
            title: plan.title.clone(),
            question: plan.question.clone(),
            sentences,
            claims,
            stopped: self.stopped,
            rounds: self.matrix.rounds(),
            runs: runs.len(),
            order: (runs.chunk_by(|one, next| one.round == next.round))
                .map(|round| round.iter().map(|run| run.cell).collect())
                .collect(),
            seed,
            margin: plan.margin,
            confidence: self.matrix.confidence(),
            figure: match plan.figure {
                Figure::Wall => "wall",
                Figure::Samples => "samples",
            },
            factors: plan.varying().map(|factor| plan.factors[factor].name.clone()).collect(),
            cells: cells.collect::<Result<_, _>>()?,
            null_control,
            shift: self.matrix.shift()?,
            nodes: nodes(runs),
            published: self.published.figures.clone(),
            skipped: self.skipped.iter().map(|skipped| skipped.why.clone()).collect(),
            notes: self.notes.to_vec(),
            environment: self.environment.cloned(),
            store: self.store.display().to_string(),
        })
    }

    fn claimed(&self, judged: &Judged) -> Claimed {
        let plan = self.matrix.plan;
        Claimed {
            name: plan.claims[judged.claim].name.clone(),
            cell: plan.called(judged.cell),
            against: plan.called(judged.against),
            condition: match judged.check {
                Check::AtLeast(times) => format!("at least {times} times as fast"),
                Check::NotSlowerWithin(share) => format!("at most {} slower", percent(share)),
                Check::MemoryAtMost(times) => format!("at most {times} times the peak memory"),
            },
            judgement: judged.judgement,
            needs_more_rounds: judged.needs_more_rounds(),
            effect: judged.effect,
        }
    }

    /// Without claims: the cell that is farthest ahead of its baseline.
    fn fastest(&self, is_doubtful: bool) -> Result<Option<String>, sweetspot_lab::Error> {
        let plan = self.matrix.plan;
        let mut best: Option<(usize, usize, Effect)> = None;
        for cell in 0..plan.cells.len() {
            let Some(reference) = plan.reference(cell) else { continue };
            let Some(effect) = self.matrix.effect(reference, cell, Compared::Figure)? else {
                continue;
            };
            if best.is_none_or(|(.., found)| effect.ratio < found.ratio) {
                best = Some((cell, reference, effect));
            }
        }
        Ok(best.map(|(cell, reference, effect)| {
            let best = if effect.ratio < 1.0 { "Farthest ahead" } else { "None is ahead; nearest" };
            format!(
                "{best}: '{}' is {} '{}': {}.",
                plan.called(cell),
                speed(&effect),
                plan.called(reference),
                verdict(effect.verdict, self.matrix.plan.margin, is_doubtful)
            )
        }))
    }

    fn row(&self, cell: usize) -> Result<Row, sweetspot_lab::Error> {
        let plan = self.matrix.plan;
        let observed = self.matrix.observed(cell);
        let figures: Vec<f64> = observed.iter().map(|observed| observed.figure).collect();
        let median = |of: &dyn Fn(&Observed) -> f64| {
            let values: Vec<f64> = observed.iter().map(|observed| of(observed)).collect();
            statistics::median(&values).ok()
        };
        let unit = observed.iter().find_map(|observed| observed.samples.as_ref());
        let is_wall = plan.figure == Figure::Wall;
        Ok(Row {
            name: plan.called(cell),
            levels: (plan.varying())
                .map(|factor| plan.level(&plan.cells[cell], factor).to_owned())
                .collect(),
            cache: plan.cache(&plan.cells[cell]).name(),
            runs: figures.len(),
            median: statistics::median(&figures).ok(),
            unit: if is_wall {
                "s".to_owned()
            } else {
                unit.map_or_else(String::new, |u| u.unit.clone())
            },
            reference: plan.reference(cell).map(|reference| plan.called(reference)),
            effect: self.matrix.effect_of(cell)?,
            peak_memory_bytes: median(&|o| o.measurement.usage.peak_memory_bytes as f64)
                .map(|m| m as u64),
            ranks: observed.iter().map(|observed| observed.ranks).max().unwrap_or_default(),
            processors: median(&|o| {
                let busy = o.measurement.usage.user + o.measurement.usage.system;
                busy.as_secs_f64() / o.measurement.wall.as_secs_f64()
            }),
            output_bytes: median(&|o| o.output_bytes as f64).map(|bytes| bytes as u64),
            sync_seconds: median(&|o| o.sync.as_secs_f64()),
            output: observed.first().and_then(|observed| observed.output.clone()),
            samples: quantiles(&observed),
            published: self.published.of(plan, &plan.cells[cell]),
            is_twin: plan.twin.is_some_and(|(twin, _)| twin == cell),
            given_up: self.matrix.fault(cell).map(str::to_owned),
            figures,
        })
    }
}

/// The machines that a launcher brought the runs to.
fn nodes(runs: &[CellRun]) -> Vec<String> {
    let names = runs.iter().map(|run| run.node.as_str()).filter(|name| !name.is_empty());
    names.collect::<BTreeSet<_>>().into_iter().map(str::to_owned).collect()
}

/// Mean and quantiles of what the runs reported, each as the median over the runs.
fn quantiles(observed: &[&Observed]) -> Vec<f64> {
    let all: Vec<&[f64]> = (observed.iter())
        .filter_map(|observed| Some(observed.samples.as_ref()?.samples.as_slice()))
        .collect();
    if all.is_empty() {
        return Vec::new();
    }
    let over_runs = |of: &dyn Fn(&[f64]) -> f64| {
        let values: Vec<f64> = all.iter().map(|samples| of(samples)).collect();
        statistics::median(&values).unwrap_or(f64::NAN)
    };
    let mean = over_runs(&|samples| samples.iter().sum::<f64>() / samples.len() as f64);
    let rest = QUANTILES.iter().map(|(_, fraction)| {
        over_runs(&|samples| statistics::quantile(samples, *fraction).unwrap_or(f64::NAN))
    });
    std::iter::once(mean).chain(rest).collect()
}

/// `5.50 times as fast as` or `2.10 times as slow as`, without the other's name; with the interval.
fn speed(effect: &Effect) -> String {
    let interval = match effect.speedup_interval() {
        Some(Interval { low, high }) => {
            format!(" (95 % interval {low:.2} to {high:.2}, {} rounds)", effect.rounds)
        }
        None => format!(" (rounds: {}; an interval needs six)", effect.rounds),
    };
    format!("{:.2} times as fast{interval} as", effect.speedup())
}

/// What an effect comes to, in a word; one that cannot be trusted is marked down.
fn verdict(verdict: Verdict, margin: f64, is_doubtful: bool) -> String {
    let word = match verdict {
        Verdict::Faster => "faster".to_owned(),
        Verdict::Slower => "slower".to_owned(),
        Verdict::Same => format!("same within {}", percent(margin)),
        Verdict::Undecided => return "undecided".to_owned(),
    };
    if is_doubtful { format!("perhaps {word}") } else { word }
}

impl Claimed {
    fn sentence(&self, is_doubtful: bool) -> String {
        let Claimed { name, cell, against, condition, .. } = self;
        let Some(effect) = &self.effect else {
            return format!("{name}: '{cell}' was not measured against '{against}' ({condition}).");
        };
        let found = match condition.ends_with("memory") {
            true => format!("takes {} times the peak memory of", three_digits(effect.ratio)),
            false => format!("is {}", speed(effect)),
        };
        let judgement = match (self.judgement, is_doubtful) {
            (Judgement::Holds, false) => "holds",
            (Judgement::Holds, true) => "perhaps holds",
            (Judgement::DoesNotHold, false) => "does not hold",
            (Judgement::DoesNotHold, true) => "perhaps does not hold",
            (Judgement::Open, _) if self.needs_more_rounds => {
                "open, as so many claims at once need more rounds"
            }
            (Judgement::Open, _) => "open",
            (Judgement::NotMeasured, _) => "not measured",
        };
        format!("{name}: '{cell}' {found} '{against}'; claimed: {condition}: {judgement}.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_as_people_say_them() {
        for (share, expected) in [(0.02, "2 %"), (0.0123456, "1.23 %"), (1.0, "100 %")] {
            assert_eq!(percent(share), expected);
        }
    }
}
