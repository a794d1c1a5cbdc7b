//! What `run` does before the program begins, in numbers that do not depend on the machine's speed.
//! Each program that is started pays for it, so a maximum that must grow needs a reason.

use test_start::{stderr, untold};

mod compiler;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use object::elf::{DT_NEEDED, FileHeader64, PT_INTERP};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, FileKind};

/// System calls from the start of `run` to that of the program, without those of other processes and
/// those that look at what other runs have in /dev/shm. Some 35 are the runtime's, 34 look at the
/// program and whether it is open here, 18 at the library's folder, 6 ask whether the library was compared, 25 make the ledger, 8 read
/// what calls cost, 15 start the guard.
const SYSTEM_CALLS_MAX: usize = 153;

/// Those more for each folder above the library, as each must be safe from others.
const SYSTEM_CALLS_A_FOLDER: usize = 4;

/// System calls that a program makes more than without the library. 8 are the loader's, which maps it;
/// the library asks for seccomp filters, whether the program begins with a page of its own, and to what
/// the two streams lead that are written to, and blocks signals while the process ends.
const SYSTEM_CALLS_MORE_MAX: usize = 15;

/// System calls that a program makes more before it becomes another one, besides those that ask which pages of
/// the environment can be read: 2 ask for limits, 2 whether the library can be opened, 6 look at the other
/// program, 2 block signals meanwhile. None maps memory: that would take longer than all of these.
const SYSTEM_CALLS_TO_START_MAX: usize = 12;

/// Page faults that a forked child has more than without the library: what it changes of the library's data. It
/// looks up nothing: that reads the symbols of all libraries.
const CHILD_FAULTS_MORE_MAX: u64 = 4;

/// The system calls of a command and of the program that it becomes, in order. `None`: no strace.
fn system_calls(folder: &Path, command: &[&str]) -> Option<Vec<String>> {
    let trace = folder.join("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-o"]).arg(&trace).args(command).stdout(Stdio::null());
    strace.env("SWEETSPOT_CACHE", folder.join("cache"));
    // Notes of other runs are looked at, each in a few calls.
    strace.env("XDG_STATE_HOME", folder.join("state"));
    untold(&mut strace);
    let Ok(ended) = strace.current_dir("/").stdin(Stdio::null()).status() else {
        test_start::skip("strace is not installed");
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

/// Shared by tests that run programs, and held alone by the one that counts the calls of a start: each
/// other run that lasts, and its note, costs a few.
static TURN: RwLock<()> = RwLock::new(());

fn with_others() -> RwLockReadGuard<'static, ()> {
    TURN.read().unwrap_or_else(PoisonError::into_inner)
}

/// Runs that a test gets to show what a busy machine hides.
const RUNS_MAX: usize = 5;

const RUN: [&str; 4] = [env!("CARGO_BIN_EXE_sweetspot"), "run", "--", "/bin/true"];

fn is_start_of_program(call: &str) -> bool {
    call.contains(" execve(\"/bin/true\"")
}

/// Calls without those that look at the ledgers of other runs: each is opened, looked at if nobody holds it,
/// and closed.
fn without_other_ledgers<'a>(
    calls: impl Iterator<Item = &'a String>,
) -> impl Iterator<Item = &'a String> {
    let mut is_other = false;
    calls.filter(move |call| {
        let opens = call.contains("openat") && !call.contains("O_EXCL");
        let began = opens && call.contains("/dev/shm/sweetspot-") && !call.contains(" = -1");
        let was_other = is_other;
        is_other = began || is_other && !call.contains(" close(");
        !began && !was_other
    })
}

#[test]
fn few_system_calls_before_the_program() {
    let _alone = TURN.write().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    // The first one writes the library. Later it is compared, and that is noted, once it is no longer
    // so new that it may change unseen.
    let Some(_) = system_calls(folder.path(), &RUN) else { return };
    std::thread::sleep(Duration::from_secs(3));
    system_calls(folder.path(), &RUN).unwrap();
    let once = || {
        let mut calls = system_calls(folder.path(), &RUN).unwrap();
        // In a development build, std looks at each descriptor before it closes it.
        calls.retain(|call| !call.contains(" fcntl("));
        let before = calls.iter().skip(1).take_while(|call| !is_start_of_program(call));
        without_other_ledgers(before).count()
    };
    // Other runs that begin or end meanwhile cost one or two calls more.
    let calls = (0..RUNS_MAX).map(|_| once()).min().unwrap();
    let folders = folder.path().canonicalize().unwrap().components().count();
    let most = SYSTEM_CALLS_MAX + SYSTEM_CALLS_A_FOLDER * folders;
    assert!(calls > 50 && calls <= most, "{calls} system calls, at most {most}");
}

#[test]
fn few_system_calls_more_of_each_process() {
    let _others = with_others();
    let folder = tempfile::tempdir().unwrap();
    let Some(native) = system_calls(folder.path(), &["/bin/true"]) else { return };
    let buffered = system_calls(folder.path(), &RUN).unwrap();
    let of_program: Vec<_> =
        buffered.iter().skip_while(|call| !is_start_of_program(call)).collect();
    let more = of_program.len().saturating_sub(native.len());
    assert!((1..=SYSTEM_CALLS_MORE_MAX).contains(&more), "{more} more of {of_program:#?}");
}

#[test]
fn few_system_calls_more_to_start_another_program() {
    let _others = with_others();
    let folder = tempfile::tempdir().unwrap();
    let shell = ["sh", "-c", "exec /bin/true"];
    let command = [&RUN[..3], &shell].concat();
    let Some(calls) = system_calls(folder.path(), &command) else { return };
    let of_shell = calls.iter().skip_while(|call| !call.contains("\"exec /bin/true\"], "));
    // First the environment is looked at.
    let asks_for_page = |call: &&String| call.contains(" rt_sigprocmask(0xffffffff");
    let of_shell: Vec<_> = of_shell.take_while(|call| !is_start_of_program(call)).collect();
    let asked = of_shell.iter().rposition(asks_for_page).expect("the environment is looked at");
    let looks = &of_shell[asked + 1..];
    assert!((8..=SYSTEM_CALLS_TO_START_MAX).contains(&looks.len()), "{looks:#?}");
    assert!(!looks.iter().any(|call| call.contains(" mmap(")), "{looks:#?}");
}

#[test]
fn few_page_faults_more_of_each_forked_child() {
    let _others = with_others();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("child_faults");
    compiler::compile("child_faults", &[], &program);
    // Where the library lies is random, and with it what one fault brings in. It is the least that counts.
    let faults = |command: &mut Command| -> u64 {
        let command = command.arg(&program);
        let once = |_| String::from_utf8(command.output().unwrap().stdout).unwrap();
        (0..RUNS_MAX).map(once).map(|said| said.trim().parse().unwrap()).min().unwrap()
    };
    let native = faults(&mut Command::new("env"));
    let buffered = faults(Command::new(RUN[0]).args(&RUN[1..3]));
    let most = native + CHILD_FAULTS_MORE_MAX;
    assert!(buffered <= most, "{buffered} page faults, {native} without the library");
}

#[test]
fn no_library_is_loaded_for_it() {
    let path = Path::new(env!("CARGO_BIN_EXE_sweetspot"));
    let bytes = fs::read(path).unwrap();
    assert_eq!(FileKind::parse(&*bytes).unwrap(), FileKind::Elf64);
    let header = FileHeader64::<Endianness>::parse(&*bytes).unwrap();
    let endian = header.endian().unwrap();
    let segments = header.program_headers(endian, &*bytes).unwrap();
    let dynamic = segments.iter().find_map(|s| s.dynamic(endian, &*bytes).unwrap());
    let archive = Command::new("cc").arg("-print-file-name=libc.a").output();
    if !archive.is_ok_and(|answer| answer.stdout.starts_with(b"/")) {
        eprintln!("skipped: libc is not here as an archive, so shared libraries are loaded");
        return;
    }
    let needed =
        dynamic.into_iter().flatten().filter(|entry| entry.tag(endian) == DT_NEEDED).count();
    assert_eq!(needed, 0, "shared libraries");
    assert!(segments.iter().all(|segment| segment.p_type(endian) != PT_INTERP));
}

/// A word to a pipe after each record: nothing can wait, which is seen after a few flushes. From then
/// on each write is one system call, as it is natively.
#[test]
fn a_file_that_gains_nothing_costs_few_system_calls_more() {
    let _others = with_others();
    let folder = tempfile::tempdir().unwrap();
    compiler::compile("unobserved", &[], &folder.path().join("unobserved"));
    let count = |before: &str| {
        let script = format!("cd {} && exec {before} ./unobserved talk", folder.path().display());
        let calls = system_calls(folder.path(), &["sh", "-c", &script])?;
        let start = calls.iter().position(|call| call.contains(" execve(\"./unobserved\""));
        Some(calls.len() - start.expect("it starts"))
    };
    let Some(native) = count("") else { return };
    let most = native + native / 20;
    let buffered = (0..RUNS_MAX).map(|_| count(&RUN[..3].join(" ")).unwrap());
    let seen: Vec<usize> = buffered
        .scan(false, |done, buffered| {
            (!std::mem::replace(done, buffered < most)).then_some(buffered)
        })
        .collect();
    assert!(native > 10_000 && seen.iter().any(|seen| *seen < most), "{seen:?}, natively {native}");
}

/// Whose inode's hash equals that of a file with waiting bytes is still another file: among thousands
/// there are some, and what waits does not go out at each read of one of them.
#[test]
fn records_wait_beside_reads_of_thousands_of_other_files() {
    let _others = with_others();
    const FILES: usize = 3_000;
    let folder = tempfile::tempdir().unwrap();
    let many = folder.path().join("many");
    fs::create_dir(&many).unwrap();
    for number in 0..FILES {
        fs::write(many.join(number.to_string()), [b'x'; 4_000]).unwrap();
    }
    // What is flushed because time has passed is not what is counted.
    let run = [RUN[0], "run", "--max-age", "60000", "--"].join(" ");
    let tar = "tar --blocking-factor=1 -cf all.tar many";
    let script = format!("cd {} && exec {run} {tar}", folder.path().display());
    let mut seen = Vec::new();
    // How many blocks are written before the guard has answered is the machine's affair, which may be
    // busy: what comes after the first flush counts, in a run where that is half of the files.
    for _ in 0..RUNS_MAX {
        let Some(calls) = system_calls(folder.path(), &["sh", "-c", &script]) else { return };
        let first = calls.iter().position(|call| call.contains(" pwrite64("));
        let calls = &calls[first.unwrap_or(calls.len())..];
        let with = |name: &str| calls.iter().filter(|call| call.contains(name)).count();
        let (read, written, flushed) = (with(" read("), with(" write("), with(" pwrite64("));
        seen.push(format!("{read} reads, {written} writes, {flushed} flushes"));
        if read < FILES / 2 {
            continue;
        }
        // Each file is a header and eight blocks, which wait until the next one is opened: one flush a
        // file, and one write where the next file's hash is the same.
        assert!(written < flushed && flushed < 2 * read, "{seen:?}");
        return;
    }
    panic!("the guard answered late in each run: {seen:?}");
}

/// Where what stdio does cannot be seen, nothing is buffered. That is found out once, and from then on
/// a call costs no more than in a process for which the library was switched off from the start.
#[test]
fn a_process_that_cannot_be_buffered_costs_nothing() {
    let _others = with_others();
    let folder = tempfile::tempdir().unwrap();
    let confined = folder.path().join("confined");
    compiler::compile("confined", &[], &confined);
    std::fs::write(folder.path().join("in"), vec![b'x'; 400_000]).unwrap();
    // Instructions of so many small reads and writes, as valgrind's callgrind counts them.
    let instructions = |records: &str, run: &[&str]| -> Option<u64> {
        let mut command = Command::new(&confined);
        command.arg("protect").args(run);
        command.args(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        command.args(["dd", "if=in", "of=out", "bs=8", "status=none", records]);
        untold(&mut command).env("SWEETSPOT_CACHE", folder.path().join("cache"));
        command.env("SWEETSPOT_VALGRIND", "1");
        let output = command.current_dir(folder.path()).output().unwrap();
        let said = stderr(&output);
        if output.status.code() != Some(0) {
            test_start::skip(&format!("valgrind under a seccomp filter: {said}"));
            return None;
        }
        let count = said.lines().find_map(|line| line.split_once("Collected : "));
        Some(count.unwrap_or_else(|| panic!("no count in {said}")).1.trim().parse().unwrap())
    };
    let of_a_record = |run: &[&str]| {
        let (few, many) = (instructions("count=2000", run)?, instructions("count=42000", run)?);
        Some((many - few) / 40_000)
    };
    let Some(unseen) = of_a_record(&RUN[..3]) else { return };
    let library = fs::read_dir(folder.path().join("cache")).unwrap();
    let mut library = library.map(|entry| entry.unwrap().path());
    let library = library.find(|path| path.extension() == Some("so".as_ref())).unwrap();
    let preload = format!("LD_PRELOAD={}", library.display());
    // One filter, which it is told of: under another one it would be left out.
    let off = of_a_record(&["env", &preload, "SWEETSPOT_FILTERS=1", "IO_BUFFER_SIZE=off"]).unwrap();
    let native = of_a_record(&["env"]).unwrap();
    assert!(off > native, "{off} instructions with the library, natively {native}");
    // What a start takes is not quite the same each time.
    let most = off + off / 20;
    assert!(
        unseen <= most,
        "{unseen} instructions a record, switched off {off}, natively {native}"
    );
    // And it was that: nothing was buffered.
    let mut command = Command::new(&confined);
    command.arg("protect").args([
        RUN[0],
        "run",
        "--summary",
        "--",
        "dd",
        "if=in",
        "of=out",
        "bs=8",
    ]);
    untold(&mut command).env("SWEETSPOT_CACHE", folder.path().join("cache"));
    let output = command.current_dir(folder.path()).output().unwrap();
    let said = stderr(&output);
    assert!(said.contains("buffering was off, or stopped, in one process"), "{said}");
}

/// `tar` opens folders as it opens files. What is in them is found by their path then, which is asked
/// for once, and not once a file.
#[test]
fn folders_that_are_opened_like_files_are_asked_for_once_by_profile() {
    let _others = with_others();
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
        return test_start::skip("strace is not installed");
    };
    assert!(ended.success());
    let trace = fs::read_to_string(&trace).unwrap();
    let asked = trace.lines().filter(|line| line.contains("/inner")).count();
    assert!((1..10).contains(&asked), "{asked} times\n{trace}");
}
