//! What `recover` finishes where the guard died too, and what it refuses.

mod changed;

use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use sweetspot_core::ledger::*;
use sweetspot_core::unwritten::FLUSH_TRIED;
use sweetspot_guard::ErrorKind;
use sweetspot_guard::recover::{
    Fate, Mode, noted_ledgers_in, recover, recover_noted, stale_ledgers_in,
};

use super::*;

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

/// Where "after" belongs, and flags by which its file is open.
type Place = (u32, i32);
const AT_BASE: Place = (PLACE_BASE, 0);
const AT_END: Place = (PLACE_END, libc::O_APPEND);
const AT_OFFSET: Place = (PLACE_OFFSET, 0);
/// As `>> data` gives it to a program.
const APPENDED: Place = (PLACE_OFFSET, libc::O_APPEND);

/// Where the writing process died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Died {
    BetweenCalls,
    /// Before that it had written to a file "data.other", too.
    AfterAnotherFile,
    InsideFlush,
    /// Of "after", which replaces what is there from 1 on, "af" has arrived.
    InsideUpdate,
    /// Somebody else had written "other " meanwhile, and then there was no room for "after".
    AfterAttempt,
}

impl Wreck {
    fn new(died: Died, place: Place) -> Wreck {
        Wreck::of(died, place, "data", Settings::default())
    }

    /// Of a file of another name, and a guard that has noted its ledger.
    fn noted(name: &str) -> Wreck {
        let states = vec![tempfile::tempdir().unwrap().keep()];
        let settings = Settings { notes: states, ..Settings::default() };
        Wreck::of(Died::BetweenCalls, AT_BASE, name, settings)
    }

    fn of(died: Died, (place, flags): Place, name: &str, settings: Settings) -> Wreck {
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
            let other = data.with_extension("other");
            if died == Died::AfterAnotherFile {
                let earlier = client.ask(open_new(&other), &other, 4096, Lie::None);
                earlier.append(b"earlier");
                earlier.entry.written_ns.store(1, SeqCst);
            }
            let base = if died == Died::InsideUpdate { 1 } else { 7 };
            writer.entry.base.store(base, SeqCst);
            writer.append(b"after");
            writer.entry.place.store(place, SeqCst);
            writer.entry.open_flags.store(flags as u32, SeqCst);
            writer.entry.before.store(base, SeqCst);
            writer.entry.written_ns.store(2, SeqCst);
            let is_between = matches!(died, Died::BetweenCalls | Died::AfterAnotherFile);
            writer.entry.flushing.store(u32::from(!is_between), SeqCst);
            if died == Died::AfterAttempt {
                writer.file.write_all_at(b"other ", 7).unwrap();
                writer.note_times();
                writer.entry.flushing.store(FLUSH_TRIED, SeqCst);
                writer.entry.note_stopped_at(13);
            }
            if died == Died::InsideUpdate {
                // Times of files advance in steps of the kernel's clock.
                std::thread::sleep(Duration::from_millis(20));
                // Again where the kernel stops it in between.
                while {
                    let begun = SystemTime::now();
                    writer.file.write_all_at(b"af", base).unwrap();
                    let begun_ns = begun.duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
                    writer.entry.begun_ns.store(begun_ns, SeqCst);
                    begun.elapsed().unwrap() > Duration::from_micros(200)
                } {}
            }
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

    /// What is done with the one piece, as it is listed first.
    fn finish(&self) -> Fate {
        let listed = recover(&self.ledger, Mode::List).unwrap();
        let [piece] = &recover(&self.ledger, Mode::Finish).unwrap()[..] else {
            panic!("one piece")
        };
        assert_eq!(listed[0].path, piece.path);
        let is_written = piece.fate == Fate::Written;
        let expected = if is_written { Fate::CanBeWritten } else { Fate::WouldBeSaved };
        assert_eq!(listed[0].fate, expected);
        piece.fate.clone()
    }

    fn change(&self, at: usize, bytes: &[u8]) {
        let file = File::options().write(true).open(&self.ledger).unwrap();
        file.write_all_at(bytes, at as u64).unwrap();
    }
}

#[test]
fn which_of_two_files_was_written_later_is_seen() {
    let wreck = Wreck::new(Died::AfterAnotherFile, AT_BASE);
    let pieces = recover(&wreck.ledger, Mode::Finish).unwrap();
    assert!(pieces.iter().all(|piece| piece.fate == Fate::Written), "{pieces:?}");
    let modified = |path: &Path| std::fs::metadata(path).unwrap().modified().unwrap();
    let earlier = wreck.data.with_extension("other");
    assert_eq!(std::fs::read(&earlier).unwrap(), b"earlier");
    assert!(modified(&earlier) < modified(&wreck.data));
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
        AT_BASE,
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
    let entry = ENTRIES_AT;
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
            assert_eq!(noted.unwrap_or(0), usize::from(expected == STATE_HELD));
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
    check(vec![nowhere, state.path().to_owned()], STATE_HELD);
    until("the note goes with the ledger", || notes(state.path()).is_empty());
}

fn uid() -> u32 {
    // SAFETY: takes nothing.
    unsafe { libc::geteuid() }
}

#[test]
fn recover_discards_only_when_told_to() {
    let _alone = alone();
    let wreck = Wreck::new(Died::BetweenCalls, AT_BASE);
    // Not the write buffers: the file is sparse and looks very large.
    let content = || {
        let mut bytes = vec![0; WRITE_BUFFERS_AT as usize + 65536];
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
        let wreck = Wreck::new(Died::BetweenCalls, AT_BASE);
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
