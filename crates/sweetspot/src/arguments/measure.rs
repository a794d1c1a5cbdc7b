//! What can be typed to measure, and to show what was measured: `tune`, `bench`, `report`, `demo`.

use super::{COMMAND, TEMPLATE};
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use sweetspot_lab::grammar::duration;
use sweetspot_lab::ladder::{Ladder, ladder, percent};

const TUNE_EXAMPLES: &str = "\
Examples:
  sweetspot tune -- ./seqcopy in.dat out.dat
  sweetspot tune --patience 3 -- ./seqcopy in.dat out.dat    more runs, for a busy machine
  sweetspot tune --smallest --sizes 4K..1M -- java -cp app.jar Batch
  sweetspot tune --prepare 'cp master.dat work.dat' -- ./update work.dat
  sweetspot tune --sandbox -- ./update work.dat          change none of my files
  sweetspot tune --resume -- ./seqcopy in.dat out.dat    continue after a kill or Ctrl-C
  sweetspot tune --from job.recording                    predict from one recorded run
  sweetspot tune --from job.recording -- ./seqcopy in.dat out.dat    and confirm with six runs
  sweetspot tune --machine /mnt/nas                      what should auto mean there?";

const TUNE_NOTES: &str = "\
The command runs 14 to 30 times, in pairs and in random order. tune first asks whether automatic \
buffers are faster than none, then whether a fixed size is faster still. The command must write the \
same output every time. If 30 runs would take longer than --budget, tune records one run, predicts \
from it, and confirms the prediction with six more runs if there is time.

tune writes a rule only if a size is shown to be faster than auto, or with --smallest. The rule goes \
into the nearest sweetspot.toml in this folder or above, or into a new one here; `sweetspot run` \
uses it. tune does not touch rules that you wrote. Ctrl-C finishes the current run and prints what \
is known so far; a second Ctrl-C stops at once.

The exit status is 0 if the first question (with --smallest: the search) has an answer; 1 if it is \
still open; 125 if sweetspot or the command failed.";

/// Measure whether buffering pays off for a command, and whether a fixed size is better
#[derive(Args, Clone)]
#[command(help_template = TEMPLATE, before_help = TUNE_EXAMPLES, after_help = TUNE_NOTES, args_override_self = true)]
pub struct Tune {
    /// The margin: smaller differences do not matter
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = percent)]
    pub within: f64,

    /// The sizes to choose from: powers of two times FROM, up to TO
    #[arg(long, value_name = "FROM..TO", default_value = "4K..16M", value_parser = ladder)]
    pub sizes: Ladder,

    /// Drop the input files from the page cache before each run
    #[arg(long, conflicts_with = "warm")]
    pub cold: bool,

    /// Read the input files into the page cache before each run (the default)
    #[arg(long)]
    pub warm: bool,

    /// Start no round after this time: 90s, 5m, 1h
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    pub budget: Duration,

    /// Make up to N times as many runs, for a busy machine
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=20))]
    pub patience: u8,

    /// A shell command that restores everything before each run
    #[arg(long, value_name = "CMD")]
    pub prepare: Option<OsString>,

    /// Run in a sandbox: each run starts with the same files, and your files do not change
    #[arg(long, conflicts_with = "prepare")]
    pub sandbox: bool,

    /// Predict from the run that `profile --record FILE` recorded. Without a command nothing runs. With
    /// one, a few runs confirm the prediction; a search starts only if they do not
    #[arg(long, value_name = "FILE", conflicts_with_all = ["machine", "cold", "resume"])]
    pub from: Option<PathBuf>,

    /// Find the smallest buffer within the margin of the best, in about 90 runs
    #[arg(long)]
    pub smallest: bool,

    /// Find the smallest buffer, then measure every size to draw the curve
    #[arg(long)]
    pub curve: bool,

    /// Say what would be done; run the command only to learn what it reads and writes
    #[arg(long)]
    pub dry_run: bool,

    /// Write no rule
    #[arg(long)]
    pub keep_rules: bool,

    /// Continue the last unfinished session for this command
    #[arg(long)]
    pub resume: bool,

    /// The file for all runs (~/.local/state/sweetspot/runs.sqlite; for root /var/lib/sweetspot/runs.sqlite)
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,

    /// Seed for the random order of the runs
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,

    /// Read and write rules in FILE instead of searching for sweetspot.toml
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,

    /// Instead of tuning a command, find out what auto should mean for files in DIR
    #[arg(long, value_name = "DIR", conflicts_with_all = ["command", "prepare", "config", "sandbox"])]
    pub machine: Option<PathBuf>,

    /// The command and its arguments. Options for sweetspot come before its name
    #[arg(value_name = "CMD ARGS", required_unless_present_any = ["machine", "from"], trailing_var_arg = true, value_hint = COMMAND)]
    pub command: Vec<OsString>,
}

const BENCH_EXAMPLES: &str = "\
Examples:
  sweetspot bench plan.toml
  sweetspot bench --dry-run plan.toml         cells, order, disk space and time; run nothing
  sweetspot bench --budget 10m plan.toml      start no round after ten minutes
  sweetspot bench --check plan.toml           also compare a cell with itself: how far can I trust it?
  sweetspot bench --resume plan.toml          continue after a kill or Ctrl-C";

const BENCH_NOTES: &str = "\
A plan is a short TOML file, or a folder with a plan.toml in it. It names programs, what varies \
between runs, data, and claims to test (see docs/bench.md). In each round every cell runs once, in \
random order, as a fresh process, and its output is checked. The answer comes first, then a table.

All runs are kept in one SQLite file. Ctrl-C finishes the current run and prints what is known so \
far; a second Ctrl-C stops at once. When --budget is used up, bench stops after the current round. \
--resume continues.

The exit status is 0 if everything was measured and every claim holds; 1 if a claim does not hold \
or is open, a cell was given up, or bench was stopped early; 125 if sweetspot or the plan failed.";

/// Follow a plan to measure programs that do the same work differently
#[derive(Args, Clone)]
#[command(help_template = TEMPLATE, before_help = BENCH_EXAMPLES, after_help = BENCH_NOTES, args_override_self = true)]
pub struct Bench {
    /// Say what would be done; build, generate and run nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Run the baseline twice in each round, to show how much equal runs differ
    #[arg(long)]
    pub check: bool,

    /// Continue the last unfinished session of this plan
    #[arg(long)]
    pub resume: bool,

    /// Continue even if the machine, a program or the data has changed
    #[arg(long, requires = "resume")]
    pub accept_changes: bool,

    /// Use the levels of this scale of the plan
    #[arg(long, value_name = "NAME")]
    pub scale: Option<String>,

    /// Start no round after this time: 90s, 5m, 1h
    #[arg(long, value_name = "TIME", conflicts_with = "between", value_parser = duration)]
    pub budget: Option<Duration>,

    /// Number of rounds, whatever the plan says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=500))]
    pub rounds: Option<u32>,

    /// Seed for the random order of the runs
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,

    /// The file for all runs (default: the plan's name with .sqlite, in the current folder)
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,

    /// Folder for data, programs and outputs, on the file system to measure (~/.cache/sweetspot/bench)
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// A launcher to put before each run, such as 'srun -N1 -n1 --exclusive'
    #[arg(long, value_name = "CMD")]
    pub launcher: Option<OsString>,

    /// Restart the machine before each run; a systemd unit continues after each start
    #[arg(long, value_name = "WHAT", value_parser = ["reboot"])]
    pub between: Option<String>,

    /// How long to wait after a restart
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    pub settle: Duration,

    /// The command that restarts the machine
    #[arg(long, value_name = "CMD", default_value = "systemctl reboot")]
    pub reboot_command: OsString,

    /// The folder for the systemd unit
    #[arg(long, value_name = "DIR", default_value = "/etc/systemd/system")]
    pub unit_dir: PathBuf,

    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,

    /// A plan, or a folder with a plan.toml in it
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
}

/// Measures one run of a cell: started by a launcher of `bench`, not by people
#[derive(Args)]
pub struct Measure {
    /// What to run
    #[arg(value_name = "REQUEST")]
    pub request: String,
}

const REPORT_EXAMPLES: &str = "\
Examples:
  sweetspot report plan.sqlite                          tables in the terminal
  sweetspot report plan.sqlite --html page.html         a page with charts, for any browser
  sweetspot report plan.sqlite --markdown               for a pull request
  sweetspot report before.json after.json               two profiles: before and after
  sweetspot report ~/.local/state/sweetspot/runs.sqlite --session 3";

const REPORT_NOTES: &str = "\
You can run report at any time, even while tune or bench runs; it changes nothing of theirs. The \
page loads nothing from the network, and works on a phone, on paper, and in light or dark mode. See \
docs/report.md.

The exit status is 0, or 125 if a file cannot be read, holds nothing to show, or would be \
overwritten.";

/// Show the results of tune and bench: tables, charts, Markdown, JSON, CSV
#[derive(Args)]
#[command(help_template = TEMPLATE, before_help = REPORT_EXAMPLES, after_help = REPORT_NOTES)]
pub struct Report {
    /// Write a page with charts to FILE (- for stdout)
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write the first chart to FILE, as SVG
    #[arg(long, value_name = "FILE")]
    pub figure: Option<PathBuf>,

    /// Print Markdown
    #[arg(long, group = "form")]
    pub markdown: bool,

    /// Print JSON (docs/report.schema.json), which report can read again
    #[arg(long, group = "form")]
    pub json: bool,

    /// Print the runs as CSV, one per row
    #[arg(long, group = "form")]
    pub csv: bool,

    /// Show this session instead of the last one
    #[arg(long, value_name = "NUMBER")]
    pub session: Option<i64>,

    /// Files: the stores of tune and bench, or what profile --json, run --summary or report --json
    /// wrote
    #[arg(value_name = "RESULTS", required = true)]
    pub files: Vec<PathBuf>,
}

const DEMO_EXAMPLES: &str = "\
Examples:
  sweetspot demo
  sweetspot demo --records 5000000 --dir /data/scratch";

/// Profile, tune and run a small copy program, and compare its output
#[derive(Args)]
#[command(help_template = TEMPLATE, before_help = DEMO_EXAMPLES)]
pub struct Demo {
    /// How many records of 200 bytes to copy
    #[arg(
        long, value_name = "N", default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000)
    )]
    pub records: u64,

    /// How many pairs of runs: one without sweetspot, one with it
    #[arg(
        long, value_name = "N", default_value_t = 6,
        value_parser = clap::value_parser!(u32).range(1..=500)
    )]
    pub pairs: u32,

    /// Where to make the temporary folder
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}
