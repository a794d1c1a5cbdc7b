//! What can be typed after `cargo xtask bench`.

use crate::bench::table::{BENCHMARKS, Benchmark, Scale, TOOLS, Tool};
use crate::bench::{languages, library};
use std::{
    env,
    path::PathBuf,
    time::{Duration, SystemTime},
};

pub(super) const USAGE: &str = "\
cargo xtask bench [OPTIONS]: measure what `sweetspot run` does to real programs, and the library

  --list             name the benchmarks and end
  --filter TEXT      only benchmarks whose name contains TEXT; may be given more than once
  --quick            each command once, on little data: do they work?
  --full             also those that take long
  --install          languages: install what is missing, from Debian's packages (as root or sudo)
  --record           write measurements/DATE-MACHINE/run.json and run.md
  --part NUMBER      on a part of the data: that many times less
  --rounds NUMBER    that many rounds; else 8 to 40, until the answer is clear
  --budget SECONDS   no further rounds after 8 when this time has passed (60)
  --seed NUMBER      the order of the runs follows from it
  --dir FOLDER       where the data is made, and kept for the next time (the temporary folder)
  --wrapper COMMAND  put before each buffered command, instead of `sweetspot run --`; an empty one
                     compares each command with itself, which shows the noise of this machine

cargo xtask bench languages [OPTIONS]: the same for a copy of records in some thirty languages, each
with what `profile` says of it; --record also writes the table in docs/reach.md
cargo xtask bench picks RECORD DIR: which size do tune, hyperfine and a loop of dd pick for six jobs, and
how far is each from the best of a grid of 40 random rounds?
cargo xtask bench predict RECORD DIR: hold what `sweetspot profile` says of the programs of
benchmarks/plan.toml against RECORD/report.json, a session of `sweetspot bench` in DIR
cargo xtask bench noise FILE.json [RUNS]: time one command RUNS (1500) times, as a series on which
the search for a sweet spot is tested
cargo xtask bench null [COMPARISONS [SEED]]: compare a command with itself that many times (200), as
the benchmarks are compared; fails where it is said to differ more often than 5 % of the time
cargo xtask bench null questions [COMPARISONS [SEED]]: the same with the two questions of `tune`
cargo xtask bench instructions: the instructions that the library adds to a call, and to the start of
a process, as valgrind counts them; fails where that is more than its budget
";

/// What was typed.
#[derive(Debug, PartialEq)]
pub(super) struct Settings {
    pub(super) list: bool,
    pub(super) quick: bool,
    pub(super) full: bool,
    pub(super) record: bool,
    pub(super) languages: bool,
    pub(super) install: bool,
    pub(super) filters: Vec<String>,
    pub(super) part: u64,
    pub(super) rounds: Option<usize>,
    pub(super) budget: Duration,
    pub(super) seed: u64,
    pub(super) folder: PathBuf,
    pub(super) wrapper: Option<String>,
}

pub(super) fn parse(arguments: &[&str]) -> Result<Settings, String> {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let mut settings = Settings {
        list: false,
        quick: false,
        full: false,
        record: false,
        languages: false,
        install: false,
        filters: Vec::new(),
        part: 1,
        rounds: None,
        budget: Duration::from_secs(60),
        seed: since_epoch.map_or(0, |time| time.as_secs()),
        folder: env::temp_dir(),
        wrapper: None,
    };
    let mut words = arguments.iter();
    if arguments.first() == Some(&"languages") {
        words.next();
        settings.languages = true;
    }
    while let Some(&option) = words.next() {
        let mut value =
            || words.next().copied().ok_or_else(|| format!("{option} needs a value after it"));
        match option {
            "--list" => settings.list = true,
            "--quick" => settings.quick = true,
            "--full" => settings.full = true,
            "--record" => settings.record = true,
            "--install" if settings.languages => settings.install = true,
            "--filter" => settings.filters.push(value()?.to_owned()),
            "--part" => settings.part = number(option, value()?)?,
            "--rounds" => settings.rounds = Some(number(option, value()?)?),
            "--budget" => settings.budget = Duration::from_secs(number(option, value()?)?),
            "--seed" => settings.seed = number(option, value()?)?,
            "--dir" => settings.folder = value()?.into(),
            "--wrapper" => settings.wrapper = Some(value()?.to_owned()),
            _ => return Err(format!("unknown option {option}")),
        }
    }
    match (settings.quick, settings.record) {
        (true, true) => Err("--quick measures nothing that --record could keep".to_owned()),
        _ => Ok(settings),
    }
}

pub(super) fn number<T: std::str::FromStr>(option: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{option} needs a whole number, not {text:?}"))
}

impl Settings {
    /// The benchmarks that were asked for.
    pub(super) fn chosen(&self) -> Vec<Benchmark> {
        let wanted = |benchmark: &Benchmark| {
            let named = self.filters.iter().any(|filter| benchmark.name.contains(&**filter));
            (self.filters.is_empty() || named) && (self.full || benchmark.scale == Scale::Normal)
        };
        let all: Vec<Benchmark> = match self.languages {
            true => languages::LANGUAGES.into(),
            false => BENCHMARKS.iter().chain(library::BENCHMARKS).copied().collect(),
        };
        all.into_iter().filter(wanted).collect()
    }

    pub(super) fn count(&self, benchmark: &Benchmark) -> u64 {
        let count = benchmark.count[usize::from(self.quick)];
        (count / self.part.max(1)).max(1)
    }

    pub(super) fn tools(&self) -> &'static [Tool] {
        if self.languages { languages::TOOLS } else { TOOLS }
    }

    /// What of the settings a record may tell: no path.
    pub(super) fn telling(&self) -> Vec<String> {
        let mut words: Vec<String> =
            self.languages.then(|| "languages".to_owned()).into_iter().collect();
        words.extend(["--record".to_owned(), format!("--seed {}", self.seed)]);
        words.extend(self.full.then(|| "--full".to_owned()));
        words.extend(self.filters.iter().map(|filter| format!("--filter {filter}")));
        words.extend((self.part > 1).then(|| format!("--part {}", self.part)));
        words.extend(self.rounds.map(|rounds| format!("--rounds {rounds}")));
        words
    }
}
