//! What waits and cannot be written: others are not held up by it, no part of it comes twice, and nothing of it
//! comes among the data of the program.

use super::*;

/// The victim, on a disk of its own and with a folder for what must be saved elsewhere.
fn on_a_disk(way: &str, max_age: &str, check: impl FnOnce(Victim, &Path)) {
    let _turn = turn();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("unwritten-{way}"));
    let Some(disk) = Disk::mount(folder, DISK_MEGABYTES) else {
        return test_start::skip("mounting a file system needs root");
    };
    let home = tempfile::tempdir().expect("a folder");
    let program = victim(&format!("unwritten-{way}"), "unwritten");
    check(Victim::start(&program, &disk.0, home.path(), way, max_age), &disk.0);
}

/// The guard writes what is old, and only a part of that fits.
#[test]
fn what_fits_of_an_append_does_not_come_again() {
    const ROOM: u64 = 8192;
    // Until it is full and has a little room again, nothing leaves.
    on_a_disk("quiet", "10000", |mut victim, disk| {
        victim.await_step(1);
        // Until nothing more goes in.
        let _ = fs::write(victim.filler(), vec![0u8; (DISK_MEGABYTES as usize) << 20]);
        let filler = File::options().write(true).open(victim.filler()).unwrap();
        filler.set_len(filler.metadata().unwrap().len() - ROOM).unwrap();
        drop(filler);
        let size = || disk.join("file").metadata().unwrap().len();
        let before = size();
        victim.go_on(2);
        victim.await_step(3);
        let until = Instant::now() + PATIENCE / 2;
        while size() == before && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(size() > before, "the guard writes what fits");
        fs::remove_file(victim.filler()).unwrap();
        victim.go_on(4);
        let output = victim.end();
        let said = stdout(&output);
        assert_eq!(said, format!("{} bytes\n", size()), "{output:?}");
    });
}

#[test]
fn who_does_not_wait_for_a_full_disk_is_not_held_up_by_one() {
    let learned = "learned 1, late 0\n";
    let shared = format!("{learned}sync -1 28\nsync -1 28\nsync 0 0\nclose 0 0\n");
    for (way, expected) in [("shared", shared), ("exec", format!("sync -1 28\n{learned}"))] {
        on_a_disk(way, "60000", |mut victim, disk| {
            victim.fill();
            let output = victim.end();
            assert_eq!(stdout(&output), expected, "{way}: {output:?}");
            // What somebody has done since stays.
            assert_eq!(fs::read(disk.join("file")).unwrap().first(), Some(&b'n'), "{way}");
        });
    }
}

#[test]
fn what_cannot_be_written_is_not_named_among_data() {
    on_a_disk("number", "60000", |mut victim, disk| {
        victim.fill();
        victim.await_step(3);
        victim.go_on(4);
        let output = victim.end();
        assert_eq!(output.status.code(), Some(74), "{output:?}");
        assert_eq!(fs::read(disk.join("data")).unwrap(), b"data");
        let said = stderr(&output);
        assert!(said.contains("could not be written to "), "{said}");
    });
}

/// A server may answer to each write that a signal has interrupted it.
#[test]
fn a_write_that_is_always_interrupted_fails() {
    let _turn = turn();
    let Some(far_away) = FarAway::serve("interrupted") else { return };
    for size in ["off", "auto", "512", "64K", "1M"] {
        let mut command = Command::new("timeout");
        command.arg(PATIENCE.as_secs().to_string()).arg(env!("CARGO_BIN_EXE_sweetspot"));
        let output = far_away.output_under(command, "until", size, Stdio::null());
        let expected = "error 4, all before it is there: 1";
        assert_eq!(first_line(&output), expected, "{size}: {output:?}");
    }
}

/// Nor does what has nothing to do with it wait for each attempt.
#[test]
fn a_file_that_fails_slowly_holds_up_little_else() {
    let _turn = turn();
    let Some(far_away) = FarAway::serve("slow") else { return };
    for size in ["off", "auto", "64K"] {
        let output = far_away.output("beside", size, Stdio::null());
        // All of it may wait.
        assert!(first_line(&output).ends_with("beside it in time: 1"), "{size}: {output:?}");
    }
}
