//! C programs, one a family of calls, that say what each call gave: with the library and without it
//! they must say the same.

use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::library;

/// Sizes with which each program runs.
const SIZES: [&str; 4] = ["auto", "7", "4096", "1M"];

/// The C compiler, with the options that are decided for all tests in one place.
fn gcc() -> Command {
    let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/c");
    let mut compiler = Command::new("gcc");
    compiler.arg(format!("@{programs}/options.txt")).env("LC_ALL", "C");
    compiler
}

/// Compiles a victim and returns its program.
fn compile(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preload/victims");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut compiler = gcc();
    compiler.arg("-o").arg(&program).arg(folder.join(format!("{name}.c")));
    let status = compiler.status().expect("gcc is there (apt-get install build-essential)");
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
    assert_eq!(run(&program, None).stdout, b"kernel\n".repeat(5));
    // The later lines come after each way in which an exec can fail.
    assert_eq!(run(&program, Some("auto")).stdout, b"window\n".repeat(5));
}

/// Runs `starts` with each of its words beside `target`, with a copy of the library in a folder that
/// only its owner may enter, and without, but with these other ones; both must say the same.
fn check_starts(target: &Path, words: &[&str], others: &str) {
    let program = compile("starts");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let hidden = folder.path().join("hidden");
    std::fs::create_dir(&hidden).expect("a folder");
    for (folder, mode) in [(folder.path(), 0o755), (&hidden, 0o700)] {
        std::fs::set_permissions(folder, PermissionsExt::from_mode(mode)).expect("chmod");
    }
    let ours = hidden.join("library.so");
    std::fs::copy(library::path(), &ours).expect("copied");
    // By a process of its own: what other tests start must not have it open for writing.
    let copied = Command::new("cp").arg(target).arg(folder.path().join("target")).status();
    assert!(copied.expect("cp").success());
    for word in words {
        let told = [false, true].map(|with| {
            let mut command = Command::new(&program);
            command.arg(word).current_dir(folder.path()).stdin(Stdio::null()).env_clear();
            command.env("IO_BUFFER_SIZE", "64K").env("OTHER", "value");
            if with {
                command.env("SWEETSPOT_LEDGER", "/no/such").env("SWEETSPOT_SUMMARY", "1");
                let ours = ours.display();
                command.env("LD_PRELOAD", format!("{ours} {others} {ours}"));
            } else if !others.is_empty() {
                command.env("LD_PRELOAD", others);
            }
            told(&command.output().expect("it starts"))
        });
        let mut lines = told[0].lines().zip(told[1].lines());
        assert_eq!(lines.find(|(without, with)| without != with), None, "{target:?} {word}");
        assert_eq!(told[0], told[1], "{target:?} {word}");
    }
}

/// A library made of `loads.c` with these words to the linker.
fn library_of_its_own(name: &str, words: &[&str]) -> PathBuf {
    let victims = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preload/victims");
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut compiler = gcc();
    compiler.args(["-DLIBRARY", "-shared", "-fPIC", "-o"]).arg(&made).args(words);
    let status = compiler.arg(victims.join("loads.c")).status().expect("gcc");
    assert!(status.success(), "{name} cannot be made");
    made
}

/// Moves the program headers of a library to a place that it has in its file, and not in memory.
fn move_headers(library: &Path) {
    const E_PHOFF: usize = 32;
    const FAR: u64 = 64 << 20;
    let bytes = std::fs::read(library).expect("read");
    let number = |at: usize, bytes_of: usize| {
        bytes[at..at + bytes_of].iter().rev().fold(0, |all, &byte| all << 8 | usize::from(byte))
    };
    let (at, each, count) = (number(E_PHOFF, 8), number(54, 2), number(56, 2));
    let file = std::fs::File::options().write(true).open(library).expect("open");
    file.write_all_at(&bytes[at..at + each * count], FAR).expect("written");
    file.write_all_at(&FAR.to_le_bytes(), E_PHOFF as u64).expect("written");
}

#[test]
fn libraries_that_are_laid_out_oddly_can_be_loaded() {
    let moved = library_of_its_own("libmoved.so", &[]);
    move_headers(&moved);
    let high = library_of_its_own("libhigh.so", &["-Wl,-Ttext-segment=0x200000"]);
    let (loads, reads) = (compile("loads"), compile("window"));
    let high_program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("loads_high");
    let mut compiler = gcc();
    compiler.args(["-pie", "-fPIE", "-Wl,-Ttext-segment=0x200000", "-o"]).arg(&high_program);
    let loads_c = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/preload/victims/loads.c");
    assert!(compiler.arg(loads_c).status().expect("gcc").success());
    for (library, loads) in [(&moved, &loads), (&high, &loads), (&high, &high_program)] {
        for ours in ["", library::path().to_str().expect("a path")] {
            let mut command = Command::new(loads);
            command.arg(library).env("LD_PRELOAD", ours).env("IO_BUFFER_SIZE", "auto");
            assert_eq!(
                told(&command.output().expect("it starts")),
                "7\nexit Some(0) signal None\n"
            );
        }
        let preloaded = format!("{} {}", library::path().display(), library.display());
        let mut command = Command::new(&reads);
        let folder = tempfile::tempdir().expect("a temporary folder");
        command.current_dir(folder.path()).stdin(Stdio::null());
        command.env("LD_PRELOAD", preloaded).env("IO_BUFFER_SIZE", "auto");
        assert_eq!(command.output().expect("it starts").stdout, b"window\n".repeat(5));
    }
}

/// A spawn may begin in another folder, in which a path means something else.
fn check_spawn_elsewhere(sanitized: &Path) {
    let victims = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preload/victims");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("elsewhere");
    assert!(make(&program, gcc().arg("-o").arg(&program).arg(victims.join("elsewhere.c"))));
    let said = [false, true].map(|with| {
        let mut command = Command::new(&program);
        command.arg(sanitized.parent().unwrap()).arg(sanitized.file_name().unwrap());
        command.current_dir("/").env("IO_BUFFER_SIZE", "64K");
        if with {
            command.env("LD_PRELOAD", library::path());
        }
        told(&command.output().expect("it starts"))
    });
    assert_eq!(said[0], said[1]);
}

/// Runs a compiler; whether it made its program, and whether that can be executed.
fn make(program: &Path, command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
        && Command::new(program).stdout(Stdio::null()).status().is_ok()
}

#[test]
fn programs_that_would_be_harmed_start_without_it() {
    let victims = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preload/victims");
    let made = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let sanitized = made.join("sanitized");
    let mut compiler = gcc();
    compiler.args(["-fsanitize=address", "-o"]).arg(&sanitized).arg(victims.join("hello.c"));
    match make(&sanitized, &mut compiler) {
        true => {
            let words = ["", "many", "thread", "queue", "filter", "filter-many"];
            check_starts(&sanitized, &words, "");
        }
        false => test_start::skip("gcc -fsanitize=address"),
    }
    check_spawn_elsewhere(&sanitized);
    let script = made.join("script");
    let text = format!("#! {} argument\n", sanitized.display());
    std::fs::write(&script, text).expect("written");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("chmod");
    check_starts(&script, &[""], "");

    let other = made.join("environment32");
    let mut compiler = Command::new("gcc");
    compiler.args(["-m32", "-nostdlib", "-static", "-o"]).arg(&other);
    match make(&other, compiler.arg(victims.join("environment32.s"))) {
        true => check_starts(&other, &["", "many"], "libm.so.6 libdl.so.2"),
        false => test_start::skip("gcc -m32, and a kernel that runs its programs"),
    }
    // Only root can become another user.
    if std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0) {
        check_starts(Path::new("/bin/true"), &["nobody"], "");
    }
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
