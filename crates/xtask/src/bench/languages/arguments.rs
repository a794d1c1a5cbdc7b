//! What can be typed after `cargo xtask bench languages`.

use super::table::{LANGUAGES, Language};
use crate::commands::seed_of_now;
use clap::Args;
use std::{env, path::PathBuf};

/// What was typed.
#[derive(Debug, Args)]
pub struct Settings {
    /// Each command once, on little data: do they work?
    #[arg(long)]
    pub(super) quick: bool,
    /// Write measurements/DATE-MACHINE-languages/run.json and run.md, and the table in docs/reach.md
    #[arg(long, conflicts_with = "quick")]
    pub(super) record: bool,
    /// Install what is missing, from Debian's packages (as root or sudo)
    #[arg(long)]
    pub(super) install: bool,
    /// Only languages whose name contains this; may be given more than once
    #[arg(long = "filter", value_name = "TEXT")]
    filters: Vec<String>,
    /// That many rounds; else 8 to 40, until the answer is clear
    #[arg(long, value_name = "NUMBER")]
    pub(super) rounds: Option<usize>,
    /// No further rounds after 8 when so many seconds have passed
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(super) budget: u64,
    /// The order of the runs follows from it
    #[arg(long, value_name = "NUMBER", default_value_t = seed_of_now())]
    pub(super) seed: u64,
    /// Where the data is made, and kept for the next time
    #[arg(long = "dir", value_name = "FOLDER", default_value_os_t = env::temp_dir())]
    pub(super) folder: PathBuf,
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
    use clap::Parser;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        settings: Settings,
    }

    #[test]
    fn a_record_tells_no_path() {
        let words = ["languages", "--dir", "/home/me", "--seed", "1", "--filter", "python"];
        let Typed { settings } = Typed::parse_from(words);
        let names: Vec<&str> = settings.chosen().map(|language| language.name).collect();
        assert_eq!(names, ["python"]);
        assert_eq!(settings.telling(), ["languages", "--record", "--seed 1", "--filter python"]);
    }
}
