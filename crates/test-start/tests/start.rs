//! The tests start from the same, whatever they inherit; and each of them does.

use test_start as _;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// What the thread of this test says of itself.
fn inherited() -> String {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let shown = |line: &&str| ["SigBlk:", "Umask:"].iter().any(|key| line.starts_with(key));
    let mut lines: Vec<String> = status.lines().filter(shown).map(str::to_owned).collect();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    // Rust ignores SIGPIPE in its own programs. Two numbers are the C library's: nobody can set them,
    // and one shell or other ignores them for what it starts.
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap() & !(1 << 12 | 3 << 31);
    lines.push(format!("ignored: {ignored:x}"));
    let limits = fs::read_to_string("/proc/thread-self/limits").unwrap();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let files: u64 = files.split_whitespace().next().unwrap().parse().unwrap();
    lines.push(format!("files: {}", if files < 1024 { "few" } else { "enough" }));
    lines.join("\n")
}

#[test]
fn nothing_is_inherited() {
    let expected = "Umask:\t0022\nSigBlk:\t0000000000000000\nignored: 0\nfiles: enough";
    assert_eq!(inherited(), expected);
    if std::env::var_os("TEST_START_AGAIN").is_some() {
        return;
    }
    let script = "umask 077; ulimit -S -n 256; trap '' HUP INT QUIT TERM TSTP TTIN TTOU CHLD USR1; \
                  exec nohup \"$0\" --exact nothing_is_inherited";
    let mut again = Command::new("sh");
    again.args(["-c", script]).arg(std::env::current_exe().unwrap());
    let output = again.env("TEST_START_AGAIN", "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

/// What another program of root's has left pending, or leaves while this runs, is not there.
#[test]
fn root_finds_nothing_that_others_left() {
    if std::env::var_os("SWEETSPOT_TEST_APART").is_none() {
        let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
        assert!(!is_root || std::env::var_os("CI").is_none(), "this machine allows no mounts");
        println!("skipped: only root may mount");
        return;
    }
    for place in ["/dev/shm", "/var/lib/sweetspot"] {
        assert_eq!(fs::read_dir(place).unwrap().count(), 0, "{place}");
    }
}

/// Every file that is a test program of its own asks for it.
#[test]
fn every_test_program_starts_from_here() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut checked = 0;
    for folder in fs::read_dir(crates).unwrap() {
        let tests = folder.unwrap().path().join("tests");
        for entry in fs::read_dir(tests).into_iter().flatten() {
            let path = entry.unwrap().path();
            let main = if path.is_dir() { path.join("main.rs") } else { path };
            let Ok(source) = fs::read_to_string(&main) else { continue };
            checked += 1;
            assert!(
                source.lines().any(|line| line.starts_with("use test_start")),
                "{} must say `use test_start as _;`, or what it uses of it",
                main.display()
            );
        }
    }
    assert!(checked > 15, "{checked} test programs found");
}
