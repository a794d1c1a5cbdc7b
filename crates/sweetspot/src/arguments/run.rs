//! What can be typed where a program is run: `run`, `profile`, `verify`.

use super::{COMMAND, TEMPLATE};
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, Verb};
    use clap::Parser;

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
