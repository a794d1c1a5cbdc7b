//! What `bench` found in words: sentences for claims, a table, how it was measured.

use crate::bench::{BenchReport, Claimed, MIB, QUANTILES, Row, Stopped, verdict};
use crate::numbers::{percent, three_digits};
use crate::text;
use std::fmt::Write as _;
use sweetspot_lab::matrix::{Judgement, NullControl, Shift};
use sweetspot_lab::statistics::Interval;

impl BenchReport {
    /// Whether nothing is left that a resumed session could do.
    pub fn is_finished(&self) -> bool {
        self.stopped.is_none()
    }

    /// Whether the end was reached, no cell was given up, and all that is claimed holds.
    pub fn is_all_shown(&self) -> bool {
        let holds = |claim: &Claimed| claim.judgement == Judgement::Holds;
        let ran = |row: &Row| row.given_up.is_none();
        let is_trusted = self.null_control.is_none_or(|control| control.is_same());
        self.is_finished()
            && is_trusted
            && self.claims.iter().all(holds)
            && self.cells.iter().all(ran)
    }

    /// The whole report, for people.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.title);
        self.question.iter().for_each(|question| text.push_str(&format!("{question}\n")));
        if let Some(stopped) = self.stopped {
            let why = match stopped {
                Stopped::Budget => "The time is up",
                Stopped::Interrupted | Stopped::Restart => "Interrupted",
            };
            let _ = writeln!(
                text,
                "\n{why}: this is what is known so far. Continue with the same command and --resume."
            );
        }
        text.push('\n');
        if self.cells.iter().all(|row| row.runs == 0) {
            text.push_str("No round was finished yet.\n");
        }
        for row in self.cells.iter().filter(|row| row.given_up.is_some()) {
            let reason = row.given_up.as_deref().unwrap_or_default();
            let _ = writeln!(text, "Given up: '{}': {reason}.", row.name);
        }
        self.sentences.iter().for_each(|sentence| text.push_str(&format!("{sentence}\n")));
        let _ = write!(text, "\n{}\n\n{}", self.table(), self.caption());
        if !self.nodes.is_empty() {
            let _ = writeln!(
                text,
                "Run on {}; cells are compared over the rounds in which both ran on the same node.",
                self.nodes.join(", ")
            );
            let is_alone = |row: &Row| {
                let rounds = row.effect.map_or(0, |effect| effect.rounds);
                row.reference.is_some() && row.given_up.is_none() && rounds < row.runs
            };
            if self.cells.iter().any(is_alone) {
                text.push_str(
                    "Not all rounds stayed on one node; to keep them there: {node} in --launcher, as in \
                     srun --nodelist={node}\n",
                );
            }
        }
        self.null_control.iter().for_each(|control| text.push_str(&self.control(control)));
        self.shift_words().iter().for_each(|words| {
            let _ = writeln!(text, "Note: {words}.");
        });
        for skipped in &self.skipped {
            let _ = writeln!(text, "Skipped: {skipped}.");
        }
        for note in &self.notes {
            let _ = writeln!(text, "Note: {note}.");
        }
        let _ = writeln!(text, "All runs: {}", self.store);
        text
    }

    pub fn caption(&self) -> String {
        let figure = match self.figure {
            "wall" => "Median time, from the start of the process to its end",
            _ => "Figure: the median over the runs of the median that each reported",
        };
        let mut caches: Vec<&str> = self.cells.iter().map(|row| row.cache).collect();
        caches.sort_unstable();
        caches.dedup();
        let cache = match caches.as_slice() {
            ["none"] => "the cache left as it was".to_owned(),
            [one] => format!("{one} cache"),
            _ => "the cache as each cell has it".to_owned(),
        };
        format!(
            "{figure}. Speed: compared with the baseline\nin rounds where both ran; 95 % interval shown \
             for six rounds or more. {} runs, each a fresh process,\n{} rounds after one to warm up, \
             {cache}, in random order from seed {}.\n",
            self.runs, self.rounds, self.seed
        )
    }

    /// That the machine changed, if it did.
    pub(crate) fn shift_words(&self) -> Option<String> {
        let Shift { round, ratio, p } = self.shift?;
        Some(format!(
            "from round {round} on the baseline took {ratio:.2} times as long as before (p {p:.1e}): the \
             machine changed speed. Ratios still hold, as they compare within rounds; cell times mix both speeds"
        ))
    }

    pub(crate) fn control(&self, control: &NullControl) -> String {
        let share = |share: Option<f64>| share.map_or_else(|| "unknown".to_owned(), percent);
        let alike = control.autocorrelation;
        let alike = alike.map_or_else(|| "unknown".to_owned(), |alike| format!("{alike:.2}"));
        let mut text = format!(
            "Check: the baseline against itself is {}: noise floor {}, lag-1 autocorrelation {alike}; \
             {} rounds\nshow differences from {} on.\n",
            verdict(control.effect.verdict, self.margin, false),
            share(control.noise_floor()),
            control.effect.rounds,
            share(control.smallest_effect(self.margin)),
        );
        if !control.is_same() {
            let margin = percent(self.margin);
            let _ = writeln!(
                text,
                "Equals are not shown to be the same within {margin} here, so every verdict above is \
                 marked down; try more\nrounds, or a quieter machine."
            );
        }
        text
    }

    fn table(&self) -> String {
        let has_samples = self.cells.iter().any(|row| !row.samples.is_empty());
        let mut header: Vec<String> = self.factors.clone();
        header
            .extend(["runs", "time", "speed", "95 % interval", "memory", "cpu"].map(str::to_owned));
        if has_samples {
            header.push("mean".to_owned());
            header.extend(QUANTILES.map(|(name, _)| name.to_owned()));
        }
        header.extend(self.published.iter().map(|name| format!("published {name}")));
        header.push(String::new());
        let numbers = self.factors.len()..header.len() - 1;
        text::table(header, self.cells.iter().map(|row| self.line(row, has_samples)), numbers)
    }

    fn line(&self, row: &Row, has_samples: bool) -> Vec<String> {
        let or_nothing = |text: Option<String>| text.unwrap_or_default();
        let mut line = row.levels.clone();
        let interval = row.effect.and_then(|effect| effect.speedup_interval());
        let is_baseline = row.reference.is_none() && row.runs > 0;
        line.extend([
            row.runs.to_string(),
            or_nothing(row.median.map(|median| format!("{} {}", three_digits(median), row.unit))),
            match row.effect {
                Some(effect) => format!("{:.2}", effect.speedup()),
                None if is_baseline => "1".to_owned(),
                None => String::new(),
            },
            or_nothing(interval.map(|Interval { low, high }| format!("{low:.2} to {high:.2}"))),
            or_nothing(row.peak_memory_bytes.map(|bytes| format!("{:.1} MiB", bytes as f64 / MIB))),
            or_nothing(row.processors.map(|share| format!("{:.0} %", share * 100.0))),
        ]);
        if has_samples {
            let columns = 1 + QUANTILES.len();
            let shown = row.samples.iter().map(|sample| three_digits(*sample));
            line.extend(shown.chain(std::iter::repeat(String::new())).take(columns));
        }
        line.extend(row.published.iter().cloned());
        line.push(self.mark(row));
        line
    }

    pub(crate) fn mark(&self, row: &Row) -> String {
        let is_doubtful = self.null_control.is_some_and(|control| !control.is_same());
        match (&row.given_up, &row.effect) {
            (Some(_), _) => "given up".to_owned(),
            (None, Some(effect)) if row.is_twin => {
                format!("the baseline again: {}", verdict(effect.verdict, self.margin, false))
            }
            (None, Some(effect)) => verdict(effect.verdict, self.margin, is_doubtful),
            (None, None) if row.runs == 0 => "not measured".to_owned(),
            (None, None) if row.reference.is_none() => "baseline".to_owned(),
            (None, None) => String::new(),
        }
    }
}
