//! A small client of the guard that follows the protocol in the crate's documentation, and the
//! processes that tests are made of.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use sweetspot_core::ledger::*;
use sweetspot_core::pending::{flushed, length_of};
use sweetspot_guard::{Error, OwnedLedger, Settings};

/// No answer of the guard may take longer in any test.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `task` in a copy of this process; the test thread is its only thread. A panic ends it with
/// 101 and a message on the real stderr.
pub fn fork(task: impl FnOnce()) -> u32 {
    // SAFETY: libc keeps its allocator usable in the child, and nothing else that other threads may
    // hold a lock of is used there.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
    if pid == 0 {
        // Whatever becomes of a test, nothing of it stays.
        // SAFETY: only values are passed.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        std::panic::set_hook(Box::new(|info| {
            let _ = writeln!(std::io::stderr(), "in a child: {info}");
        }));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(task));
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(if result.is_ok() { 0 } else { 101 }) };
    }
    pid as u32
}

/// Waits for a child and returns its raw status.
pub fn wait(pid: u32) -> i32 {
    let mut status = 0;
    // SAFETY: one live int is passed.
    let result = unsafe { libc::waitpid(pid as i32, &mut status, 0) };
    assert_eq!(result, pid as i32, "waitpid: {}", std::io::Error::last_os_error());
    status
}

/// Runs `task` in a child and passes its failure on.
pub fn in_child(task: impl FnOnce()) {
    let pid = fork(task);
    assert_eq!(wait(pid), 0, "the child failed, see its message");
}

pub fn kill(pid: u32) {
    // SAFETY: only values are passed.
    let result = unsafe { libc::kill(pid as i32, libc::SIGKILL) };
    assert_eq!(result, 0, "kill: {}", std::io::Error::last_os_error());
}

/// Waits until `condition` holds.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Whether any thread of the process lives; one that is dead but not waited for does not.
pub fn is_process(pid: u32) -> bool {
    // SAFETY: values and one live pollfd are passed; the new descriptor belongs to nobody else.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0) as i32;
        if fd == -1 {
            return false;
        }
        let fd = File::from_raw_fd(fd);
        let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        libc::poll(&mut poll, 1, 0) == 0
    }
}

/// Words that this process and its children share.
pub fn shared<const N: usize>() -> &'static [AtomicU64; N] {
    // SAFETY: a new mapping of at least that size, never unmapped; zeros are valid atomics.
    unsafe {
        let address = libc::mmap(
            std::ptr::null_mut(),
            size_of::<[AtomicU64; N]>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(address, libc::MAP_FAILED);
        &*address.cast()
    }
}

/// A folder in shared memory, removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, SeqCst);
        let name = format!("/dev/shm/guard-test-{}-{number}", std::process::id());
        std::fs::create_dir(&name).unwrap();
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&name, all).unwrap();
        Folder(name.into())
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn names(&self) -> Vec<String> {
        let names = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            names.map(|name| name.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A program that `run` started: a process that made a session, has a guard, and sleeps.
pub struct Program {
    pub pid: u32,
    pub ledger: PathBuf,
}

impl Program {
    pub fn start(folder: &Path, settings: &Settings) -> Program {
        Program::start_after(folder, settings, || ())
    }

    /// `before` runs in the program before it makes the session.
    pub fn start_after(folder: &Path, settings: &Settings, before: impl FnOnce()) -> Program {
        let (mut from, to) = pipe();
        let pid = fork(|| {
            before();
            let session = (|| -> Result<OwnedLedger, Error> {
                let mut session = OwnedLedger::create_in(settings, folder)?;
                session.start_guard(std::process::id())?;
                Ok(session)
            })()
            .unwrap();
            let path = session.path().as_os_str().as_bytes();
            let mut to = to;
            to.write_all(&[path.len() as u8]).unwrap();
            to.write_all(path).unwrap();
            loop {
                // SAFETY: takes nothing.
                unsafe { libc::pause() };
            }
        });
        let mut len = [0];
        from.read_exact(&mut len).unwrap();
        let mut path = vec![0; len[0] as usize];
        from.read_exact(&mut path).unwrap();
        Program { pid, ledger: std::ffi::OsStr::from_bytes(&path).into() }
    }

    pub fn end(&self) {
        kill(self.pid);
        wait(self.pid);
    }
}

fn pipe() -> (File, File) {
    let mut fds = [0; 2];
    // SAFETY: room for two descriptors is passed, which belong to nobody else.
    unsafe {
        assert_eq!(libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (File::from_raw_fd(fds[0]), File::from_raw_fd(fds[1]))
    }
}

/// A process' view of the ledger.
pub struct Client {
    pub ledger: &'static Ledger,
    file: File,
    pub slot: usize,
    /// Where the bytes of files that are asked for belong.
    pub place: u32,
}

/// What a client gets wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    None,
    NotReady,
    StartTime,
    Namespace,
    Inode,
    Descriptor,
    Slot,
}

impl Client {
    /// Maps the ledger without a slot.
    pub fn look(path: &Path) -> Client {
        let file = File::options().read(true).write(true).open(path).unwrap();
        // SAFETY: a new shared mapping that stays; a ledger is at least as large.
        let ledger = unsafe {
            let address = libc::mmap(
                std::ptr::null_mut(),
                size_of::<Ledger>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            );
            assert_ne!(address, libc::MAP_FAILED);
            &*address.cast::<Ledger>()
        };
        assert_eq!(ledger.header.magic.load(SeqCst), MAGIC);
        Client { ledger, file, slot: 0, place: PLACE_BASE }
    }

    /// Maps the ledger and claims a slot, as the library does at the start.
    pub fn join(path: &Path) -> Client {
        let mut client = Client::look(path);
        let pid = std::process::id();
        let is_claimed = |slot: &Slot| slot.pid.compare_exchange(0, pid, SeqCst, SeqCst).is_ok();
        client.slot = (1..SLOTS_MAX).find(|slot| is_claimed(&client.ledger.slots[*slot])).unwrap();
        client
    }

    fn own_slot(&self) -> &Slot {
        &self.ledger.slots[self.slot]
    }

    /// Says who it is, as the library does before the first ask.
    pub fn introduce(&self, lie: Lie) {
        let slot = self.own_slot();
        let start = start_ticks(std::process::id());
        slot.start_ticks.store(start + u64::from(lie == Lie::StartTime), SeqCst);
        let namespace = std::fs::metadata("/proc/self/ns/pid").unwrap().ino();
        slot.pid_namespace.store(namespace + u64::from(lie == Lie::Namespace), SeqCst);
        slot.ready.store(u32::from(lie != Lie::NotReady), SeqCst);
    }

    pub fn guard(&self) -> u32 {
        until("the guard begins", || self.ledger.header.guard.load(SeqCst) != 0);
        self.ledger.header.guard.load(SeqCst)
    }

    pub fn poke(&self, entry: usize) {
        let header = &self.ledger.header;
        header.ask_bits[entry / 64].fetch_or(1 << (entry % 64), SeqCst);
        self.wake();
    }

    pub fn wake(&self) {
        let header = &self.ledger.header;
        header.asks.fetch_add(1, SeqCst);
        if header.guard_naps.load(SeqCst) == 1 {
            let word = header.asks.as_ptr();
            // SAFETY: the word is live.
            unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX, 0, 0, 0) };
        }
    }

    /// Claims an entry and asks for a handle on `file`.
    pub fn ask(&self, file: File, path: &Path, write_buffer_bytes: u64, lie: Lie) -> Writer<'_> {
        self.guard();
        let (index, entry) = (self.ledger.entries().iter().enumerate())
            .find(|(_, entry)| {
                let word = entry.state.load(SeqCst);
                let next = next_state(word, STATE_OWNED);
                state_of(word) == STATE_FREE
                    && entry.state.compare_exchange(word, next, SeqCst, SeqCst).is_ok()
            })
            .unwrap();
        self.ledger.header.used_bits[index / 64].fetch_or(1 << (index % 64), SeqCst);
        entry.slot.store(if lie == Lie::Slot { 0 } else { self.slot as u32 }, SeqCst);
        entry.word.store(flushed(entry.word.load(SeqCst)), SeqCst);
        let metadata = file.metadata().unwrap();
        entry.device.store(metadata.dev(), SeqCst);
        entry.inode.store(metadata.ino() + u64::from(lie == Lie::Inode), SeqCst);
        let fd = if lie == Lie::Descriptor { 999 } else { file.as_raw_fd() };
        entry.fd.store(fd, SeqCst);
        entry.place.store(self.place, SeqCst);
        entry.arrived.store(0, SeqCst);
        entry.path.store(path.as_os_str().as_bytes());
        let mut writer = Writer {
            client: self,
            index,
            entry,
            file,
            write_buffer: std::ptr::null_mut(),
            bytes: 0,
        };
        writer.ask_again(write_buffer_bytes);
        writer
    }
}

pub fn start_ticks(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let rest = text.rsplit_once(')').unwrap().1;
    rest.split_ascii_whitespace().nth(19).unwrap().parse().unwrap()
}

/// A file whose writes may wait.
pub struct Writer<'a> {
    client: &'a Client,
    pub index: usize,
    pub entry: &'a Entry,
    pub file: File,
    write_buffer: *mut u8,
    pub bytes: u64,
}

impl Writer<'_> {
    /// Asks for a handle and waits for the answer. The owner of the file is at its end.
    pub fn ask_again(&mut self, write_buffer_bytes: u64) {
        self.entry.write_buffer_bytes.store(write_buffer_bytes, SeqCst);
        self.change(STATE_ASKED);
        // Without sleeping at first: how long an answer takes is measured here.
        let start = Instant::now();
        while self.state() == STATE_ASKED && start.elapsed() < Duration::from_millis(1) {
            std::hint::spin_loop();
        }
        until("an answer", || self.state() != STATE_ASKED);
        if !self.is_held() {
            return;
        }
        self.bytes = self.entry.write_buffer_bytes.load(SeqCst);
        assert!(self.bytes >= write_buffer_bytes);
        let at = self.entry.write_buffer_at.load(SeqCst);
        // SAFETY: a new mapping of memory that the guard has allocated.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                self.bytes as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                self.client.file.as_raw_fd(),
                at as i64,
            )
        };
        assert_ne!(address, libc::MAP_FAILED);
        self.write_buffer = address.cast();
        self.note_times();
        self.entry.base.store(self.file.metadata().unwrap().len(), SeqCst);
    }

    pub fn note_times(&self) {
        let metadata = self.file.metadata().unwrap();
        let nanoseconds = |seconds: i64, rest: i64| (seconds * 1_000_000_000 + rest) as u64;
        self.entry.size.store(metadata.len(), SeqCst);
        let time = nanoseconds(metadata.mtime(), metadata.mtime_nsec());
        self.entry.mtime_ns.store(time, SeqCst);
        let time = nanoseconds(metadata.ctime(), metadata.ctime_nsec());
        self.entry.ctime_ns.store(time, SeqCst);
    }

    pub fn state(&self) -> u8 {
        state_of(self.entry.state.load(SeqCst))
    }

    pub fn is_held(&self) -> bool {
        self.state() == STATE_HELD
    }

    /// Next state, and the guard is told.
    pub fn change(&self, state: u8) {
        let word = self.entry.state.load(SeqCst);
        let next = next_state(word, state);
        self.entry.state.compare_exchange(word, next, SeqCst, SeqCst).unwrap();
        self.client.poke(self.index);
    }

    pub fn pending(&self) -> u64 {
        length_of(self.entry.word.load(SeqCst))
    }

    /// Accepts bytes; flushes first where they do not fit.
    pub fn append(&self, bytes: &[u8]) {
        if self.pending() + bytes.len() as u64 > self.bytes - 4095 {
            self.flush();
        }
        let word = self.entry.word.load(SeqCst);
        let length = length_of(word);
        if length == 0 {
            self.entry.order.store(self.client.ledger.header.order.fetch_add(1, SeqCst), SeqCst);
        }
        // SAFETY: the write buffer is mapped and has room, as was seen above.
        unsafe {
            let start = write_buffer_start(self.entry.base.load(SeqCst));
            let to = self.write_buffer.add((start + length) as usize);
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        let next = word + bytes.len() as u64;
        self.entry.word.compare_exchange(word, next, SeqCst, SeqCst).unwrap();
    }

    pub fn flush(&self) {
        let word = self.entry.word.load(SeqCst);
        let length = length_of(word);
        if length == 0 {
            return;
        }
        self.entry.flushing.store(1, SeqCst);
        let base = self.entry.base.load(SeqCst);
        // SAFETY: as many bytes as were appended.
        let bytes = unsafe {
            std::slice::from_raw_parts(
                self.write_buffer.add(write_buffer_start(base) as usize),
                length as usize,
            )
        };
        self.file.write_all_at(bytes, base).unwrap();
        self.note_times();
        self.entry.word.compare_exchange(word, flushed(word), SeqCst, SeqCst).unwrap();
        self.entry.base.store(base + length, SeqCst);
        self.entry.flushing.store(0, SeqCst);
    }

    pub fn discard(self) {
        // SAFETY: the write buffer is not used any more.
        unsafe { libc::munmap(self.write_buffer.cast(), self.bytes as usize) };
        self.change(STATE_DISCARD);
    }
}

/// Becomes a user without rights, where this one is root, that can be looked at as any other.
pub fn drop_rights() {
    const NOBODY: libc::uid_t = 65534;
    // SAFETY: only values are passed.
    unsafe {
        if libc::geteuid() == 0 {
            assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
            assert_eq!(libc::setresgid(NOBODY, NOBODY, NOBODY), 0);
            assert_eq!(libc::setresuid(NOBODY, NOBODY, NOBODY), 0);
            assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 1), 0);
        }
    }
}

pub fn is_root() -> bool {
    // SAFETY: takes nothing.
    unsafe { libc::geteuid() == 0 }
}

/// A small memory file system, unmounted at the end; none where this user may not mount.
pub struct Mount(pub Folder);

impl Mount {
    pub fn new(options: &str) -> Option<Mount> {
        let folder = Folder::new();
        let target = CString::new(folder.0.as_os_str().as_bytes()).unwrap();
        let options = CString::new(options).unwrap();
        // SAFETY: live C strings are passed.
        let result = unsafe {
            libc::mount(
                c"tmpfs".as_ptr(),
                target.as_ptr(),
                c"tmpfs".as_ptr(),
                0,
                options.as_ptr().cast(),
            )
        };
        if result != 0 {
            let error = std::io::Error::last_os_error();
            println!("skipped: a small file system cannot be mounted here: {error}");
            return None;
        }
        Some(Mount(folder))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let target = CString::new(self.0.0.as_os_str().as_bytes()).unwrap();
        // SAFETY: a live C string is passed.
        unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) };
    }
}
