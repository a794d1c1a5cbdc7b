//! Can the library reach this program? Answered from the file, before it runs.
//!
//! The library is loaded by the dynamic linker of glibc or musl and sees what goes through the C library.
//! Whatever makes its system calls by itself runs as it always did, and is told so. Where the
//! library would do harm (another architecture, another C library, a program that must come first)
//! it is left out.
//!
//! Not here: what the program starts later; the library asks the same at each exec.

use crate::environment::{Environment, value};
use crate::preload;
use crate::resolve::{self, FIRST_LINE_BYTES_MAX};
use object::elf::{
    DT_NEEDED, DT_SONAME, DT_STRSZ, DT_STRTAB, ELF_NOTE_GNU, EM_AARCH64, EM_X86_64, FileHeader64,
    Machine, NT_GNU_BUILD_ID, PT_DYNAMIC, PT_INTERP, PT_LOAD, PT_NOTE,
};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, ReadCache, ReadRef};
use rustix::fs::StatVfsMountFlags;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use sweetspot_core::environment as names;
use sweetspot_core::linkers;
use sweetspot_guard::given::look_at;
pub use sweetspot_report::reach::{Reach, Why};

/// What runs a script without `#!`, in `execvp` too.
pub const SHELL: &str = "/bin/sh";
/// Scripts that name scripts: the kernel follows four.
const INTERPRETERS_MAX: usize = 5;
/// Names that an executable imports and exports; larger tables are not searched.
const NAMES_BYTES_MAX: u64 = 16 << 20;

const MACHINE: Machine = if cfg!(target_arch = "x86_64") { EM_X86_64 } else { EM_AARCH64 };

/// What is executed where a program is started: it, or what runs the script that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executable {
    pub file: PathBuf,
    /// The dynamic linker that it names. None: it is one itself.
    pub linker: Option<PathBuf>,
}

/// Inspects the file of a program; `path` is the value of `PATH`, for scripts run by `env`.
pub fn inspect(program: &Path, path: Option<&OsStr>) -> Reach {
    match executable(program, path) {
        Ok(_) => Reach::Reachable,
        Err(why) => Reach::Unreachable(why),
    }
}

/// The same for a program that is started in this environment, which may say what comes first.
pub fn inspect_in(program: &Path, environment: &Environment) -> Reach {
    match executable_in(program, environment) {
        Ok(_) => Reach::Reachable,
        Err(why) => Reach::Unreachable(why),
    }
}

/// The same as [`inspect_in`], and what is executed.
///
/// # Errors
/// Why it cannot be reached.
pub fn executable_in(program: &Path, environment: &Environment) -> Result<Executable, Why> {
    let executable = executable(program, value(environment, "PATH"))?;
    match value(environment, names::PRELOAD) {
        Some(others) if preload::names_sanitizer(others) => Err(Why::AddressSanitizer),
        _ => Ok(executable),
    }
}

/// The same as [`inspect`], and what is executed.
///
/// # Errors
/// Why it cannot be reached.
pub fn executable(program: &Path, path: Option<&OsStr>) -> Result<Executable, Why> {
    let mut file = program.to_path_buf();
    for _ in 0..INTERPRETERS_MAX {
        file = match look_at(&file, || inspect_file(&file)) {
            Ok(linker) => return Ok(Executable { file, linker }),
            Err(Stop::Why(why)) => return Err(why),
            Err(Stop::Script(line)) => interpreter(&line, path)?,
        };
    }
    Err(Why::UnknownFormat)
}

/// Why looking at a file ended early.
enum Stop {
    Why(Why),
    /// It is a script with this first line, after `#!`.
    Script(Vec<u8>),
}

impl From<Why> for Stop {
    fn from(why: Why) -> Stop {
        Stop::Why(why)
    }
}

/// The dynamic linker that a program names.
fn inspect_file(program: &Path) -> Result<Option<PathBuf>, Stop> {
    let mut file = File::open(program).map_err(|_| Why::CannotBeRead)?;
    let metadata = file.metadata().map_err(|_| Why::CannotBeRead)?;
    let mut start = Vec::new();
    (&mut file)
        .take(FIRST_LINE_BYTES_MAX)
        .read_to_end(&mut start)
        .map_err(|_| Why::CannotBeRead)?;
    if let Some(rest) = start.strip_prefix(b"#!") {
        return Err(Stop::Script(until(b'\n', rest).to_vec()));
    }
    if !start.starts_with(b"\x7fELF") {
        // Text without `#!`: the shell runs it. Anything else: whatever the system is told to.
        let is_text = !start.contains(&0);
        return Err(if is_text { Stop::Script(SHELL.into()) } else { Why::UnknownFormat.into() });
    }
    if is_privileged(program, &file, &metadata) {
        return Err(Why::Privileged.into());
    }
    Ok(inspect_elf(&ReadCache::new(file))?)
}

/// Whether the kernel will run it with other rights than ours (AT_SECURE).
fn is_privileged(program: &Path, file: &File, metadata: &Metadata) -> bool {
    let mode = metadata.mode();
    let user = rustix::process::getuid();
    let is_set_user = mode & 0o4000 != 0 && metadata.uid() != user.as_raw();
    let is_set_group =
        mode & 0o2010 == 0o2010 && metadata.gid() != rustix::process::getgid().as_raw();
    let mut nothing: [u8; 0] = [];
    let has_capabilities = !user.is_root()
        && rustix::fs::getxattr(program, "security.capability", &mut nothing).is_ok();
    if !(is_set_user || is_set_group || has_capabilities) {
        return false;
    }
    let is_ignored_here = rustix::fs::fstatvfs(file)
        .is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::NOSUID))
        || rustix::thread::no_new_privs().unwrap_or(false);
    !is_ignored_here
}

/// The file that runs a script with this first line.
fn interpreter(line: &[u8], path: Option<&OsStr>) -> Result<PathBuf, Why> {
    let mut words = line
        .split(|byte| matches!(byte, b' ' | b'\t' | b'\r' | 0))
        .filter(|word| !word.is_empty())
        .map(OsStr::from_bytes);
    let first = words.next().unwrap_or(OsStr::new(SHELL));
    if Path::new(first).file_name().is_some_and(|name| name == "env")
        && let Some(program) = started_by_env(words)
        && let Ok(program) = resolve::find(program, path)
    {
        return Ok(program);
    }
    // Where it is not known what `env` starts, that is looked at when it does.
    resolve::find(first, path).map_err(|_| Why::MissingInterpreter(first.into()))
}

/// The program among the arguments of `env`, such as `NAME`, `-S NAME ARGS`, `-S -u VARIABLE A=B NAME`.
fn started_by_env<'a>(mut words: impl Iterator<Item = &'a OsStr>) -> Option<&'a OsStr> {
    while let Some(word) = words.next() {
        let bytes = word.as_bytes();
        let long = bytes.strip_prefix(b"--");
        let split = long.and_then(|long| long.strip_prefix(b"split-string="));
        let short = bytes.strip_prefix(b"-").filter(|_| long.is_none()).unwrap_or_default();
        // The first of several letters in one word that has an operand: what follows it, or the next word.
        let letter = short.iter().position(|letter| b"SuCa".contains(letter));
        let operand = letter.map(|at| &short[at + 1..]);
        let is_next = operand.is_some_and(<[u8]>::is_empty)
            || matches!(long, Some(b"unset" | b"chdir" | b"argv0"));
        match split.or(operand.filter(|_| letter.is_some_and(|at| short[at] == b'S'))) {
            Some(b"") => {}
            Some(program) => return Some(OsStr::from_bytes(program)),
            None if is_next => drop(words.next()),
            None if bytes.starts_with(b"-") || bytes.contains(&b'=') => {}
            None => return Some(word),
        }
    }
    None
}

/// What cannot be parsed cannot be executed either; the kernel says why.
fn inspect_elf(file: &ReadCache<File>) -> Result<Option<PathBuf>, Why> {
    let unknown = |_| Why::UnknownFormat;
    let Ok(header) = FileHeader64::<Endianness>::parse(file) else { return Err(Why::OtherMachine) };
    let endian = header.endian().map_err(unknown)?;
    if header.e_machine(endian) != MACHINE {
        return Err(Why::OtherMachine);
    }
    let segments = header.program_headers(endian, file).map_err(unknown)?;
    let of_type = |wanted| segments.iter().filter(move |s| s.p_type(endian) == wanted);

    for segment in of_type(PT_NOTE) {
        let Ok(Some(mut notes)) = segment.notes(endian, file) else { continue };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == b"Go" {
                return Err(Why::Go);
            }
        }
    }
    let dynamic = of_type(PT_DYNAMIC).next().and_then(|s| s.dynamic(endian, file).ok().flatten());
    let dynamic = dynamic.unwrap_or_default();
    let value = |tag| dynamic.iter().find(|entry| entry.tag(endian) == tag).map(|e| e.val(endian));
    let names = value(DT_STRTAB).zip(value(DT_STRSZ)).and_then(|(address, size)| {
        let segment = of_type(PT_LOAD).find(|segment| {
            let start = segment.p_vaddr(endian);
            (start..start.saturating_add(segment.p_filesz(endian))).contains(&address)
        })?;
        let at = segment.p_offset(endian).checked_add(address - segment.p_vaddr(endian))?;
        file.read_bytes_at(at, size.min(NAMES_BYTES_MAX)).ok()
    });
    let names = names.unwrap_or_default();
    let name = |at: u64| {
        let rest = usize::try_from(at).ok().and_then(|at| names.get(at..)).unwrap_or_default();
        until(0, rest)
    };

    let Some(linker) = of_type(PT_INTERP).next() else {
        // The dynamic linker can be called as a program, and then starts another one.
        // musl's is the C library itself.
        let is_linker = value(DT_SONAME)
            .is_some_and(|at| linkers::is_known(name(at)) || name(at).starts_with(b"libc."));
        return if is_linker { Ok(None) } else { Err(Why::Static) };
    };
    let linker = linker.interpreter(endian, file).ok().flatten().unwrap_or_default();
    if !linkers::is_known(linker) {
        return Err(Why::UnknownLibrary(OsStr::from_bytes(until(0, linker)).into()));
    }
    if holds(names, "\0__asan_init\0") {
        return Err(Why::AddressSanitizer);
    }
    let mut needed = dynamic.iter().filter(|entry| entry.tag(endian) == DT_NEEDED);
    if needed.any(|entry| name(entry.val(endian)).starts_with(b"liburing")) {
        return Err(Why::IoUring);
    }
    Ok(Some(OsStr::from_bytes(until(0, linker)).into()))
}

/// What the linker has noted in an executable or library to tell builds apart; `None` where there is
/// nothing of the kind.
pub fn build_id(file: &Path) -> Option<Vec<u8>> {
    let file = ReadCache::new(File::open(file).ok()?);
    let header = FileHeader64::<Endianness>::parse(&file).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, &file).ok()?;
    for segment in segments.iter().filter(|segment| segment.p_type(endian) == PT_NOTE) {
        let Ok(Some(mut notes)) = segment.notes(endian, &file) else { continue };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == ELF_NOTE_GNU && note.n_type(endian) == NT_GNU_BUILD_ID {
                return Some(note.desc().to_vec());
            }
        }
    }
    None
}

fn until(end: u8, text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == end).next().unwrap_or_default()
}

/// Whether a text holds a part. The crate memchr would first ask the processor what it can do: in a
/// virtual machine each such question (CPUID) takes microseconds, longer than the search.
fn holds(text: &[u8], part: &str) -> bool {
    String::from_utf8_lossy(text).contains(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines() {
        let path = Some(OsStr::new("/usr/bin:/bin"));
        let check = |line: &str, expected: &str| {
            assert_eq!(interpreter(line.as_bytes(), path), Ok(expected.into()), "{line:?}");
        };
        check("/bin/sh", "/bin/sh");
        check(" /bin/sh -eu", "/bin/sh");
        check("/usr/bin/env sh", "/usr/bin/sh");
        check("/usr/bin/env -S LANG=C sh -eu", "/usr/bin/sh");
        for options in
            ["-S -u NAME", "-S -iu NAME A=B", "-S --unset NAME -v", "-S --chdir / -uNAME"]
        {
            check(&format!("/usr/bin/env {options} sh -eu"), "/usr/bin/sh");
        }
        check("/usr/bin/env -S -C / --unset=NAME -u C sh", "/usr/bin/sh");
        check("/usr/bin/env -Ssh -eu", "/usr/bin/sh");
        check("/usr/bin/env -vSsh", "/usr/bin/sh");
        check("/usr/bin/env --split-string=sh -eu", "/usr/bin/sh");
        check("/usr/bin/env -S 'no such' sh", "/usr/bin/env");
        check("/usr/bin/env", "/usr/bin/env");
        check("", "/bin/sh");
        let missing = interpreter(b"/no/such/python", path);
        assert_eq!(missing, Err(Why::MissingInterpreter("/no/such/python".into())));
    }

    #[test]
    fn what_is_no_program() {
        let folder = tempfile::tempdir().unwrap();
        let check = |content: &[u8], expected: Reach| {
            let file = folder.path().join("program");
            std::fs::write(&file, content).unwrap();
            assert_eq!(inspect(&file, None), expected, "{content:?}");
        };
        check(b"#!/bin/sh\nexit 0\n", Reach::Reachable);
        check(b"exit 0\n", Reach::Reachable);
        check(b"", Reach::Reachable);
        check(b"PK\x03\x04\0\0", Reach::Unreachable(Why::UnknownFormat));
        check(b"\x7fELF", Reach::Unreachable(Why::OtherMachine));
        let missing = Why::MissingInterpreter("/no/such".into());
        check(b"#!/no/such\n", Reach::Unreachable(missing));
        let endless = format!("#!{}\n", folder.path().join("program").display());
        std::fs::write(folder.path().join("program"), &endless).unwrap();
        rustix::fs::chmod(folder.path().join("program"), 0o755.into()).unwrap();
        check(endless.as_bytes(), Reach::Unreachable(Why::UnknownFormat));
    }

    #[test]
    fn damaged_headers_never_panic() {
        let content = std::fs::read("/proc/self/exe").unwrap();
        let content = &content[..content.len().min(4096)];
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program");
        for at in (4..1024).step_by(7) {
            let mut damaged = content.to_vec();
            damaged[at] ^= 0xff;
            damaged[at + 8] = 0xff;
            std::fs::write(&file, &damaged).unwrap();
            let reach = inspect(&file, None);
            assert_ne!(reach, Reach::Unreachable(Why::CannotBeRead), "byte {at}");
        }
    }
}
