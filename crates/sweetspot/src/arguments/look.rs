//! What can be typed to look at programs, runs and the machine, and to finish what was left: `top`,
//! `summary`, `recover`, `doctor`, and what packages ask for.

use super::TEMPLATE;
use clap::{Args, ValueEnum, ValueHint};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;
use sweetspot_lab::grammar::duration;

const TOP_EXAMPLES: &str = "\
Examples:
  sweetspot top                      watch until Ctrl-C
  sweetspot top --once | head        one table
  sudo sweetspot top --json --once   the processes of all users, for another program";

const TOP_NOTES: &str = "\
Calls and bytes come from /proc/PID/io: of your own processes or, as root, of all. They include \
pipes and sockets, which sweetspot does not buffer. If a program has no file open, top says so.";

/// Show which running programs make many small calls
#[derive(Args)]
#[command(help_template = TEMPLATE, before_help = TOP_EXAMPLES, after_help = TOP_NOTES)]
pub struct Top {
    /// Show one table, then exit
    #[arg(long)]
    pub once: bool,

    /// How long to count calls for each table, such as 2s or 500ms
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = interval)]
    pub interval: Duration,

    /// Print each table as one line of JSON
    #[arg(long)]
    pub json: bool,
}

/// The shortest time over which counting makes sense, and the longest.
const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

fn interval(text: &str) -> Result<Duration, String> {
    match duration(text) {
        Ok(interval) if INTERVALS.contains(&interval) => Ok(interval),
        Ok(_) => Err("from 100ms to 60min".to_owned()),
        Err(_) => Err("expected a time such as 2s or 500ms".to_owned()),
    }
}

const SUMMARY_EXAMPLES: &str = "\
Examples:
  mpirun -n 4 sweetspot run --summary=job/ -- ./rank
  sweetspot summary job                        totals, the slowest rank, the spread, files
  srun sweetspot profile --json job/ -- ./rank
  sweetspot summary --json job > job.json      the same as data";

const SUMMARY_NOTES: &str = "\
Each run writes its own file into the folder, whatever started it: MPI, Slurm, make -j, xargs -P, \
a loop. Many machines may share the folder. summary skips other files, and names them.";

/// Combine the summaries of many runs: totals, the slowest run, files
#[derive(Args)]
#[command(help_template = TEMPLATE, before_help = SUMMARY_EXAMPLES, after_help = SUMMARY_NOTES)]
pub struct Summary {
    /// Print complete JSON
    #[arg(long)]
    pub json: bool,

    /// Folders that `run --summary=DIR/` or `profile --json DIR/` wrote to, or files in them
    #[arg(value_name = "DIR", required = true, value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
}

const RECOVER_EXAMPLES: &str = "\
Examples:
  sweetspot recover --list        show what is pending, change nothing
  sweetspot recover               write it where it belongs
  sweetspot recover --discard     throw it away
  sweetspot recover --unverified /dev/shm/sweetspot-1000-0123456789abcdef";

const RECOVER_NOTES: &str = "\
If a program is killed, its guard writes the pending bytes at once. recover is needed only if the \
guard was killed as well. The next `sweetspot run` of the same user does the same automatically.

Anybody can put files into /dev/shm. So recover writes only from ledgers that one of your guards \
has recorded in your state folder ($XDG_STATE_HOME or ~/.local/state; for root, \
/var/lib/sweetspot). It lists other ledgers; name one with --unverified to use it.

recover never overwrites later changes: it saves the pending bytes beside the file instead.

The exit status is 0 if everything is where it belongs or nothing was pending; 1 if something was \
saved beside its file, is still in use or could not be written; 125 if sweetspot itself failed.";

/// Write the pending bytes of a program that was killed with its guard
#[derive(Args)]
#[command(help_template = TEMPLATE, before_help = RECOVER_EXAMPLES, after_help = RECOVER_NOTES)]
pub struct Recover {
    /// Show what is pending, what would happen to it, and what was saved; change nothing
    #[arg(long, conflicts_with = "discard")]
    pub list: bool,

    /// Throw pending bytes away instead of writing them
    #[arg(long)]
    pub discard: bool,

    /// Use LEDGER although none of your guards has recorded it: show every path, then write
    #[arg(long, requires = "ledger", conflicts_with_all = ["list", "discard"])]
    pub unverified: bool,

    /// The ledger. Default: all that your dead programs left in /dev/shm
    #[arg(value_name = "LEDGER")]
    pub ledger: Option<PathBuf>,
}

const DOCTOR_EXAMPLES: &str = "\
Examples:
  sweetspot doctor
  sweetspot doctor --json | jq .run_works";

const DOCTOR_NOTES: &str = "\
doctor tries things out: it runs a small program under the library, sets up a sandbox, and drops a \
file from the page cache. It changes nothing of yours.

The exit status is 0 if `run` works here, 1 if nothing would be buffered, 125 if sweetspot itself \
failed.";

/// Check what works on this machine, and say how to fix what does not
#[derive(Args)]
#[command(help_template = TEMPLATE, before_help = DOCTOR_EXAMPLES, after_help = DOCTOR_NOTES)]
pub struct Doctor {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Writes manual pages or completions for shells into a folder, or prints a drop-in for a systemd unit
#[derive(Args)]
pub struct Generate {
    /// What to write
    #[arg(value_name = "WHAT")]
    pub what: Generated,

    /// Where; or the unit, by its name or its file
    #[arg(value_name = "DIR|UNIT")]
    pub target: PathBuf,
}

/// What follows from these definitions.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Generated {
    Man,
    Completions,
    Systemd,
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
