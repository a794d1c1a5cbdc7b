//! A report of `tune` in words: a sentence, a table, a curve.

use crate::numbers::{self, count, duration, spoken, typed};
use crate::shown::shown;
use crate::text;
use crate::tune::rules::{Rule, Tuned};
use crate::tune::{
    CURVE_LINES, LISTED_MAX, MIB, PredictedRow, Row, SETTINGS_OF_CURVE, Stopped, TuneReport,
};
use std::fmt::Write as _;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use sweetspot_core::size::BufferSize;
use sweetspot_lab::ladder::Ladder;
use sweetspot_lab::search::{OFF, Phase};

impl TuneReport {
    /// Adds what was written, and where.
    pub fn written(&mut self, path: &Path, tuned: &Tuned, warning: Option<String>) {
        self.rule_file = Some(path.display().to_string());
        let words = |rule: &Rule| {
            let program = tuned.program.map(|name| format!("program {name}"));
            let file = rule.file.as_ref().map(|file| format!("file {file}"));
            let meant: Vec<String> = program.into_iter().chain(file).collect();
            format!("{}: buffer {}", meant.join(" and "), typed(rule.buffer))
        };
        self.rules = tuned.rules.iter().map(words).collect();
        self.notes.extend(warning);
    }

    /// Whether nothing is left that a resumed session could do.
    pub fn is_finished(&self) -> bool {
        self.stopped.is_none()
    }

    /// That it was stopped, and how it goes on.
    fn so_far(&self) -> &'static str {
        match self.stopped {
            Some(Stopped::Interrupted) => {
                "Interrupted. This is what is known so far. Continue with the same command and \
                 --resume.\n"
            }
            Some(Stopped::Budget) => {
                "Time is up. This is what is known so far. Continue with the same command and \
                 --resume, or give it more: --budget 20m. Or predict it from one run: sweetspot profile \
                 --record FILE -- CMD, then sweetspot tune --from FILE.\n"
            }
            None => "",
        }
    }

    /// The whole report, for people.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n{}", self.sentence, self.so_far());
        if !self.predicted.is_empty() {
            let rows = self.predicted.iter().map(|row| (row.buffer.as_str(), row.seconds));
            let curve = self.curve(rows.collect());
            let _ = write!(text, "\n{}\n\n{curve}", self.predicted_table());
            let _ = writeln!(
                text,
                "\nPredicted from the calls of one run and what calls cost here. The interval should \
                 contain 9 of 10 results."
            );
        }
        if self.settings.is_empty() {
            self.notes.iter().for_each(|note| {
                let _ = writeln!(text, "Note: {note}.");
            });
            return text;
        }
        let rows = self.settings.iter().map(|row| (row.buffer.as_str(), row.median_seconds));
        let curve = self.curve(rows.collect());
        // Of two or three settings there is no curve.
        let curve = match self.settings.len() < SETTINGS_OF_CURVE {
            true => String::new(),
            false => format!("\n{curve}"),
        };
        let _ = write!(text, "\n{}\n{curve}{}", self.table(), self.how());
        match self.checked.as_slice() {
            [] => text.push_str("No output is known that could be compared.\n"),
            checked => {
                let _ = writeln!(text, "The same in every run: {}.", listed(checked));
            }
        }
        for note in &self.notes {
            let _ = writeln!(text, "Note: {note}.");
        }
        if let Some(path) = &self.rule_file {
            let _ = writeln!(text, "\nWritten to {path}:");
            for rule in &self.rules {
                let _ = writeln!(text, "  {rule}");
            }
        }
        text
    }

    /// How it was measured.
    fn how(&self) -> String {
        let mut text = String::new();
        let base = self.base.as_deref().unwrap_or("the best");
        let _ = writeln!(
            text,
            "\nMedian time. Ratio: compared with {base} in rounds where both ran; interval shown for \
             six rounds or more.\n{} runs, each a fresh process, {} cache, {}.",
            self.runs,
            self.cache,
            // A search begins with other rounds.
            match self.rounds.iter().all(|round| round.phase == Phase::Confirm) {
                true => "there and back".to_string(),
                false => format!("in random rounds from seed {}", self.seed),
            }
        );
        if let Some(compared) = &self.compared {
            let _ = writeln!(text, "{compared}");
        }
        if self.disturbed_runs > 0 {
            let what = match (self.questions.is_some(), self.disturbed_runs) {
                (true, 1) => "; it counts less",
                (true, _) => "; they count less",
                (false, _) => "",
            };
            let runs = match self.disturbed_runs {
                1 => "1 run was".to_owned(),
                runs => format!("{runs} runs were"),
            };
            let _ = writeln!(text, "{runs} disturbed by other load{what}. None was dropped.");
        }
        text
    }

    fn table(&self) -> String {
        let header = ["buffer", "runs", "seconds", "ratio", "95 % interval", "memory", ""];
        let line = |row: &Row| {
            let interval = match (row.low, row.high) {
                (Some(low), Some(high)) => format!("{low:.3} to {high:.3}"),
                _ => String::new(),
            };
            [
                row.buffer.clone(),
                row.runs.to_string(),
                format!("{:.4}", row.median_seconds),
                row.ratio.map_or_else(String::new, |ratio| format!("{ratio:.3}")),
                interval,
                format!("{:.1} MiB", row.peak_memory_bytes as f64 / MIB),
                self.mark(&row.buffer).to_string(),
            ]
        };
        text::table(header, self.settings.iter().map(line), 1..6)
    }

    fn predicted_table(&self) -> String {
        let header = ["buffer", "seconds", "times as fast", "interval", "calls made", ""];
        let line = |row: &PredictedRow| {
            let interval = match row.setting {
                OFF => String::new(),
                _ => format!("{:.2} to {:.2}", row.low, row.high),
            };
            [
                row.buffer.clone(),
                format!("{:.4}", row.seconds),
                format!("{:.2}", row.speed),
                interval,
                row.calls_made.map(count).unwrap_or_default(),
                // What was measured is marked below.
                if self.settings.is_empty() { self.mark(&row.buffer) } else { "" }.to_string(),
            ]
        };
        text::table(header, self.predicted.iter().map(line), 1..5)
    }

    fn mark(&self, buffer: &String) -> &'static str {
        let is = |text: &Option<String>| text.as_ref() == Some(buffer);
        if is(&self.buffer) && self.questions.is_some() {
            "<- use this"
        } else if is(&self.buffer) && is(&self.smallest) {
            "<- the smallest as good, use this"
        } else if is(&self.buffer) {
            "<- as good, use this"
        } else if is(&self.smallest) {
            match self.confirmed || self.settings.is_empty() {
                true => "<- the smallest as good",
                false => "<- perhaps",
            }
        } else {
            ""
        }
    }

    /// The medians by size, on a logarithmic scale, as stars; the choice is an `O`.
    fn curve(&self, rows: Vec<(&str, f64)>) -> String {
        let seconds = || rows.iter().map(|(_, seconds)| *seconds);
        let (least, most) = (seconds().fold(f64::MAX, f64::min), seconds().fold(0.0, f64::max));
        let span = (most / least).ln().max(f64::MIN_POSITIVE);
        let line_of = |seconds: f64| {
            let share = (most / seconds).ln() / span;
            (share * (CURVE_LINES - 1) as f64).round() as usize
        };
        let lines = if most / least < 1.01 { 1 } else { CURVE_LINES };
        let mut text = String::new();
        for line in 0..lines {
            let label = match line {
                0 => format!("{most:.4} s"),
                last if last == lines - 1 => format!("{least:.4} s"),
                _ => String::new(),
            };
            let _ = write!(text, "{label:>11} |");
            for (buffer, seconds) in &rows {
                let is_here = lines == 1 || line_of(*seconds) == line;
                let choice = self.smallest.as_ref().or(self.buffer.as_ref());
                let is_choice = choice.is_some_and(|choice| choice == buffer);
                let point = match (is_here, is_choice) {
                    (true, true) => "O",
                    (true, false) => "*",
                    (false, _) => "",
                };
                let _ = write!(text, "{point:>5}");
            }
            let trimmed = text.trim_end().len();
            text.truncate(trimmed);
            text.push('\n');
        }
        let _ = write!(text, "{:>11}  ", "");
        rows.iter().for_each(|(buffer, _)| {
            let _ = write!(text, "{buffer:>5}");
        });
        text + "\n"
    }
}

/// The first few of a list, and how many more there are.
fn listed(names: &[String]) -> String {
    match names.len().saturating_sub(LISTED_MAX) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names[..LISTED_MAX].join(", ")),
    }
}

/// What would be done.
pub struct DryRun<'a> {
    /// How long one run took.
    pub seconds: f64,
    /// How many it takes, about.
    pub runs: u64,
    pub budget: Duration,
    pub sizes: &'a Ladder,
    pub inputs: Vec<PathBuf>,
    /// Their names, in words.
    pub outputs: Vec<String>,
    /// The file of rules.
    pub rules: &'a Path,
    pub notes: &'a [String],
}

impl DryRun<'_> {
    /// All of it, for people.
    pub fn text(&self) -> String {
        let list = |paths: &[String]| match paths {
            [] => "none known".to_string(),
            paths => listed(paths),
        };
        let inputs: Vec<String> = self.inputs.iter().map(shown).collect();
        let sizes: Vec<String> = (self.sizes.settings())
            .map(|setting| self.sizes.buffer(setting))
            .filter(|buffer| matches!(buffer, BufferSize::Bytes(_)))
            .map(spoken)
            .collect();
        let runs = self.runs as f64;
        let mut text = format!(
            "One run took {}. Tuning takes about {runs} runs, at most {} at that speed; the budget is {}.\n\ninputs   {}\noutputs  {}\nsizes    {}\nrule     {}\n",
            numbers::seconds(self.seconds),
            duration(runs * self.seconds),
            duration(self.budget.as_secs_f64()),
            list(&inputs),
            list(&self.outputs),
            sizes.join(", "),
            shown(self.rules)
        );
        for note in self.notes {
            let _ = writeln!(text, "Note: {note}.");
        }
        text
    }
}
