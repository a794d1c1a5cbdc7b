//! What `run` does before the program begins, in numbers that do not depend on the machine's speed.
//! Each program that is started pays for it, so a maximum that must grow needs a reason.

use test_start as _;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use object::elf::{DT_NEEDED, FileHeader64, PT_INTERP};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, FileKind};

/// System calls from the start of `run` to that of the program, without those of other processes and
/// those that look at what other runs have in /dev/shm. Some 35 are the runtime's, 30 look at the
/// program, 30 at the library's folder (more where it lies deeper), 16 compare the library, 25 make
/// the ledger, 15 start the guard.
const SYSTEM_CALLS_MAX: usize = 165;

/// System calls that a program makes more than without the library. 8 are the loader's, which maps it;
/// the library asks for seccomp filters, and blocks signals while the process ends.
const SYSTEM_CALLS_MORE_MAX: usize = 12;

/// The system calls of a command and of the program that it becomes, in order. `None`: no strace.
fn system_calls(folder: &Path, command: &[&str]) -> Option<Vec<String>> {
    let trace = folder.join("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-o"]).arg(&trace).args(command).stdout(Stdio::null());
    strace.env("SWEETSPOT_CACHE", folder.join("cache"));
    for name in ["IO_BUFFER_SIZE", "SWEETSPOT", "SWEETSPOT_LEDGER", "LD_PRELOAD"] {
        strace.env_remove(name);
    }
    let Ok(ended) = strace.current_dir("/").stdin(Stdio::null()).status() else {
        assert!(std::env::var_os("CI").is_none(), "missing in CI: strace");
        eprintln!("skipped: strace is not installed");
        return None;
    };
    assert!(ended.success());
    let text = fs::read_to_string(&trace).unwrap();
    let own = text.split_once(' ').unwrap().0;
    let calls = text.lines().filter_map(|line| line.strip_prefix(own));
    // What was interrupted in the trace is resumed in a line of its own.
    let calls = calls.filter(|call| !call.contains("<... "));
    Some(calls.map(str::to_owned).collect())
}

const RUN: [&str; 4] = [env!("CARGO_BIN_EXE_sweetspot"), "run", "--", "/bin/true"];

fn is_start_of_program(call: &str) -> bool {
    call.contains(" execve(\"/bin/true\"")
}

#[test]
fn few_system_calls_before_the_program() {
    let folder = tempfile::tempdir().unwrap();
    // The first one writes the library.
    let Some(_) = system_calls(folder.path(), &RUN) else { return };
    let mut calls = system_calls(folder.path(), &RUN).unwrap();
    // In a development build, std looks at each descriptor before it closes it.
    calls.retain(|call| !call.contains(" fcntl("));
    let before: Vec<_> =
        calls.iter().skip(1).take_while(|call| !is_start_of_program(call)).collect();
    // Opened, found to be locked, closed.
    let others = before.iter().filter(|call| {
        call.contains("/dev/shm/sweetspot-") && call.contains("openat") && !call.contains("O_EXCL")
    });
    let calls = before.len() - 3 * others.count();
    assert!(calls > 50 && calls <= SYSTEM_CALLS_MAX, "{calls} system calls");
}

#[test]
fn few_system_calls_more_of_each_process() {
    let folder = tempfile::tempdir().unwrap();
    let Some(native) = system_calls(folder.path(), &["/bin/true"]) else { return };
    let buffered = system_calls(folder.path(), &RUN).unwrap();
    let of_program: Vec<_> =
        buffered.iter().skip_while(|call| !is_start_of_program(call)).collect();
    let more = of_program.len().saturating_sub(native.len());
    assert!((1..=SYSTEM_CALLS_MORE_MAX).contains(&more), "{more} more of {of_program:#?}");
}

#[test]
fn no_library_is_loaded_for_it() {
    let path = Path::new(env!("CARGO_BIN_EXE_sweetspot"));
    let bytes = fs::read(path).unwrap();
    assert_eq!(FileKind::parse(&*bytes).unwrap(), FileKind::Elf64);
    let header = FileHeader64::<Endianness>::parse(&*bytes).unwrap();
    let endian = header.endian().unwrap();
    let segments = header.program_headers(endian, &*bytes).unwrap();
    let dynamic = segments.iter().find_map(|s| s.dynamic(endian, &*bytes).unwrap()).unwrap();
    let archive = Command::new("cc").arg("-print-file-name=libc.a").output();
    if !archive.is_ok_and(|answer| answer.stdout.starts_with(b"/")) {
        eprintln!("skipped: libc is not here as an archive, so shared libraries are loaded");
        return;
    }
    let needed = dynamic.iter().filter(|entry| entry.tag(endian) == DT_NEEDED).count();
    assert_eq!(needed, 0, "shared libraries");
    assert!(segments.iter().all(|segment| segment.p_type(endian) != PT_INTERP));
}

/// A word to a pipe after each record: nothing can wait, which is seen after a few flushes. From then
/// on each write is one system call, as it is natively.
#[test]
fn a_file_that_gains_nothing_costs_few_system_calls_more() {
    let folder = tempfile::tempdir().unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/c/private.c");
    let program = folder.path().join("private");
    let built = Command::new("cc").args(["-O1", "-w", "-o"]).arg(&program).arg(source).status();
    assert!(built.is_ok_and(|status| status.success()), "cc is needed: apt-get install gcc");
    let count = |before: &str| {
        let script = format!("cd {} && exec {before} ./private talk", folder.path().display());
        let calls = system_calls(folder.path(), &["sh", "-c", &script])?;
        let start = calls.iter().position(|call| call.contains(" execve(\"./private\""));
        Some(calls.len() - start.expect("it starts"))
    };
    let Some(native) = count("") else { return };
    let buffered = count(&RUN[..3].join(" ")).unwrap();
    assert!(native > 10_000 && buffered < native + native / 20, "{buffered}, natively {native}");
}

/// Whose inode's hash equals that of a file with waiting bytes is still another file: among thousands
/// there are some, and what waits does not go out at each read of one of them.
#[test]
fn records_wait_beside_reads_of_thousands_of_other_files() {
    const FILES: usize = 3_000;
    let folder = tempfile::tempdir().unwrap();
    let many = folder.path().join("many");
    fs::create_dir(&many).unwrap();
    for number in 0..FILES {
        fs::write(many.join(number.to_string()), [b'x'; 4_000]).unwrap();
    }
    let tar = "tar --blocking-factor=1 -cf all.tar many";
    let script = format!("cd {} && exec {} {tar}", folder.path().display(), RUN[..3].join(" "));
    let Some(calls) = system_calls(folder.path(), &["sh", "-c", &script]) else { return };
    let with = |name: &str| calls.iter().filter(|call| call.contains(name)).count();
    // Each file is a header and eight blocks, which wait until the next one is opened.
    let (written, flushed) = (with(" write("), with(" pwrite64("));
    assert!(written < 2 * FILES && flushed >= FILES / 2, "{written} writes, {flushed} flushes");
}

/// `tar` opens folders as it opens files. What is in them is found by their path then, which is asked
/// for once, and not once a file.
#[test]
fn folders_that_are_opened_like_files_are_asked_for_once_by_profile() {
    let folder = tempfile::tempdir().unwrap();
    let script = "import os\n\
                  os.mkdir('many'); os.mkdir('inner')\n\
                  for i in range(200): open(f'many/{i}', 'w').close()\n\
                  folder = os.open('inner', os.O_RDONLY)\n\
                  for i in range(500): os.close(os.open(str(i), os.O_CREAT | os.O_RDWR, dir_fd=folder))\n";
    let trace = folder.path().join("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-e", "trace=readlink,readlinkat", "-o"]).arg(&trace);
    strace.args([env!("CARGO_BIN_EXE_sweetspot"), "profile", "--output", "report", "--"]);
    strace.args(["python3", "-c", script]).current_dir(folder.path());
    strace.env("SWEETSPOT_CACHE", folder.path().join("cache"));
    let Ok(ended) = strace.stdin(Stdio::null()).status() else {
        assert!(std::env::var_os("CI").is_none(), "missing in CI: strace");
        return eprintln!("skipped: strace is not installed");
    };
    assert!(ended.success());
    let trace = fs::read_to_string(&trace).unwrap();
    let asked = trace.lines().filter(|line| line.contains("/inner")).count();
    assert!((1..10).contains(&asked), "{asked} times\n{trace}");
}
