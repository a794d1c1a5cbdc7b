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
A buffer size N is a number of bytes, with or without a suffix (64K, 64KiB, 1M). With 0 or auto, \
sweetspot chooses; with off or a negative number, nothing is buffered. Without the option, \
IO_BUFFER_SIZE from the environment decides, then sweetspot.toml (searched for from the current \
folder upwards, unless SWEETSPOT_RULES names a file), then auto. SWEETSPOT=off in the environment \
starts the program untouched. If a program cannot be buffered, one line on the terminal says why.

The exit status is the program's own. 74: it ended with 0, but its last bytes could not be \
written; 125: sweetspot itself failed; 126: the program cannot be executed; 127: the program was \
not found.";

/// Run a program with its reads and writes buffered
#[derive(Args, Debug, Default, PartialEq, Eq)]
#[command(help_template = TEMPLATE, before_help = RUN_EXAMPLES, after_help = RUN_NOTES, args_override_self = true)]
pub struct Run {
    /// The buffer size, as COBOL users write it: -DIO-BUFFER-SIZE=N
    #[arg(short = 'D', value_name = "IO-BUFFER-SIZE=N", allow_hyphen_values = true)]
    pub define: Option<OsString>,

    /// The buffer size
    #[arg(long, value_name = "N", allow_hyphen_values = true, conflicts_with = "define")]
    pub buffer_size: Option<OsString>,

    /// After the run, say on stderr or in FILE what was buffered and what was not. With a folder DIR/,
    /// each run writes its own file there, for `sweetspot summary DIR`
    #[arg(long, value_name = "FILE|DIR/", num_args = 0..=1, require_equals = true)]
    #[expect(clippy::option_option, reason = "clap's form of an option with an optional value")]
    pub summary: Option<Option<PathBuf>>,

    /// Wait for the program as `time` does, instead of becoming it
    #[arg(long)]
    pub wait: bool,

    /// Read rules from FILE instead of searching for sweetspot.toml
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// How long written bytes may wait, in milliseconds. Default: 1000, or 100 in a container (a pid
    /// namespace of its own)
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub max_age: Option<u32>,

    /// Also buffer the calls that C's stdio makes
    #[arg(long)]
    pub stdio: bool,

    /// Do not report on the terminal that the program cannot be buffered
    #[arg(long, conflicts_with = "require")]
    pub quiet: bool,

    /// Exit with 125 if buffering is off, if the program cannot be buffered, or if it turns out not to
    /// have been
    #[arg(long)]
    pub require: bool,

    /// The program and its arguments. Options for sweetspot come before its name
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
  sweetspot profile --where -- ./seqcopy           also say which function makes the calls
  sweetspot profile --record job.recording -- ./long-job    also record its calls, for tune --from
  sweetspot profile --compare before.json after.json";

const PROFILE_NOTES: &str = "\
The program runs unchanged and unbuffered. The report goes to stderr when the program and every \
process it waits for have ended. For each file it says whether buffering would help, and why or why \
not.

The exit status is the program's own. 125: sweetspot itself failed; 126: the program cannot be \
executed; 127: it was not found.";

/// Run a program unchanged; report its I/O and what buffering would save
#[derive(Args)]
#[command(help_template = TEMPLATE, before_help = PROFILE_EXAMPLES, after_help = PROFILE_NOTES, args_override_self = true)]
pub struct Profile {
    /// Write the complete profile to FILE (- for stdout, after the program's own output), or to a new
    /// file in the folder DIR/, for `sweetspot summary DIR`. With a folder, no report is printed
    #[arg(long, value_name = "FILE|DIR/")]
    pub json: Option<PathBuf>,

    /// Write the report to FILE instead of stderr
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Record the calls themselves, compressed, so that `tune --from FILE` can try every size on them
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// Say where the program makes the calls: function, file and line
    #[arg(long)]
    pub r#where: bool,

    /// Follow every call of every file. Otherwise a file's first 4,096 calls are followed, and a sample
    /// of the rest
    #[arg(long, conflicts_with = "record")]
    pub exact: bool,

    /// Compare two profiles that --json wrote
    #[arg(long, value_names = ["BEFORE", "AFTER"], num_args = 2, conflicts_with_all = ["command", "json", "output", "record"])]
    pub compare: Option<Vec<PathBuf>>,

    /// The program and its arguments. Options for sweetspot come before its name
    #[arg(value_name = "CMD ARGS", required_unless_present = "compare", trailing_var_arg = true, value_hint = COMMAND)]
    pub command: Vec<OsString>,
}

const VERIFY_EXAMPLES: &str = "\
Examples:
  sweetspot verify -- ./seqcopy in.dat out.dat
  sweetspot verify --sizes 4K,64K,1M -- sh nightly.sh
  sweetspot verify --prepare 'cp base/* .' -- ./update accounts.dat";

const VERIFY_NOTES: &str = "\
The command first runs twice without buffering, to learn what differs from run to run anyway \
(times, process numbers, temporary names). Then it runs under `run`. verify compares the files \
written (content, size, mode, owner, links, order of modification), files removed or renamed, \
stdout, stderr, and the exit status or signal. Each run starts from the same files in its own \
sandbox, so your files do not change.

The exit status is 0 if everything is identical, 1 if something differs, 3 if verify cannot tell \
because the command's own results differ from run to run, and 2 if verify itself failed.";

/// Run a command with and without buffering, and compare the results
#[derive(Args)]
#[command(help_template = TEMPLATE, before_help = VERIFY_EXAMPLES, after_help = VERIFY_NOTES)]
pub struct Verify {
    /// How many times to run it at each size
    #[arg(
        long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=500)
    )]
    pub runs: u32,

    /// The buffer sizes, separated by commas. Default: the size that `run` would choose
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', allow_hyphen_values = true)]
    pub sizes: Vec<OsString>,

    /// Also buffer the calls that C's stdio makes
    #[arg(long)]
    pub stdio: bool,

    /// Run in place, and restore everything with this shell command before each run
    #[arg(long, value_name = "CMD")]
    pub prepare: Option<OsString>,

    /// Run in place: the command changes your files, as it always does
    #[arg(long)]
    pub in_place: bool,

    /// Read rules from FILE instead of searching for sweetspot.toml
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Folder for what the runs write; removed at the end
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// The program and its arguments. Options for sweetspot come before its name
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
