//! What can be typed to look at programs, runs and the machine, and to finish what was left: `top`,
//! `summary`, `recover`, `doctor`, and what packages ask for.

use super::TEMPLATE;
use clap::{Args, ValueEnum, ValueHint};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

const TOP_EXAMPLES: &str = "\
Examples:
  sweetspot top                      look until Ctrl-C
  sweetspot top --once | head        one table
  sudo sweetspot top --json --once   the processes of all users, for another program";

const TOP_NOTES: &str = "\
Calls and bytes are those of /proc/PID/io: of your own processes, or as root of all. What a \
program reads from pipes and sockets is among them, and is not buffered by sweetspot; a program \
without any file open is therefore shown with that reason.";

/// Show which programs that run now make many small calls
#[derive(Args)]
#[command(help_template = TEMPLATE, before_help = TOP_EXAMPLES, after_help = TOP_NOTES)]
pub struct Top {
    /// Show one table and end
    #[arg(long)]
    pub once: bool,

    /// How long calls are counted for each table, such as 2s or 500ms
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = interval)]
    pub interval: Duration,

    /// One JSON object for each table, on a line of its own
    #[arg(long)]
    pub json: bool,
}

/// The shortest time over which counting makes sense, and the longest.
const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

fn interval(text: &str) -> Result<Duration, String> {
    let unit = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    let scale = match unit {
        "s" | "" => 1.0,
        "ms" => 0.001,
        "m" | "min" => 60.0,
        _ => return Err("a time such as 2s or 500ms is wanted".to_owned()),
    };
    let seconds = number.trim().parse::<f64>().map_err(|error| error.to_string())?;
    match Duration::try_from_secs_f64(seconds * scale) {
        Ok(interval) if INTERVALS.contains(&interval) => Ok(interval),
        _ => Err("from 100ms to 60min".to_owned()),
    }
}

const SUMMARY_EXAMPLES: &str = "\
Examples:
  mpirun -n 4 sweetspot run --summary=job/ -- ./rank
  sweetspot summary job                        totals, the slowest rank, the spread, files
  srun sweetspot profile --json job/ -- ./rank
  sweetspot summary --json job > job.json      the same as data";

const SUMMARY_NOTES: &str = "\
Each run puts a file of its own into the folder, whatever started it: MPI, Slurm, make -j, \
xargs -P, a loop. The folder may be shared by many machines. What is no such file is skipped, and \
said.";

/// Show what many runs left in a folder as one: totals, the slowest, files
#[derive(Args)]
#[command(help_template = TEMPLATE, before_help = SUMMARY_EXAMPLES, after_help = SUMMARY_NOTES)]
pub struct Summary {
    /// Say it as JSON, with nothing left out
    #[arg(long)]
    pub json: bool,

    /// Folders into which `run --summary=DIR/` or `profile --json DIR/` wrote, or files from there
    #[arg(value_name = "DIR", required = true, value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
}

const RECOVER_EXAMPLES: &str = "\
Examples:
  sweetspot recover --list        say what is pending, change nothing
  sweetspot recover               write it where it belongs
  sweetspot recover --discard     lose it
  sweetspot recover --unverified /dev/shm/sweetspot-1000-0123456789abcdef";

const RECOVER_NOTES: &str = "\
A program that is killed is finished by its guard at once; this is for the rest: a guard that \
was killed too. The next `sweetspot run` of the same user does the same by itself.

What is written is only what a guard of yours has noted in your state folder ($XDG_STATE_HOME or \
~/.local/state; root's: /var/lib/sweetspot), as anything may lie in /dev/shm. A ledger without a \
note is listed; --unverified takes it by name.

What was changed since then is never overwritten: the pending bytes are saved beside the file.

The exit status is 0 when all is where it belongs or nothing was pending; 1 when something was \
saved beside, is still in use or could not be finished; 125 when sweetspot itself failed.";

/// Finish what was pending where a program was killed together with its guard
#[derive(Args)]
#[command(help_template = TEMPLATE, before_help = RECOVER_EXAMPLES, after_help = RECOVER_NOTES)]
pub struct Recover {
    /// Say what is pending and what would become of it; change nothing
    #[arg(long, conflicts_with = "discard")]
    pub list: bool,

    /// Remove what is pending instead of writing it
    #[arg(long)]
    pub discard: bool,

    /// Take LEDGER though no guard of yours has noted it: show every path, and then write
    #[arg(long, requires = "ledger", conflicts_with_all = ["list", "discard"])]
    pub unverified: bool,

    /// The ledger; without it, all that dead programs of yours left in /dev/shm
    #[arg(value_name = "LEDGER")]
    pub ledger: Option<PathBuf>,
}

const DOCTOR_EXAMPLES: &str = "\
Examples:
  sweetspot doctor
  sweetspot doctor --json | jq .run_works";

const DOCTOR_NOTES: &str = "\
A small program runs under the library, a sandbox is laid, a file is dropped from the page \
cache: what can be tried is tried. Nothing of yours is changed.

The exit status is 0 when `run` works here, 1 when nothing would be buffered, 125 when sweetspot \
itself failed.";

/// Say what this machine offers and lacks, with the command that mends it
#[derive(Args)]
#[command(help_template = TEMPLATE, before_help = DOCTOR_EXAMPLES, after_help = DOCTOR_NOTES)]
pub struct Doctor {
    /// Say it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Writes manual pages or completions for shells into a folder: for packages
#[derive(Args)]
pub struct Generate {
    /// What to write
    #[arg(value_name = "WHAT")]
    pub what: Generated,

    /// Where
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// What follows from these definitions.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Generated {
    Man,
    Completions,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals() {
        let check = |text: &str, milliseconds: Option<u64>| {
            let found = interval(text).ok();
            assert_eq!(found, milliseconds.map(Duration::from_millis), "{text}");
        };
        check("2s", Some(2000));
        check("2", Some(2000));
        check("0.5s", Some(500));
        check("100ms", Some(100));
        check("60min", Some(3_600_000));
        for text in ["", "s", "99ms", "61min", "-1s", "nan", "2h", "1e30"] {
            check(text, None);
        }
    }
}
