//! The guard: holds files for the living and finishes what the dead left pending.
//!
//! A process of its own, no child of the program and in nobody's way: its own session, no
//! descriptor of the caller's, no terminal, ended by no signal that a shell or a shutdown sends.
//! It ends with the last process of the tree.
//!
//! Two threads do it, no lock across a call that may block on data:
//! - *handles* answers asks, and alone opens and closes handles, allocates and frees write buffers. It
//!   never touches file data.
//! - the *reaper* sleeps until a process dies, and then writes what that process left. It also writes for
//!   a living process: what has waited for the maximum age while that process is quiet (`quiet`), and
//!   what another process wants in its files now. It may block on a slow file system; asks are answered
//!   meanwhile, and where it blocks for long another thread takes its place (`reapers`). It starts with the
//!   first ask: before that no death leaves anything, and each thread counts towards the user's limit of
//!   processes.
//!
//! A third thread (`alone`) starts with the first question whether a description is its process' alone.
//!
//! What a process stores in shared memory is believed only where it can do no harm beyond the process'
//! own rights: the handle decides which file is written, the write buffer that this guard gave out
//! decides which bytes. Both are remembered here and not read back.

pub mod alone;
mod deaths;
mod handles;
mod living;
mod name;
mod place;
mod reapers;
mod refused;
mod room;
mod servers;
mod taking;
mod unseen;
mod writers;

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use sweetspot_core::ledger::{ENTRIES_AT, ENTRIES_FIRST, ENTRIES_MAX, Entry, FLAG_TRACER};

use self::deaths::{Watch, Watched};
use self::handles::Handles;
use self::reapers::Reapers;
use self::refused::Refused;
use self::servers::Servers;
use crate::notes::Note;
use crate::sys::{self, Epoll, Mapping, Resource};
use crate::{filters, identity};

/// As `ps` and `pkill` see it: 15 bytes, the most that the kernel keeps.
const NAME: &std::ffi::CStr = c"sweetspot-guard";
/// How long the guard leaves the processor to the program that starts. Without it one start in ten
/// took 0.50 ms instead of 0.36 (60 starts, 2 cores, median 0.37 and 0.32).
const HEAD_START: Duration = Duration::from_micros(200);
/// Descriptors that are left for writing, and for saving beside, whatever handles take.
const RESERVED: u64 = 16;
/// So many answers in a row may come too late for an entry; its file's calls pass through then.
const LATE_MAX: u32 = 3;
/// The id of `due_event` among those of processes, which count from 1.
const DUE: u64 = 0;

/// Starts the guard of a ledger for `program`; the caller has one thread. The state folders are those
/// for notes and for costs.
pub(crate) fn start(
    file: &File,
    path: &Path,
    program: u32,
    states: [&[PathBuf]; 2],
) -> io::Result<()> {
    // Before the copy is made: the number cannot have passed to another process yet.
    let program_pidfd = sys::pidfd_open(program)?;
    let file = file.try_clone()?;
    sys::detach([file.into(), program_pidfd], |[file, program_pidfd]| {
        // Whatever happens in here, the program runs: writes just do not wait.
        match prepare(file.into(), path, program, program_pidfd, states) {
            Ok(guard) => {
                // It ends early only where the system refuses to tell of deaths, before anything waits.
                let _ = Handles::new(guard).live();
                guard.end()
            }
            // Nothing ever waited, and nobody else would remove it.
            Err(_) => drop(std::fs::remove_file(path)),
        }
    })
}

/// Everything up to the word that says that there is a guard.
fn prepare(
    file: File,
    path: &Path,
    program: u32,
    program_pidfd: OwnedFd,
    states: [&[PathBuf]; 2],
) -> io::Result<&'static Guard> {
    // The program first: it will not ask before it has been loaded.
    sys::rest(HEAD_START);
    let arguments = identity::process_stat(std::process::id()).ok().map(|stat| stat.arguments);
    let path = path.to_owned();
    sys::set_signals();
    sys::set_private_umask();
    sys::rename_process(NAME, arguments);
    be_the_last_to_go();
    // A handle is a descriptor; and what the program wrote under its own limits, it wrote.
    for resource in [Resource::Descriptors, Resource::FileBytes, Resource::CpuSeconds] {
        let _ = resource.raise();
    }
    // A filter could end this process for either.
    let may_copy = !filters::any();
    may_copy.then(sys::hold_proc);
    // A guard that lost a thread would be worse than none.
    std::panic::set_hook(Box::new(|_| sys::exit_now(1)));

    // Leaked: both threads use it until the process ends.
    let ledger = Mapping::new(&file)?;
    let reapers = Reapers::new(handles::clock_step(&ledger));
    let guard: &'static Guard = Box::leak(Box::new(Guard {
        ledger,
        file,
        path,
        states: states[0].to_vec(),
        costs: states[1].to_vec(),
        note: OnceLock::new(),
        is_nameless: AtomicBool::new(false),
        held: (0..ENTRIES_MAX).map(|_| Held::default()).collect(),
        watch: Mutex::new(Watch::default()),
        epoll: Epoll::new()?,
        namespace: identity::pid_namespace()?,
        may_copy,
        descriptors: Resource::Descriptors.limit().map_or(0, |(soft, _)| soft),
        reapers,
        servers: Servers::default(),
        due_event: sys::Event::new().ok(),
    }));
    if let Some(event) = &guard.due_event {
        guard.epoll.add(event.as_fd(), DUE)?;
    }
    guard.lock_watch().register(
        &guard.epoll,
        Watched { pid: program, slot: 0, start_ticks: 0 },
        program_pidfd,
    )?;
    guard.make_entries(ENTRIES_FIRST)?;
    guard.note_tracer();
    sys::own_until_death(&guard.ledger.header.guard)?;
    Ok(guard)
}

/// The guard holds what others wrote, where memory is short, too. Both may be refused.
fn be_the_last_to_go() {
    for score in ["-900", "0"] {
        if std::fs::write("/proc/self/oom_score_adj", score).is_ok() {
            break;
        }
    }
}

/// What the guard holds for an entry. The handles thread writes it, before the entry's state says so.
#[derive(Default)]
struct Held {
    /// The `O_PATH` descriptor, or the copy of the description, plus one; 0: none.
    handle: AtomicI32,
    is_copy: AtomicBool,
    /// What tells the path by which the file is noted from others.
    named: AtomicU64,
    /// The number of the file's device.
    device: AtomicU64,
    /// Whether a server has it.
    is_served: AtomicBool,
    /// The reaper is about to close the handle.
    is_closing: AtomicBool,
    /// The word of an ask that is refused as soon as the handle is closed.
    refused: AtomicU64,
    /// Where its write buffer is, from the start of the ledger; 0: none.
    write_buffer_at: AtomicU64,
    write_buffer_bytes: AtomicU64,
    /// The id under which the owner is watched; 0: nobody.
    owner: AtomicU64,
    /// So many answers in a row came too late.
    late_answers: AtomicU32,
}

impl Held {
    fn handle(&self) -> Option<BorrowedFd<'_>> {
        let handle = self.handle.load(SeqCst);
        // The handles thread closes it only when no call of the reaper uses it; the reaper looks at it within the call.
        (handle != 0).then(|| sys::borrow(handle - 1))
    }

    /// One answer more comes too late.
    fn late(&self) -> Refused {
        match self.late_answers.fetch_add(1, SeqCst) + 1 {
            LATE_MAX.. => Refused::ForGood,
            _ => Refused::Later,
        }
    }
}

struct Guard {
    ledger: Mapping,
    /// Its description has the ledger's flock.
    file: File,
    path: PathBuf,
    /// Where the ledger may be noted; none: it is not.
    states: Vec<PathBuf>,
    /// Where what calls cost is kept.
    costs: Vec<PathBuf>,
    /// The note, made before the first grant; `None`: it could not be made.
    note: OnceLock<Option<Note>>,
    /// The path led elsewhere, or nowhere, at some look.
    is_nameless: AtomicBool,
    held: Vec<Held>,
    watch: Mutex<Watch>,
    epoll: Epoll,
    namespace: u64,
    /// Whether no filter of system calls could end this process for a copy that is not needed.
    may_copy: bool,
    /// As many as this process may have.
    descriptors: u64,
    /// Who writes, and what is due; and what wakes the reaper for that.
    reapers: Reapers,
    due_event: Option<sys::Event>,
    servers: Servers,
}

impl Guard {
    fn lock_watch(&self) -> std::sync::MutexGuard<'_, Watch> {
        // A panic ends the process, so nobody ever sees a poisoned lock.
        self.watch.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Notes whether who copies descriptors must be named by whose they are. Here, as no program waits for it, and
    /// nobody asks before there is a guard.
    fn note_tracer(&self) {
        if identity::names_its_tracer() {
            self.ledger.header.flags.fetch_or(FLAG_TRACER, SeqCst);
        }
    }

    /// Whether enough descriptors are left beside one that was just opened: the kernel gives the lowest number.
    fn leaves_reserve(&self, new: &impl AsRawFd) -> bool {
        new.as_raw_fd() as u64 + RESERVED < self.descriptors
    }

    fn entries(&self) -> impl Iterator<Item = (usize, &Entry)> {
        self.ledger.entries().iter().enumerate()
    }

    /// Gives memory to the first `count` entries. A page of it takes a microsecond, so there are few
    /// until they are needed.
    ///
    /// # Errors
    /// The memory file system is full; there are as many as before then.
    fn make_entries(&self, count: u32) -> io::Result<()> {
        let ready = &self.ledger.header.entries_ready;
        let [begin, end] = [ready.load(SeqCst), count]
            .map(|count| (ENTRIES_AT + count as usize * size_of::<Entry>()) as u64);
        sys::allocate(&self.file, begin, end - begin)?;
        ready.store(count, SeqCst);
        Ok(())
    }

    /// Doubles the entries that have memory where half of them are in use.
    fn make_more_entries(&self) {
        let header = &self.ledger.header;
        let ready = header.entries_ready.load(SeqCst);
        let used: u32 = header.used_bits.iter().map(|bits| bits.load(SeqCst).count_ones()).sum();
        if used >= ready / 2 && (ready as usize) < ENTRIES_MAX {
            // Where that fails, a file gets its entry when another one is closed.
            let _ = self.make_entries((ready * 2).min(ENTRIES_MAX as u32));
        }
    }
}
