//! What can be typed: verbs, options, help (a file for each kind of verb), and answers to mistyping
//! (`mistakes`).
//!
//! Not here: what an option means for the program (`run`, `buffer`, `config`).

mod look;
mod measure;
mod mistakes;
mod run;
pub mod work;

use clap::{Parser, Subcommand, ValueHint};
pub use look::{Doctor, Generate, Generated, Recover, Summary, Top};
pub use measure::{Bench, Demo, Measure, Report, Tune};
pub use mistakes::answer;
pub use run::{Profile, Run, Verify};
use sweetspot_sandbox::Step;
pub use work::Work;

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
    #[command(name = Step::NAME, hide = true)]
    SandboxStep(Step),
    #[command(hide = true)]
    Measure(Measure),
    #[command(hide = true)]
    Generate(Generate),
    Work(Work),
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
}
