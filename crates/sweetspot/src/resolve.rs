//! Finds the file of a program, as `execvp` would: a script whose interpreter is missing ends the search only
//! where there is no other file of the name.
//!
//! The search is done here, and not by `execvp`, because the file is inspected before it runs.
//! `execve` itself stays the judge of whether it can be executed.

use rustix::fs::Access;
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use sweetspot_guard::given::look_at;
use sweetspot_report::failure::{Failure, STATUS_CANNOT_EXECUTE, STATUS_NOT_FOUND};
use sweetspot_report::shell::quoted;
use sweetspot_report::shown::shown;
use sweetspot_sandbox::access::may;

/// Where `execvp` looks without `PATH` (glibc 2.24 and newer: no longer the current folder).
const PATH_DEFAULT: &str = "/bin:/usr/bin";
/// The kernel reads this much of the first line of a script.
pub const FIRST_LINE_BYTES_MAX: u64 = 256;

/// Why no file was found.
#[derive(Debug, PartialEq, Eq)]
pub enum Missing {
    /// There is none of this name.
    Nowhere,
    /// There is one, but it cannot be executed.
    NotExecutable(PathBuf),
    /// There may be one, in a folder that the user may not look into.
    Hidden(PathBuf),
    /// There may be one, but its path leads nowhere, for this reason.
    Unreachable(PathBuf, Errno),
}

/// The file that `name` means, with the given value of `PATH`. A name with a slash is a path.
///
/// # Errors
/// Where there is no such file, or none that can be executed.
pub fn find(name: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, Missing> {
    if name.is_empty() {
        return Err(Missing::Nowhere);
    }
    if name.as_bytes().contains(&b'/') {
        return executable(PathBuf::from(name));
    }
    let path = path.unwrap_or(OsStr::new(PATH_DEFAULT));
    let (mut lost, mut refused) = (None, None);
    for folder in path.as_bytes().split(|&byte| byte == b':') {
        // An empty folder is the current one; the program then knows itself by its bare name.
        match executable(Path::new(OsStr::from_bytes(folder)).join(name)) {
            Ok(file) if has_interpreter(&file) => return Ok(file),
            Ok(file) => lost = lost.or(Some(file)),
            // PATH may name what is no folder.
            Err(Missing::Nowhere | Missing::Unreachable(_, Errno::NOTDIR)) => {}
            Err(reason) => refused = refused.or(Some(reason)),
        }
    }
    lost.ok_or(refused.unwrap_or(Missing::Nowhere))
}

/// Whether what runs it is there, if it is a script.
fn has_interpreter(file: &Path) -> bool {
    let Some(interpreter) = look_at(file, || named_by(file)) else { return true };
    match executable(interpreter) {
        Ok(_) => true,
        // Nor does `execvp` go on then.
        Err(Missing::Unreachable(_, cause)) => cause != Errno::NOTDIR,
        Err(_) => false,
    }
}

/// The file that the first line of a script names, after `#!`.
fn named_by(script: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    File::open(script).ok()?.take(FIRST_LINE_BYTES_MAX).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t'));
    words.find(|word| !word.is_empty()).map(|word| OsStr::from_bytes(word).into())
}

fn executable(file: PathBuf) -> Result<PathBuf, Missing> {
    match file.metadata() {
        Ok(metadata) if metadata.is_file() => match may(&file, Access::EXEC_OK) {
            true => Ok(file),
            false => Err(Missing::NotExecutable(file)),
        },
        Ok(_) => Err(Missing::NotExecutable(file)),
        Err(error) => Err(match Errno::from_io_error(&error) {
            Some(Errno::NOENT) | None => Missing::Nowhere,
            Some(Errno::ACCESS) => Missing::Hidden(file),
            Some(cause) => Missing::Unreachable(file, cause),
        }),
    }
}

/// What the user is told, with the exit status that env and timeout would give.
pub fn failure(name: &OsStr, missing: &Missing) -> Failure {
    let named = shown(name);
    match missing {
        Missing::Nowhere => {
            let failure = |cause: &str| {
                Failure::own(format!("cannot start '{named}': {cause}")).status(STATUS_NOT_FOUND)
            };
            let here = Path::new(".").join(name);
            if name.as_bytes().contains(&b'/') {
                failure("no such file").next(format!("check the path: ls -l {}", quoted(name)))
            } else if name.as_bytes().starts_with(b"-") {
                failure("it is not in PATH").next("put options before --, the program after it")
            } else if !name.is_empty() && here.is_file() {
                failure("it is not in PATH").next(format!("did you mean {}", quoted(here)))
            } else {
                failure("it is not in PATH")
                    .next("check the spelling, or give its path, such as ./program")
            }
        }
        Missing::Hidden(file) => Failure::own(format!(
            "cannot start '{named}': permission denied while searching PATH: {}",
            shown(file)
        ))
        .status(STATUS_CANNOT_EXECUTE)
        .next("check the spelling, or take that folder out of PATH"),
        Missing::Unreachable(file, cause) => {
            Failure::own(format!("cannot start '{named}': {cause}: {}", shown(file)))
                .status(STATUS_CANNOT_EXECUTE)
                .next(format!("check the spelling and the symbolic links: ls -l {}", quoted(file)))
        }
        Missing::NotExecutable(file) => {
            let (cause, next) = if Path::new(name).is_dir() {
                let inside = quoted(file.join("program"));
                ("it is a folder", format!("name a program in it, such as {inside}"))
            } else {
                (
                    "permission denied: it is not executable",
                    format!("try: chmod +x {}", quoted(file)),
                )
            };
            Failure::own(format!("cannot start '{named}': {cause}: {}", shown(file)))
                .status(STATUS_CANNOT_EXECUTE)
                .next(next)
        }
    }
}

/// What the user is told where `execve` refused a file that was found.
pub fn refused(name: &OsString, file: &Path, error: &std::io::Error) -> Failure {
    let status = match error.kind() {
        ErrorKind::NotFound => STATUS_NOT_FOUND,
        _ => STATUS_CANNOT_EXECUTE,
    };
    let see = format!("file {}", quoted(file));
    let next = match error.kind() {
        ErrorKind::NotFound => {
            format!("the interpreter that it names is missing; see its first line, or: {see}")
        }
        ErrorKind::ArgumentListTooLong => "there are too many arguments; see xargs".to_owned(),
        _ if Errno::from_io_error(error) == Some(Errno::MFILE) => {
            "a limit leaves too few descriptors; try: ulimit -n 1024".to_owned()
        }
        _ => format!("see what it is: {see}"),
    };
    Failure::own(format!("cannot start '{}': {error}", shown(name))).status(status).next(next)
}
