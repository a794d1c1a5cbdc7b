//! What is left after kill -9 where somebody changes what the guard has to do with before it gets to it.

use std::fs::Permissions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt};

use sweetspot_core::ledger::*;
use sweetspot_core::pending::{Owner, owner_of};

use super::*;

#[test]
fn what_was_written_since_a_death_stays_and_what_waited_is_saved_beside() {
    let _alone = alone();
    let pending = [b'o'; 600];
    // What somebody does to the file who learns of the death and waits for nobody, and what it holds in the end.
    type Act = fn(&File);
    let cases: [(&str, Act, Option<&[u8]>); 5] = [
        ("nothing", |_| {}, None),
        ("other rights", |file| file.set_permissions(Permissions::from_mode(0o640)).unwrap(), None),
        ("over", |file| file.write_all_at(b"new", 0).unwrap(), Some(b"newore")),
        ("behind", |file| file.write_all_at(b"new", 6).unwrap(), Some(b"beforenew")),
        ("cut", |file| file.set_len(0).unwrap(), Some(b"")),
    ];
    for (what, act, expected) in cases {
        let folder = Folder::new();
        let program = Program::start(&folder.0, &Settings::default());
        let client = Client::look(&program.ledger);
        let guard = client.guard();
        let [path, other] = ["data", "other"].map(|name| folder.join(name));
        let child = fork(|| {
            let client = Client::join(&program.ledger);
            client.introduce(Lie::None);
            // Two entries of one file: to write one changes its times.
            let file = open_new(&path);
            file.write_all_at(b"before", 0).unwrap();
            let first = client.ask(file.try_clone().unwrap(), &path, 4096, Lie::None);
            let second = client.ask(file, &path, 4096, Lie::None);
            second.entry.base.store(306, SeqCst);
            let untouched = client.ask(open_new(&other), &other, 4096, Lie::None);
            // The times of files are no finer than a tick of the clock.
            std::thread::sleep(Duration::from_millis(20));
            first.append(&pending[..300]);
            second.append(&pending[300..]);
            untouched.append(&pending);
            // SAFETY: only values are passed.
            unsafe { libc::kill(guard as i32, libc::SIGSTOP) };
            until("all its threads have stopped", || {
                let threads = std::fs::read_dir(format!("/proc/{guard}/task")).unwrap().flatten();
                let stat = |thread: &Path| std::fs::read_to_string(thread.join("stat")).unwrap();
                threads.map(|thread| stat(&thread.path())).all(|stat| stat.contains(") T "))
            });
            // SAFETY: dies here.
            unsafe { libc::raise(libc::SIGKILL) };
        });
        wait(child);
        act(&File::options().write(true).open(&path).unwrap());
        // SAFETY: only values are passed.
        unsafe { libc::kill(guard as i32, libc::SIGCONT) };
        program.end();
        until("the guard has ended", || !program.ledger.exists());
        assert_eq!(std::fs::read(&other).unwrap(), pending, "{what}: another file");
        let saved = |at: u64| folder.join(&format!("data.sweetspot-saved-{child}-at-{at}"));
        let found = std::fs::read(&path).unwrap();
        match expected {
            None => {
                assert_eq!(found, [&b"before"[..], &pending].concat(), "{what}");
                assert_eq!(folder.names(), ["data", "other"], "{what}");
            }
            Some(expected) => {
                assert_eq!(found, expected, "{what}");
                for at in [6, 306] {
                    assert_eq!(std::fs::read(saved(at)).unwrap(), pending[..300], "{what}");
                }
            }
        }
    }
}

#[test]
fn a_guard_that_has_few_descriptors_keeps_enough_of_them_to_write() {
    let _alone = alone();
    const DESCRIPTORS: u64 = 40;
    const FILES: usize = 40;
    let folder = Folder::new();
    let program = Program::start_after(&folder.0, &Settings::default(), || {
        let limit = libc::rlimit { rlim_cur: DESCRIPTORS, rlim_max: DESCRIPTORS };
        // SAFETY: a live struct.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    });
    let client = Client::look(&program.ledger);
    let guard = client.guard();
    let path = |number: usize| folder.join(&format!("{number}"));
    let words = shared::<1>();
    let child = fork(|| {
        let client = Client::join(&program.ledger);
        client.introduce(Lie::None);
        for number in 0..FILES {
            let writer = client.ask(open_new(&path(number)), &path(number), 4096, Lie::None);
            if writer.is_held() {
                writer.append(b"bytes");
                words[0].fetch_add(1, SeqCst);
            }
            std::mem::forget(writer);
        }
        // SAFETY: dies here.
        unsafe { libc::raise(libc::SIGKILL) };
    });
    until("the child has asked", || words[0].load(SeqCst) > 0);
    wait(child);
    let held = words[0].load(SeqCst) as usize;
    assert!((5..DESCRIPTORS as usize - 16).contains(&held), "{held}");
    program.end();
    until("the guard has ended", || !is_process(guard));
    for number in 0..held {
        assert_eq!(std::fs::read(path(number)).unwrap(), b"bytes", "{number}");
    }
    assert_eq!(folder.names().len(), FILES, "nothing was saved beside");
}

#[test]
fn the_guard_writes_without_the_proc_that_it_began_with() {
    let _alone = alone();
    if !is_root() {
        return println!("skipped: only root can take away /proc");
    }
    for covers in [false, true] {
        let folder = Folder::new();
        let program = Program::start_after(&folder.0, &Settings::default(), || {
            let private = libc::MS_REC | libc::MS_PRIVATE;
            let (none, root) = (std::ptr::null(), c"/".as_ptr());
            // SAFETY: constant strings.
            unsafe {
                assert_eq!(libc::unshare(libc::CLONE_NEWNS), 0);
                assert_eq!(libc::mount(none, root, none, private, std::ptr::null()), 0);
            }
        });
        let client = Client::look(&program.ledger);
        let guard = client.guard();
        let path = folder.join("data");
        let child = fork(|| {
            let client = Client::join(&program.ledger);
            client.introduce(Lie::None);
            let writer = client.ask(open_new(&path), &path, 4096, Lie::None);
            writer.append(b"bytes");
            let mounts = File::open(format!("/proc/{guard}/ns/mnt")).unwrap();
            let (name, proc) = (c"tmpfs".as_ptr(), c"/proc".as_ptr());
            // SAFETY: a descriptor and constant strings; this process has one thread, and dies here.
            unsafe {
                assert_eq!(libc::setns(mounts.as_raw_fd(), libc::CLONE_NEWNS), 0);
                let done = match covers {
                    true => libc::mount(name, proc, name, 0, std::ptr::null()),
                    false => libc::umount2(proc, libc::MNT_DETACH),
                };
                assert_eq!(done, 0);
                libc::raise(libc::SIGKILL);
            }
        });
        wait(child);
        program.end();
        until("the guard has ended", || !is_process(guard));
        assert_eq!(std::fs::read(&path).unwrap(), b"bytes", "{covers}");
        assert_eq!(folder.names(), ["data"], "{covers}");
    }
}

/// A small disk, frozen at will, and unmounted at the end; none where this user may not have one.
struct Disk(Folder);

impl Disk {
    fn new() -> Option<Disk> {
        let folder = Folder::new();
        std::fs::create_dir(folder.join("mount")).unwrap();
        let make = "truncate -s 16M image && mkfs.ext4 -q -F image && mount -o loop image mount";
        let mut shell = std::process::Command::new("sh");
        let made = shell.args(["-c", make]).current_dir(&folder.0).status().unwrap();
        if !made.success() {
            println!("skipped: a disk cannot be mounted here");
            return None;
        }
        Some(Disk(folder))
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.join("mount")
    }

    fn freeze(&self, wanted: bool) -> bool {
        const FIFREEZE: libc::c_ulong = 0xc004_5877;
        const FITHAW: libc::c_ulong = 0xc004_5878;
        let top = File::open(self.path()).unwrap();
        // SAFETY: only values are passed.
        unsafe { libc::ioctl(top.as_raw_fd(), if wanted { FIFREEZE } else { FITHAW } as _, 0) == 0 }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.freeze(false);
        let _ = std::process::Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

/// Does what a process does that dies in the middle of everything.
fn die() -> ! {
    // SAFETY: ends this process.
    unsafe {
        libc::raise(libc::SIGKILL);
        libc::_exit(1)
    }
}

#[test]
fn what_a_process_gave_up_just_before_its_death_is_somebody_elses() {
    let _alone = alone();
    let Some(disk) = Disk::new() else { return };
    let folder = Folder::new();
    // A write may take two seconds before it counts as one that hangs.
    let settings = Settings { max_age: Some(Duration::from_secs(16)), ..Settings::default() };
    let program = Program::start(&folder.0, &settings);
    let own = Client::look(&program.ledger);
    let guard = own.guard();
    let slow = disk.path().join("slow");
    let words = shared::<3>();
    let next = fork(|| {
        let client = Client::join(&program.ledger);
        client.introduce(Lie::None);
        words[1].store(1, SeqCst);
        until("there is an entry", || words[1].load(SeqCst) == 2);
        let path = folder.join("next");
        let writer = client.ask(open_new(&path), &path, 4096, Lie::None);
        assert!(writer.is_held());
        words[0].store(writer.index as u64, SeqCst);
        words[1].store(3, SeqCst);
        until("the other one is finished", || words[1].load(SeqCst) == 4);
        assert!(writer.is_held(), "it is its own");
        writer.append(b"bytes");
        die();
    });
    until("it waits", || words[1].load(SeqCst) == 1);
    let first = fork(|| {
        let client = Client::join(&program.ledger);
        client.introduce(Lie::None);
        let path = folder.join("given up");
        let given_up = client.ask(open_new(&path), &path, 4096, Lie::None);
        let writer = client.ask(open_new(&slow), &slow, 4096, Lie::None);
        writer.append(b"slow");
        given_up.entry.order.store(u64::MAX, SeqCst);
        assert!(disk.freeze(true));
        // The guard is told later.
        let word = given_up.entry.state.load(SeqCst);
        given_up.entry.state.store(next_state(word, STATE_DISCARD), SeqCst);
        words[2].store(given_up.index as u64 + 1, SeqCst);
        die();
    });
    wait(first);
    let index = words[2].load(SeqCst) as usize - 1;
    std::thread::sleep(Duration::from_millis(100));
    own.poke(index);
    let entry = &own.ledger.entries()[index];
    until("the entry is free", || state_of(entry.state.load(SeqCst)) == STATE_FREE);
    words[1].store(2, SeqCst);
    until("it has the entry", || words[1].load(SeqCst) == 3);
    assert_eq!(words[0].load(SeqCst) as usize, index);
    assert!(disk.freeze(false));
    let is_slot = |slot: &Slot| slot.pid.load(SeqCst) == first;
    until("the first one is finished", || !own.ledger.slots.iter().any(is_slot));
    std::thread::sleep(Duration::from_millis(20));
    words[1].store(4, SeqCst);
    wait(next);
    program.end();
    until("the guard has ended", || !is_process(guard));
    assert_eq!(std::fs::read(&slow).unwrap(), b"slow");
    assert_eq!(std::fs::read(folder.join("next")).unwrap(), b"bytes");
}

#[test]
fn what_is_being_written_is_held_whatever_its_process_says() {
    let _alone = alone();
    let Some(disk) = Disk::new() else { return };
    let folder = Folder::new();
    let program = Program::start(&folder.0, &Settings::default());
    let guard = Client::look(&program.ledger).guard();
    let path = disk.path().join("data");
    let held = || {
        let fds = std::fs::read_dir(format!("/proc/{guard}/fd")).unwrap();
        fds.flatten().any(|fd| std::fs::read_link(fd.path()).is_ok_and(|link| link == path))
    };
    for state in [STATE_DISCARD, STATE_RELEASE] {
        in_child(|| {
            let client = Client::join(&program.ledger);
            client.introduce(Lie::None);
            let file = File::options().write(true).create(true).truncate(false).open(&path);
            let writer = client.ask(file.unwrap(), &path, 4096, Lie::None);
            assert!(writer.is_held());
            assert!(disk.freeze(true));
            writer.append(b"bytes");
            client.ledger.header.clock_wanted.store(CLOCK_WANTED, SeqCst);
            client.wake();
            let owner = || owner_of(writer.entry.word.load(SeqCst));
            until("the guard writes it", || owner() == Owner::Guard);
            for _ in 0..2 {
                // In the first round by the thread in the call, in the second one by one that has been replaced.
                std::thread::sleep(Duration::from_millis(50));
                writer.entry.word.store(0, SeqCst);
                let word = writer.entry.state.load(SeqCst);
                writer.entry.state.store(next_state(word, state), SeqCst);
                client.poke(writer.index);
                std::thread::sleep(Duration::from_millis(300));
                assert_eq!(writer.state(), state, "it is not free");
                assert!(held(), "its handle is open");
            }
            assert!(disk.freeze(false));
            until("it is let go", || writer.state() != state);
            assert!(!held());
        });
    }
    program.end();
    until("the guard has ended", || !is_process(guard));
}

#[test]
fn a_state_folder_that_hangs_keeps_nothing_from_the_files_of_others() {
    let _alone = alone();
    let Some(disk) = Disk::new() else { return };
    let folder = Folder::new();
    let settings = Settings { notes: vec![disk.path()], ..Settings::default() };
    let program = Program::start(&folder.0, &settings);
    let guard = Client::look(&program.ledger).guard();
    let words = shared::<3>();
    let writer = |name: &'static str, word: usize| {
        let (path, ledger) = (folder.join(name), program.ledger.clone());
        fork(move || {
            let client = Client::join(&ledger);
            client.introduce(Lie::None);
            let writer = client.ask(open_new(&path), &path, 4096, Lie::None);
            assert!(writer.is_held());
            words[word].store(1, SeqCst);
            until("it is to write", || words[2].load(SeqCst) == 1);
            writer.append(b"bytes");
            // As the library does when something begins to wait.
            client.ledger.header.clock_wanted.store(CLOCK_WANTED, SeqCst);
            client.wake();
            loop {
                // SAFETY: takes nothing.
                unsafe { libc::pause() };
            }
        })
    };
    let first = writer("first", 0);
    until("it is answered", || words[0].load(SeqCst) == 1);
    assert!(disk.freeze(true));
    let second = writer("second", 1);
    std::thread::sleep(Duration::from_millis(100));
    words[2].store(1, SeqCst);
    let written = |name: &str| std::fs::read(folder.join(name)).unwrap() == b"bytes";
    until("what waits in a quiet process is written", || written("first"));
    assert_eq!(words[1].load(SeqCst), 0, "nothing waits that is not noted");
    assert!(disk.freeze(false));
    until("the other one is answered, too", || written("second"));
    [first, second].into_iter().for_each(|child| {
        kill(child);
        wait(child);
    });
    program.end();
    until("the guard has ended", || !is_process(guard));
}

#[test]
fn what_a_process_left_in_the_middle_of_a_take_is_not_written_over_what_others_wrote_since() {
    let _alone = alone();
    let Some(disk) = Disk::new() else { return };
    let folder = Folder::new();
    // A write may take half a second before it counts as one that hangs.
    let settings = Settings { max_age: Some(Duration::from_secs(16)), ..Settings::default() };
    let program = Program::start(&folder.0, &settings);
    let own = Client::look(&program.ledger);
    let guard = own.guard();
    let (slow, path) = (disk.path().join("slow"), folder.join("data"));
    let words = shared::<3>();
    let child = fork(|| {
        let client = Client::join(&program.ledger);
        client.introduce(Lie::None);
        let first = client.ask(open_new(&slow), &slow, 4096, Lie::None);
        let file = open_new(&path);
        file.write_all_at(b"before", 0).unwrap();
        let second = client.ask(file, &path, 4096, Lie::None);
        first.append(b"slow");
        second.append(b"waited");
        words[0].store(client.slot as u64, SeqCst);
        words[1].store(second.index as u64, SeqCst);
        words[2].store(1, SeqCst);
        loop {
            // SAFETY: takes nothing.
            unsafe { libc::pause() };
        }
    });
    until("bytes wait", || words[2].load(SeqCst) == 1);
    assert!(disk.freeze(true));
    let slot = words[0].load(SeqCst) as usize;
    own.ledger.header.take_bits[slot / 64].fetch_or(1 << (slot % 64), SeqCst);
    own.wake();
    let entry = &own.ledger.entries()[words[1].load(SeqCst) as usize];
    until("the guard has taken it", || owner_of(entry.word.load(SeqCst)) == Owner::Guard);
    kill(child);
    wait(child);
    std::fs::write(&path, b"somebody else's").unwrap();
    assert!(disk.freeze(false));
    until("it is finished", || own.ledger.slots[slot].pid.load(SeqCst) == 0);
    program.end();
    until("the guard has ended", || !is_process(guard));
    assert_eq!(std::fs::read(&slow).unwrap(), b"slow");
    assert_eq!(std::fs::read(&path).unwrap(), b"somebody else's");
    let saved = folder.join(&format!("data.sweetspot-saved-{child}-at-6"));
    assert_eq!(std::fs::read(saved).unwrap(), b"waited");
}
