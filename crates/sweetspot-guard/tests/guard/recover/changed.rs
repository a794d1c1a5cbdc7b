//! What somebody did to a file between a death and `recover`: where it finishes the file all the same, and where it
//! saves beside.

use super::*;

fn write_at(path: &Path, at: u64, bytes: &[u8]) {
    File::options().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

#[test]
fn an_update_in_place_that_a_kill_cut_short_is_finished_unless_somebody_has_written_since() {
    let _alone = alone();
    type Act = fn(&Path);
    let cases: [(&str, Act, &[u8], bool); 6] = [
        ("nothing", |_| {}, b"bafter ", true),
        ("other rights", |path| drop(std::fs::set_permissions(path, readable())), b"bafter ", true),
        ("the same bytes", |path| write_at(path, 1, b"after"), b"bafter ", true),
        ("the same and more", |path| write_at(path, 1, b"after all"), b"bafter all", true),
        ("within", |path| write_at(path, 4, b"X"), b"baf"[..].as_ref(), false),
        ("elsewhere", |path| write_at(path, 0, b"B"), b"Baf", false),
    ];
    for (what, act, expected, is_written) in cases {
        for place in [AT_BASE, AT_OFFSET] {
            let wreck = Wreck::new(Died::InsideUpdate, place);
            std::thread::sleep(Duration::from_millis(20));
            act(&wreck.data);
            let changed = std::fs::read(&wreck.data).unwrap();
            assert_eq!(wreck.finish() == Fate::Written, is_written, "{what}");
            let found = std::fs::read(&wreck.data).unwrap();
            assert!(found.starts_with(expected), "{what}: {found:?}");
            assert!(is_written || found == changed, "{what}: not overwritten");
        }
    }
}

#[test]
fn what_others_wrote_before_an_attempt_that_failed_is_not_overwritten() {
    let _alone = alone();
    for place in [AT_END, AT_OFFSET, APPENDED] {
        let wreck = Wreck::new(Died::AfterAttempt, place);
        assert_eq!(wreck.finish(), Fate::Written, "{place:?}");
        assert_eq!(std::fs::read(&wreck.data).unwrap(), b"before other after", "{place:?}");
        // Where it cannot be written, its name says where it belongs.
        let wreck = Wreck::new(Died::AfterAttempt, place);
        std::thread::sleep(Duration::from_millis(10));
        write_at(&wreck.data, 0, b"B");
        let at = if place == AT_OFFSET { "at" } else { "appended-at" };
        let saved = wreck.folder.join(&format!("data.sweetspot-saved-{}-{at}-13", wreck.pid));
        assert_eq!(wreck.finish(), Fate::Saved(saved), "{place:?}");
    }
}

fn readable() -> std::fs::Permissions {
    std::fs::Permissions::from_mode(0o640)
}

#[test]
fn a_file_that_was_renamed_is_finished_and_what_has_its_name_is_not_touched() {
    let _alone = alone();
    let moved = |path: &Path| path.with_extension("moved");
    let rename = |path: &Path| std::fs::rename(path, moved(path)).unwrap();
    let hard_linked = |path: &Path| {
        std::fs::hard_link(path, moved(path)).unwrap();
        std::fs::remove_file(path).unwrap();
    };
    let rotated = |path: &Path| {
        rename(path);
        std::fs::write(path, b"before ").unwrap();
    };
    let linked = |path: &Path| {
        rename(path);
        std::os::unix::fs::symlink(moved(path), path).unwrap();
    };
    let written = |path: &Path| {
        rename(path);
        write_at(&moved(path), 0, b"B");
    };
    type Act<'a> = &'a dyn Fn(&Path);
    let cases: [(&str, Act, bool); 5] = [
        ("renamed", &rename, true),
        ("by another link", &hard_linked, true),
        ("rotated", &rotated, true),
        ("a link in its place", &linked, true),
        ("written since", &written, false),
    ];
    for (what, act, is_written) in cases {
        let wreck = Wreck::noted("data");
        std::thread::sleep(Duration::from_millis(20));
        act(&wreck.data);
        let noted = noted_ledgers_in(&wreck.states, &wreck.folder.0);
        let pieces = recover_noted(&noted[0], Mode::Finish).unwrap();
        assert_eq!(pieces[0].fate == Fate::Written, is_written, "{what}: {:?}", pieces[0]);
        let found = std::fs::read(moved(&wreck.data)).unwrap();
        let expected: &[u8] = if is_written { b"before after" } else { b"Before " };
        assert_eq!(found, expected, "{what}");
        if what == "rotated" {
            assert_eq!(std::fs::read(&wreck.data).unwrap(), b"before ", "another file");
        }
    }
}

#[test]
fn a_file_that_is_moved_to_another_folder_while_bytes_wait_is_found_there() {
    let _alone = alone();
    let folder = Folder::new();
    let state = tempfile::tempdir().unwrap();
    let settings = Settings { notes: vec![state.path().to_owned()], ..Settings::default() };
    let program = Program::start(&folder.0, &settings);
    let client = Client::look(&program.ledger);
    let guard = client.guard();
    let [data, moved] = ["data", "other/moved"].map(|name| folder.join(name));
    std::fs::create_dir(folder.join("other")).unwrap();
    let words = shared::<1>();
    let child = fork(|| {
        let client = Client::join(&program.ledger);
        client.introduce(Lie::None);
        let writer = client.ask(open_new(&data), &data, 4096, Lie::None);
        writer.append(b"bytes");
        // As the library does when something begins to wait. The guard leaves alone who works.
        let header = &client.ledger.header;
        words[0].store(1, SeqCst);
        loop {
            header.clock_wanted.store(CLOCK_WANTED, SeqCst);
            client.wake();
            let word = writer.entry.word.load(SeqCst);
            let _ = writer.entry.word.compare_exchange(word, word ^ (1 << 40), SeqCst, SeqCst);
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    until("it has written", || words[0].load(SeqCst) == 1);
    std::fs::rename(&data, &moved).unwrap();
    std::fs::write(&data, b"another").unwrap();
    let note = state.path().join("ledgers").join(program.ledger.file_name().unwrap());
    let name = moved.to_str().unwrap().as_bytes();
    until("that is noted", || {
        std::fs::read(&note).unwrap().windows(name.len()).any(|bytes| bytes == name)
    });
    kill(guard);
    until("its lock is free", || !is_process(guard));
    kill(child);
    wait(child);
    program.end();
    let noted = noted_ledgers_in(&settings.notes, &folder.0);
    let pieces = recover_noted(&noted[0], Mode::Finish).unwrap();
    assert_eq!((&pieces[0].path, &pieces[0].fate), (&moved, &Fate::Written));
    assert_eq!(std::fs::read(&moved).unwrap(), b"bytes");
    assert_eq!(std::fs::read(&data).unwrap(), b"another");
}

#[test]
fn recover_writes_only_where_the_file_is_the_same_and_unchanged() {
    let _alone = alone();
    let write = write_at;
    let nothing = |_: &Path| ();
    let touched = |path: &Path| write(path, 0, b"B");
    let chmodded = |path: &Path| {
        std::fs::set_permissions(path, readable()).unwrap();
    };
    let grown = |path: &Path| write(path, 7, b"another run");
    let emptied = |path: &Path| File::create(path).map(drop).unwrap();
    let replaced = |path: &Path| {
        std::fs::copy(path, path.with_extension("new")).unwrap();
        std::fs::rename(path.with_extension("new"), path).unwrap();
    };
    let removed = |path: &Path| std::fs::remove_file(path).unwrap();
    let partly = |path: &Path| write(path, 7, b"aft");
    let wholly = |path: &Path| write(path, 7, b"after");
    let otherwise = |path: &Path| write(path, 7, b"afX");
    let beyond = |path: &Path| write(path, 7, b"afXer all");
    type Change<'a> = &'a dyn Fn(&Path);
    use Died::{BetweenCalls, InsideFlush};
    let cases: [(&str, Died, Change, bool); 14] = [
        ("nothing", BetweenCalls, &nothing, true),
        ("touched", BetweenCalls, &touched, false),
        ("chmodded", BetweenCalls, &chmodded, true),
        ("grown", BetweenCalls, &grown, false),
        ("emptied", BetweenCalls, &emptied, false),
        ("replaced", BetweenCalls, &replaced, false),
        ("removed", BetweenCalls, &removed, false),
        ("partly there", BetweenCalls, &partly, false),
        ("nothing, flushing", InsideFlush, &nothing, true),
        ("partly there, flushing", InsideFlush, &partly, true),
        ("wholly there, flushing", InsideFlush, &wholly, true),
        ("otherwise, flushing", InsideFlush, &otherwise, false),
        ("beyond, flushing", InsideFlush, &beyond, false),
        ("emptied, flushing", InsideFlush, &emptied, false),
    ];
    let places = [AT_BASE, AT_END, AT_OFFSET, APPENDED];
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
        assert_eq!(piece.appends, [AT_END, APPENDED].contains(&place), "{what}");
        let expected = if is_written { Fate::CanBeWritten } else { Fate::WouldBeSaved };
        assert_eq!(piece.fate, expected, "{what}");

        let finished = recover(&wreck.ledger, Mode::Finish).unwrap();
        assert!(!wreck.ledger.exists(), "{what}");
        if is_written {
            assert_eq!(finished[0].fate, Fate::Written, "{what}");
            assert_eq!(std::fs::read(&wreck.data).unwrap(), b"before after", "{what}");
        } else {
            let at = if piece.appends { "appended-at" } else { "at" };
            let saved = wreck.folder.join(&format!("data.sweetspot-saved-{}-{at}-7", wreck.pid));
            assert_eq!(finished[0].fate, Fate::Saved(saved.clone()), "{what}");
            assert_eq!(std::fs::read(saved).unwrap(), b"after", "{what}");
            assert_eq!(std::fs::read(&wreck.data).ok(), changed, "{what}: not overwritten");
        }
    }
}
