//! Which files the guard holds, and how long.

use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;

use sweetspot_core::ledger::*;

use super::*;

#[test]
fn handles_are_granted_where_the_guard_could_write_and_nowhere_else() {
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
            ("an ordinary file", &|| new("ordinary"), 65536, Lie::None, STATE_HELD),
            ("no size at all", &|| new("zero"), 0, Lie::None, STATE_HELD),
            ("writing only", &writing, 1, Lie::None, STATE_HELD),
            ("writable only", &write_only_mode, 1, Lie::None, STATE_HELD),
            ("no name any more", &unlinked, 1, Lie::None, STATE_HELD),
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

/// Whether the guard grants a handle of a new file.
fn is_granted(client: &Client, path: &Path) -> bool {
    client.ask(open_new(path), path, 4096, Lie::None).is_held()
}

#[test]
fn a_handle_outlives_names_and_a_write_buffer_outlives_its_handle() {
    let _alone = alone();
    let folder = Folder::new();
    let program = Program::start(&folder.0, &Settings::default());
    let (renamed, unlinked) = (folder.join("renamed"), folder.join("unlinked"));
    // A second description, which still finds the file without a name.
    let unlinked_file = open_new(&unlinked);
    let client = Client::look(&program.ledger);
    let taken =
        || client.ledger.entries().iter().filter(|e| e.write_buffer_at.load(SeqCst) != 0).count();
    let child = fork(|| {
        let client = Client::join(&program.ledger);
        client.introduce(Lie::None);
        let path = folder.join("first name");
        let mut writer = client.ask(open_new(&path), &path, 8192, Lie::None);
        writer.append(b"one ");
        writer.flush();
        // Given up and asked for again: the write buffer is the same.
        let write_buffer_at = writer.entry.write_buffer_at.load(SeqCst);
        writer.change(STATE_RELEASE);
        until("an answer", || writer.state() == STATE_OWNED);
        writer.ask_again(4096);
        assert_eq!(writer.entry.write_buffer_at.load(SeqCst), write_buffer_at);
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
        assert_eq!((entry.slot.load(SeqCst), entry.write_buffer_at.load(SeqCst)), (0, 0));
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
    until("all write buffers are free", || taken() == 0);
    program.end();
}

#[test]
fn entries_get_memory_as_they_are_used() {
    let _alone = alone();
    let folder = Folder::new();
    let program = Program::start(&folder.0, &Settings::default());
    let ledger_bytes = || std::fs::metadata(&program.ledger).unwrap().blocks() * 512;
    in_child(|| {
        let client = Client::join(&program.ledger);
        client.introduce(Lie::None);
        let ready = || client.ledger.header.entries_ready.load(SeqCst);
        client.guard();
        assert_eq!(ready(), ENTRIES_FIRST);
        let bytes_first = ledger_bytes();
        let mut writers = Vec::new();
        for index in 0..3 * ENTRIES_FIRST {
            let path = folder.join(&index.to_string());
            let writer = client.ask(open_new(&path), &path, 1, Lie::None);
            assert_eq!(writer.state(), STATE_HELD, "{index}");
            writers.push(writer);
        }
        let expected = 8 * ENTRIES_FIRST;
        until("the guard has looked", || ready() == expected);
        let entries_bytes = u64::from(expected - ENTRIES_FIRST) * size_of::<Entry>() as u64;
        assert!(ledger_bytes() >= bytes_first + entries_bytes, "there is memory behind them");
        for writer in &writers {
            writer.append(b"x");
        }
        drop(writers);
        // SAFETY: dies here, as a program that is killed does.
        unsafe { libc::_exit(0) };
    });
    program.end();
    for index in 0..3 * ENTRIES_FIRST {
        let path = folder.join(&index.to_string());
        until("the guard has written it", || std::fs::read(&path).unwrap() == b"x");
    }
}

#[test]
fn no_handle_is_granted_while_a_process_opens_files_out_of_sight() {
    let _alone = alone();
    let folder = Folder::new();
    let program = Program::start(&folder.0, &Settings::default());
    let client = Client::look(&program.ledger);
    let unseen = fork(|| {
        let client = Client::join(&program.ledger);
        client.introduce(Lie::None);
        client.ledger.slots[client.slot].unseen.store(1, SeqCst);
        client.ledger.header.unseen.store(UNSEEN_SLOTS, SeqCst);
        std::thread::sleep(PATIENCE);
    });
    until("it has said so", || client.ledger.header.unseen.load(SeqCst) == UNSEEN_SLOTS);
    in_child(|| {
        let client = Client::join(&program.ledger);
        client.introduce(Lie::None);
        let is_held = |name| is_granted(&client, &folder.join(name));
        assert!(!is_held("beside"));
        kill(unseen);
        until("it is dead", || !is_process(unseen));
        assert!(is_held("later"));
    });
    wait(unseen);
    program.end();
}

#[test]
fn no_handle_is_granted_to_a_process_that_has_a_ring() {
    let _alone = alone();
    let folder = Folder::new();
    let program = Program::start(&folder.0, &Settings::default());
    in_child(|| {
        let client = Client::join(&program.ledger);
        client.introduce(Lie::None);
        let is_held = |name| is_granted(&client, &folder.join(name));
        assert!(is_held("before"));
        let mut parameters = [0u64; 15];
        // SAFETY: as large as what the kernel stores there.
        let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) };
        if ring < 0 {
            return test_start::skip("io_uring");
        }
        assert!(!is_held("beside"));
        assert_eq!(client.ledger.slots[client.slot].unseen.load(SeqCst), 1);
    });
    program.end();
}
