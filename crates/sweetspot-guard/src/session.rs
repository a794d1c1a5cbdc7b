//! Makes the ledger of one `run`, fills in what is in force, and reads the summary afterwards
//! (`summary`).
//!
//! A ledger is a file of its own in shared memory, for its maker alone, locked from the moment of
//! its making until the guard ends. It becomes a ledger by its magic number, which is stored last;
//! a file without one is still in the making, or its maker died.

mod summary;

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};

use sweetspot_core::ledger::{
    BUFFER_AUTO, BUFFER_OFF, BUFFER_UNSET, ENTRIES_AT, Entry, FILES_AT, FLAG_GUARD, FLAG_STDIO,
    FLAG_SUMMARY, FLAG_TRACER, FOLDER, Ledger, MAGIC, NAME_PREFIX, RULE_AUTO, RULE_STDIO,
    RULE_UNOBSERVED, RULES_AT, RULES_MAX, Slot, TEXT_BYTES_MAX, WRITE_BUFFERS_AT,
    WRITE_BUFFERS_BYTES_MAX,
};
use sweetspot_core::pending::{is_anything_pending, is_let_go, is_seen_to, waiting_of};
use sweetspot_core::policy::{MAX_AGE_MS, MAX_AGE_NAMESPACE_MS};
use sweetspot_core::size::BufferSize;

pub use self::summary::{Chosen, FileSummary, Summary};
use crate::error::{Error, ErrorKind};
use crate::filters::{self, Filters};
use crate::sys::Mapping;
use crate::{costs, guard, identity, sys};

/// So long the files of the dead are waited for, once all is in them.
const FREE_MAX: Duration = Duration::from_secs(1);

/// What is in force for one `run`.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The size where no rule says otherwise.
    pub buffer: BufferSize,
    /// In order; the first that matches wins. At most 64.
    pub rules: Vec<Rule>,
    /// A summary is wanted: processes record what they did with which file.
    pub summary: bool,
    /// How long a byte may wait, in milliseconds at the finest; `None`: a second, or a tenth of one
    /// in a pid namespace of its own (a container), whose end is the guard's end too.
    pub max_age: Option<Duration>,
    /// Calls that stdio makes are buffered like any others.
    pub stdio: bool,
    /// Writes may wait, so a guard will be started.
    pub guard: bool,
    /// The user's state folders: in the first that can be used the guard notes the ledger before
    /// anything waits in it, and where there is none nothing waits. Without any it is not noted, and
    /// `recover` takes it by name only.
    pub notes: Vec<PathBuf>,
    /// The user's state folders for what calls cost: in the first that can be used it is kept.
    pub costs: Vec<PathBuf>,
}

impl Default for Settings {
    /// Automatic sizes, the age of the place, writes may wait; no summary, no rules, no stdio, no note.
    fn default() -> Settings {
        Settings {
            buffer: BufferSize::Auto,
            rules: Vec::new(),
            summary: false,
            max_age: None,
            stdio: false,
            guard: true,
            notes: Vec::new(),
            costs: Vec::new(),
        }
    }
}

/// One rule of `sweetspot.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Glob over the program's file name; empty: every program. At most 256 bytes.
    pub program: String,
    /// Glob over the file's path; empty: every file. At most 256 bytes.
    pub file: String,
    /// None: the rule does not say.
    pub buffer: Option<BufferSize>,
    /// Nobody looks at the file before it is closed.
    pub unobserved: bool,
    /// stdio's calls are buffered too.
    pub stdio: bool,
    /// It only says what `auto` means for these files.
    pub auto: bool,
}

/// A ledger that this process made.
pub struct OwnedLedger {
    ledger: Mapping,
    path: PathBuf,
    /// Holds the flock until the guard does.
    file: Option<File>,
    /// See [`Settings::notes`], [`Settings::costs`].
    notes: Vec<PathBuf>,
    costs: Vec<PathBuf>,
}

/// The size as the ledger holds it.
fn buffer_word(buffer: BufferSize) -> u32 {
    match buffer {
        BufferSize::Off => BUFFER_OFF,
        BufferSize::Auto => BUFFER_AUTO,
        BufferSize::Bytes(bytes) => bytes,
    }
}

pub(crate) const MAKE: &str = "make the ledger in";

impl OwnedLedger {
    /// Makes a ledger in [`FOLDER`].
    ///
    /// # Errors
    /// Each means that nothing was left behind and that the program can still run, with reads
    /// buffered only (the error says why).
    pub fn create(settings: &Settings) -> Result<OwnedLedger, Error> {
        OwnedLedger::create_in(settings, Path::new(FOLDER))
    }

    /// Makes a ledger in a folder of a memory file system.
    ///
    /// # Errors
    /// As [`OwnedLedger::create`].
    pub fn create_in(settings: &Settings, folder: &Path) -> Result<OwnedLedger, Error> {
        check_rules(&settings.rules)?;
        let full_bytes = WRITE_BUFFERS_AT + WRITE_BUFFERS_BYTES_MAX;
        // Growing a file beyond the limit would kill this process with SIGXFSZ.
        let (limit_bytes, _) =
            sys::Resource::FileBytes.limit().map_err(|error| Error::system(MAKE, folder, error))?;
        if limit_bytes < size_of::<Ledger>() as u64 {
            return Err(Error::new(MAKE, folder, ErrorKind::FileSizeLimit, None));
        }
        let has_write_buffers = limit_bytes >= full_bytes;
        let size = if has_write_buffers { full_bytes } else { size_of::<Ledger>() as u64 };

        let (path, file) = make_file(folder)?;
        let made = fill(&file, size, settings, has_write_buffers);
        match made {
            Ok(ledger) => {
                let (notes, costs) = (settings.notes.clone(), settings.costs.clone());
                Ok(OwnedLedger { ledger, path, file: Some(file), notes, costs })
            }
            Err(error) => Err(not_made(&path, folder, error)),
        }
    }

    /// The ledger's file, for the program's environment.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many seccomp filters are in force that allow what the library does.
    pub fn allowed_filters(&self) -> u32 {
        self.ledger.header.seccomp_filters.load(Relaxed)
    }

    /// The ledger itself.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Whether writes may wait: settings and limits allow it, and starting the guard has not failed.
    pub fn is_guarded(&self) -> bool {
        self.ledger.header.flags.load(SeqCst) & FLAG_GUARD != 0
    }

    /// Starts the guard, which lives until `program` and every process of its tree are dead. To be
    /// called once, by the process that becomes the program or that has it as a child and waits.
    ///
    /// The caller must have one thread. It gets no child, no signal and no descriptor by this, and
    /// the ledger's lock passes to the guard. It does not wait until the guard is ready: writes wait
    /// for nobody until it is.
    ///
    /// # Errors
    /// Each means that writes will not wait; the ledger says so to the program.
    pub fn start_guard(&mut self, program: u32) -> Result<(), Error> {
        let result = self.start_guard_now(program);
        if result.is_err() {
            self.ledger.header.flags.fetch_and(!FLAG_GUARD, SeqCst);
        }
        result
    }

    fn start_guard_now(&mut self, program: u32) -> Result<(), Error> {
        const START: &str = "start the guard for";
        let target = PathBuf::from(format!("process {program}"));
        let system = |error| Error::system(START, &target, error);
        if !self.is_guarded() {
            return Err(Error::new(START, &target, self.why_unguarded(), None));
        }
        if std::process::id() == 1 || identity::begins_a_pid_namespace().map_err(system)? {
            return Err(Error::new(START, &target, ErrorKind::InitProcess, None));
        }
        if identity::thread_count().map_err(system)? != 1 {
            return Err(Error::new(START, &target, ErrorKind::Threads, None));
        }
        let Some(file) = &self.file else {
            return Err(Error::new(START, &target, ErrorKind::InUse, None));
        };
        guard::start(file, &self.path, program, [&self.notes, &self.costs]).map_err(system)?;
        self.file = None;
        Ok(())
    }

    /// Why there is to be no guard from the first.
    fn why_unguarded(&self) -> ErrorKind {
        let is_limited = sys::Resource::FileBytes
            .limit()
            .is_ok_and(|(bytes, _)| bytes < WRITE_BUFFERS_AT + WRITE_BUFFERS_BYTES_MAX);
        match () {
            () if self.notes.is_empty() => ErrorKind::NotNoted,
            () if filters::any() && self.allowed_filters() == 0 && !is_limited => ErrorKind::Filter,
            () => ErrorKind::FileSizeLimit,
        }
    }

    /// Whether the guard is there: it has begun and has not ended.
    pub fn guard_is_alive(&self) -> bool {
        let word = self.ledger.header.guard.load(SeqCst);
        word != 0 && word & sys::FUTEX_OWNER_DIED == 0
    }

    /// Waits until the guard has finished what the dead process `pid` left, and whoever else of the run is dead by
    /// then: at most `limit` until it is in its files, and a second until those are free. Says whether nothing of it
    /// is pending any more.
    pub fn wait_finished(&self, pid: u32, limit: Duration) -> bool {
        let is_pending = |entry: &Entry| waiting_of(entry.word.load(SeqCst)) > 0;
        let is_kept = |entry: &Entry| is_seen_to(entry) || is_let_go(entry);
        let is_finished = self.wait_while(pid, limit, Duration::from_millis(100), &is_pending);
        // Nobody is told when a file is free.
        let _ = is_finished && self.wait_while(pid, FREE_MAX, Duration::from_millis(1), &is_kept);
        is_finished
    }

    /// Waits while this is so of an entry of somebody dead: in slices, as the guard might die in the middle.
    fn wait_while(
        &self,
        pid: u32,
        limit: Duration,
        slice: Duration,
        is_so: &dyn Fn(&Entry) -> bool,
    ) -> bool {
        let begun = Instant::now();
        while let Some((slot, done)) = self.slot_of_the_dead(pid, is_so) {
            let left = limit.saturating_sub(begun.elapsed());
            if left.is_zero() || !self.guard_is_alive() {
                return false;
            }
            sys::futex_wait(&slot.done, done, Some(left.min(slice)));
        }
        true
    }

    /// The slot of somebody dead of whom an entry is so, and its count of what is done as it was before.
    fn slot_of_the_dead(&self, pid: u32, is_so: &dyn Fn(&Entry) -> bool) -> Option<(&Slot, u32)> {
        self.ledger.entries().iter().filter(|entry| is_so(entry)).find_map(|entry| {
            let index = entry.slot.load(SeqCst) as usize;
            let slot = self.ledger.slots.get(index).filter(|_| index > 0)?;
            let done = slot.done.load(SeqCst);
            let owner = slot.pid.load(SeqCst);
            // Where the slot is free already, only what its owner had is not.
            let is_dead = owner == 0 || owner == pid || is_dead(owner);
            (is_dead && is_so(entry)).then_some((slot, done))
        })
    }

    /// Removes the ledger's file if it is still there and nothing is pending in it. To be called
    /// where no guard was started; a guard removes the file itself.
    ///
    /// # Errors
    /// In use: bytes are pending.
    pub fn remove(&self) -> Result<(), Error> {
        const REMOVE: &str = "remove the ledger";
        if is_anything_pending(&self.ledger) {
            return Err(Error::new(REMOVE, &self.path, ErrorKind::InUse, None));
        }
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::system(REMOVE, &self.path, error))
            }
            _ => Ok(()),
        }
    }
}

/// Whether a process is known to be dead, or to end: who kills a group of them learns of one death first.
fn is_dead(pid: u32) -> bool {
    match identity::process_stat(pid) {
        Ok(stat) => stat.is_zombie || stat.is_ending,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Whether the ledger at `path` is one that a `run` inside of another one can use too: the user's own,
/// with a guard that lives, in this pid namespace, without rules, and with nothing that is only its
/// maker's.
pub fn can_be_joined(path: &Path) -> bool {
    let flags = libc::O_RDWR | libc::O_NOFOLLOW | libc::O_NOCTTY;
    let Ok(file) = sys::open(path, flags, 0).map(File::from) else { return false };
    let ours = sys::status(&file).is_ok_and(|status| status.is_private());
    let Ok(ledger) = Mapping::new(&file) else { return false };
    let header = &ledger.header;
    let guard = header.guard.load(SeqCst);
    ours && header.magic.load(SeqCst) == MAGIC
        && header.flags.load(SeqCst) & !(FLAG_SUMMARY | FLAG_TRACER) == FLAG_GUARD
        && (guard == 0 || guard & sys::FUTEX_OWNER_DIED == 0)
        && header.rules.load(SeqCst) == 0
        && identity::pid_namespace().is_ok_and(|own| own == header.pid_namespace.load(SeqCst))
}

fn check_rules(rules: &[Rule]) -> Result<(), Error> {
    const PUT: &str = "put the rules in force of";
    let error = |kind| Err(Error::new(PUT, "sweetspot.toml", kind, None));
    if rules.len() > RULES_MAX {
        return error(ErrorKind::TooManyRules);
    }
    if rules.iter().any(|rule| rule.program.len().max(rule.file.len()) > TEXT_BYTES_MAX) {
        return error(ErrorKind::TextTooLong);
    }
    Ok(())
}

/// Makes the file, locked and empty.
pub(crate) fn make_file(folder: &Path) -> Result<(PathBuf, File), Error> {
    if !Path::new("/proc/self/stat").exists() {
        return Err(Error::new(MAKE, folder, ErrorKind::NoProcesses, None));
    }
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
    let make = || {
        let random = sys::random()?;
        let name = format!("{NAME_PREFIX}{}-{random:016x}", sys::effective_uid());
        let path = folder.join(name);
        let file = File::from(sys::open(&path, flags, 0o600)?);
        // The umask of the caller may have taken bits away; nobody else gets any.
        let locked = sys::lock(&file, sys::Patience::Wait).and_then(|()| {
            file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))
        });
        if locked.is_err() {
            let _ = std::fs::remove_file(&path);
        }
        locked.map(|()| (path, file))
    };
    make().map_err(|error: io::Error| {
        let kind = match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => ErrorKind::NoSpace,
            _ => ErrorKind::NoSharedMemory,
        };
        Error::new(MAKE, folder, kind, error)
    })
}

/// What filling a new ledger failed with; nothing of it is left behind.
pub(crate) fn not_made(path: &Path, folder: &Path, error: io::Error) -> Error {
    let _ = std::fs::remove_file(path);
    let kind = match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => ErrorKind::NoSpace,
        Some(libc::EOPNOTSUPP) => ErrorKind::NoSharedMemory,
        _ => ErrorKind::System,
    };
    Error::new(MAKE, folder, kind, error)
}

/// Gives the file its size and memory, and stores the settings.
pub(crate) fn fill(
    file: &File,
    size: u64,
    settings: &Settings,
    has_write_buffers: bool,
) -> io::Result<Mapping> {
    file.set_len(size)?;
    // All that processes touch is allocated before they may touch it: a full memory file system is an error here and
    // now, and can never be a SIGBUS later. A page costs a microsecond, so what is not needed yet is left to the guard,
    // which starts beside the program. Records of files are needed only for a summary, and rules where there are any.
    let needed_bytes = match (settings.summary, settings.rules.is_empty()) {
        (true, _) => ENTRIES_AT,
        (false, false) => FILES_AT,
        (false, true) => RULES_AT,
    };
    sys::allocate(file, 0, needed_bytes as u64)?;
    let missing_bytes = (size_of::<Ledger>() - ENTRIES_AT) as u64;
    if settings.guard && has_write_buffers && sys::free_bytes(file)? < missing_bytes {
        return Err(io::Error::from_raw_os_error(libc::ENOSPC));
    }
    let age_ms = match settings.max_age {
        Some(age) => u32::try_from(age.as_millis()).unwrap_or(u32::MAX),
        None if identity::is_in_own_pid_namespace().unwrap_or(false) => MAX_AGE_NAMESPACE_MS,
        None => MAX_AGE_MS,
    };
    let (filters, boot) = (Filters::in_force(), identity::boot()?);
    let pid_namespace = identity::pid_namespace()?;
    let ledger = Mapping::new(file)?;
    let header = &ledger.header;
    // All that takes time has been asked: what is killed before the first store leaves what is known as empty.
    costs::load(&settings.costs, boot, &header.devices);
    header.uid.store(sys::effective_uid(), Relaxed);
    header.buffer.store(buffer_word(settings.buffer), Relaxed);
    header.max_age_ms.store(age_ms, Relaxed);
    let flag = |wanted: bool, flag| if wanted { flag } else { 0 };
    header.flags.store(
        flag(settings.summary, FLAG_SUMMARY)
            | flag(settings.guard && has_write_buffers && filters != Filters::Refuse, FLAG_GUARD)
            | flag(settings.stdio, FLAG_STDIO),
        Relaxed,
    );
    // The guard looks how much memory there is.
    header.budget_bytes.store(u64::MAX, Relaxed);
    header.seccomp_filters.store(filters.allowed(), Relaxed);
    header.boot.store(boot, Relaxed);
    header.pid_namespace.store(pid_namespace, Relaxed);
    for (rule, from) in ledger.rules.iter().zip(&settings.rules) {
        rule.program.store(from.program.as_bytes());
        rule.file.store(from.file.as_bytes());
        rule.buffer.store(from.buffer.map_or(BUFFER_UNSET, buffer_word), Relaxed);
        let flags =
            [(from.unobserved, RULE_UNOBSERVED), (from.stdio, RULE_STDIO), (from.auto, RULE_AUTO)];
        let flags = flags.map(|(wanted, bit)| flag(wanted, bit));
        rule.flags.store(flags.into_iter().sum(), Relaxed);
    }
    header.rules.store(settings.rules.len() as u32, Relaxed);
    header.magic.store(MAGIC, SeqCst);
    Ok(ledger)
}
