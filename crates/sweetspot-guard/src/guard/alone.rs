//! Whether a description that was open before its process started is that process' alone, as in `prog < in`:
//! then what it reads may come from a window, and its position be in memory. Anyone else who has the
//! description would read on from an offset that is not the position.
//!
//! Another process that has it got it from a process that had it: by a fork, a spawn, an exec or a message. So it is
//! looked for in every process that may be looked at; and of those that may not (another user's, as `sudo`
//! is), none may be the asker's parent or in its session.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use sweetspot_core::ledger::{Entry, STATE_HELD, STATE_REFUSED, next_state};

use super::Guard;
use crate::identity::{self, ProcessStat, process_stat};
use crate::sys;

/// So many descriptors are looked at for one answer. Where there are more it is no.
const DESCRIPTORS_MAX: usize = 1 << 18;
/// How often all processes are looked through, at least and at most.
const PASSES_MIN: u32 = 3;
const PASSES_MAX: u32 = 16;
/// How often the descriptors of one process are, until they stand still.
const SCANS_MAX: u32 = 64;
/// How many times as long as it has looked the thread rests.
const RESTS: u32 = 3;
/// What the thread needs that looks.
const STACK_BYTES: usize = 256 << 10;

/// What is asked for.
pub(super) struct Question {
    pub(super) pid: u32,
    pub(super) fd: i32,
    pub(super) index: usize,
    /// The entry's state as it was asked by.
    pub(super) word: u64,
}

/// The thread that answers such questions, from the first one on: a look may take milliseconds, and nobody
/// who asks for anything else is to wait for that.
#[derive(Default)]
pub(super) struct Looker(Option<Sender<Question>>);

impl Looker {
    pub(super) fn ask(&mut self, guard: &'static Guard, question: Question) -> io::Result<()> {
        if self.0.is_none() {
            let (questions, asked) = channel();
            let looker = std::thread::Builder::new().stack_size(STACK_BYTES);
            looker.spawn(move || answer_all(guard, &asked))?;
            self.0 = Some(questions);
        }
        // The thread never ends, so there is nothing that could fail.
        self.0
            .as_ref()
            .map_or(Ok(()), |questions| questions.send(question))
            .map_err(io::Error::other)
    }
}

fn answer_all(guard: &'static Guard, asked: &Receiver<Question>) {
    for question in asked {
        let begun = Instant::now();
        let Some(entry) = guard.ledger.entries().get(question.index) else { continue };
        // What lies in a socket is asked last: it may have been sent during the look.
        let is_alone = is_asked_for(entry, &question)
            && is_alone(question.pid, question.fd)
            && !guard.ledger.sent.may_be(entry.device.load(SeqCst), entry.inode.load(SeqCst));
        let state = if is_alone { STATE_HELD } else { STATE_REFUSED };
        let next = next_state(question.word, state);
        // Where that fails, nobody wants to know any more.
        let _ = entry.state.compare_exchange(question.word, next, SeqCst, SeqCst);
        // Where many processes have many descriptors, and many ask, most of a processor is left to others.
        sys::rest(begun.elapsed() * RESTS);
    }
}

/// Whether the descriptor is of the file that the entry names.
fn is_asked_for(entry: &Entry, question: &Question) -> bool {
    let link = PathBuf::from(format!("/proc/{}/fd/{}", question.pid, question.fd));
    sys::status_behind(&link).is_ok_and(|file| {
        file.is_regular()
            && file.device == entry.device.load(SeqCst)
            && file.inode == entry.inode.load(SeqCst)
    })
}

/// Whether no other descriptor of any process is of this one's description, as far as anyone can tell.
pub fn is_alone(pid: u32, fd: i32) -> bool {
    Look::begin(pid, fd).and_then(Look::finds_nobody).unwrap_or(false)
}

/// Whether that could be found out of anything: what is near the process can be looked at.
pub fn can_tell(pid: u32) -> bool {
    let sees_all = |look: Look| {
        let is_hidden = |process| look.is_near(process) && look.is_hidden(process);
        processes().is_ok_and(|mut processes| !processes.any(is_hidden))
    };
    Look::begin(pid, 0).is_ok_and(sees_all)
}

/// A look through all processes.
struct Look {
    asker: ProcessStat,
    pid: u32,
    fd: i32,
    /// Those that were looked at: whether they are near.
    seen: HashMap<u32, bool>,
    /// Descriptors that may still be looked at.
    room: usize,
}

impl Look {
    /// # Errors
    /// Somebody who matters cannot be seen.
    fn begin(pid: u32, fd: i32) -> io::Result<Look> {
        let asker = process_stat(pid)?;
        // A process outside of a pid namespace is not seen in it. Where processes of others are hidden, the first
        // one is, too.
        process_stat(1)?;
        if identity::is_in_own_pid_namespace()? || sys::is_same_table(pid, asker.parent)? {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Look { asker, pid, fd, seen: HashMap::new(), room: DESCRIPTORS_MAX })
    }

    /// Looks again until a whole pass has found no process that was not there before: one may have handed the
    /// description on and ended, between the list and the look. Those that are near are looked at each time,
    /// and in another order.
    fn finds_nobody(mut self) -> io::Result<bool> {
        for pass in 0..PASSES_MAX {
            let mut processes: Vec<u32> = processes()?.collect();
            if pass % 2 == 1 {
                processes.reverse();
            }
            let mut is_new = false;
            for process in processes {
                let known = self.seen.get(&process).copied();
                is_new |= known.is_none();
                let is_near = known.unwrap_or_else(|| self.is_near(process));
                self.seen.insert(process, is_near);
                if (known.is_none() || is_near) && self.may_have_it(process, is_near) {
                    return Ok(false);
                }
            }
            if !is_new && pass + 1 >= PASSES_MIN {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a process is one of those that most likely have it: the parent, and those of the session.
    fn is_near(&self, process: u32) -> bool {
        let stat = process_stat(process);
        process == self.asker.parent || stat.is_ok_and(|stat| stat.session == self.asker.session)
    }

    /// Whether a process that lives may not be looked at.
    fn is_hidden(&self, process: u32) -> bool {
        sys::is_same_table(self.pid, process).is_err_and(|error| !is_gone(&error))
            && process_stat(process).is_ok_and(|stat| !stat.is_zombie)
    }

    fn may_have_it(&mut self, process: u32, is_near: bool) -> bool {
        if process == std::process::id() {
            return false;
        }
        match sys::is_same_table(self.pid, process) {
            Ok(is_same) if is_same && process != self.pid => return true,
            Ok(_) => {}
            // In another session it has the description only if the parent had it.
            Err(_) => return is_near && self.is_hidden(process),
        }
        tables(process).any(|table| self.is_in(&table, is_near))
    }

    /// Whether the description is in a table of descriptors, or may be. A process that is near is looked at
    /// until its descriptors stand still meanwhile: they may change places.
    fn is_in(&mut self, table: &Path, is_near: bool) -> bool {
        let Some(holder) = number_of(table) else { return false };
        for _ in 0..SCANS_MAX {
            let numbers = match descriptors(table) {
                Ok(numbers) => numbers,
                Err(error) => return !is_gone(&error),
            };
            let mut stands_still = true;
            for other in numbers.iter().map(|number| (holder, *number)) {
                self.room -= 1;
                if self.room == 0 {
                    return true;
                }
                match sys::is_same_description((self.pid, self.fd), other) {
                    _ if other == (self.pid, self.fd) => {}
                    Ok(true) => return true,
                    Ok(false) if has_files(table, other.1) => return true,
                    Ok(false) => {}
                    Err(error) if error.raw_os_error() == Some(libc::EBADF) => stands_still = false,
                    Err(error) if is_gone(&error) => return false,
                    Err(_) => return true,
                }
            }
            let is_done = || descriptors(table).is_ok_and(|again| again == numbers);
            if !is_near || stands_still && is_done() {
                return false;
            }
        }
        true
    }
}

/// Whether a descriptor is of an io_uring that has files of its own, which nobody else sees, as far as the kernel
/// says.
fn has_files(table: &Path, number: i32) -> bool {
    let link = fs::read_link(table.join(format!("fd/{number}")));
    if !link.is_ok_and(|link| link.as_os_str().as_bytes() == b"anon_inode:[io_uring]") {
        return false;
    }
    let said = fs::read_to_string(table.join(format!("fdinfo/{number}")));
    !said.is_ok_and(|said| said.lines().any(|line| line == "UserFiles:\t0"))
}

/// Whether a process or thread is no more.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

fn descriptors(table: &Path) -> io::Result<Vec<i32>> {
    let links = fs::read_dir(table.join("fd"))?.flatten();
    Ok(links.filter_map(|link| number_of(&link.path())).map(|number| number as i32).collect())
}

fn processes() -> io::Result<impl Iterator<Item = u32>> {
    Ok(fs::read_dir("/proc")?.flatten().filter_map(|entry| number_of(&entry.path())))
}

/// The folders of a process' tables of descriptors: its own, and those of threads that have another one, or
/// outlive the first one. Where the kernel does not say whose table is whose, only those that outlive it.
pub(super) fn tables(process: u32) -> impl Iterator<Item = PathBuf> {
    let folder = PathBuf::from(format!("/proc/{process}"));
    let threads = fs::read_dir(folder.join("task")).into_iter().flatten().flatten();
    let has_ended = move || process_stat(process).is_ok_and(|stat| stat.is_zombie);
    let has_other = move |thread| match sys::is_same_table(process, thread) {
        Ok(is_same) => !is_same,
        Err(_) => has_ended(),
    };
    let others = threads.map(|thread| thread.path()).filter(move |thread| {
        number_of(thread).is_some_and(|thread| thread != process && has_other(thread))
    });
    std::iter::once(folder).chain(others)
}

pub(super) fn number_of(path: &Path) -> Option<u32> {
    path.file_name()?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;

    /// Runs a script that ends with `sleep`, with a file as its standard input, and asks about that of the process
    /// which sleeps.
    fn is_sleeper_alone(script: &str) -> bool {
        is_sleeper_alone_after(script, || Ok(()))
    }

    /// The same, after something that is done before the script.
    fn is_sleeper_alone_after(script: &str, before: fn() -> io::Result<()>) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in");
        std::fs::write(&path, "line\n").unwrap();
        let mut command = Command::new("bash");
        command.args(["-c", script]).stdin(File::open(&path).unwrap()).stdout(Stdio::null());
        // In the session that the machine began with nobody may look at the first process.
        // SAFETY: async-signal-safe, and so is what tests do before.
        unsafe { command.pre_exec(move || sys::check(libc::setsid()).and_then(|_| before())) };
        let mut shell = command.spawn().unwrap();
        // It has the file, too.
        drop(command);
        let group = shell.id();
        let sleeps = |process: &u32| {
            let name = std::fs::read_to_string(format!("/proc/{process}/comm"));
            name.is_ok_and(|name| name == "sleep\n")
                && std::fs::read_to_string(format!("/proc/{process}/stat"))
                    .is_ok_and(|stat| stat.split(' ').nth(4) == Some(&group.to_string()))
        };
        let until = Instant::now() + Duration::from_secs(20);
        let sleeper = loop {
            if let Some(sleeper) = processes().unwrap().find(sleeps) {
                break sleeper;
            }
            assert!(Instant::now() < until, "{script}: nobody sleeps");
            sys::rest(Duration::from_millis(1));
        };
        let is_alone = is_alone(sleeper, 0);
        // SAFETY: only values are passed.
        unsafe { libc::kill(-(group as i32), libc::SIGKILL) };
        shell.wait().unwrap();
        is_alone
    }

    /// From here on the kernel refuses to say to this thread what is whose.
    fn refuse_kcmp() {
        let step = |code, skipped: u8, value| libc::sock_filter {
            code: code as u16,
            jt: 0,
            jf: skipped,
            k: value,
        };
        let mut steps = [
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
            step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, libc::SYS_kcmp as u32),
            step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
            step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        // SAFETY: the filter lives through the call, and concerns this thread alone.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter), 0);
        }
    }

    #[test]
    fn threads_that_share_a_table_are_looked_at_once() {
        let end = std::sync::Barrier::new(9);
        std::thread::scope(|scope| {
            (0..8).for_each(|_| drop(scope.spawn(|| end.wait())));
            let own = std::process::id();
            // Of other tests, threads begin and end.
            let is_one = move || tables(own).count() == 1;
            let with_kcmp = (0..100).any(|_| is_one());
            let without_kcmp = scope.spawn(move || {
                refuse_kcmp();
                is_one()
            });
            let without_kcmp = without_kcmp.join();
            // Before anything is asserted: they would wait for ever.
            end.wait();
            assert!(with_kcmp);
            assert!(without_kcmp.unwrap());
        });
    }

    /// Makes an io_uring that outlives exec. Its files: `count` of standard input.
    fn make_ring(count: usize) -> io::Result<()> {
        const REGISTER_FILES: i32 = 2;
        let mut parameters = [0u64; 15];
        let files = [0i32; 1];
        // SAFETY: a struct of that size, all zero; descriptors of this process.
        unsafe {
            let at = parameters.as_mut_ptr();
            let ring = sys::check(libc::syscall(libc::SYS_io_uring_setup, 1, at) as i32)?;
            let register = |count: usize| {
                let at = files.as_ptr();
                libc::syscall(libc::SYS_io_uring_register, ring, REGISTER_FILES, at, count) as i32
            };
            if count > 0 {
                sys::check(register(count))?;
            }
            sys::check(libc::fcntl(ring, libc::F_SETFD, 0)).map(drop)
        }
    }

    #[test]
    fn a_description_is_alone_unless_anyone_else_has_it() {
        // From inside of a container it is not seen who has it outside.
        let is_seen = !identity::is_in_own_pid_namespace().unwrap();
        let is_sleeper_alone_where_all_are_seen = |script| is_sleeper_alone(script) == is_seen;
        assert!(is_sleeper_alone_where_all_are_seen("exec sleep 100"));
        let reopened = "exec sleep 100 3< /proc/self/fd/0";
        assert!(is_sleeper_alone_where_all_are_seen(reopened), "another description");
        let reopened = "sleep 100 < /proc/self/fd/0; true";
        assert!(is_sleeper_alone_where_all_are_seen(reopened), "the shell has another one");
        assert!(!is_sleeper_alone("exec sleep 100 3<&0"), "by a second number");
        assert!(!is_sleeper_alone("sleep 100; true"), "its parent");
        assert!(!is_sleeper_alone("sleep 100 <&0 & exec sleep 100"), "its child");
        if make_ring(0).is_err() {
            return test_start::skip("io_uring");
        }
        let with_ring = |make| is_sleeper_alone_after("exec sleep 100", make);
        assert!(with_ring(|| make_ring(0)) == is_seen, "a ring without files");
        assert!(!with_ring(|| make_ring(1)), "a ring");
    }
}
