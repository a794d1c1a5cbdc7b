//! Is this program, with its C library, on this kernel, here and now, buffered? Every verb asks here.
//!
//! First its file is looked at (`reach`). What that cannot tell, the library is asked, loaded into the
//! very program: it tries itself on files of its own and ends the process before anything of the
//! program runs (`sweetspot_guard::probe`; some five milliseconds). That all is well is kept for the
//! next time (`kept`); that something is not may be otherwise in a moment, so it is asked again.
//!
//! Not here: what a program does later that ends buffering (memory that it shares, a library that goes
//! past us). The library notes that while it runs; [`mend`] knows what helps against it.

mod kept;

use crate::environment::{Environment, remove, set, value};
use crate::preload;
use crate::reach::{self, Executable};
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use sweetspot_core::environment as names;
use sweetspot_core::policy::ADDRESS_BYTES_MIN;
use sweetspot_core::why::Why;
use sweetspot_guard::probe::{Answer as Live, Constructors, Probe};
use sweetspot_guard::process::{Ended, Image, has_room};

/// What is buffered of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Its reads and its writes.
    Buffered,
    /// Not these calls of it; the others are.
    Without(Calls, Obstacle),
    /// Nothing.
    Not(Obstacle),
    /// Nobody can say before it runs, for this reason.
    Unknown(String),
}

/// A kind of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    Reads,
    Writes,
}

/// What hinders, and what mends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// In words that follow "it cannot be buffered: ".
    pub reason: String,
    /// What to type or to do, where something helps.
    pub mend: Option<String>,
}

impl Obstacle {
    fn new(reason: impl Into<String>) -> Obstacle {
        Obstacle { reason: reason.into(), mend: None }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.reason)?;
        self.mend.iter().try_for_each(|mend| write!(formatter, "; {mend}"))
    }
}

impl Answer {
    /// Why nothing is buffered, where that is so.
    pub fn obstacle(&self) -> Option<&Obstacle> {
        match self {
            Answer::Not(obstacle) => Some(obstacle),
            _ => None,
        }
    }
}

/// Asks. `environment` is the one that `run` would be started in. This process has one thread.
pub fn ask(program: &Path, environment: &Environment) -> Answer {
    let executable = match reach::executable_in(program, environment) {
        Ok(executable) => executable,
        Err(why) => return Answer::Not(Obstacle::new(why.to_string())),
    };
    let library = match preload::install() {
        Ok(library) => library,
        Err(failure) => {
            let mend = failure.next_step().map(str::to_owned);
            return Answer::Not(Obstacle { reason: failure.what().to_owned(), mend });
        }
    };
    if executable.linker.is_none() {
        return Answer::Unknown("it is a dynamic linker, which starts another program".to_owned());
    }
    if !has_room() {
        return Answer::Unknown(format!(
            "a limit on addresses (ulimit -v) or data (ulimit -d) below {} MiB leaves no room to \
             ask",
            ADDRESS_BYTES_MIN >> 20
        ));
    }
    let facts = kept::Facts::of(&executable, environment);
    if facts.as_ref().is_some_and(kept::Facts::are_known) {
        return Answer::Buffered;
    }
    let answer = match live(&executable, &library, environment) {
        Ok(live) => judge(&live, &executable.file),
        Err(reason) => Answer::Unknown(reason),
    };
    if answer == Answer::Buffered
        && let Some(facts) = facts
    {
        facts.keep();
    }
    answer
}

/// Asks the library inside the program.
fn live(
    executable: &Executable,
    library: &Path,
    environment: &Environment,
) -> Result<Live, String> {
    let probe = Probe::create().map_err(|error| error.to_string())?;
    let mut environment = environment.clone();
    let ours = [names::SWITCH, names::STDIO];
    ours.iter().for_each(|name| remove(&mut environment, name));
    let all = preload::chain(library.as_os_str(), value(&environment, names::PRELOAD));
    set(&mut environment, names::PRELOAD, all);
    set(&mut environment, names::BUFFER, "auto");
    set(&mut environment, names::LEDGER, probe.path());
    set(&mut environment, names::SUMMARY, "1");
    set(&mut environment, names::PROBE, probe.path());
    let name: [OsString; 1] = [executable.file.clone().into()];
    let image = Image::new(&executable.file, &name, environment.entries());
    let constructors = match executable.linker.as_deref().is_some_and(is_musl) {
        true => Constructors::AfterEntry,
        false => Constructors::BeforeEntry,
    };
    let asked = image.and_then(|image| probe.ask(&image, library, constructors));
    asked.map_err(|error| format!("it cannot be asked here: {error}"))
}

fn is_musl(linker: &Path) -> bool {
    linker.file_name().unwrap_or_default().as_bytes().starts_with(b"ld-musl")
}

/// What follows from what the library said inside `program`.
fn judge(live: &Live, program: &Path) -> Answer {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    if !live.is_loaded {
        return not_loaded(live);
    }
    if live.is_wrong {
        return Answer::Not(Obstacle {
            reason: "the library read or wrote wrong bytes".to_owned(),
            mend: Some("please report it, with what `sweetspot doctor --json` says".to_owned()),
        });
    }
    if !live.is_complete {
        let how = match live.ended {
            Some(Ended::Killed(signal)) => format!("was ended by signal {signal}"),
            Some(Ended::Exited(status)) => format!("ended with status {status}"),
            None => "did not end".to_owned(),
        };
        return Answer::Not(Obstacle::new(format!(
            "the test run of the library inside the program {how}"
        )));
    }
    let obstacle = || {
        // That it was late is said below, in words that fit a guard that was waited for.
        let lasting: Vec<Why> =
            live.why.iter().copied().filter(|why| *why != Why::NotAnswered).collect();
        let why = main_reason(&lasting);
        match (&live.no_guard, why) {
            (_, Some(why)) => Obstacle { reason: why.text().to_owned(), mend: mend(why, &name) },
            (Some(error), None) => Obstacle::new(error.to_string()),
            (None, None) => Obstacle::new("the guard has not answered in time"),
        }
    };
    match (live.reads, live.writes) {
        (true, true) => Answer::Buffered,
        (true, false) => {
            let error = live.no_guard.as_ref().map(|error| Obstacle::new(error.to_string()));
            Answer::Without(Calls::Writes, error.unwrap_or_else(obstacle))
        }
        (false, true) => Answer::Without(Calls::Reads, obstacle()),
        (false, false) => Answer::Not(obstacle()),
    }
}

/// The dynamic linker has not loaded the library, or did not come so far.
fn not_loaded(live: &Live) -> Answer {
    let said = live.said.lines().next().unwrap_or_default().trim();
    match live.ended {
        // It cannot be started at all: its own failure, which it will show by itself.
        Some(Ended::Exited(_)) => Answer::Unknown(format!("it does not start: {said}")),
        _ if said.is_empty() => {
            Answer::Not(Obstacle::new("the dynamic linker has not loaded the library"))
        }
        _ => Answer::Not(Obstacle::new(format!("the library was not loaded: {said}"))),
    }
}

/// Of several reasons the one to be told: rather what forbids than what does not pay.
fn main_reason(why: &[Why]) -> Option<Why> {
    let is_final = |why: &&Why| why.forbids();
    why.iter().find(is_final).or(why.first()).copied()
}

/// What may be done about a confinement of this process that keeps the library from working.
pub fn mend_confinement() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let is_filtered = status.lines().any(|line| line == "Seccomp:\t2");
    let mend = "in a container: docker run --security-opt seccomp=unconfined ...";
    is_filtered.then(|| mend.to_owned())
}

/// What helps against a reason in a program of this name, where something does.
pub fn mend(why: Why, program: &str) -> Option<String> {
    let is = |name: &str| program.starts_with(name);
    let text = match why {
        Why::SharedMemory if is("mono") => "MONO_DISABLE_SHARED_AREA=1 keeps Mono from it",
        Why::SharedMemory if ["beam", "erl", "escript", "elixir"].into_iter().any(is) => {
            "file:open with read_ahead and delayed_write buffers in Erlang itself"
        }
        Why::SharedMemory => {
            "in sweetspot.toml promise = \"unobserved\" is for files that nobody else looks at"
        }
        Why::DeepBind if is("php") => "php -n loads no extensions, where it needs none",
        Why::Stdio => "try: --stdio",
        Why::FileSizeLimit => "try: ulimit -f unlimited",
        Why::Off => "change the rule in sweetspot.toml, or unset IO_BUFFER_SIZE",
        Why::Seccomp | Why::Confined => return mend_confinement(),
        Why::StreamsUnknown => "please report it, with what `sweetspot doctor --json` says",
        _ => return None,
    };
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_helps_depends_on_the_program() {
        for (why, program, expected) in [
            (Why::SharedMemory, "mono-sgen", Some("MONO_DISABLE_SHARED_AREA=1")),
            (Why::SharedMemory, "beam.smp", Some("delayed_write")),
            (Why::SharedMemory, "erl", Some("delayed_write")),
            (Why::SharedMemory, "rank", Some("promise = \"unobserved\"")),
            (Why::DeepBind, "php8.2", Some("php -n")),
            (Why::DeepBind, "rank", None),
            (Why::Stdio, "lua5.4", Some("--stdio")),
        ] {
            let found = mend(why, program);
            let holds = match (&found, expected) {
                (Some(found), Some(part)) => found.contains(part),
                (found, expected) => found.is_none() && expected.is_none(),
            };
            assert!(holds, "{why:?} {program}: {found:?}");
        }
    }
}
