//! `sweetspot run`: starts a program with the library underneath.
//!
//! By default it becomes the program by exec, so pid, parent, terminal, signals and exit status are
//! the program's own. Only where there is something to do at the end (`--summary`, `--wait`) a
//! parent stays, as `time` does. The environment is changed in three variables: `LD_PRELOAD`,
//! `IO_BUFFER_SIZE` and `SWEETSPOT_LEDGER`; where they are asked for, also in `SWEETSPOT_SUMMARY` and
//! `SWEETSPOT_STDIO`; under seccomp filters, in `SWEETSPOT_FILTERS`.

mod summary;

use crate::arguments::Run;
use crate::buffer::{self, Asked};
use crate::config;
use crate::environment::{
    Environment, SWITCHED_OFF, is_switched_off, remove, set, set_or_remove, value,
};
use crate::preload::{self, Refusal};
use crate::probe::{self, Obstacle};
use crate::reach::{self, Reach};
use crate::recover;
use crate::resolve;
use crate::say::say;
use crate::session::{self, RunSession, Settings};
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;
use summary::{Preview, Ran, Wanted};
use sweetspot_core::environment as names;
use sweetspot_core::ledger::RULES_MAX;
use sweetspot_core::size::BufferSize;
use sweetspot_guard::given::holds_record_locks;
use sweetspot_guard::process::{Child, Ended, Image, end_by_signal, has_room, replace};
use sweetspot_report::failure::Failure;
use sweetspot_report::shown::shown;

/// Runs the program. Returns the exit status, or does not return at all.
///
/// # Errors
/// Where sweetspot itself fails, or the program cannot be started.
pub fn run(arguments: &Run) -> Result<u8, Failure> {
    let mut environment = Environment::own();
    let target = match &arguments.summary {
        Some(path) => Some(Wanted::open(path.as_deref(), &environment)?),
        None => None,
    };
    if is_switched_off(&environment) {
        return run_switched_off(arguments, environment, target);
    }

    let mut warnings = Vec::new();
    let (asked, config) = what_was_typed(arguments, &environment, &mut warnings)?;
    let program = find(&arguments.command[0], &environment)?;
    let reach = reach::inspect_in(&program, &environment);
    for warning in warnings {
        say(format_args!("sweetspot: {warning}"));
    }
    if arguments.require {
        is_to_be_buffered(&program, asked, &config)?;
        can_be_buffered(&program, &environment)?;
    }

    let is_told_otherwise = arguments.quiet || arguments.require || target.is_some();
    if !is_told_otherwise && !nothing_can_wait(&asked) && std::io::stderr().is_terminal() {
        tell_what_cannot_be_buffered(&program, &reach);
    }

    finish_what_is_left(arguments.wait || arguments.require || target.is_some());

    let settings = Settings {
        buffer: asked.size(),
        rules: config.rules,
        summary: target.is_some() || arguments.require,
        max_age_ms: arguments.max_age,
        stdio: arguments.stdio,
    };
    // Whether it was active is known when it has ended.
    let waits = arguments.wait || arguments.require;
    let ledger = match (nothing_can_wait(&asked), waits) {
        (true, _) => LedgerOf::Nobody,
        (false, true) => LedgerOf::ThisRun,
        (false, false) => LedgerOf::AnyRun,
    };
    let (library, report) = library_and_preview(reach, &settings, config.path, &environment)?;
    let report = preview_of_off(arguments, &asked).unwrap_or(report);
    let mut session = match library {
        Some(library) => put_underneath(&library, asked, &settings, ledger, &mut environment),
        None => None,
    };
    if !has_room() || is_only_listed(&environment) {
        leave_out(&mut environment);
    }

    let start = Start { program: &program, arguments: &arguments.command, environment };
    let ended = start.to_its_end(target, waits, session.as_mut(), report)?;
    if arguments.require {
        was_active(session.as_ref(), &program)?;
    }
    end_as(ended)
}

/// What a killed run of the same job left must be in its files before this one reads them.
fn finish_what_is_left(stays: bool) {
    match stays {
        true => recover::clear_up(),
        false => recover::finish_stale(),
    }
}

/// Starts a program as it is.
fn run_switched_off(
    arguments: &Run,
    environment: Environment,
    target: Option<Wanted>,
) -> Result<u8, Failure> {
    let program = find(&arguments.command[0], &environment)?;
    if arguments.require {
        return Err(cannot_be_buffered(&program, SWITCHED_OFF, Some("try: unset SWEETSPOT")));
    }
    let start = Start { program: &program, arguments: &arguments.command, environment };
    end_as(start.to_its_end(target, arguments.wait, None, Preview::switched_off())?)
}

/// The library, if the program takes it and there is a place for it; and what is known before the run.
fn library_and_preview(
    reach: Reach,
    settings: &Settings,
    rules: Option<PathBuf>,
    environment: &Environment,
) -> Result<(Option<PathBuf>, Preview), Failure> {
    if is_only_listed(environment) {
        return Ok((None, Preview::unbuffered("LD_TRACE_LOADED_OBJECTS is set")));
    }
    if !reach.takes_library() {
        return Ok((None, Preview::new(settings.buffer, rules, reach)));
    }
    if !has_room() {
        return Ok((None, Preview::unbuffered(NO_ROOM)));
    }
    Ok(match library()? {
        Some(library) => (Some(library), Preview::new(settings.buffer, rules, reach)),
        None => (None, Preview::unbuffered("there is no place for the library")),
    })
}

/// Which ledger a program may write to.
enum LedgerOf {
    /// None: nothing can wait.
    Nobody,
    /// One of its own.
    ThisRun,
    /// That of a `run` around this one, where that fits.
    AnyRun,
}

/// Puts the library underneath the program: tells it by the environment what was asked for. Returns the
/// session whose ledger is this run's own.
fn put_underneath(
    library: &Path,
    asked: Asked,
    settings: &Settings,
    ledger: LedgerOf,
    environment: &mut Environment,
) -> Option<RunSession> {
    let all = preload::chain(library.as_os_str(), value(environment, names::PRELOAD));
    set(environment, names::PRELOAD, all);
    set(environment, names::BUFFER, asked.said());
    let joins = || session::can_join(settings, value(environment, names::LEDGER));
    let session = match ledger {
        LedgerOf::Nobody => {
            remove(environment, names::LEDGER);
            None
        }
        LedgerOf::AnyRun if joins() => None,
        LedgerOf::AnyRun | LedgerOf::ThisRun => {
            let mut session = RunSession::create(settings);
            session.start_guard();
            session.keep_if_useful(settings);
            set_or_remove(environment, names::LEDGER, session.path().map(Into::into));
            let filters = session.allowed_filters().map(|count| count.to_string().into());
            set_or_remove(environment, names::FILTERS, filters);
            if settings.summary {
                set(environment, names::SUMMARY, "1");
            }
            Some(session)
        }
    };
    // What an outer `run` asked for is not meant for this one.
    set_or_remove(environment, names::STDIO, settings.stdio_text().map(Into::into));
    session
}

/// Says in one line that nothing will be buffered, and why, as far as the program's file tells. To people
/// at a terminal only: in a pipe or under cron it would be noise.
fn tell_what_cannot_be_buffered(program: &Path, reach: &Reach) {
    let why = match reach {
        Reach::Unreachable(why) => why.to_string(),
        Reach::Reachable if !has_room() => NO_ROOM.to_owned(),
        Reach::Reachable => return,
    };
    say(format_args!(
        "sweetspot: {} cannot be buffered: {why} (--quiet hides this)",
        program.display()
    ));
}

/// The library. Where there is no place for it the program runs untouched, and it is said why.
///
/// # Errors
/// Where what lies at its place cannot be trusted.
fn library() -> Result<Option<PathBuf>, Failure> {
    match preload::find_or_write() {
        Ok(library) => Ok(Some(library)),
        Err(Refusal::Unsafe(failure)) => Err(failure),
        Err(Refusal::NoPlace(failure)) => {
            say(format_args!("sweetspot: nothing is buffered: {}", failure.what()));
            failure.next_step().iter().for_each(|next| say(format_args!("  {next}")));
            Ok(None)
        }
    }
}

/// Why a program that may map little is started without the library.
const NO_ROOM: &str =
    "a limit on addresses (ulimit -v) or data (ulimit -d) leaves no room for the library";

/// Whether the dynamic linker is to say what it would load, and to start nothing, as for `ldd`.
fn is_only_listed(environment: &Environment) -> bool {
    value(environment, names::LISTS).is_some()
}

/// Takes out what a `run` around this one has set.
fn leave_out(environment: &mut Environment) {
    let others = value(environment, names::PRELOAD).and_then(preload::without);
    match others {
        Some(others) => set(environment, names::PRELOAD, others),
        None => remove(environment, names::PRELOAD),
    }
    remove(environment, names::LEDGER);
}

/// What `--require` asks for, before anything is tried: a size other than `off`, if only for some
/// files.
fn is_to_be_buffered(program: &Path, asked: Asked, config: &config::Config) -> Result<(), Failure> {
    let rules = config.rules.iter().filter(|rule| !rule.for_auto);
    let mut sizes = rules.filter_map(|rule| rule.buffer).chain([asked.size()]);
    if sizes.any(|size| size != BufferSize::Off) {
        return Ok(());
    }
    let mend = "try: --buffer-size auto";
    Err(cannot_be_buffered(program, "the buffer size in force is off", Some(mend)))
}

/// What `--require` asks for, before the run.
fn can_be_buffered(program: &Path, environment: &Environment) -> Result<(), Failure> {
    if !has_room() {
        let mend = "try: ulimit -v unlimited; ulimit -d unlimited";
        return Err(cannot_be_buffered(program, NO_ROOM, Some(mend)));
    }
    match probe::ask(program, environment).obstacle() {
        Some(Obstacle { reason, mend }) => {
            Err(cannot_be_buffered(program, reason, mend.as_deref()))
        }
        None => Ok(()),
    }
}

fn cannot_be_buffered(program: &Path, reason: &str, mend: Option<&str>) -> Failure {
    let mend = mend.map(|mend| format!("{mend}\n  ")).unwrap_or_default();
    Failure::own(format!("'{}' cannot be buffered: {reason}", shown(program)))
        .next(format!("{mend}without --require it runs, unbuffered"))
}

/// What `--require` asks for, after the run: what keeps the library out of a program (a policy of
/// the system, a cleared environment) cannot always be known before.
fn was_active(session: Option<&RunSession>, program: &Path) -> Result<(), Failure> {
    let learned = session.map(RunSession::summary).unwrap_or_default();
    let shown = shown(program);
    let cause = match (learned.processes, learned.nothing(program)) {
        (Some(0), _) => "no process loaded the library".to_owned(),
        // A program that had nothing to be buffered is none that could not be.
        (_, Some(why)) if !learned.unbuffered.is_empty() => why,
        _ => return Ok(()),
    };
    let cause = format!("'{shown}' has run, but nothing of it was buffered: {cause}");
    Err(Failure::own(cause).next("without --require it ends as the program did"))
}

/// Whether buffering was switched off for the whole tree, so that there is nothing to guard.
fn nothing_can_wait(asked: &Asked) -> bool {
    matches!(asked, Asked::Explicitly(BufferSize::Off))
}

/// What a summary says where the size is off, and by whom.
fn preview_of_off(arguments: &Run, asked: &Asked) -> Option<Preview> {
    let why = || format!("the buffer size is off, by {}", by_whom(arguments));
    nothing_can_wait(asked).then(|| Preview::unbuffered(why()))
}

/// Who has said a size, where it is not a rule.
fn by_whom(arguments: &Run) -> &'static str {
    match (&arguments.define, &arguments.buffer_size) {
        (Some(_), _) => "-DIO-BUFFER-SIZE",
        (None, Some(_)) => "--buffer-size",
        (None, None) => names::BUFFER,
    }
}

/// The size that is asked for, and the rules that are left to decide where none is.
fn what_was_typed(
    arguments: &Run,
    environment: &Environment,
    warnings: &mut Vec<String>,
) -> Result<(Asked, config::Config), Failure> {
    let defined = arguments.define.as_deref().map(buffer::defined).transpose()?;
    let typed = defined.as_deref().or(arguments.buffer_size.as_deref());
    let typed = typed.map(|text| (text, by_whom(arguments)));
    let named = arguments.config.as_deref();
    sizes_and_rules(&arguments.command[0], typed, named, environment, warnings)
}

/// The same for a run of `program`: `typed` is a size and the option that gave it, `named` a file of rules that an option names.
///
/// # Errors
/// Where a size or a rule is not understood.
pub fn sizes_and_rules(
    program: &OsStr,
    typed: Option<(&OsStr, &str)>,
    named: Option<&Path>,
    environment: &Environment,
    warnings: &mut Vec<String>,
) -> Result<(Asked, config::Config), Failure> {
    let folder = std::env::current_dir().ok();
    let mut config = config::load(config::named(named).as_deref(), folder.as_deref(), warnings)?;
    let name = Path::new(program).file_name().unwrap_or_default();
    let from_environment = buffer::from_environment(environment);
    let ruled = config::size_for(&config.rules, name);
    let asked = buffer::resolve(typed, from_environment, ruled, warnings)?;
    for warning in warnings.iter_mut().filter(|warning| warning.ends_with(buffer::NO_SIZE)) {
        warning.push_str("; it counts as off");
    }
    if let Asked::Explicitly(_) = asked {
        for rule in &mut config.rules {
            rule.buffer = None;
        }
    }
    if matches!(asked, Asked::ByRules(_) | Asked::Explicitly(BufferSize::Auto)) {
        let room = RULES_MAX - config.rules.len();
        config.rules.extend(config::machine_rules(room, warnings));
    }
    Ok((asked, config))
}

/// The file of the program.
///
/// # Errors
/// Where there is none.
pub fn find(name: &OsStr, environment: &Environment) -> Result<PathBuf, Failure> {
    resolve::find(name, value(environment, "PATH"))
        .map_err(|missing| resolve::failure(name, &missing))
}

/// A program that is ready to be started.
pub struct Start<'a> {
    pub program: &'a Path,
    pub arguments: &'a [OsString],
    pub environment: Environment,
}

impl Start<'_> {
    fn image(&self) -> Result<Image, Failure> {
        Image::new(self.program, self.arguments, self.environment.entries())
            .map_err(|error| self.refused(&error))
    }

    /// As `execvp` does with a file that the kernel does not know: the shell runs it.
    fn image_for_shell(&self) -> Result<Image, Failure> {
        let shell = [reach::SHELL.into(), self.program.into()];
        let arguments: Vec<OsString> =
            shell.into_iter().chain(self.arguments[1..].iter().cloned()).collect();
        Image::new(Path::new(reach::SHELL), &arguments, self.environment.entries())
            .map_err(|error| self.refused(&error))
    }

    fn refused(&self, error: &std::io::Error) -> Failure {
        resolve::refused(&self.arguments[0], self.program, error)
    }

    /// Starts it, and stays only where something is to be done at its end; then says how it ended.
    fn to_its_end(
        &self,
        target: Option<Wanted>,
        waits: bool,
        mut session: Option<&mut RunSession>,
        preview: Preview,
    ) -> Result<Ended, Failure> {
        let ended = match target {
            Some(target) => self.and_report(target, session.as_deref_mut(), preview),
            None if waits => self.and_wait(session.as_deref_mut()),
            None => Err(self.by_becoming_it()),
        };
        if ended.is_err() {
            session.into_iter().for_each(RunSession::remove_if_unguarded);
        }
        ended
    }

    /// Becomes the program; returns only a failure.
    fn by_becoming_it(&self) -> Failure {
        let attempt = || {
            let error = replace(&self.image()?);
            if !is_unknown_format(&error) {
                return Err(self.refused(&error));
            }
            Err::<(), _>(self.refused(&replace(&self.image_for_shell()?)))
        };
        attempt().expect_err("exec returns only failures")
    }

    /// Starts it below this process, after `before` was told of the process; says when.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn as_child(&self, before: impl FnOnce(u32)) -> Result<(Child, Instant), Failure> {
        if holds_record_locks() {
            let what =
                "a file is locked (by fcntl) for this process, and would not be for one below it";
            let next =
                "try: sweetspot run -- PROGRAM, which becomes the program and keeps the lock";
            return Err(Failure::own(what).next(next));
        }
        let mut started = Instant::now();
        // What is done before is no time of the program's.
        let begin = |pid| {
            before(pid);
            started = Instant::now();
        };
        let child = Child::start(&[&self.image()?, &self.image_for_shell()?], begin);
        child.map(|child| (child, started)).map_err(|error| self.refused(&error))
    }

    /// Waits until it has ended and everything that it left is written, and ends as it did.
    fn and_wait(&self, session: Option<&mut RunSession>) -> Result<Ended, Failure> {
        let (child, _) = self.as_child(|_| {})?;
        leave_folder();
        let pid = child.pid();
        let ended = child.wait();
        if let Some(session) = session {
            session.finish(pid);
            session.remove_if_unguarded();
            for note in session.unfinished() {
                say(format_args!("sweetspot: {note}"));
            }
        }
        Ok(ended)
    }

    /// Waits, writes the summary, and ends as the program did.
    fn and_report(
        &self,
        target: Wanted,
        session: Option<&mut RunSession>,
        report: Preview,
    ) -> Result<Ended, Failure> {
        let (child, started) = self.as_child(|_| {})?;
        leave_folder();
        let pid = child.pid();
        let ended = child.wait();
        let seconds = started.elapsed().as_secs_f64();
        let learned = session.map(|session| {
            session.finish(pid);
            session.remove_if_unguarded();
            session.summary()
        });
        let Start { program, arguments: command, .. } = *self;
        let learned = learned.as_ref();
        target.write(&report, &Ran { program, command, pid, ended, seconds, learned });
        Ok(ended)
    }
}

/// The program may leave its folder and unmount what it was on. What is written at its end is open already.
fn leave_folder() {
    let _ = std::env::set_current_dir("/");
}

fn is_unknown_format(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error())
}

/// Ends as the program did.
///
/// # Errors
/// None; it is the last thing that a verb returns.
pub fn end_as(ended: Ended) -> Result<u8, Failure> {
    match ended {
        Ended::Exited(status) => Ok(status),
        Ended::Killed(signal) => end_by_signal(signal),
    }
}
