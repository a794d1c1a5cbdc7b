//! Whether a description that was open before its process started is that process' alone, as in `prog < in`:
//! then what it reads may come from a window, and its position be in memory. Anyone else who has the
//! description would read on from an offset that is not the position.
//!
//! Whoever else has it got it from a process that had it: by a fork, a spawn, an exec or a message. So it is
//! looked for in every process that may be looked at; and of those that may not (another user's, as `sudo`
//! is), none may be the asker's parent or in its session.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use sweetspot_core::ledger::{Entry, STATE_HELD, STATE_REFUSED, next_state};

use super::Guard;
use crate::identity::{ProcessStat, process_stat};
use crate::sys::{self, Status};

/// So many descriptors are looked at for one answer. Where there are more it is no.
const DESCRIPTORS_MAX: usize = 1 << 18;
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
        let entry = &guard.ledger.entries[question.index];
        let is_alone = is_asked_for(entry, &question) && is_alone(question.pid, question.fd);
        let state = if is_alone { STATE_HELD } else { STATE_REFUSED };
        let next = next_state(question.word, state);
        // Where that fails, nobody wants to know any more.
        let _ = entry.state.compare_exchange(question.word, next, SeqCst, SeqCst);
        // Where many processes have many descriptors, and many ask, most of a processor is left to others.
        std::thread::sleep(begun.elapsed() * RESTS);
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
fn is_alone(pid: u32, fd: i32) -> bool {
    look(pid, fd).unwrap_or(false)
}

fn look(pid: u32, fd: i32) -> io::Result<bool> {
    let asker = process_stat(pid)?;
    let file = sys::status_behind(&PathBuf::from(format!("/proc/{pid}/fd/{fd}")))?;
    // Where the first process cannot be seen, others that matter may not be seen either; and without a parent
    // that can be looked at, that one may have it.
    process_stat(1)?;
    fs::read_dir(format!("/proc/{}/fd", asker.parent))?;
    if !sys::is_same_description((pid, fd), (pid, fd))? {
        return Ok(false);
    }
    let mut room = DESCRIPTORS_MAX;
    for process in processes()?.filter(|process| *process != std::process::id()) {
        for table in tables(process) {
            let descriptors = match fs::read_dir(table.join("fd")) {
                Ok(descriptors) => descriptors,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(_) if is_elsewhere(process, asker) => continue,
                Err(error) => return Err(error),
            };
            for link in descriptors.flatten().map(|link| link.path()) {
                let (Some(holder), Some(number)) = (number_of(&table), number_of(&link)) else {
                    continue;
                };
                let other = (holder, number as i32);
                room -= 1;
                if room == 0 || other != (pid, fd) && is_holder(&link, other, (pid, fd), file) {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

/// Whether a descriptor is of the asker's description. Where the kernel does not say, one of the same file may be.
fn is_holder(link: &Path, other: (u32, i32), asker: (u32, i32), file: Status) -> bool {
    let is_its_file = |found: Status| (found.device, found.inode) == (file.device, file.inode);
    sys::is_same_description(asker, other)
        .unwrap_or_else(|_| sys::status_behind(link).is_ok_and(is_its_file))
}

/// Whether a process that may not be looked at is gone, or in another session.
fn is_elsewhere(process: u32, asker: ProcessStat) -> bool {
    match process_stat(process) {
        Ok(stat) => stat.is_zombie || stat.session != asker.session,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

fn processes() -> io::Result<impl Iterator<Item = u32>> {
    Ok(fs::read_dir("/proc")?.flatten().filter_map(|entry| number_of(&entry.path())))
}

/// The folders of a process' tables of descriptors: its own, and those of threads that have another one.
fn tables(process: u32) -> impl Iterator<Item = PathBuf> {
    let folder = PathBuf::from(format!("/proc/{process}"));
    let threads = fs::read_dir(folder.join("task")).into_iter().flatten().flatten();
    let others = threads.map(|thread| thread.path()).filter(move |thread| {
        let thread = number_of(thread).filter(|thread| *thread != process);
        thread.is_some_and(|thread| !sys::have_same_table(process, thread))
    });
    std::iter::once(folder).chain(others)
}

fn number_of(path: &Path) -> Option<u32> {
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
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in");
        std::fs::write(&path, "line\n").unwrap();
        let mut command = Command::new("bash");
        command.args(["-c", script]).stdin(File::open(&path).unwrap()).stdout(Stdio::null());
        let mut shell = command.process_group(0).spawn().unwrap();
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
            std::thread::sleep(Duration::from_millis(1));
        };
        let is_alone = is_alone(sleeper, 0);
        // SAFETY: only values are passed.
        unsafe { libc::kill(-(group as i32), libc::SIGKILL) };
        shell.wait().unwrap();
        is_alone
    }

    #[test]
    fn a_description_is_alone_unless_anyone_else_has_it() {
        assert!(is_sleeper_alone("exec sleep 100"));
        assert!(is_sleeper_alone("exec sleep 100 3< /proc/self/fd/0"), "another description");
        assert!(is_sleeper_alone("sleep 100 < /proc/self/fd/0; true"), "the shell has another one");
        assert!(!is_sleeper_alone("exec sleep 100 3<&0"), "by a second number");
        assert!(!is_sleeper_alone("sleep 100; true"), "its parent");
        assert!(!is_sleeper_alone("sleep 100 <&0 & exec sleep 100"), "its child");
    }
}
