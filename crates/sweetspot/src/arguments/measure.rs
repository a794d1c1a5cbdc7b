//! What can be typed to measure, and to show what was measured: `tune`, `bench`, `report`, `demo`.

use super::{COMMAND, TEMPLATE};
use crate::ladder as tune;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const TUNE_EXAMPLES: &str = "\
Examples:
  sweetspot tune -- ./seqcopy in.dat out.dat
  sweetspot tune --patience 3 -- ./seqcopy in.dat out.dat    more runs, on a busy machine
  sweetspot tune --smallest --sizes 4K..1M -- java -cp app.jar Batch
  sweetspot tune --prepare 'cp master.dat work.dat' -- ./update work.dat
  sweetspot tune --sandbox -- ./update work.dat          change nothing of mine
  sweetspot tune --resume -- ./seqcopy in.dat out.dat    go on after a kill or a Ctrl-C
  sweetspot tune --from job.recording                    predict it from one run (profile --record)
  sweetspot tune --from job.recording -- ./seqcopy in.dat out.dat    and confirm it by six
  sweetspot tune --machine /mnt/nas                      what should auto mean there?";

const TUNE_NOTES: &str = "\
The command runs 14 to 30 times, in pairs and in an order that is fair. First: is it faster with \
automatic buffers than without? Then: is any size faster than those? What it writes must come out the \
same each time. Where 30 runs take longer than --budget, one run is recorded, and six more confirm what \
it predicts, if there is time for them.

A size becomes a rule only where it is shown to be faster than auto, or with --smallest. The rule goes \
into the sweetspot.toml that is found from here upwards, or into a new one here; `sweetspot run` uses \
it. Rules that you wrote are not touched. Ctrl-C finishes the current run and says what is known so \
far; a second Ctrl-C stops at once.

The exit status is 0 when the first question, or with --smallest the search, has an answer; 1 when it \
is open; 125 when sweetspot or the command failed.";

/// Measure whether buffering pays for a command, and whether it needs a size of its own
#[derive(Args, Clone)]
#[command(help_template = TEMPLATE, before_help = TUNE_EXAMPLES, after_help = TUNE_NOTES, args_override_self = true)]
pub struct Tune {
    /// The margin: a difference this small does not matter
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = tune::percent)]
    pub within: f64,

    /// The sizes to choose from: each doubled from the first to the last
    #[arg(long, value_name = "FROM..TO", default_value = "4K..16M", value_parser = tune::ladder)]
    pub sizes: tune::Ladder,

    /// Drop the input files from the page cache before each run
    #[arg(long, conflicts_with = "warm")]
    pub cold: bool,

    /// Read the input files into the page cache before each run (as it is without --cold)
    #[arg(long)]
    pub warm: bool,

    /// Begin no round after this time: 90s, 5m, 1h
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = tune::duration)]
    pub budget: Duration,

    /// Make up to N times as many runs to be sure, on a busy machine
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=20))]
    pub patience: u8,

    /// A shell command that brings everything into its first state, before each run
    #[arg(long, value_name = "CMD")]
    pub prepare: Option<OsString>,

    /// Run it in a sandbox: each run begins with the same files, and nothing of yours is changed
    #[arg(long, conflicts_with = "prepare")]
    pub sandbox: bool,

    /// Predict from the run that `profile --record FILE` kept. Without a command nothing runs; with it,
    /// some runs confirm the prediction, and a search begins only where they do not
    #[arg(long, value_name = "FILE", conflicts_with_all = ["machine", "cold", "resume"])]
    pub from: Option<PathBuf>,

    /// Find the smallest buffer within the margin of the best, in some 90 runs
    #[arg(long)]
    pub smallest: bool,

    /// Find the smallest buffer, then measure every size for the whole curve
    #[arg(long)]
    pub curve: bool,

    /// Say what would be done, and run the command only to learn what it reads and writes
    #[arg(long)]
    pub dry_run: bool,

    /// Write no rule
    #[arg(long)]
    pub keep_rules: bool,

    /// Go on with the last session about this command that was not finished
    #[arg(long)]
    pub resume: bool,

    /// The file that keeps all runs (~/.local/state/sweetspot/runs.sqlite)
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,

    /// The order of the runs follows from it
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,

    /// Take and write the rules in FILE instead of looking for sweetspot.toml
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Say the result as JSON
    #[arg(long)]
    pub json: bool,

    /// Find out what auto should mean for files in DIR, on its file system, instead of tuning a command
    #[arg(long, value_name = "DIR", conflicts_with_all = ["command", "prepare", "config", "sandbox"])]
    pub machine: Option<PathBuf>,

    /// The command and its arguments; options of sweetspot stop at its name
    #[arg(value_name = "CMD ARGS", required_unless_present_any = ["machine", "from"], trailing_var_arg = true, value_hint = COMMAND)]
    pub command: Vec<OsString>,
}

const BENCH_EXAMPLES: &str = "\
Examples:
  sweetspot bench plan.toml
  sweetspot bench --dry-run plan.toml         cells, order, room and time; nothing runs
  sweetspot bench --budget 10m plan.toml      begin no round after ten minutes
  sweetspot bench --check plan.toml           and a cell against itself: can the rest be trusted?
  sweetspot bench --resume plan.toml          go on after a kill or a Ctrl-C";

const BENCH_NOTES: &str = "\
A plan is a short TOML file, or a folder with a plan.toml in it: programs, what differs between \
their runs, data, and what is claimed (docs/bench.md has its form). All cells run once in each \
round, in random order, each as a fresh process whose output is checked; the answer comes first, \
then a table.

Every run is kept in one SQLite file. Ctrl-C finishes the run that is under way and says what is \
known so far; a second Ctrl-C stops at once. When --budget is used up, it ends likewise after the current \
round; --resume goes on.

The exit status is 0 when all is measured and every claim holds; 1 when a claim does not hold or \
is open, a cell was given up, or it was stopped early; 125 when sweetspot or the plan failed.";

/// Measure what a plan says: programs that do the same work in different ways
#[derive(Args, Clone)]
#[command(help_template = TEMPLATE, before_help = BENCH_EXAMPLES, after_help = BENCH_NOTES, args_override_self = true)]
pub struct Bench {
    /// Say what would be done; build, make and run nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Run the baseline twice in each round, and say how far equals seem to differ
    #[arg(long)]
    pub check: bool,

    /// Go on with the last session of this plan that was not finished
    #[arg(long)]
    pub resume: bool,

    /// Go on though the machine, a program or the data is not what it was
    #[arg(long, requires = "resume")]
    pub accept_changes: bool,

    /// Take the levels of this scale of the plan
    #[arg(long, value_name = "NAME")]
    pub scale: Option<String>,

    /// Begin no round after this time: 90s, 5m, 1h
    #[arg(long, value_name = "TIME", conflicts_with = "between", value_parser = tune::duration)]
    pub budget: Option<Duration>,

    /// So many rounds, whatever the plan says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=500))]
    pub rounds: Option<u32>,

    /// The order of the runs follows from it
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,

    /// The file that keeps all runs (NAME.sqlite in the current folder, NAME being that of the plan)
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,

    /// Where data, programs and outputs lie: the file system that is measured (~/.cache/sweetspot/bench)
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// A command to put before each run, which takes it elsewhere: 'srun -N1 -n1 --exclusive'
    #[arg(long, value_name = "CMD")]
    pub launcher: Option<OsString>,

    /// Restart the machine before each run; a unit of systemd goes on when it has started
    #[arg(long, value_name = "WHAT", value_parser = ["reboot"])]
    pub between: Option<String>,

    /// How long the machine is left alone after a start
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = tune::duration)]
    pub settle: Duration,

    /// The command that restarts the machine
    #[arg(long, value_name = "CMD", default_value = "systemctl reboot")]
    pub reboot_command: OsString,

    /// The folder for the unit
    #[arg(long, value_name = "DIR", default_value = "/etc/systemd/system")]
    pub unit_dir: PathBuf,

    /// Say the result as JSON
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
It may be asked at any time, also while tune or bench runs: nothing of theirs is changed. The page \
makes no request, and reads on a phone, on paper, in light and dark. docs/report.md says more.

The exit status is 0, or 125 where a file cannot be read, holds nothing that can be shown, or would \
be overwritten.";

/// Show what tune and bench have measured: tables, charts, Markdown, JSON, CSV
#[derive(Args)]
#[command(help_template = TEMPLATE, before_help = REPORT_EXAMPLES, after_help = REPORT_NOTES)]
pub struct Report {
    /// Write a page with charts to FILE (- for stdout)
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write the first chart to FILE, as SVG
    #[arg(long, value_name = "FILE")]
    pub figure: Option<PathBuf>,

    /// Say it as Markdown
    #[arg(long, group = "form")]
    pub markdown: bool,

    /// Say it as JSON (docs/report.schema.json), which report reads again
    #[arg(long, group = "form")]
    pub json: bool,

    /// Say the runs as CSV, one a row
    #[arg(long, group = "form")]
    pub csv: bool,

    /// The session of this number instead of the last one
    #[arg(long, value_name = "NUMBER")]
    pub session: Option<i64>,

    /// Files: what tune and bench keep their runs in; or what profile --json, run --summary or
    /// report --json wrote
    #[arg(value_name = "RESULTS", required = true)]
    pub files: Vec<PathBuf>,
}

const DEMO_EXAMPLES: &str = "\
Examples:
  sweetspot demo
  sweetspot demo --records 5000000 --dir /data/scratch";

/// Profile, tune and run a program that is there, and compare its copies
#[derive(Args)]
#[command(help_template = TEMPLATE, before_help = DEMO_EXAMPLES)]
pub struct Demo {
    /// How many records of 200 bytes
    #[arg(
        long, value_name = "N", default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000)
    )]
    pub records: u64,

    /// How many pairs of runs, one without and one with sweetspot
    #[arg(
        long, value_name = "N", default_value_t = 6,
        value_parser = clap::value_parser!(u32).range(1..=500)
    )]
    pub pairs: u32,

    /// Where to make the temporary folder
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}
