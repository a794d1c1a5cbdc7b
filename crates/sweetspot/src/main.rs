//! The command line: parses what was typed, calls the rest, prints.
//!
//! Not here: any buffering. The library that does it travels inside this binary (`preload`).
#![forbid(unsafe_code)]

#[cfg(test)]
use test_start as _;

mod arguments;
mod bench;
mod buffer;
mod config;
mod demo;
mod doctor;
mod environment;
mod experiment;
mod generate;
mod home;
mod inherited;
mod interrupts;
mod named;
mod origin;
mod own;
mod preload;
mod probe;
mod processes;
mod profile;
mod reach;
mod recover;
mod report;
mod resolve;
mod run;
mod say;
mod seen;
mod session;
mod summary;
mod target;
mod top;
mod tune;
mod verify;

use arguments::{Arguments, Run, Verb};
use clap::Parser;
use processes::{has_processes, no_processes};
use rustix::process::{Resource, getrlimit};
use say::say;
use signal_hook::consts::SIGXFSZ;
use std::ffi::OsString;
use std::panic::resume_unwind;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use sweetspot_report::failure::Failure;

/// Verbs that can do nothing without `/proc` (`verify` says so itself). A program can be run.
fn looks_at_processes(verb: &Verb) -> bool {
    use Verb::{Bench, Demo, Doctor, Profile, Top, Tune};
    matches!(verb, Bench(_) | Demo(_) | Doctor(_) | Profile(_) | Top(_) | Tune(_))
}

/// What a limit on the size of files forbids is an error that can be said: the signal that comes with it would end
/// this process without a word. What it starts has the signal as ever. What becomes a program sees to it where it writes.
fn say_what_is_too_large(verb: &Verb) {
    let becomes_a_program = matches!(verb, Verb::Run(_) | Verb::SandboxStep(_));
    if !becomes_a_program && !interrupts::is_ignored(SIGXFSZ) {
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    }
}

/// More than the parser takes of a stack, in bytes.
const PARSER_STACK: usize = 1 << 20;

/// What was typed. `help VERB` is `VERB --help`.
fn typed() -> Vec<OsString> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if words.get(1).is_some_and(|verb| verb == "help") {
        words.remove(1);
        words.truncate(2);
        words.push("--help".into());
    }
    words
}

/// Parses what was typed; where a limit has left little stack (`ulimit -s 64`), on one of its own.
fn parse() -> Result<Arguments, clap::Error> {
    let parse = || Arguments::try_parse_from(typed());
    let is_small =
        getrlimit(Resource::Stack).current.is_some_and(|most| most < PARSER_STACK as u64);
    let parser = thread::Builder::new().stack_size(PARSER_STACK);
    match is_small.then(|| parser.spawn(parse)) {
        Some(Ok(parser)) => parser.join().unwrap_or_else(|panic| resume_unwind(panic)),
        _ => parse(),
    }
}

/// The process inside a sandbox finds and names programs as `run` does.
fn run_step(step: &sweetspot_sandbox::Step) -> Result<u8, Failure> {
    let path = std::env::var_os("PATH");
    let inside = sweetspot_sandbox::Inside {
        find: &|name| {
            let found = resolve::find(name, path.as_deref());
            found.map_err(|missing| resolve::failure(name, &missing).to_string())
        },
        refused: &|name, file, error| resolve::refused(name, file, error).to_string(),
        notes: &home::notes(),
    };
    sweetspot_sandbox::run_step(step, &inside).map_err(Failure::own)
}

fn main() -> ExitCode {
    sweetspot_lab::measure::launch_if_asked();
    let verb = match Run::without_options(std::env::args_os()) {
        Some(run) => Verb::Run(run),
        None => match parse() {
            Ok(arguments) => arguments.verb,
            Err(error) => return ExitCode::from(arguments::answer(&error)),
        },
    };
    say_what_is_too_large(&verb);
    let ended = match &verb {
        verb if looks_at_processes(verb) && !has_processes() => Err(no_processes()),
        Verb::Run(arguments) => run::run(arguments),
        Verb::Verify(arguments) => verify::verify(arguments),
        Verb::Summary(arguments) => summary::summary(arguments),
        Verb::Recover(arguments) => recover::run(arguments),
        Verb::Top(arguments) => top::top(arguments),
        Verb::Tune(arguments) => tune::tune(arguments),
        Verb::Bench(arguments) => bench::bench(arguments),
        Verb::Report(arguments) => report::report(arguments),
        Verb::Measure(arguments) => bench::measure(arguments),
        Verb::Demo(arguments) => demo::demo(arguments),
        Verb::Generate(arguments) => generate::generate(arguments),
        Verb::Doctor(arguments) => doctor::doctor(arguments),
        Verb::SandboxStep(arguments) => run_step(arguments),
        Verb::Work(arguments) => sweetspot_work::work(arguments, say),
        Verb::Profile(arguments) => profile::profile(arguments),
    };
    ExitCode::from(ended.unwrap_or_else(|failure| {
        say(&failure);
        failure.status
    }))
}
