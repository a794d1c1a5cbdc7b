//! What is left of what was accepted after kill -9, and who waits for it.

use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sweetspot_core::ledger::*;
use sweetspot_core::pending::length_of;
use sweetspot_guard::recover::{Fate, Mode, recover};

use super::*;

/// Writes a file until there is no more room.
fn fill_up(path: &Path) {
    let file = File::create(path).unwrap();
    let mut at = 0;
    while file.write_all_at(&[1; 4096], at).is_ok() {
        at += 4096;
    }
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
        // The program keeps flushing small write buffers; the guard alone flushes large ones.
        let write_buffer_bytes = 4096 << (random() % 7);
        let child = fork(|| {
            let client = Client::join(&program.ledger);
            client.introduce(Lie::None);
            let writers: Vec<_> = paths
                .iter()
                .map(|path| client.ask(open_new(path), path, write_buffer_bytes, Lie::None))
                .collect();
            assert!(writers.iter().all(Writer::is_held));
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
                    || client.ledger.entries().iter().all(|entry| {
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
    until("every write buffer is free", || {
        client.ledger.entries().iter().all(|entry| entry.write_buffer_at.load(SeqCst) == 0)
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
        assert!(writer.is_held());
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
    assert_eq!(word, OWNER_DIED, "anyone who looks sees that it is gone");
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
        fill_up(&fill);
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
fn what_cannot_even_be_saved_is_nobodys_who_lives() {
    let _alone = alone();
    let Some(mount) = Mount::new("size=4m") else { return };
    let settings = Settings { max_age: Some(Duration::from_millis(200)), ..Settings::default() };
    let program = Program::start_after(&mount.0.0, &settings, || {
        // SAFETY: this process has one thread; constant C strings are passed.
        unsafe { libc::setenv(c"XDG_STATE_HOME".as_ptr(), c"/proc/none".as_ptr(), 1) };
    });
    let client = Client::look(&program.ledger);
    let guard = client.guard();
    let (path, fill) = (mount.0.join("data"), mount.0.join("fill"));
    let child = fork(|| {
        let client = Client::join(&program.ledger);
        client.introduce(Lie::None);
        let writer = client.ask(open_new(&path), &path, 65536, Lie::None);
        writer.append(&[7; 60_000]);
        fill_up(&fill);
        // SAFETY: dies here.
        unsafe { libc::raise(libc::SIGKILL) };
    });
    wait(child);
    let header = &client.ledger.header;
    until("it is stuck", || header.stuck.load(SeqCst) > 0);
    let is_slot = |slot: &Slot| slot.pid.load(SeqCst) == child;
    until("its slot is free", || !client.ledger.slots.iter().any(is_slot));
    std::fs::remove_file(&fill).unwrap();
    // Not in the tick in which the guard tried it.
    std::thread::sleep(Duration::from_millis(50));
    std::fs::write(&path, b"somebody else's").unwrap();
    // The next one has that slot, and somebody asks for what waits there.
    let next = Client::join(&program.ledger);
    header.take_bits[next.slot / 64].fetch_or(1 << (next.slot % 64), SeqCst);
    header.clock_wanted.store(CLOCK_WANTED, SeqCst);
    client.wake();
    std::thread::sleep(Duration::from_millis(600));
    let is_as_it_was = || std::fs::read(&path).unwrap() == b"somebody else's";
    assert!(is_as_it_was());
    next.ledger.slots[next.slot].pid.store(0, SeqCst);
    program.end();
    until("the guard ends", || !is_process(guard));
    let fate = &recover(&program.ledger, Mode::Finish).unwrap()[0].fate;
    assert!(matches!(fate, Fate::Saved(_)), "{fate:?}");
    assert!(is_as_it_was());
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
            assert!(writer.is_held(), "{what}");
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
        assert!(writer.is_held());
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

#[test]
fn a_waiting_parent_learns_when_all_is_written() {
    let _alone = alone();
    let folder = Folder::new();
    in_child(|| {
        let mut session = OwnedLedger::create_in(&Settings::default(), &folder.0).unwrap();
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
        // Without the flags of the word. It may have ended.
        let guard = session.ledger().header.guard.load(SeqCst) & 0x3fff_ffff;
        let open = std::fs::read_dir(format!("/proc/{guard}/fd")).into_iter().flatten().flatten();
        let open = open.filter_map(|link| std::fs::read_link(link.path()).ok());
        assert_eq!(open.filter(|file| *file == path).count(), 0, "the file is free");
        assert_eq!(session.summary().saved, 0);
        assert!(session.wait_finished(1, PATIENCE), "nothing of a stranger is pending");
    });
    until("the ledger is gone", || folder.names() == ["data"]);
}
