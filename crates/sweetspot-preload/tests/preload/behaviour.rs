//! C programs, one a family of calls, that say what each call gave: with the library and without it
//! they must say the same.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::library;

/// Sizes with which each program runs.
const SIZES: [&str; 4] = ["auto", "7", "4096", "1M"];

/// Compiles a victim and returns its program.
fn compile(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preload/victims");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let status = Command::new("cc")
        .args(["-O1", "-w", "-pthread", "-o"])
        .arg(&program)
        .arg(folder.join(format!("{name}.c")))
        .status()
        .expect("a C compiler (cc)");
    assert!(status.success(), "{name}.c does not compile");
    program
}

/// Runs a program in a fresh folder, with the library and this size, or without.
fn run(program: &Path, size: Option<&str>) -> Output {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new(program);
    command.current_dir(folder.path()).stdin(Stdio::null());
    command.env_remove("LD_PRELOAD").env_remove("IO_BUFFER_SIZE");
    if let Some(size) = size {
        command.env("LD_PRELOAD", library::path()).env("IO_BUFFER_SIZE", size);
    }
    command.output().expect("the victim starts")
}

/// What a program did, as text.
fn told(output: &Output) -> String {
    format!(
        "{}{}exit {:?} signal {:?}\n",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
        output.status.code(),
        output.status.signal()
    )
}

/// Fails at the first line that differs.
fn check(name: &str) {
    let program = compile(name);
    let native = run(&program, None);
    let without = told(&native);
    let sound = native.status.success() && native.stderr.is_empty();
    assert!(sound, "{name} fails by itself:\n{without}");
    for size in SIZES {
        let with = told(&run(&program, Some(size)));
        let mut lines = without.lines().zip(with.lines()).enumerate();
        if let Some((number, (expected, got))) = lines.find(|(_, (a, b))| a != b) {
            panic!("{name}, size {size}, line {number}:\nwithout: {expected}\nwith:    {got}");
        }
        assert_eq!(without, with, "{name}, size {size}");
    }
}

#[test]
fn the_other_tests_do_meet_windows() {
    let program = compile("window");
    assert_eq!(run(&program, None).stdout, b"kernel\n");
    assert_eq!(run(&program, Some("auto")).stdout, b"window\n");
}

macro_rules! families {
    ($($test:ident: $name:literal;)*) => {$(
        #[test]
        fn $test() {
            check($name);
        }
    )*};
}
families! {
    new_processes_share_what_they_share_natively: "processes";
    formatted_output_and_streams_keep_their_place: "output";
    bad_addresses_are_errors_and_handlers_are_the_programs: "faults";
    threads_can_be_cancelled_where_they_wait: "threads";
    raw_calls_find_the_offset: "raw";
    transfers_find_the_offset: "transfer";
    names_numbers_and_metadata: "names";
}
