//! What `run` notices of the guard: nothing but errors that it can tell its user.

use std::collections::BTreeSet;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

use sweetspot_core::ledger::*;
use sweetspot_core::size::BufferSize;
use sweetspot_core::why::Why;
use sweetspot_guard::ErrorKind;
use sweetspot_guard::session::Rule;

use super::*;

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
            let mut session = OwnedLedger::create_in(&Settings::default(), &folder.0).unwrap();
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
        // A mount of its own, at no place.
        let device = |path: &Path| std::fs::metadata(path).map(|found| found.dev()).ok();
        let is_proc = target == Path::new("/") && device(fd) == device(Path::new("/proc"));
        is_device
            || is_proc
            || target == ledger
            || target.to_str().unwrap().starts_with("anon_inode:")
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
    let mut session = OwnedLedger::create_in(&Settings::default(), &folder.0).unwrap();
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
        let made = OwnedLedger::create_in(&settings, &folder.0);
        assert_eq!(made.as_ref().err().map(|error| error.kind), expected, "{count} rules");
        if let Ok(session) = made {
            assert_eq!(session.ledger().header.rules.load(SeqCst), count as u32);
            session.remove().unwrap();
        }
    }
    let rules = vec![
        Rule { program: "seqcopy".into(), buffer: Some(BufferSize::Off), ..Rule::default() },
        Rule { file: "*.dat".into(), unobserved: true, stdio: true, ..Rule::default() },
    ];
    let session = OwnedLedger::create_in(
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
    assert_eq!(ledger.rules[1].flags.load(SeqCst), RULE_UNOBSERVED | RULE_STDIO);

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

    header.entries_ready.store(ENTRIES_FIRST, SeqCst);
    ledger.entries()[5].word.store(100, SeqCst);
    header.guard.store(OWNER_DIED, SeqCst);
    assert_eq!(session.remove().unwrap_err().kind, ErrorKind::InUse, "something is pending");
    ledger.entries()[5].word.store(0, SeqCst);
    session.remove().unwrap();
    session.remove().unwrap();
}

#[test]
fn where_there_is_no_room_it_is_an_error_and_nothing_is_left() {
    let _alone = alone();
    let folder = Folder::new();
    let settings = Settings::default();
    let kind =
        |folder: &Path| OwnedLedger::create_in(&settings, folder).err().map(|error| error.kind);
    assert_eq!(kind(&folder.join("missing")), Some(ErrorKind::NoSharedMemory));

    // A limit on file size below the size of the ledger; then one that leaves no room for write
    // buffers.
    let ledger_bytes = size_of::<Ledger>() as u64;
    for (limit, expected) in [
        (0, Some(ErrorKind::FileSizeLimit)),
        (ledger_bytes - 1, Some(ErrorKind::FileSizeLimit)),
        (ledger_bytes, None),
        (WRITE_BUFFERS_AT + WRITE_BUFFERS_BYTES_MAX - 1, None),
    ] {
        in_child(|| {
            let limit = libc::rlimit64 { rlim_cur: limit, rlim_max: limit };
            // SAFETY: the limit is live.
            assert_eq!(unsafe { libc::setrlimit64(libc::RLIMIT_FSIZE, &limit) }, 0);
            assert_eq!(kind(&folder.0), expected, "{limit:?}");
            for path in folder.names() {
                let _ = std::fs::remove_file(folder.join(&path));
            }
            let Ok(mut session) = OwnedLedger::create_in(&settings, &folder.0) else { return };
            assert!(!session.is_guarded(), "there is no room for write buffers");
            assert!(session.start_guard(std::process::id()).is_err());
            session.remove().unwrap();
        });
        assert!(folder.names().is_empty());
    }

    let Some(mount) = Mount::new("size=512k") else { return };
    assert_eq!(kind(&mount.0.0), Some(ErrorKind::NoSpace));
    assert!(mount.0.names().is_empty());
    let error = OwnedLedger::create_in(&settings, &mount.0.0).err().unwrap().to_string();
    assert!(error.contains("df "), "{error}");
}

#[test]
fn a_full_memory_file_system_refuses_handles_and_raises_no_signal() {
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
        assert!(small.is_held());
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
        for entry in client.ledger.entries() {
            entry.birth_ns.store(1, SeqCst);
        }
        small.append(&[7; 4096]);
    });
    until("the guard wrote it", || std::fs::read(folder.join("small")).unwrap() == vec![7; 4096]);
    program.end();
}
