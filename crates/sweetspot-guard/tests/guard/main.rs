//! The guard and the ledger, seen by the processes that use them: who gets a pin, what is left of
//! what was accepted after kill -9, what `run` itself notices, and what `recover` refuses to do.
//!
//! How the library keeps the protocol is not tested here; `client.rs` stands in for it.

use test_start as _;

mod client;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use client::*;
use sweetspot_core::ledger::*;
use sweetspot_core::pending::length_of;
use sweetspot_core::size::BufferSize;
use sweetspot_core::why::Why;
use sweetspot_guard::recover::{
    Fate, Mode, noted_ledgers_in, recover, recover_noted, stale_ledgers_in,
};
use sweetspot_guard::session::Rule;
use sweetspot_guard::{ErrorKind, Session, Settings};

/// What the kernel stores in a robust futex word whose owner died.
const OWNER_DIED: u32 = 0x4000_0000;

/// Held by each test: a child of a fork has a copy of what other threads were in the middle of, their
/// descriptors and locks included, and no thread that would go on with it.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open_new(path: &Path) -> File {
    File::options().read(true).write(true).create_new(true).open(path).unwrap()
}

// ---- what `run` notices of it ---------------------------------------------------------------------

/// Everything about a process that a guard might have changed.
fn self_portrait() -> String {
    let list = |folder: &str| {
        let names = std::fs::read_dir(folder).unwrap().map(|name| name.unwrap().path());
        let targets = names.filter_map(|path| {
            let target = std::fs::read_link(&path).ok()?;
            // The descriptor that reads this folder.
            (!target.starts_with("/proc")).then(|| format!("{path:?} {target:?}\n"))
        });
        targets.collect::<BTreeSet<_>>().into_iter().collect::<String>()
    };
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let wanted = ["Sig", "Shd", "Threads", "PPid", "Umask"];
    let status: String = status
        .lines()
        .filter(|line| wanted.iter().any(|name| line.starts_with(name)))
        // Signals queued for the whole user, not for this process.
        .filter(|line| !line.starts_with("SigQ"))
        .map(|line| format!("{line}\n"))
        .collect();
    // SAFETY: values and one live int are passed.
    let (ids, reaper) = unsafe {
        let mut reaper = 0;
        libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &mut reaper);
        ((libc::getsid(0), libc::getpgid(0)), reaper)
    };
    let children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let folder = std::env::current_dir().unwrap();
    let comm = std::fs::read_to_string("/proc/self/comm").unwrap();
    let arguments = std::fs::read("/proc/self/cmdline").unwrap();
    format!(
        "{}{status}{ids:?} {reaper} {children:?} {limits} {folder:?} {comm} {arguments:?}",
        list("/proc/self/fd")
    )
}

#[test]
fn the_starting_process_notices_nothing() {
    let _alone = alone();
    #[derive(Debug, Clone, Copy)]
    enum With {
        Defaults,
        IgnoredChildren,
        HandledChildren,
        BlockedChildren,
        AdoptedOrphans,
    }
    extern "C" fn never(_: i32) {
        // SAFETY: ends the process; that is the failure.
        unsafe { libc::_exit(77) };
    }
    for with in [
        With::Defaults,
        With::IgnoredChildren,
        With::HandledChildren,
        With::BlockedChildren,
        With::AdoptedOrphans,
    ] {
        let folder = Folder::new();
        in_child(|| {
            // SAFETY: constant dispositions, a function that may run in a handler, a live set.
            unsafe {
                let mut set = std::mem::zeroed();
                libc::sigemptyset(&mut set);
                libc::sigaddset(&mut set, libc::SIGCHLD);
                match with {
                    With::Defaults => (),
                    With::IgnoredChildren => {
                        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
                    }
                    With::HandledChildren => {
                        libc::signal(libc::SIGCHLD, never as extern "C" fn(i32) as usize);
                    }
                    With::BlockedChildren => {
                        libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
                    }
                    With::AdoptedOrphans => {
                        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
                    }
                }
            }
            let before = self_portrait();
            let mut session = Session::create_in(&Settings::default(), &folder.0).unwrap();
            session.start_guard(std::process::id()).unwrap();
            assert_eq!(self_portrait(), before, "{with:?}");
            until("the guard begins", || session.guard_is_alive());
            let path = session.path().to_owned();
            let guard = session.ledger().header.guard.load(SeqCst);
            look_at_guard(guard, &path);
            drop(session);
            assert_eq!(self_portrait(), before, "{with:?}");
            let mut status = 0;
            // SAFETY: one live int is passed.
            let waited = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG | libc::__WALL) };
            let error = std::io::Error::last_os_error().raw_os_error();
            assert_eq!((waited, error), (-1, Some(libc::ECHILD)), "{with:?}: no child");
        });
        until("the ledger is gone", || folder.names().is_empty());
    }
}

/// A guard is in nobody's way.
fn look_at_guard(guard: u32, ledger: &Path) {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{guard}/{name}")).unwrap();
    assert_eq!(read("comm"), "sweetspot-guard\n");
    assert_eq!(read("cmdline").trim_end_matches('\0'), "sweetspot-guard");
    assert_eq!(std::fs::read_link(format!("/proc/{guard}/cwd")).unwrap(), Path::new("/"));
    // SAFETY: only values are passed.
    let sessions = unsafe { (libc::getsid(guard as i32), libc::getsid(0)) };
    assert_ne!(sessions.0, sessions.1, "a session of its own");
    let is_own = |fd: &Path| {
        let Ok(target) = std::fs::read_link(fd) else { return true };
        let is_device = target == Path::new("/dev/null");
        is_device || target == ledger || target.to_str().unwrap().starts_with("anon_inode:")
    };
    // At its beginning it reads how much memory there is.
    until("the guard holds nothing but its own", || {
        let fds = std::fs::read_dir(format!("/proc/{guard}/fd")).unwrap();
        fds.map(|fd| fd.unwrap().path()).all(|fd| is_own(&fd))
    });
    // A user may have so many of them: as long as nobody has asked, one.
    assert!(read("status").contains("\nThreads:\t1\n"));
    // What a terminal, a shell or a shutdown sends.
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGPIPE] {
        // SAFETY: only values are passed.
        assert_eq!(unsafe { libc::kill(guard as i32, signal) }, 0);
    }
    until("it sleeps", || read("stat").contains(") S "));
}

#[test]
fn a_process_with_threads_is_refused() {
    let _alone = alone();
    let folder = Folder::new();
    // This process has the threads of the test harness.
    let mut session = Session::create_in(&Settings::default(), &folder.0).unwrap();
    assert!(session.is_guarded());
    let error = session.start_guard(std::process::id()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Threads);
    assert!(!session.is_guarded(), "the program is told");
    session.remove().unwrap();
    assert!(folder.names().is_empty());
}

#[test]
fn settings_arrive_and_limits_of_rules_hold() {
    let _alone = alone();
    let folder = Folder::new();
    let text = |len: usize| "x".repeat(len);
    let rule = |program: usize, file: usize| Rule {
        program: text(program),
        file: text(file),
        ..Rule::default()
    };
    for (rules, expected) in [
        (vec![], None),
        (vec![rule(0, 0); RULES_MAX], None),
        (vec![rule(0, 0); RULES_MAX + 1], Some(ErrorKind::TooManyRules)),
        (vec![rule(TEXT_BYTES_MAX, TEXT_BYTES_MAX)], None),
        (vec![rule(TEXT_BYTES_MAX + 1, 0)], Some(ErrorKind::TextTooLong)),
        (vec![rule(0, TEXT_BYTES_MAX + 1)], Some(ErrorKind::TextTooLong)),
    ] {
        let count = rules.len();
        let settings = Settings { rules, ..Settings::default() };
        let made = Session::create_in(&settings, &folder.0);
        assert_eq!(made.as_ref().err().map(|error| error.kind), expected, "{count} rules");
        if let Ok(session) = made {
            assert_eq!(session.ledger().header.rules.load(SeqCst), count as u32);
            session.remove().unwrap();
        }
    }
    let rules = vec![
        Rule { program: "seqcopy".into(), buffer: Some(BufferSize::Off), ..Rule::default() },
        Rule { file: "*.dat".into(), private: true, stdio: true, ..Rule::default() },
    ];
    let session = Session::create_in(
        &Settings {
            buffer: BufferSize::Bytes(65536),
            rules,
            summary: true,
            max_age: Some(Duration::from_millis(250)),
            stdio: true,
            guard: false,
            notes: Vec::new(),
            costs: Vec::new(),
        },
        &folder.0,
    )
    .unwrap();
    let mode = std::fs::metadata(session.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let ledger = session.ledger();
    let header = &ledger.header;
    assert_eq!(header.buffer.load(SeqCst), 65536);
    assert_eq!(header.max_age_ms.load(SeqCst), 250);
    assert_eq!(header.flags.load(SeqCst), FLAG_SUMMARY | FLAG_STDIO);
    let mut buffer = [0; TEXT_BYTES_MAX];
    assert_eq!(ledger.rules[0].program.load(&mut buffer), b"seqcopy");
    assert_eq!(ledger.rules[0].buffer.load(SeqCst), BUFFER_OFF);
    assert_eq!(ledger.rules[1].file.load(&mut buffer), b"*.dat");
    assert_eq!(ledger.rules[1].buffer.load(SeqCst), BUFFER_UNSET);
    assert_eq!(ledger.rules[1].flags.load(SeqCst), RULE_PRIVATE | RULE_STDIO);

    // Two processes with one file, one with another.
    header.processes.store(2, SeqCst);
    header.files.store(3, SeqCst);
    for (record, (pid, inode, buffer, why, hits)) in ledger.files.iter().zip([
        (7, 1, 4096, Why::Mapped, 10),
        (7, 2, BUFFER_AUTO, Why::Mapped, 20),
        (8, 1, 65536, Why::Shared, 30),
    ]) {
        record.pid.store(pid, SeqCst);
        record.inode.store(inode, SeqCst);
        record.buffer.store(buffer, SeqCst);
        record.why.store(why.bit(), SeqCst);
        record.counters[Counter::Hits as usize].store(hits, SeqCst);
        record.path.store(format!("/data/{inode}").as_bytes());
    }
    let summary = session.summary();
    assert_eq!((summary.processes, summary.files.len(), summary.files_beyond), (2, 2, 0));
    let first = &summary.files[0];
    assert_eq!(first.path(), Path::new("/data/1"));
    assert_eq!((first.records, first.count(Counter::Hits)), (2, 40));
    assert_eq!(first.buffer, Some(BufferSize::Bytes(65536)));
    assert_eq!(first.why, [Why::Mapped, Why::Shared]);
    assert_eq!(summary.files[1].buffer, Some(BufferSize::Auto));

    ledger.entries[5].word.store(100, SeqCst);
    header.guard.store(OWNER_DIED, SeqCst);
    assert_eq!(session.remove().unwrap_err().kind, ErrorKind::InUse, "something is pending");
    ledger.entries[5].word.store(0, SeqCst);
    session.remove().unwrap();
    session.remove().unwrap();
}

#[test]
fn where_there_is_no_room_it_is_an_error_and_nothing_is_left() {
    let _alone = alone();
    let folder = Folder::new();
    let settings = Settings::default();
    let kind = |folder: &Path| Session::create_in(&settings, folder).err().map(|error| error.kind);
    assert_eq!(kind(&folder.join("missing")), Some(ErrorKind::NoSharedMemory));

    // A limit on file size smaller than the ledger; then one that leaves no room for chunks.
    let ledger_bytes = size_of::<Ledger>() as u64;
    for (limit, expected) in [
        (0, Some(ErrorKind::FileSizeLimit)),
        (ledger_bytes - 1, Some(ErrorKind::FileSizeLimit)),
        (ledger_bytes, None),
        (CHUNKS_AT + CHUNKS_BYTES_MAX - 1, None),
    ] {
        in_child(|| {
            let limit = libc::rlimit64 { rlim_cur: limit, rlim_max: limit };
            // SAFETY: the limit is live.
            assert_eq!(unsafe { libc::setrlimit64(libc::RLIMIT_FSIZE, &limit) }, 0);
            assert_eq!(kind(&folder.0), expected, "{limit:?}");
            for path in folder.names() {
                let _ = std::fs::remove_file(folder.join(&path));
            }
            let Ok(mut session) = Session::create_in(&settings, &folder.0) else { return };
            assert!(!session.is_guarded(), "there is no room for chunks");
            assert!(session.start_guard(std::process::id()).is_err());
            session.remove().unwrap();
        });
        assert!(folder.names().is_empty());
    }

    let Some(mount) = Mount::new("size=512k") else { return };
    assert_eq!(kind(&mount.0.0), Some(ErrorKind::NoSpace));
    assert!(mount.0.names().is_empty());
    let error = Session::create_in(&settings, &mount.0.0).err().unwrap().to_string();
    assert!(error.contains("df "), "{error}");
}

#[test]
fn a_full_memory_file_system_refuses_pins_and_raises_no_signal() {
    let _alone = alone();
    let Some(mount) = Mount::new("size=4m") else { return };
    // With a summary, as without one nobody may touch the records of files.
    let settings = Settings { summary: true, ..Settings::default() };
    let program = Program::start(&mount.0.0, &settings);
    let folder = Folder::new();
    in_child(|| {
        let client = Client::join(&program.ledger);
        client.introduce(Lie::None);
        let path = folder.join("data");
        // Half of what is free is given out, and no more.
        let large = client.ask(open_new(&path), &path, 2 << 20, Lie::None);
        assert_eq!(large.state(), STATE_REFUSED);
        let path = folder.join("small");
        let small = client.ask(open_new(&path), &path, 4096, Lie::None);
        assert!(small.is_pinned());
        // Now there is no room at all; everything that may be touched can be.
        let fill = File::create(mount.0.join("fill")).unwrap();
        let mut at = 0;
        while fill.write_all_at(&[1; 4096], at).is_ok() {
            at += 4096;
        }
        let path = folder.join("third");
        let third = client.ask(open_new(&path), &path, 4096, Lie::None);
        assert_eq!(third.state(), STATE_REFUSED);
        for record in &client.ledger.files {
            record.device.store(1, SeqCst);
        }
        for entry in &client.ledger.entries {
            entry.birth_ns.store(1, SeqCst);
        }
        small.append(&[7; 4096]);
    });
    until("the guard wrote it", || std::fs::read(folder.join("small")).unwrap() == vec![7; 4096]);
    program.end();
}

// ---- pins -----------------------------------------------------------------------------------------

#[test]
fn pins_are_granted_where_the_guard_could_write_and_nowhere_else() {
    let _alone = alone();
    let folder = Folder::new();
    let program = Program::start_after(&folder.0, &Settings::default(), drop_rights);
    in_child(|| {
        drop_rights();
        let open = |name: &str, options: &mut std::fs::OpenOptions| {
            let path = folder.join(name);
            (options.open(&path).unwrap(), path)
        };
        let mode = |file: &File, mode| {
            file.set_permissions(std::fs::Permissions::from_mode(mode)).unwrap();
        };
        type Opened = (File, PathBuf);
        type Case<'a> = (&'a str, &'a dyn Fn() -> Opened, u64, Lie, u8);
        let new = |name: &str| -> Opened {
            open(name, File::options().read(true).write(true).create_new(true))
        };
        let fifo = || {
            let path = folder.join("fifo");
            let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
            // SAFETY: a live C string is passed.
            assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
            (File::options().read(true).write(true).open(&path).unwrap(), path)
        };
        let read_only_mode = || {
            let (file, path) = new("0444");
            mode(&file, 0o444);
            (file, path)
        };
        let write_only_mode = || {
            let (file, path) = new("0200");
            mode(&file, 0o200);
            (file, path)
        };
        let reading = || {
            drop(new("reading"));
            open("reading", File::options().read(true))
        };
        let writing = || open("writing", File::options().write(true).create_new(true));
        let unlinked = || {
            let (file, path) = new("unlinked");
            std::fs::remove_file(&path).unwrap();
            (file, path)
        };
        let device = || {
            let path = PathBuf::from("/dev/null");
            (File::options().write(true).open(&path).unwrap(), path)
        };
        let cases: [Case; 16] = [
            ("an ordinary file", &|| new("ordinary"), 65536, Lie::None, STATE_PINNED),
            ("no size at all", &|| new("zero"), 0, Lie::None, STATE_PINNED),
            ("writing only", &writing, 1, Lie::None, STATE_PINNED),
            ("writable only", &write_only_mode, 1, Lie::None, STATE_PINNED),
            ("no name any more", &unlinked, 1, Lie::None, STATE_PINNED),
            ("may not be written again", &read_only_mode, 1, Lie::None, STATE_REFUSED),
            ("reading only", &reading, 1, Lie::None, STATE_REFUSED),
            ("a FIFO", &fifo, 1, Lie::None, STATE_REFUSED),
            ("a device", &device, 1, Lie::None, STATE_REFUSED),
            ("too large", &|| new("large"), (1 << 30) + 1, Lie::None, STATE_REFUSED),
            ("another inode", &|| new("inode"), 1, Lie::Inode, STATE_REFUSED),
            ("not open", &|| new("closed"), 1, Lie::Descriptor, STATE_REFUSED),
            ("no slot", &|| new("slot"), 1, Lie::Slot, STATE_REFUSED),
            ("not introduced", &|| new("shy"), 1, Lie::NotReady, STATE_REFUSED),
            ("another process", &|| new("start"), 1, Lie::StartTime, STATE_REFUSED),
            ("another namespace", &|| new("space"), 1, Lie::Namespace, STATE_REFUSED),
        ];
        for (what, open, bytes, lie, expected) in cases {
            let client = Client::join(&program.ledger);
            client.introduce(lie);
            let (file, path) = open();
            let writer = client.ask(file, &path, bytes, lie);
            assert_eq!(writer.state(), expected, "{what}");
        }
    });
    program.end();
}

#[test]
fn a_pin_outlives_names_and_a_chunk_outlives_its_pin() {
    let _alone = alone();
    let folder = Folder::new();
    let program = Program::start(&folder.0, &Settings::default());
    let (renamed, unlinked) = (folder.join("renamed"), folder.join("unlinked"));
    // A second description, which still finds the file without a name.
    let unlinked_file = open_new(&unlinked);
    let client = Client::look(&program.ledger);
    let taken = || client.ledger.entries.iter().filter(|e| e.chunk_at.load(SeqCst) != 0).count();
    let child = fork(|| {
        let client = Client::join(&program.ledger);
        client.introduce(Lie::None);
        let path = folder.join("first name");
        let mut writer = client.ask(open_new(&path), &path, 8192, Lie::None);
        writer.append(b"one ");
        writer.flush();
        // Given up and asked for again: the chunk is the same.
        let chunk_at = writer.entry.chunk_at.load(SeqCst);
        writer.change(STATE_RELEASE);
        until("an answer", || writer.state() == STATE_OWNED);
        writer.ask_again(4096);
        assert_eq!(writer.entry.chunk_at.load(SeqCst), chunk_at);
        writer.change(STATE_RELEASE);
        until("an answer", || writer.state() == STATE_OWNED);
        writer.ask_again(65536);
        assert!(writer.bytes >= 65536, "a larger one was needed");
        writer.append(b"two");
        std::fs::rename(&path, &renamed).unwrap();
        // A release with bytes pending is not obeyed.
        writer.change(STATE_RELEASE);

        let file = File::options().read(true).write(true).open(&unlinked).unwrap();
        let second = client.ask(file, &unlinked, 1, Lie::None);
        second.append(b"nameless");
        std::fs::remove_file(&unlinked).unwrap();

        // A third one is closed in order, and its entry is free again.
        let path = folder.join("third");
        let third = client.ask(open_new(&path), &path, 4096, Lie::None);
        third.append(b"three");
        third.flush();
        let entry = third.entry;
        third.discard();
        until("the entry is free", || state_of(entry.state.load(SeqCst)) == STATE_FREE);
        assert_eq!((entry.slot.load(SeqCst), entry.chunk_at.load(SeqCst)), (0, 0));
        // SAFETY: dies here, in the middle of everything.
        unsafe { libc::raise(libc::SIGKILL) };
    });
    wait(child);
    until("all is finished", || client.ledger.slots.iter().all(|slot| slot.pid.load(SeqCst) == 0));
    assert_eq!(std::fs::read(&renamed).unwrap(), b"one two");
    assert_eq!(std::fs::read(folder.join("third")).unwrap(), b"three");
    let mut buffer = [0; 20];
    let len = unlinked_file.read_at(&mut buffer, 0).unwrap();
    assert_eq!(&buffer[..len], b"nameless");
    until("all chunks are free", || taken() == 0);
    program.end();
}

// ---- kill -9 --------------------------------------------------------------------------------------

fn record(file: usize, number: u64) -> String {
    format!("{file} {number:013}\n")
}

#[test]
fn kill_9_loses_nothing_that_was_accepted() {
    let _alone = alone();
    const KILLS: usize = 300;
    const FILES: usize = 3;
    const RECORD_BYTES: usize = 16;
    let folder = Folder::new();
    let program = Program::start(&folder.0, &Settings::default());
    let client = Client::look(&program.ledger);
    client.guard();
    let mut seed = 0x5eed_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut finished = 0;
    let mut latencies = Vec::new();
    for round in 0..KILLS {
        // For each file what was accepted and what was flushed; and whether it has begun.
        let words = shared::<{ 2 * FILES + 1 }>();
        let paths: Vec<PathBuf> =
            (0..FILES).map(|file| folder.join(&format!("{round}-{file}"))).collect();
        // Small chunks are flushed all the time, large ones by the guard alone.
        let chunk_bytes = 4096 << (random() % 7);
        let child = fork(|| {
            let client = Client::join(&program.ledger);
            client.introduce(Lie::None);
            let writers: Vec<_> = paths
                .iter()
                .map(|path| client.ask(open_new(path), path, chunk_bytes, Lie::None))
                .collect();
            assert!(writers.iter().all(Writer::is_pinned));
            words[2 * FILES].store(1, SeqCst);
            for number in 0.. {
                let file = (number % FILES as u64) as usize;
                let writer = &writers[file];
                let record = record(file, number / FILES as u64);
                if writer.pending() + record.len() as u64 > writer.bytes {
                    writer.flush();
                    words[FILES + file].store(words[file].load(SeqCst), SeqCst);
                }
                writer.append(record.as_bytes());
                words[file].fetch_add(1, SeqCst);
            }
        });
        if round % 10 != 0 {
            until("it has begun", || words[2 * FILES].load(SeqCst) == 1);
        }
        std::thread::sleep(Duration::from_micros(random() % 1500));
        let start = Instant::now();
        kill(child);
        wait(child);
        until("nothing is pending", || {
            client.ledger.slots.iter().enumerate().all(|(index, slot)| {
                slot.pid.load(SeqCst) != child
                    || client.ledger.entries.iter().all(|entry| {
                        entry.slot.load(SeqCst) != index as u32
                            || length_of(entry.word.load(SeqCst)) == 0
                    })
            })
        });
        latencies.push(start.elapsed());
        for (file, path) in paths.iter().enumerate() {
            let accepted = words[file].load(SeqCst);
            let flushed = words[FILES + file].load(SeqCst);
            finished += u64::from(accepted > flushed);
            let found = std::fs::read(path).unwrap_or_default();
            let count = (found.len() / RECORD_BYTES) as u64;
            let expected: String = (0..count).map(|number| record(file, number)).collect();
            assert!(found == expected.as_bytes(), "round {round}: other bytes in {path:?}");
            // It may have died between the acceptance and its note of it.
            assert!(
                count == accepted || count == accepted + 1,
                "round {round}, file {file}: {accepted} accepted, {count} found"
            );
            let _ = std::fs::remove_file(path);
        }
    }
    latencies.sort();
    println!(
        "{KILLS} kills, {finished} files finished by the guard, median {:?}, worst {:?}",
        latencies[KILLS / 2],
        latencies[KILLS - 1]
    );
    assert!(finished > KILLS as u64, "the guard had something to do: {finished}");
    until("every chunk is free", || {
        client.ledger.entries.iter().all(|entry| entry.chunk_at.load(SeqCst) == 0)
    });
    program.end();
}

#[test]
fn the_guard_lives_as_long_as_the_tree_and_leaves_nothing() {
    let _alone = alone();
    let folder = Folder::new();
    let program = Program::start(&folder.0, &Settings::default());
    let client = Client::look(&program.ledger);
    let guard = client.guard();
    let path = folder.join("data");
    // A process that has a slot, but has not said more, when the program ends.
    let words = shared::<3>();
    let child = fork(|| {
        let client = Client::join(&program.ledger);
        words[0].store(1, SeqCst);
        until("the program is dead", || words[1].load(SeqCst) == 1);
        client.introduce(Lie::None);
        let writer = client.ask(open_new(&path), &path, 4096, Lie::None);
        assert!(writer.is_pinned());
        writer.append(b"late");
        words[2].store(1, SeqCst);
        loop {
            // SAFETY: takes nothing.
            unsafe { libc::pause() };
        }
    });
    until("it has a slot", || words[0].load(SeqCst) == 1);
    program.end();
    std::thread::sleep(Duration::from_millis(50));
    assert!(is_process(guard), "a process of the tree lives");
    words[1].store(1, SeqCst);
    until("it has written", || words[2].load(SeqCst) == 1);
    kill(child);
    wait(child);
    until("the guard ends", || !is_process(guard));
    assert_eq!(std::fs::read(&path).unwrap(), b"late");
    assert_eq!(folder.names(), ["data"], "the ledger is gone");
    let word = client.ledger.header.guard.load(SeqCst);
    assert_eq!(word, OWNER_DIED, "whoever looks sees that it is gone");
}

#[test]
fn slots_of_processes_that_died_unseen_come_back() {
    let _alone = alone();
    let folder = Folder::new();
    let program = Program::start(&folder.0, &Settings::default());
    let client = Client::look(&program.ledger);
    client.guard();
    for _ in 0..3 {
        wait(fork(|| drop(Client::join(&program.ledger))));
    }
    let used = || client.ledger.slots.iter().filter(|slot| slot.pid.load(SeqCst) != 0).count();
    assert_eq!(used(), 3);
    let own = Client::join(&program.ledger);
    client.wake();
    until("the slots are free", || used() == 1);
    assert_eq!(own.ledger.slots[own.slot].pid.load(SeqCst), std::process::id(), "the living stay");
    own.ledger.slots[own.slot].pid.store(0, SeqCst);
    program.end();
}

#[test]
fn what_cannot_be_written_is_saved_beside_and_said() {
    let _alone = alone();
    let Some(mount) = Mount::new("size=64k") else { return };
    let folder = Folder::new();
    let state = folder.join("state");
    let program = Program::start_after(&folder.0, &Settings::default(), || {
        let value = std::ffi::CString::new(state.to_str().unwrap()).unwrap();
        // SAFETY: this process has one thread; live C strings are passed.
        unsafe { libc::setenv(c"XDG_STATE_HOME".as_ptr(), value.as_ptr(), 1) };
    });
    let client = Client::look(&program.ledger);
    let path = mount.0.join("data");
    let pending: Vec<u8> = (0..100_000u32).map(|index| index as u8).collect();
    let child = fork(|| {
        let client = Client::join(&program.ledger);
        client.introduce(Lie::None);
        let file = open_new(&path);
        file.write_all_at(b"before", 0).unwrap();
        let writer = client.ask(file, &path, 1 << 20, Lie::None);
        writer.append(&pending);
        // SAFETY: dies here.
        unsafe { libc::raise(libc::SIGKILL) };
    });
    wait(child);
    let header = &client.ledger.header;
    until("it is saved", || header.saved.load(SeqCst) == 1);
    let saved = state.join(format!("sweetspot/data.sweetspot-saved-{child}-at-6"));
    assert_eq!(std::fs::read(&saved).unwrap(), pending);
    let mode = std::fs::metadata(&saved).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut buffer = [0; TEXT_BYTES_MAX];
    assert_eq!(header.saved_path.load(&mut buffer), saved.to_str().unwrap().as_bytes());
    program.end();
    until("the ledger is gone", || folder.names() == ["state"]);
}

#[test]
fn what_cannot_even_be_saved_stays_until_there_is_room() {
    let _alone = alone();
    let Some(mount) = Mount::new("size=4m") else { return };
    let program = Program::start_after(&mount.0.0, &Settings::default(), || {
        // SAFETY: this process has one thread; constant C strings are passed.
        unsafe { libc::setenv(c"XDG_STATE_HOME".as_ptr(), c"/proc/none".as_ptr(), 1) };
    });
    let client = Client::look(&program.ledger);
    let guard = client.guard();
    let path = mount.0.join("data");
    let fill = mount.0.join("fill");
    let pending: Vec<u8> = (0..60_000u32).map(|index| index as u8).collect();
    let child = fork(|| {
        let client = Client::join(&program.ledger);
        client.introduce(Lie::None);
        let file = open_new(&path);
        file.write_all_at(b"before", 0).unwrap();
        let writer = client.ask(file, &path, 65536, Lie::None);
        writer.append(&pending);
        let fill = File::create(&fill).unwrap();
        let mut at = 0;
        while fill.write_all_at(&[1; 4096], at).is_ok() {
            at += 4096;
        }
        // SAFETY: dies here.
        unsafe { libc::raise(libc::SIGKILL) };
    });
    wait(child);
    until("it is stuck", || client.ledger.header.stuck.load(SeqCst) > 0);
    program.end();
    until("the guard ends", || !is_process(guard));
    assert!(program.ledger.exists(), "what is stuck stays");
    // A part fits into the file's last page, so it was changed: by the guard itself.
    assert!(std::fs::read(&path).unwrap().len() > b"before".len());
    std::fs::remove_file(&fill).unwrap();
    let pieces = recover(&program.ledger, Mode::Finish).unwrap();
    assert_eq!(pieces[0].fate, Fate::Written);
    let found = std::fs::read(&path).unwrap();
    assert!(found.strip_prefix(b"before") == Some(&pending));
    assert_eq!(mount.0.names(), ["data"]);
}

#[test]
fn the_guard_writes_what_has_not_arrived_and_nothing_twice() {
    let _alone = alone();
    let pending: Vec<u8> = (0..6000u32).flat_map(|number| number.to_le_bytes()).collect();
    // Before the write of the flush the file held so much; the first page of it ends here.
    let before = b"before ".len();
    let page = 4096 - before;
    const IDLE: u32 = 0;
    const FLUSHING: u32 = 1;
    // What is counted as arrived, what the file got, and what it must hold behind that in the end.
    type Case<'a> = (&'a str, u32, u64, &'a [&'a [u8]], &'a [u8]);
    let cases: [Case<'_>; 8] = [
        ("between calls", IDLE, 0, &[], &pending),
        ("between calls, others wrote", IDLE, 0, &[b"other"], &pending),
        ("before the write", FLUSHING, 0, &[], &pending),
        ("in the write", FLUSHING, 0, &[&pending[..page]], &pending[page..]),
        ("cut, others behind", FLUSHING, 0, &[&pending[..page], b"other"], &pending[page..]),
        ("after the write, others around", FLUSHING, 0, &[b"x", &pending, b"y"], b""),
        ("in the second write", FLUSHING, 100, &[&pending[100..300]], &pending[300..]),
        ("counted as written", FLUSHING, pending.len() as u64, &[&pending, b"y"], b""),
    ];
    for ((what, flushing, arrived, parts, expected), place) in
        cases.into_iter().flat_map(|case| [PLACE_END, PLACE_OFFSET].map(|place| (case, place)))
    {
        let folder = Folder::new();
        let program = Program::start(&folder.0, &Settings::default());
        let path = folder.join("log");
        let there = parts.concat();
        // The description is shared, as with a shell that goes on after the program.
        let mut shared = open_new(&path);
        shared.write_all(b"before ").unwrap();
        let child = fork(|| {
            let mut client = Client::join(&program.ledger);
            client.introduce(Lie::None);
            client.place = place;
            let mut writer = client.ask(shared.try_clone().unwrap(), &path, 65536, Lie::None);
            assert!(writer.is_pinned(), "{what}");
            writer.append(&pending);
            writer.entry.arrived.store(arrived, SeqCst);
            writer.entry.before.store(before as u64, SeqCst);
            writer.entry.flushing.store(flushing, SeqCst);
            writer.file.write_all(&there).unwrap();
            // SAFETY: dies here.
            unsafe { libc::raise(libc::SIGKILL) };
        });
        wait(child);
        program.end();
        until("the guard has ended", || !program.ledger.exists());
        let mut wanted = [b"before ", &there[..], expected].concat();
        assert!(std::fs::read(&path).unwrap() == wanted, "{what}, {place}");
        if place == PLACE_OFFSET {
            shared.write_all(b"after").unwrap();
            wanted.extend(b"after");
            assert!(std::fs::read(&path).unwrap() == wanted, "{what}: the shared offset");
        }
    }
}

#[test]
fn a_copy_from_outside_is_given_back_when_it_is_released() {
    let _alone = alone();
    let folder = Folder::new();
    let program = Program::start(&folder.0, &Settings::default());
    let path = folder.join("out");
    let guard = Client::look(&program.ledger).guard();
    let held = || {
        let fds = std::fs::read_dir(format!("/proc/{guard}/fd")).unwrap();
        let links = fds.flatten().map(|fd| std::fs::read_link(fd.path()));
        links.filter(|link| link.as_ref().is_ok_and(|link| *link == path)).count()
    };
    in_child(|| {
        let mut client = Client::join(&program.ledger);
        client.introduce(Lie::None);
        client.place = PLACE_OFFSET;
        let writer = client.ask(open_new(&path), &path, 4096, Lie::None);
        assert!(writer.is_pinned());
        assert_eq!(held(), 1);
        writer.change(STATE_RELEASE);
        until("it is released", || writer.state() == STATE_OWNED);
        assert_eq!(held(), 0);
        // What cannot be written is not copied.
        let reader = client.ask(File::open(&path).unwrap(), &path, 4096, Lie::None);
        assert_eq!(reader.state(), STATE_REFUSED);
        assert_eq!(held(), 0);
    });
    program.end();
}

#[test]
fn a_copy_that_the_system_refuses_is_refused() {
    let _alone = alone();
    let folder = Folder::new();
    let program = Program::start_after(&folder.0, &Settings::default(), drop_rights);
    let path = folder.join("out");
    in_child(|| {
        drop_rights();
        // A process that may not be looked at, as where Yama or a seccomp filter forbids it.
        // SAFETY: only values are passed.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) }, 0);
        let mut client = Client::join(&program.ledger);
        client.introduce(Lie::None);
        client.place = PLACE_OFFSET;
        let writer = client.ask(open_new(&path), &path, 4096, Lie::None);
        assert_eq!(writer.state(), STATE_REFUSED);
    });
    program.end();
}

// ---- recover --------------------------------------------------------------------------------------

/// A ledger whose guard and processes are all dead, and a file "data" that holds "before " and for
/// which "after" is pending.
struct Wreck {
    folder: Folder,
    ledger: PathBuf,
    data: PathBuf,
    /// The process that had accepted the bytes.
    pid: u32,
    /// Where the ledger is noted.
    states: Vec<PathBuf>,
}

impl Drop for Wreck {
    fn drop(&mut self) {
        self.states.iter().for_each(|state| drop(std::fs::remove_dir_all(state)));
    }
}

/// Where the writing process died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Died {
    BetweenCalls,
    InsideFlush,
}

impl Wreck {
    fn new(died: Died, place: u32) -> Wreck {
        Wreck::of(died, place, "data", Settings::default())
    }

    /// Of a file of another name, and a guard that has noted its ledger.
    fn noted(name: &str) -> Wreck {
        let states = vec![tempfile::tempdir().unwrap().keep()];
        let settings = Settings { notes: states, ..Settings::default() };
        Wreck::of(Died::BetweenCalls, PLACE_BASE, name, settings)
    }

    fn of(died: Died, place: u32, name: &str, settings: Settings) -> Wreck {
        let folder = Folder::new();
        let program = Program::start(&folder.0, &settings);
        let client = Client::look(&program.ledger);
        let guard = client.guard();
        let data = folder.join(name);
        std::fs::create_dir_all(data.parent().unwrap()).unwrap();
        let words = shared::<1>();
        let child = fork(|| {
            let client = Client::join(&program.ledger);
            client.introduce(Lie::None);
            let writer = client.ask(open_new(&data), &data, 4096, Lie::None);
            writer.append(b"before ");
            writer.flush();
            writer.append(b"after");
            writer.entry.place.store(place, SeqCst);
            writer.entry.before.store(7, SeqCst);
            writer.entry.flushing.store(u32::from(died == Died::InsideFlush), SeqCst);
            words[0].store(1, SeqCst);
            loop {
                // SAFETY: takes nothing.
                unsafe { libc::pause() };
            }
        });
        until("it has written", || words[0].load(SeqCst) == 1);
        kill(guard);
        until("the kernel says that the guard died", || {
            client.ledger.header.guard.load(SeqCst) == OWNER_DIED
        });
        // The word comes before the lock in the order in which a process is taken apart.
        until("its lock is free", || !is_process(guard));
        let kind = recover(&program.ledger, Mode::Finish).unwrap_err().kind;
        assert_eq!(kind, ErrorKind::InUse, "a process that is recorded lives");
        kill(child);
        wait(child);
        program.end();
        Wreck { folder, ledger: program.ledger, data, pid: child, states: settings.notes }
    }

    fn change(&self, at: usize, bytes: &[u8]) {
        let file = File::options().write(true).open(&self.ledger).unwrap();
        file.write_all_at(bytes, at as u64).unwrap();
    }
}

#[test]
fn recover_writes_only_where_the_file_is_the_same_and_unchanged() {
    let _alone = alone();
    let write = |path: &Path, at: u64, bytes: &[u8]| {
        let file = File::options().write(true).open(path).unwrap();
        file.write_all_at(bytes, at).unwrap();
    };
    let nothing = |_: &Path| ();
    let touched = |path: &Path| write(path, 0, b"B");
    let chmodded = |path: &Path| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o640)).unwrap();
    };
    let grown = |path: &Path| write(path, 7, b"another run");
    let emptied = |path: &Path| File::create(path).map(drop).unwrap();
    let replaced = |path: &Path| {
        std::fs::copy(path, path.with_extension("new")).unwrap();
        std::fs::rename(path.with_extension("new"), path).unwrap();
    };
    let removed = |path: &Path| std::fs::remove_file(path).unwrap();
    let linked = |path: &Path| {
        std::fs::rename(path, path.with_extension("moved")).unwrap();
        std::os::unix::fs::symlink(path.with_extension("moved"), path).unwrap();
    };
    let partly = |path: &Path| write(path, 7, b"aft");
    let wholly = |path: &Path| write(path, 7, b"after");
    let otherwise = |path: &Path| write(path, 7, b"afX");
    let beyond = |path: &Path| write(path, 7, b"after all");
    type Change<'a> = &'a dyn Fn(&Path);
    use Died::{BetweenCalls, InsideFlush};
    let cases: [(&str, Died, Change, bool); 15] = [
        ("nothing", BetweenCalls, &nothing, true),
        ("touched", BetweenCalls, &touched, false),
        ("chmodded", BetweenCalls, &chmodded, false),
        ("grown", BetweenCalls, &grown, false),
        ("emptied", BetweenCalls, &emptied, false),
        ("replaced", BetweenCalls, &replaced, false),
        ("removed", BetweenCalls, &removed, false),
        ("linked", BetweenCalls, &linked, false),
        ("partly there", BetweenCalls, &partly, false),
        ("nothing, flushing", InsideFlush, &nothing, true),
        ("partly there, flushing", InsideFlush, &partly, true),
        ("wholly there, flushing", InsideFlush, &wholly, true),
        ("otherwise, flushing", InsideFlush, &otherwise, false),
        ("beyond, flushing", InsideFlush, &beyond, false),
        ("emptied, flushing", InsideFlush, &emptied, false),
    ];
    let places = [PLACE_BASE, PLACE_END, PLACE_OFFSET];
    for ((what, died, change, is_written), place) in
        cases.into_iter().flat_map(|case| places.map(|place| (case, place)))
    {
        let wreck = Wreck::new(died, place);
        // Times of files advance in steps of the kernel's clock.
        std::thread::sleep(Duration::from_millis(10));
        change(&wreck.data);
        let changed = std::fs::read(&wreck.data).ok();
        let candidates = stale_ledgers_in(&wreck.folder.0, uid());
        assert_eq!(candidates, [wreck.ledger.as_path()], "{what}");

        let listed = recover(&wreck.ledger, Mode::List).unwrap();
        assert_eq!(listed.len(), 1, "{what}");
        let piece = &listed[0];
        assert_eq!(
            (&piece.path, piece.pid, piece.base, piece.bytes),
            (&wreck.data, Some(wreck.pid), 7, 5)
        );
        let expected = if is_written { Fate::CanBeWritten } else { Fate::WouldBeSaved };
        assert_eq!(piece.fate, expected, "{what}");

        let finished = recover(&wreck.ledger, Mode::Finish).unwrap();
        assert!(!wreck.ledger.exists(), "{what}");
        if is_written {
            assert_eq!(finished[0].fate, Fate::Written, "{what}");
            assert_eq!(std::fs::read(&wreck.data).unwrap(), b"before after", "{what}");
        } else {
            let saved = wreck.folder.join(&format!("data.sweetspot-saved-{}-at-7", wreck.pid));
            assert_eq!(finished[0].fate, Fate::Saved(saved.clone()), "{what}");
            assert_eq!(std::fs::read(saved).unwrap(), b"after", "{what}");
            assert_eq!(std::fs::read(&wreck.data).ok(), changed, "{what}: not overwritten");
        }
    }
}

/// Names of the notes in a state folder.
fn notes(state: &Path) -> Vec<String> {
    let names = std::fs::read_dir(state.join("ledgers")).unwrap();
    names.map(|name| name.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_noted_ledger_is_finished_whole_paths_included() {
    let _alone = alone();
    // In the second, the last 256 bytes are an absolute path, too.
    let long = format!("{}/data", "d".repeat(200)).repeat(3);
    let doubled = format!("x/{}/{}", "y".repeat(127), "z".repeat(126));
    for name in ["data", &long, &doubled] {
        let wreck = Wreck::noted(name);
        let noted = noted_ledgers_in(&wreck.states, &wreck.folder.0);
        assert_eq!(noted.len(), 1, "{name}");
        assert_eq!(noted[0].ledger(), wreck.ledger);
        let pieces = recover_noted(&noted[0], Mode::Finish).unwrap();
        assert_eq!((&pieces[0].path, &pieces[0].fate), (&wreck.data, &Fate::Written));
        assert_eq!(std::fs::read(&wreck.data).unwrap(), b"before after");
        assert!(!wreck.ledger.exists());
        assert!(notes(&wreck.states[0]).is_empty(), "the note goes with the ledger");
    }
}

#[test]
fn a_long_path_without_a_note_is_no_other_path() {
    let _alone = alone();
    let wreck = Wreck::of(
        Died::BetweenCalls,
        PLACE_BASE,
        &format!("{}/data", "d".repeat(250)),
        Settings::default(),
    );
    let pieces = recover(&wreck.ledger, Mode::List).unwrap();
    assert_eq!((pieces[0].path.as_os_str().len(), &pieces[0].fate), (0, &Fate::WouldBeSaved));
}

#[test]
fn only_ledgers_and_files_that_the_guard_noted_are_believed() {
    let _alone = alone();
    let noted = |wreck: &Wreck| noted_ledgers_in(&wreck.states, &wreck.folder.0);

    // Somebody copied it, changed what he liked, and put it in place of the first.
    let wreck = Wreck::noted("data");
    let copy = wreck.folder.join("copy");
    let mut copied = std::process::Command::new("cp");
    copied.args(["-p", "--sparse=always"]);
    assert!(copied.arg(&wreck.ledger).arg(&copy).status().unwrap().success());
    let before = noted(&wreck);
    std::fs::rename(&copy, &wreck.ledger).unwrap();
    assert!(recover_noted(&before[0], Mode::Finish).is_err(), "found before, replaced since");
    assert!(noted(&wreck).is_empty());
    assert!(notes(&wreck.states[0]).is_empty(), "the ledger that was noted is gone for good");

    // Or changed the noted one in its place.
    let wreck = Wreck::noted("data");
    let victim = wreck.folder.join("victim");
    std::fs::write(&victim, b"before ").unwrap();
    let entry = std::mem::offset_of!(Ledger, entries);
    let inode = std::fs::metadata(&victim).unwrap().ino();
    let path = victim.to_str().unwrap().as_bytes();
    wreck.change(entry + std::mem::offset_of!(Entry, inode), &inode.to_ne_bytes());
    wreck.change(entry + std::mem::offset_of!(Entry, path) + 8, path);
    let names = wreck.folder.names();
    for mode in [Mode::List, Mode::Finish] {
        let pieces = recover_noted(&noted(&wreck)[0], mode).unwrap();
        assert!(matches!(pieces[0].fate, Fate::Stuck(_)), "{pieces:?}");
    }
    assert_eq!(std::fs::read(&victim).unwrap(), b"before ");
    assert_eq!(wreck.folder.names(), names, "nothing is saved where a ledger says");

    // Or made the folder of notes open to others.
    let wreck = Wreck::noted("data");
    let folder = wreck.states[0].join("ledgers");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(noted(&wreck).is_empty());
}

#[test]
fn nothing_waits_where_the_ledger_cannot_be_noted() {
    let _alone = alone();
    let folder = Folder::new();
    let state = tempfile::tempdir().unwrap();
    let nowhere = PathBuf::from("/proc/nowhere");
    let check = |states: Vec<PathBuf>, expected: u8| {
        let settings = Settings { notes: states, ..Settings::default() };
        let program = Program::start(&folder.0, &settings);
        in_child(|| {
            let client = Client::join(&program.ledger);
            client.introduce(Lie::None);
            let path = folder.join("data");
            let _ = std::fs::remove_file(&path);
            let writer = client.ask(open_new(&path), &path, 4096, Lie::None);
            assert_eq!(writer.state(), expected);
            let why = client.ledger.header.why.load(SeqCst);
            let is_said = why & sweetspot_core::why::Why::NotNoted.bit() != 0;
            assert_eq!(is_said, expected == STATE_REFUSED);
            let noted = std::fs::read_dir(state.path().join("ledgers")).map(Iterator::count);
            assert_eq!(noted.unwrap_or(0), usize::from(expected == STATE_PINNED));
        });
        program.end();
        until("the guard ends", || !program.ledger.exists());
    };
    // In a container nobody could recover it anyway.
    let is_contained = std::fs::metadata("/proc/self/ns/pid").unwrap().ino() != 0xefff_fffc;
    if is_contained {
        println!("skipped: a pid namespace of its own needs no note");
    } else {
        check(vec![nowhere.clone()], STATE_REFUSED);
    }
    check(vec![nowhere, state.path().to_owned()], STATE_PINNED);
    until("the note goes with the ledger", || notes(state.path()).is_empty());
}

fn uid() -> u32 {
    // SAFETY: takes nothing.
    unsafe { libc::geteuid() }
}

#[test]
fn recover_discards_only_when_told_to() {
    let _alone = alone();
    let wreck = Wreck::new(Died::BetweenCalls, PLACE_BASE);
    // Not the chunks: the file is sparse and looks very large.
    let content = || {
        let mut bytes = vec![0; CHUNKS_AT as usize + 65536];
        File::open(&wreck.ledger).unwrap().read_exact_at(&mut bytes, 0).unwrap();
        bytes
    };
    let before = content();
    recover(&wreck.ledger, Mode::List).unwrap();
    assert!(content() == before, "listing changes nothing");
    let pieces = recover(&wreck.ledger, Mode::Discard).unwrap();
    assert_eq!(pieces[0].fate, Fate::Discarded);
    assert_eq!(wreck.folder.names(), ["data"]);
    assert_eq!(std::fs::read(&wreck.data).unwrap(), b"before ");
}

#[test]
fn recover_refuses_what_is_not_a_dead_ledger_of_the_caller() {
    let _alone = alone();
    use std::mem::offset_of;
    type Change<'a> = &'a dyn Fn(&Wreck);
    let loosened = |wreck: &Wreck| {
        std::fs::set_permissions(&wreck.ledger, std::fs::Permissions::from_mode(0o640)).unwrap();
    };
    let linked = |wreck: &Wreck| {
        std::fs::rename(&wreck.ledger, wreck.folder.join("moved")).unwrap();
        std::os::unix::fs::symlink(wreck.folder.join("moved"), &wreck.ledger).unwrap();
    };
    let hard_linked = |wreck: &Wreck| {
        std::fs::hard_link(&wreck.ledger, wreck.folder.join("second")).unwrap();
    };
    let foreign =
        |wreck: &Wreck| std::os::unix::fs::chown(&wreck.ledger, Some(65534), None).unwrap();
    let folder = |wreck: &Wreck| {
        std::fs::remove_file(&wreck.ledger).unwrap();
        std::fs::create_dir(&wreck.ledger).unwrap();
    };
    let fifo = |wreck: &Wreck| {
        std::fs::remove_file(&wreck.ledger).unwrap();
        let name = std::ffi::CString::new(wreck.ledger.to_str().unwrap()).unwrap();
        // SAFETY: a live C string is passed.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    };
    let cut = |wreck: &Wreck| {
        File::options().write(true).open(&wreck.ledger).unwrap().set_len(10_000).unwrap();
    };
    let unmade = |wreck: &Wreck| File::create(&wreck.ledger).map(drop).unwrap();
    let of_another_version = |wreck: &Wreck| wreck.change(0, b"swspot99");
    let of_root = |wreck: &Wreck| {
        wreck.change(offset_of!(Ledger, header) + offset_of!(Header, uid), &[1, 2, 3, 4]);
    };
    let rebooted = |wreck: &Wreck| {
        wreck.change(offset_of!(Ledger, header) + offset_of!(Header, boot), &[1; 8]);
    };
    let contained = |wreck: &Wreck| {
        let at = offset_of!(Ledger, header) + offset_of!(Header, pid_namespace);
        wreck.change(at, &[1; 8]);
    };
    let gone = |wreck: &Wreck| std::fs::remove_file(&wreck.ledger).unwrap();
    let mut cases: Vec<(&str, Change, ErrorKind)> = vec![
        ("loosened", &loosened, ErrorKind::NotYours),
        ("linked", &linked, ErrorKind::NotYours),
        ("hard linked", &hard_linked, ErrorKind::NotYours),
        ("a folder", &folder, ErrorKind::System),
        ("a FIFO", &fifo, ErrorKind::NotYours),
        ("cut", &cut, ErrorKind::NotALedger),
        ("in the making", &unmade, ErrorKind::InUse),
        ("of another version", &of_another_version, ErrorKind::OtherVersion),
        ("of another user inside", &of_root, ErrorKind::NotYours),
        ("of another boot", &rebooted, ErrorKind::Elsewhere),
        ("of another container", &contained, ErrorKind::Elsewhere),
        ("gone", &gone, ErrorKind::System),
    ];
    if is_root() {
        cases.push(("foreign", &foreign, ErrorKind::NotYours));
    } else {
        println!("skipped: only root can make a file foreign");
    }
    for (what, change, expected) in cases {
        let wreck = Wreck::new(Died::BetweenCalls, PLACE_BASE);
        change(&wreck);
        let names = wreck.folder.names();
        let error = recover(&wreck.ledger, Mode::Finish).unwrap_err();
        assert_eq!(error.kind, expected, "{what}: {error}");
        assert!(error.to_string().contains(wreck.ledger.to_str().unwrap()), "{what}: {error}");
        assert_eq!(wreck.folder.names(), names, "{what}: nothing was made or removed");
        assert_eq!(std::fs::read(&wreck.data).unwrap(), b"before ", "{what}");
        if matches!(expected, ErrorKind::Elsewhere | ErrorKind::OtherVersion) {
            recover(&wreck.ledger, Mode::Discard).unwrap();
            assert!(!wreck.ledger.exists(), "{what}: it can be removed");
        }
    }
}

#[test]
fn a_ledger_whose_guard_lives_is_nobodys_business() {
    let _alone = alone();
    let folder = Folder::new();
    let program = Program::start(&folder.0, &Settings::default());
    // Also in the moment in which the guard has not begun.
    let kind = recover(&program.ledger, Mode::Discard).unwrap_err().kind;
    assert_eq!(kind, ErrorKind::InUse);
    assert!(stale_ledgers_in(&folder.0, uid()).is_empty());
    Client::look(&program.ledger).guard();
    let kind = recover(&program.ledger, Mode::Discard).unwrap_err().kind;
    assert_eq!(kind, ErrorKind::InUse);
    program.end();
    until("the ledger is gone", || folder.names().is_empty());
}

#[test]
fn a_waiting_parent_learns_when_all_is_written() {
    let _alone = alone();
    let folder = Folder::new();
    in_child(|| {
        let mut session = Session::create_in(&Settings::default(), &folder.0).unwrap();
        let path = folder.join("data");
        let ledger = session.path().to_owned();
        let words = shared::<2>();
        // The guard is started for a child, as with a summary.
        let child = fork(|| {
            until("there is a guard", || words[0].load(SeqCst) == 1);
            let client = Client::join(&ledger);
            client.introduce(Lie::None);
            let writer = client.ask(open_new(&path), &path, 1 << 20, Lie::None);
            writer.append(&[5; 1 << 20]);
            // SAFETY: dies here.
            unsafe { libc::raise(libc::SIGKILL) };
        });
        session.start_guard(child).unwrap();
        words[0].store(1, SeqCst);
        wait(child);
        assert!(session.wait_finished(child, PATIENCE));
        assert_eq!(std::fs::read(&path).unwrap(), vec![5; 1 << 20]);
        assert_eq!(session.summary().saved, 0);
        assert!(session.wait_finished(1, PATIENCE), "nothing of a stranger is pending");
    });
    until("the ledger is gone", || folder.names() == ["data"]);
}

// ---- what it costs --------------------------------------------------------------------------------

#[test]
fn costs() {
    let _alone = alone();
    const RUNS: usize = 30;
    let folder = Folder::new();
    let words = shared::<{ 3 * RUNS }>();
    let median = |first: usize| {
        let mut times: Vec<u64> =
            words[first..first + RUNS].iter().map(|word| word.load(SeqCst)).collect();
        times.sort();
        Duration::from_nanos(times[RUNS / 2])
    };
    for run in 0..RUNS {
        in_child(|| {
            let start = Instant::now();
            let mut session = Session::create_in(&Settings::default(), &folder.0).unwrap();
            let created = start.elapsed();
            session.start_guard(std::process::id()).unwrap();
            words[run].store(created.as_nanos() as u64, SeqCst);
            words[RUNS + run].store((start.elapsed() - created).as_nanos() as u64, SeqCst);
        });
    }
    let program = Program::start(&folder.0, &Settings::default());
    in_child(|| {
        let client = Client::join(&program.ledger);
        client.introduce(Lie::None);
        client.guard();
        for run in 0..RUNS {
            let path = folder.join(&format!("data-{run}"));
            let file = open_new(&path);
            let start = Instant::now();
            let writer = client.ask(file, &path, 65536, Lie::None);
            words[2 * RUNS + run].store(start.elapsed().as_nanos() as u64, SeqCst);
            assert!(writer.is_pinned());
            writer.discard();
        }
    });
    program.end();
    let (create, start, pin) = (median(0), median(RUNS), median(2 * RUNS));
    println!("median of {RUNS}: ledger {create:?}, guard {start:?}, ask to answer {pin:?}");
    assert!(!create.is_zero() && !start.is_zero() && !pin.is_zero());
}
