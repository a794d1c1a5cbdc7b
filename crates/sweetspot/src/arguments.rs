//! What can be typed: verbs, options, help (a file for each kind of verb), and answers to mistyping
//! (`mistakes`).
//!
//! Not here: what an option means for the program (`run`, `buffer`, `config`).

mod look;
mod measure;
mod mistakes;
mod run;

use clap::{Parser, Subcommand, ValueHint};
pub use look::{Doctor, Generate, Generated, Recover, Summary, Top};
pub use measure::{Bench, Demo, Measure, Report, Tune};
pub use mistakes::answer;
pub use run::{Profile, Run, Verify};
use sweetspot_sandbox::Step;
use sweetspot_work::Work;

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
  top      Show which running programs make many small calls
  profile  Run a program unchanged; report its I/O and what buffering would save
  run      Run a program with its reads and writes buffered
  verify   Run a command with and without buffering, and compare the results
  summary  Combine the summaries of many runs: totals, the slowest run, files
  tune     Measure whether buffering pays off, and whether a fixed size is better
  recover  Write the pending bytes of a program that was killed with its guard

For experiments:
  bench    Follow a plan to measure programs that do the same work differently
  report   Show the results of tune and bench: tables, charts, Markdown, JSON, CSV
  work     Count lines; read, copy, compare, transform or generate files

This machine:
  doctor   Check what works here, and say how to fix what does not
  demo     Profile, tune and run a small copy program, and compare its output

Options:
{options}

`sweetspot VERB --help` says more about a verb.
";

const EXAMPLES: &str = "\
Examples:
  sweetspot run -- ./seqcopy in.dat out.dat       buffered: same bytes, same exit status
  sweetspot run --summary -- ./seqcopy            then say what was buffered, per file
  sweetspot run --buffer-size 64K -- ./seqcopy    with a buffer of your choice
  sweetspot top                                   which running programs need it?
  sweetspot profile -- ./seqcopy                  what I/O does it do, what would buffering save?
  sweetspot verify -- ./seqcopy in.dat out.dat    check that it changes nothing in your job
  sweetspot tune -- ./seqcopy in.dat out.dat      does buffering pay off, and do I need a size?
  sweetspot bench plan.toml                       run a benchmark plan
  sweetspot report plan.sqlite --html page.html   show its results, even while it runs
  sweetspot doctor                                does it work on this machine?
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
