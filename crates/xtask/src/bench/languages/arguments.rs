//! What can be typed after `cargo xtask bench languages`.

use super::table::{LANGUAGES, Language};
use std::{
    env,
    path::PathBuf,
    time::{Duration, SystemTime},
};

pub(super) const USAGE: &str = "\
cargo xtask bench languages [OPTIONS]: measure a copy of records in some thirty languages

  --filter TEXT      only languages whose name contains TEXT; may be given more than once
  --quick            each command once, on little data: do they work?
  --install          install what is missing, from Debian's packages (as root or sudo)
  --record           write measurements/DATE-MACHINE-languages/run.json and run.md, and the table in
                     docs/reach.md
  --rounds NUMBER    that many rounds; else 8 to 40, until the answer is clear
  --budget SECONDS   no further rounds after 8 when this time has passed (60)
  --seed NUMBER      the order of the runs follows from it
  --dir FOLDER       where the data is made, and kept for the next time (the temporary folder)
";

/// What was typed.
#[derive(Debug, PartialEq)]
pub(super) struct Settings {
    pub(super) quick: bool,
    pub(super) record: bool,
    pub(super) install: bool,
    filters: Vec<String>,
    pub(super) rounds: Option<usize>,
    pub(super) budget: Duration,
    pub(super) seed: u64,
    pub(super) folder: PathBuf,
}

pub(super) fn parse(arguments: &[&str]) -> Result<Settings, String> {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let mut settings = Settings {
        quick: false,
        record: false,
        install: false,
        filters: Vec::new(),
        rounds: None,
        budget: Duration::from_secs(60),
        seed: since_epoch.map_or(0, |time| time.as_secs()),
        folder: env::temp_dir(),
    };
    let mut words = arguments.iter();
    while let Some(&option) = words.next() {
        let mut value =
            || words.next().copied().ok_or_else(|| format!("{option} needs a value after it"));
        match option {
            "--quick" => settings.quick = true,
            "--record" => settings.record = true,
            "--install" => settings.install = true,
            "--filter" => settings.filters.push(value()?.to_owned()),
            "--rounds" => settings.rounds = Some(number(option, value()?)?),
            "--budget" => settings.budget = Duration::from_secs(number(option, value()?)?),
            "--seed" => settings.seed = number(option, value()?)?,
            "--dir" => settings.folder = value()?.into(),
            _ => return Err(format!("unknown option {option}")),
        }
    }
    match (settings.quick, settings.record) {
        (true, true) => Err("--quick measures nothing that --record could keep".to_owned()),
        _ => Ok(settings),
    }
}

fn number<T: std::str::FromStr>(option: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{option} needs a whole number, not {text:?}"))
}

impl Settings {
    /// The languages that were asked for.
    pub(super) fn chosen(&self) -> impl Iterator<Item = &'static Language> {
        let named = |name: &str| self.filters.iter().any(|filter| name.contains(&**filter));
        LANGUAGES.iter().filter(move |language| self.filters.is_empty() || named(language.name))
    }

    /// What of the settings a record may tell: no path.
    pub(super) fn telling(&self) -> Vec<String> {
        let mut words = vec!["languages".to_owned(), "--record".to_owned()];
        words.push(format!("--seed {}", self.seed));
        words.extend(self.filters.iter().map(|filter| format!("--filter {filter}")));
        words.extend(self.rounds.map(|rounds| format!("--rounds {rounds}")));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_understood() {
        let settings = parse(&["--filter", "python", "--seed", "7", "--rounds", "9"]).unwrap();
        assert_eq!((settings.seed, settings.rounds), (7, Some(9)));
        let names: Vec<&str> = settings.chosen().map(|language| language.name).collect();
        assert_eq!(names, ["python"]);
    }

    #[test]
    fn wrong_options_are_named() {
        for (arguments, expected) in [
            (&["--no"][..], "unknown option --no"),
            (&["--filter"], "--filter needs a value after it"),
            (&["--rounds", "x"], "--rounds needs a whole number, not \"x\""),
            (&["--quick", "--record"], "--quick measures nothing that --record could keep"),
        ] {
            assert_eq!(parse(arguments).unwrap_err(), expected);
        }
    }

    #[test]
    fn a_record_tells_no_path() {
        let settings = parse(&["--dir", "/home/me", "--seed", "1"]).unwrap();
        assert_eq!(settings.telling(), ["languages", "--record", "--seed 1"]);
    }
}
