//! Under a filter of system calls that keeps `sweetspot run` itself from what it does, the program is started as
//! it is.
//!
//! A filter is made for the program, which starts under it. The Rust runtime ends a process to which it may not
//! give what it needs, before `main`; and where files are looked at by calls that are refused, a program seems
//! to be missing. So a function in `.init_array`, which runs before the runtime, makes these calls, and becomes
//! the program if one of them is refused. It makes no call that would not be made without it.
//!
//! Not here: whether the program may be buffered under the filters (`filters`).
//!
//! # Safety
//! Each call is given live values and null pointers only.

#![allow(unsafe_code)]

use std::ffi::{CString, OsString, c_int};
use std::mem::{MaybeUninit, zeroed};
use std::os::unix::ffi::OsStringExt;
use std::ptr;

use sweetspot_core::shown::Shown;

/// Options of `run` with a value that may be an argument of its own.
const WITH_VALUE: [&[u8]; 4] = [b"-D", b"--buffer-size", b"--config", b"--max-age"];
/// Those without.
const ALONE: [&[u8]; 5] = [b"--summary", b"--wait", b"--stdio", b"--quiet", b"--require"];
const WHY: &str = "a seccomp filter blocks calls that sweetspot needs";
/// The exit status of sweetspot's own failures, and those of a program that cannot be started.
const STATUS: [c_int; 3] = [125, 126, 127];

// SAFETY: `.init_array` holds pointers to functions that the C library calls once, before `main`. This one has
// the C calling convention and takes nothing; std has taken the arguments in a function that comes earlier.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: only a question, without memory.
    let is_filtered = unsafe { libc::prctl(libc::PR_GET_SECCOMP) } == 2;
    if is_filtered && !is_answered() {
        let typed: Vec<Vec<u8>> = std::env::args_os().map(OsString::into_vec).collect();
        if let Some((options, command)) = in_run(&typed) {
            become_it(options, command);
        }
    }
}

/// Whether each call is answered that the runtime and the search for the program rely on. What std has another
/// way for may be missing.
fn is_answered() -> bool {
    let (here, root) = (libc::AT_FDCWD, c"/".as_ptr());
    let errno = || std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    let is_missing = |errno| matches!(errno, libc::ENOSYS | libc::EPERM);
    let mut byte = 0u8;
    // SAFETY: as the module says; zeroed values are valid.
    unsafe {
        let (mut action, mut status): (libc::sigaction, libc::stat) = (zeroed(), zeroed());
        let mut extended = MaybeUninit::<libc::statx>::zeroed();
        let mut none = libc::pollfd { fd: -1, events: 0, revents: 0 };
        let mut limit: libc::rlimit = zeroed();
        let size = size_of::<libc::sigset_t>() + 1;
        libc::poll(&mut none, 1, 0) == 0
            && libc::sigaction(libc::SIGPIPE, ptr::null(), &mut action) == 0
            && libc::syscall(libc::SYS_rt_sigaction, libc::SIGPIPE, 0, 0, size) == -1
            && [libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getegid]
                .iter()
                .all(|call| libc::syscall(*call) >= 0)
            && libc::prlimit(0, libc::RLIMIT_NOFILE, ptr::null(), &mut limit) == 0
            && libc::fstatat(here, root, &mut status, 0) == 0
            && status.st_mode != 0
            && match libc::statx(here, root, 0, libc::STATX_TYPE, extended.as_mut_ptr()) {
                0 => extended.assume_init_ref().stx_mask != 0,
                _ => is_missing(errno()),
            }
            && match libc::syscall(libc::SYS_faccessat2, here, root, libc::F_OK, 0) {
                0 => true,
                _ => is_missing(errno()),
            }
            && match libc::getrandom((&raw mut byte).cast(), 1, libc::GRND_NONBLOCK) {
                1 => true,
                -1 => is_missing(errno()) || errno() == libc::EAGAIN,
                _ => false,
            }
    }
}

/// Options, and a command with its arguments.
type Parts<'a> = (&'a [Vec<u8>], &'a [Vec<u8>]);

/// What `run` was given. `None`: it is another verb, or not understood.
fn in_run(typed: &[Vec<u8>]) -> Option<Parts<'_>> {
    let (_, rest) = typed.split_first()?;
    let (verb, rest) = rest.split_first()?;
    if verb != b"run" {
        return None;
    }
    let mut at = 0;
    while let Some(word) = rest.get(at).filter(|word| word.starts_with(b"-")) {
        let name = word.split(|byte| *byte == b'=').next()?;
        let is_option = |option: &&[u8]| *option == name;
        at += match word.as_slice() {
            b"--" => break,
            _ if name == word && WITH_VALUE.iter().any(is_option) => 2,
            _ if WITH_VALUE.iter().chain(&ALONE).any(is_option) || word.starts_with(b"-D") => 1,
            _ => return None,
        };
    }
    let (options, command) = rest.split_at_checked(at)?;
    let command = command.strip_prefix(&[b"--".to_vec()]).unwrap_or(command);
    (!command.is_empty()).then_some((options, command))
}

/// Becomes the program, unless it was not to run without being buffered.
fn become_it(options: &[Vec<u8>], command: &[Vec<u8>]) -> ! {
    let [own, refused, missing] = STATUS;
    let has = |option: &[u8]| options.iter().any(|word| word.starts_with(option));
    if has(b"--require") {
        end(own, "cannot be buffered", WHY, &command[0]);
    }
    if has(b"--summary") {
        say("runs without a summary", WHY, &command[0]);
    }
    let words: Option<Vec<CString>> =
        command.iter().map(|word| CString::new(word.as_slice()).ok()).collect();
    let words = words.unwrap_or_default();
    let array: Vec<_> = words.iter().map(|word| word.as_ptr()).chain([ptr::null()]).collect();
    // SAFETY: the array is of texts, and ends with a null pointer; so does one without any.
    unsafe {
        libc::execvp(words.first().map_or(c"".as_ptr(), |word| word.as_ptr()), array.as_ptr())
    };
    let error = std::io::Error::last_os_error();
    let status = if error.kind() == std::io::ErrorKind::NotFound { missing } else { refused };
    end(status, "cannot be started", &error.to_string(), &command[0])
}

fn end(status: c_int, what: &str, why: &str, name: &[u8]) -> ! {
    say(what, why, name);
    // SAFETY: it ends the process.
    unsafe { libc::_exit(status) }
}

fn say(what: &str, why: &str, name: &[u8]) {
    let shown = Shown(name);
    let text = format!("sweetspot: '{shown}' {what}: {why}\n");
    // SAFETY: the text is live, and so long.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_found_behind_every_option() {
        let check = |typed: &str, expected: Option<(&str, &str)>| {
            let words = |text: &str| -> Vec<Vec<u8>> {
                text.split_whitespace().map(|word| word.as_bytes().to_vec()).collect()
            };
            let typed = words(typed);
            let found =
                in_run(&typed).map(|(options, command)| (options.to_vec(), command.to_vec()));
            let expected = expected.map(|(options, command)| (words(options), words(command)));
            assert_eq!(found, expected, "{typed:?}");
        };
        check("s run ls -l", Some(("", "ls -l")));
        check("s run -- ls -- x", Some(("", "ls -- x")));
        check("s run --buffer-size 64K --wait ls", Some(("--buffer-size 64K --wait", "ls")));
        check("s run --buffer-size=64K -- ls", Some(("--buffer-size=64K", "ls")));
        check("s run -DIO-BUFFER-SIZE=1 ls", Some(("-DIO-BUFFER-SIZE=1", "ls")));
        check("s run -D IO-BUFFER-SIZE=1 ls", Some(("-D IO-BUFFER-SIZE=1", "ls")));
        check("s run --summary=f --require ls", Some(("--summary=f --require", "ls")));
        check("s run --help", None);
        check("s run --max-age", None);
        check("s run --", None);
        check("s profile -- ls", None);
        check("s", None);
        check("", None);
    }

    #[test]
    fn all_is_answered_here() {
        assert!(is_answered());
    }
}
