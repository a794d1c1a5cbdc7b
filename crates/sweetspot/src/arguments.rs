//! What can be typed: verbs, options, help, and answers to mistyping.
//!
//! Not here: what an option means for the program (`run`, `buffer`, `config`).

use crate::failure::{STATUS_OWN, say};
use crate::tune::settings as tune;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// What shells complete where a program and its arguments are typed.
const COMMAND: ValueHint = ValueHint::CommandWithArguments;

/// The help of a verb; the manual has the same parts (`generate`).
const TEMPLATE: &str = "\
{about}

{before-help}{usage-heading} {usage}

{all-args}{after-help}
";

const HELP: &str = "\
{about}

{before-help}{usage-heading} {usage}

For programs that you cannot change:
  top      Show which programs that run now make many small calls
  profile  Run one as it is, and say what I/O it does and what buffering would save
  run      Run it with buffering underneath its own reads and writes
  verify   Run it as it is and buffered, and compare all that can be seen
  summary  Show what many runs left in a folder as one: totals, the slowest, files
  tune     Measure whether buffering pays for it, and whether it needs a size of its own
  recover  Finish what was pending where a program was killed together with its guard

For experiments:
  bench    Measure what a plan says: programs that do the same work in different ways
  report   Show what tune and bench have measured: tables, charts, Markdown, JSON, CSV
  work     Count lines, read records, copy, compare, transform, make data: buffered well

This machine:
  doctor   Say what it offers and lacks, with the command that mends it
  demo     Profile, tune and run a program that is there, and compare its copies

Options:
{options}

`sweetspot VERB --help` says more about a verb.
";

const EXAMPLES: &str = "\
Examples:
  sweetspot run -- ./seqcopy in.dat out.dat       run it buffered: same bytes, same exit status
  sweetspot run --summary -- ./seqcopy            and say afterwards what was buffered, per file
  sweetspot run --buffer-size 64K -- ./seqcopy    with a buffer of your choice
  sweetspot top                                   which of the programs that run now need it?
  sweetspot profile -- ./seqcopy                  what I/O does it do, what would buffering save?
  sweetspot verify -- ./seqcopy in.dat out.dat    prove on your own job that it changes nothing
  sweetspot tune -- ./seqcopy in.dat out.dat      does buffering pay, and must I set a size?
  sweetspot bench plan.toml                       measure what a plan says, in rounds that are fair
  sweetspot report plan.sqlite --html page.html   show what was measured, also while it is
  sweetspot doctor                                does it work on this machine, what is missing?
  sweetspot demo                                  see what it gains on this machine";

const RUN_EXAMPLES: &str = "\
Examples:
  sweetspot run -- ./seqcopy in.dat out.dat
  sweetspot run -DIO-BUFFER-SIZE=64K -- ./seqcopy
  sweetspot run --summary=seqcopy.txt -- java -cp app.jar Batch
  mpirun -n 4 sweetspot run --summary=job/ -- ./rank          then: sweetspot summary job
  IO_BUFFER_SIZE=1M sweetspot run sh nightly.sh";

const RUN_NOTES: &str = "\
A buffer size N is a number of bytes, or one with a suffix (64K, 64KiB, 1M); 0 or auto: \
sweetspot chooses; off or a negative number: no buffering. Without one, IO_BUFFER_SIZE from the \
environment decides, then sweetspot.toml (looked for from the current folder upwards; the file \
named by SWEETSPOT_RULES instead, where that is set), then auto. SWEETSPOT=off in the \
environment starts the program untouched. Where a program cannot be buffered, one line says why, on \
a terminal only.

The exit status is the program's own. 74: it ended with 0, but its last bytes could not be \
written; 125: sweetspot itself failed; 126: the program cannot be executed; 127: it was not \
found.";

const PROFILE_EXAMPLES: &str = "\
Examples:
  sweetspot profile -- ./seqcopy in.dat out.dat
  sweetspot profile --json before.json -- sh nightly.sh
  sweetspot profile --where -- ./seqcopy           and which function makes the calls
  sweetspot profile --record job.recording -- ./long-job    and keep its calls, for tune --from
  sweetspot profile --compare before.json after.json";

const PROFILE_NOTES: &str = "\
The program runs as it is; nothing is buffered. The report goes to stderr, when the program and \
all that it waits for have ended. Each file is said to gain, not to gain, or not to be buffered, \
and why.

The exit status is the program's own. 125: sweetspot itself failed; 126: the program cannot be \
executed; 127: it was not found.";

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

const VERIFY_EXAMPLES: &str = "\
Examples:
  sweetspot verify -- ./seqcopy in.dat out.dat
  sweetspot verify --sizes 4K,64K,1M -- sh nightly.sh
  sweetspot verify --prepare 'cp base/* .' -- ./update accounts.dat";

const VERIFY_NOTES: &str = "\
The command runs twice as it is, to learn what differs by itself (times, process numbers, \
temporary names), and then under `run`. Compared are files written (content, size, mode, owner, \
links, order of modification), files removed or renamed, stdout, stderr, and the exit status or \
signal. Each run starts from the same files in a sandbox of its own, and nothing of yours is \
changed.

The exit status is 0 when all is identical, 1 when something differs, 3 when it cannot be told \
because the command's own results differ from run to run, and 2 when verify itself failed.";

const TOP_EXAMPLES: &str = "\
Examples:
  sweetspot top                      look until Ctrl-C
  sweetspot top --once | head        one table
  sudo sweetspot top --json --once   the processes of all users, for another program";

const TOP_NOTES: &str = "\
Calls and bytes are those of /proc/PID/io: of your own processes, or as root of all. What a \
program reads from pipes and sockets is among them, and is not buffered by sweetspot; a program \
without any file open is therefore shown with that reason.";

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

const DEMO_EXAMPLES: &str = "\
Examples:
  sweetspot demo
  sweetspot demo --records 5000000 --dir /data/scratch";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  sweetspot doctor
  sweetspot doctor --json | jq .run_works";

const DOCTOR_NOTES: &str = "\
A small program runs under the library, a sandbox is laid, a file is dropped from the page \
cache: what can be tried is tried. Nothing of yours is changed.

The exit status is 0 when `run` works here, 1 when nothing would be buffered, 125 when sweetspot \
itself failed.";

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

/// Finds the right I/O buffering for a program and applies it, without changing the program
#[derive(Parser)]
#[command(name = "sweetspot", version, help_template = HELP, before_help = EXAMPLES, disable_help_subcommand = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Subcommand)]
pub enum Verb {
    Run(Run),
    Profile(Profile),
    Verify(Verify),
    Summary(Summary),
    Recover(Recover),
    Top(Top),
    Tune(Tune),
    Bench(Bench),
    Report(Report),
    Demo(Demo),
    Doctor(Doctor),
    #[command(name = SandboxStep::NAME, hide = true)]
    SandboxStep(SandboxStep),
    #[command(hide = true)]
    Measure(Measure),
    #[command(hide = true)]
    Generate(Generate),
    Work(crate::work::Work),
}

/// Run a program with buffering underneath its own reads and writes
#[derive(Args, Debug, Default, PartialEq, Eq)]
#[command(help_template = TEMPLATE, before_help = RUN_EXAMPLES, after_help = RUN_NOTES, args_override_self = true)]
pub struct Run {
    /// The buffer size, in the form that COBOL users know: -DIO-BUFFER-SIZE=N
    #[arg(short = 'D', value_name = "IO-BUFFER-SIZE=N", allow_hyphen_values = true)]
    pub define: Option<OsString>,

    /// The buffer size
    #[arg(long, value_name = "N", allow_hyphen_values = true, conflicts_with = "define")]
    pub buffer_size: Option<OsString>,

    /// Say afterwards, on stderr or to FILE, what was buffered and what was not; into the folder DIR/
    /// each run puts a file of its own, for `sweetspot summary DIR`
    #[arg(long, value_name = "FILE|DIR/", num_args = 0..=1, require_equals = true)]
    #[expect(clippy::option_option, reason = "clap's form of an option with an optional value")]
    pub summary: Option<Option<PathBuf>>,

    /// Wait for the program as `time` does, instead of becoming it
    #[arg(long)]
    pub wait: bool,

    /// Take the rules from FILE instead of looking for sweetspot.toml
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// How long a byte may wait, in milliseconds: 1000, or 100 in a pid namespace of its own
    /// (a container)
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub max_age: Option<u32>,

    /// Buffer calls made by C's stdio like any others
    #[arg(long)]
    pub stdio: bool,

    /// Do not say on the terminal that the program cannot be buffered
    #[arg(long, conflicts_with = "require")]
    pub quiet: bool,

    /// Fail with 125 where buffering is switched off, the program cannot be buffered, or was not when
    /// it has ended
    #[arg(long)]
    pub require: bool,

    /// The program and its arguments; options of sweetspot stop at its name
    #[arg(value_name = "CMD ARGS", required = true, trailing_var_arg = true, value_hint = COMMAND)]
    pub command: Vec<OsString>,
}

impl Run {
    /// What `sweetspot run [--] CMD ARGS` means. So nearly every program is started, and to set up
    /// the parser would take longer than all else that is looked up for it. None: ask the parser.
    pub fn without_options(typed: impl Iterator<Item = OsString>) -> Option<Run> {
        let mut typed = typed.skip(1);
        if typed.next()? != "run" {
            return None;
        }
        let mut typed = typed.peekable();
        if typed.next_if(|first| first == "--").is_none()
            && typed.peek()?.as_encoded_bytes().starts_with(b"-")
        {
            return None;
        }
        let command: Vec<OsString> = typed.collect();
        (!command.is_empty()).then(|| Run { command, ..Run::default() })
    }
}

/// Run it as it is and buffered, and compare all that can be seen
#[derive(Args)]
#[command(help_template = TEMPLATE, before_help = VERIFY_EXAMPLES, after_help = VERIFY_NOTES)]
pub struct Verify {
    /// How many times it runs at each size
    #[arg(
        long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=500)
    )]
    pub runs: u32,

    /// The buffer sizes, separated by commas; without it the size that `run` would choose
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', allow_hyphen_values = true)]
    pub sizes: Vec<OsString>,

    /// Buffer calls made by C's stdio like any others
    #[arg(long)]
    pub stdio: bool,

    /// Run in place, and before each run this shell command, which sets everything back
    #[arg(long, value_name = "CMD")]
    pub prepare: Option<OsString>,

    /// Run in place: the command changes your files as it always does
    #[arg(long)]
    pub in_place: bool,

    /// Take the rules from FILE instead of looking for sweetspot.toml
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Where what the runs write is kept until the end
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// The program and its arguments; options of sweetspot stop at its name
    #[arg(value_name = "CMD ARGS", required = true, trailing_var_arg = true, value_hint = COMMAND)]
    pub command: Vec<OsString>,
}

/// Runs a command inside a sandbox: started by `verify`, not by people
#[derive(Args)]
pub struct SandboxStep {
    /// The folder of the run
    #[arg(long)]
    pub folder: PathBuf,

    /// The same in shared memory
    #[arg(long)]
    pub shared_folder: Option<PathBuf>,

    /// A folder that has an overlay of its own
    #[arg(long)]
    pub top: Vec<PathBuf>,

    /// Without namespaces and overlays
    #[arg(long)]
    pub in_place: bool,

    /// The program and its arguments; without them only the sandbox is tried
    #[arg(trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

impl SandboxStep {
    /// The verb.
    pub const NAME: &str = "sandbox-step";
}

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

/// Run a program as it is, and say what I/O it does and what buffering would save
#[derive(Args)]
#[command(help_template = TEMPLATE, before_help = PROFILE_EXAMPLES, after_help = PROFILE_NOTES, args_override_self = true)]
pub struct Profile {
    /// Write the whole profile, with nothing left out, to FILE (- for stdout, behind the program's own),
    /// or to a file of its own in the folder DIR/, for `sweetspot summary DIR`; then without a report
    #[arg(long, value_name = "FILE|DIR/")]
    pub json: Option<PathBuf>,

    /// Write the report to FILE instead of stderr
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Keep the calls themselves, compressed, so that `tune --from FILE` can try every size on them
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// Say where in the program the calls are made: function, file and line
    #[arg(long)]
    pub r#where: bool,

    /// Say what changed between two profiles that --json wrote
    #[arg(long, value_names = ["BEFORE", "AFTER"], num_args = 2, conflicts_with_all = ["command", "json", "output", "record"])]
    pub compare: Option<Vec<PathBuf>>,

    /// The program and its arguments; options of sweetspot stop at its name
    #[arg(value_name = "CMD ARGS", required_unless_present = "compare", trailing_var_arg = true, value_hint = COMMAND)]
    pub command: Vec<OsString>,
}

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

/// Measures one run of a cell: started by a launcher of `bench`, not by people
#[derive(Args)]
pub struct Measure {
    /// What to run
    #[arg(value_name = "REQUEST")]
    pub request: String,
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

/// Say what this machine offers and lacks, with the command that mends it
#[derive(Args)]
#[command(help_template = TEMPLATE, before_help = DOCTOR_EXAMPLES, after_help = DOCTOR_NOTES)]
pub struct Doctor {
    /// Say it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Exit status for what was mistyped, other than after `run`.
const STATUS_USAGE: u8 = 2;

/// What a verb cannot do without: what is missing, and what to type.
const WANTED: [(&str, &str, &str); 7] = [
    ("run", "no program to run", "sweetspot run -- ./program"),
    ("profile", "no program to run", "sweetspot profile -- ./program"),
    ("verify", "no command to run", "sweetspot verify -- ./program its arguments"),
    ("tune", "no command to measure", "sweetspot tune -- ./program its arguments"),
    ("bench", "no plan", "sweetspot bench plan.toml"),
    ("report", "nothing to show", "sweetspot report plan.sqlite"),
    ("summary", "no folder of summaries", "sweetspot summary job/"),
];

/// Answers to what was typed: help on stdout, mistakes on stderr. Returns the exit status.
pub fn answer(error: &clap::Error) -> u8 {
    if let ErrorKind::DisplayHelp | ErrorKind::DisplayVersion = error.kind() {
        let _ = error.print();
        return 0;
    }
    let verb = std::env::args_os().nth(1).unwrap_or_default();
    let verb = verb.to_string_lossy();
    match mistake(error, &verb) {
        Some((what, next)) => say(format_args!("sweetspot{what}\n  {next}")),
        None => {
            let _ = error.print();
        }
    }
    if verb == "run" || verb == "profile" { STATUS_OWN } else { STATUS_USAGE }
}

/// What was wrong with what was typed, and what to type next. `None`: clap says it best.
fn mistake(error: &clap::Error, verb: &str) -> Option<(String, String)> {
    let context = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => texts.first().cloned(),
        _ => None,
    };
    let help = format!("all options: sweetspot {verb} --help");
    // `--budget <TIME>`: people type the name.
    let named = |option: Option<String>| {
        option.map(|option| option.split([' ', '=', '[']).next().unwrap_or_default().to_owned())
    };
    let invalid = named(context(ContextKind::InvalidArg));
    Some(match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => (
            ": no command".to_owned(),
            "try: sweetspot run -- ./program, or: sweetspot --help".to_owned(),
        ),
        ErrorKind::MissingRequiredArgument => {
            let (_, missing, example) = WANTED.iter().find(|(name, ..)| *name == verb)?;
            // An option that wants another one is no missing command.
            if !invalid?.starts_with('<') {
                return None;
            }
            (format!(" {verb}: {missing}"), format!("try: {example}"))
        }
        ErrorKind::InvalidSubcommand => {
            let typed = context(ContextKind::InvalidSubcommand).unwrap_or_default();
            let next = match context(ContextKind::SuggestedSubcommand) {
                Some(verb) => format!("did you mean: sweetspot {verb}"),
                None => {
                    format!(
                        "to run a program: sweetspot run -- {typed}; all verbs: sweetspot --help"
                    )
                }
            };
            (format!(": no verb '{typed}'"), next)
        }
        ErrorKind::UnknownArgument => {
            let next = match context(ContextKind::SuggestedArg) {
                Some(option) => format!("did you mean: {option}; {help}"),
                None => help,
            };
            (format!(" {verb}: no option '{}'", invalid?), next)
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let (option, value) =
                (invalid?, context(ContextKind::InvalidValue).unwrap_or_default());
            let why = std::error::Error::source(error).map(|why| format!(": {why}"));
            let what = match value.as_str() {
                "" => format!("{option} wants a value"),
                value => format!("{option} cannot be '{value}'{}", why.unwrap_or_default()),
            };
            (format!(" {verb}: {what}"), help)
        }
        ErrorKind::ArgumentConflict => {
            let other = named(context(ContextKind::PriorArg))?;
            let both = format!("{} and {other} exclude each other", invalid?);
            (format!(" {verb}: {both}"), format!("leave out one of them; {help}"))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn help_names_every_verb() {
        let mut command = Arguments::command();
        command.clone().debug_assert();
        let help = command.render_help().to_string();
        let command = Arguments::command();
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let line = format!("\n  {} ", verb.get_name());
            assert!(help.contains(&line), "{} is missing in:\n{help}", verb.get_name());
        }
    }

    #[test]
    fn mistakes_are_said_with_what_to_type_next() {
        let check = |typed: &str, what: &str, next: &str| {
            let words = std::iter::once("sweetspot").chain(typed.split_whitespace());
            let Err(error) = Arguments::try_parse_from(words) else { panic!("{typed} is fine") };
            let verb = typed.split_whitespace().next().unwrap_or_default();
            let found = mistake(&error, verb);
            assert_eq!(found, Some((what.to_owned(), next.to_owned())), "{typed}");
        };
        let tune_help = "all options: sweetspot tune --help";
        check(
            "tune",
            " tune: no command to measure",
            "try: sweetspot tune -- ./program its arguments",
        );
        check("bench", " bench: no plan", "try: sweetspot bench plan.toml");
        check("run", " run: no program to run", "try: sweetspot run -- ./program");
        check(
            "tune --budgt 3s -- ls",
            " tune: no option '--budgt'",
            "did you mean: --budget; all options: sweetspot tune --help",
        );
        check(
            "bench --warmup 3 plan.toml",
            " bench: no option '--warmup'",
            "all options: sweetspot bench --help",
        );
        check(
            "tune --sizes 4K -- ls",
            " tune: --sizes cannot be '4K': two sizes are wanted, such as 4K..16M",
            tune_help,
        );
        check(
            "bench --budget soon plan.toml",
            " bench: --budget cannot be 'soon': a time such as 90s, 5m or 1h is wanted",
            "all options: sweetspot bench --help",
        );
        check(
            "tune --patience 50 ls",
            " tune: --patience cannot be '50': 50 is not in 1..=20",
            tune_help,
        );
        check("tune --from", " tune: --from wants a value", tune_help);
        check(
            "tune --warm --cold -- ls",
            " tune: --warm and --cold exclude each other",
            "leave out one of them; all options: sweetspot tune --help",
        );
    }

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

    #[test]
    fn options_stop_at_the_program() {
        let check = |typed: &[&str], program: &[&str]| {
            let all = ["sweetspot", "run"].iter().chain(typed);
            let Verb::Run(run) = Arguments::try_parse_from(all).unwrap().verb else { panic!() };
            assert_eq!(run.command, program, "{typed:?}");
            let all = ["sweetspot", "run"].iter().chain(typed).map(OsString::from);
            if let Some(short_cut) = Run::without_options(all) {
                assert_eq!(short_cut, run, "{typed:?}");
            }
        };
        check(&["ls", "-l"], &["ls", "-l"]);
        check(&["ls", "--summary"], &["ls", "--summary"]);
        check(&["--", "ls", "-l"], &["ls", "-l"]);
        check(&["ls", "--", "-l"], &["ls", "--", "-l"]);
        check(&["--", "--", "ls"], &["--", "ls"]);
        check(&["--summary", "ls", "x"], &["ls", "x"]);
        check(&["--summary=f", "ls"], &["ls"]);
        check(&["-DIO-BUFFER-SIZE=64K", "ls"], &["ls"]);
        check(&["-D", "IO-BUFFER-SIZE=-1", "ls"], &["ls"]);
        check(&["--buffer-size", "-1", "ls"], &["ls"]);
        check(&["--buffer-size=1", "--buffer-size=2", "ls", "-D"], &["ls", "-D"]);
        check(&["run", "run"], &["run", "run"]);
        check(&["--", "-l"], &["-l"]);
        check(&["", "x"], &["", "x"]);
    }

    #[test]
    fn the_plain_form_needs_no_parser() {
        let check = |typed: &[&str], is_plain: bool| {
            let all = ["sweetspot"].iter().chain(typed).map(OsString::from);
            assert_eq!(Run::without_options(all).is_some(), is_plain, "{typed:?}");
        };
        check(&["run", "ls", "-l"], true);
        check(&["run", "--", "ls", "-l"], true);
        check(&["run", "--wait", "ls"], false);
        check(&["run", "-h"], false);
        check(&["run", "--"], false);
        check(&["run"], false);
        check(&["demo", "ls"], false);
        check(&[], false);
    }
}
