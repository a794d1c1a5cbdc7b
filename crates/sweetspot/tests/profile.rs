//! `sweetspot profile` as its user sees it: the program is its own, counts are exact, verdicts and
//! coverage are right.
//!
//! Not here: how right predictions are (`cargo xtask bench predict`; the model has tests of its
//! own).

use test_start as _;

mod compiler;
mod place;

use place::Place;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

impl Place {
    /// Profiles a program; its output and what `--json` says.
    fn profile(&self, program: &[&str]) -> (Output, Value) {
        let json = self.folder.path().join("profile.json");
        let mut command = self.sweetspot(&["profile", "--json"]);
        command.arg(&json).args(["--output", "../report", "--"]).args(program);
        let output = command.output().unwrap();
        let content = fs::read_to_string(&json).unwrap_or_else(|_| panic!("{output:?}"));
        (output, serde_json::from_str(&content).unwrap())
    }

    fn report(&self) -> String {
        fs::read_to_string(self.folder.path().join("report")).unwrap()
    }
}

/// What was said of a file, over all processes that used it: the one with most calls.
fn file<'a>(profile: &'a Value, path: &Path) -> &'a Value {
    let path = path.canonicalize().unwrap();
    let calls = |file: &Value| number(file, "reads") + number(file, "writes");
    let found = profile["files"].as_array().unwrap().iter();
    let found = found.filter(|file| file["path"] == path.to_str().unwrap());
    found.max_by_key(|file| calls(file)).unwrap_or_else(|| panic!("{path:?} in {profile:#}"))
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} in {value:#}"))
}

#[test]
fn status_output_and_signals_are_the_programs() {
    let place = Place::new();
    let (output, profile) = place.profile(&["sh", "-c", "echo out; echo err >&2; exit 3"]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(output.stdout, b"out\n");
    assert_eq!(output.stderr, b"err\n");
    assert_eq!(profile["ended"], "exit status 3");
    let (output, profile) = place.profile(&["sh", "-c", "kill -TERM $$"]);
    assert_eq!(output.status.signal(), Some(15));
    assert_eq!(profile["ended"], "signal 15");
    let piped = place.sweetspot(&["profile", "--json", "-", "--", "echo", "out"]).output().unwrap();
    let json = piped.stdout.strip_prefix(b"out\n").expect("the program's own comes first");
    assert_eq!(serde_json::from_slice::<Value>(json).unwrap()["ended"], "exit status 0");
    assert!(!place.work().join("-").exists());
    let missing = place.sweetspot(&["profile", "--", "no-such-program"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(127));
}

#[test]
fn counts_are_exact_and_sequential_records_will_gain() {
    let place = Place::new();
    let input = place.write("in.dat", vec![b'x'; 200 * 100_000]);
    let (output, profile) = place.profile(&["dd", "if=in.dat", "of=out.dat", "bs=200"]);
    assert!(output.status.success());
    let read = file(&profile, &input);
    let written = file(&profile, &place.work().join("out.dat"));
    assert_eq!(number(read, "reads"), 100_001, "{read:#}");
    assert_eq!(number(read, "ends"), 1);
    assert_eq!(number(read, "read_bytes"), 20_000_000);
    assert_eq!(number(written, "writes"), 100_000);
    assert_eq!(number(written, "written_bytes"), 20_000_000);
    assert_eq!(number(written, "opens"), 1);
    let sizes = written["write_sizes"].as_array().unwrap();
    assert_eq!(sizes.len(), 1, "{sizes:?}");
    let size = (number(&sizes[0], "bytes_min"), number(&sizes[0], "bytes_max"));
    assert_eq!((size, number(&sizes[0], "calls")), ((128, 255), 100_000));
    assert_eq!(number(&read["pattern"], "random"), 0);
    for file in [read, written] {
        assert_eq!(file["verdict"], "will-gain", "{file:#}");
        let buffered = &file["buffered"];
        let kept = number(buffered, "hits") + number(buffered, "appends");
        assert!((98_000..=100_001).contains(&kept), "{buffered}");
        let left = number(buffered, "fills") + number(buffered, "flushes");
        // 4 KiB to 4 MiB each, by what earlier runs have told of this file system.
        assert!((5..5000).contains(&left), "{buffered}");
        assert!(file["seconds"].as_f64().unwrap() > 0.0);
    }
    assert_eq!(profile["coverage"]["verdict"], "all", "{}", profile["coverage"]);
    assert!(profile["prediction"]["ratio"].as_f64().unwrap() > 1.5, "{}", profile["prediction"]);
    let report = place.report();
    // The answer first; on a very busy machine it leads to `tune`.
    assert!(report.contains("se `sweetspot run`: it should take "), "{report}");
    assert!(report.contains(" Try: sweetspot "), "{report}");
    assert!(report.contains(" -- dd if=in.dat of=out.dat bs=200\n"), "{report}");
    assert!(!report.contains('\x1b'), "no colours in a file");
}

#[test]
fn random_and_large_access_has_no_gain() {
    let place = Place::new();
    let input = place.write("in.dat", vec![b'x'; 8 << 20]);
    let script = "import os, random\n\
                  fd = os.open('in.dat', os.O_RDONLY)\n\
                  for i in range(3000): os.pread(fd, 100, random.randrange(8000000))\n";
    let (_, profile) = place.profile(&["python3", "-c", script]);
    let random = file(&profile, &input);
    assert_eq!(number(random, "reads"), 3000);
    assert_eq!(random["verdict"], "no-gain");
    assert_eq!(random["reasons"][0], "accessed at random");
    let (_, profile) = place.profile(&["dd", "if=in.dat", "of=out.dat", "bs=1M"]);
    assert_eq!(file(&profile, &input)["verdict"], "no-gain");
    assert!(place.report().contains("nothing to gain"), "{}", place.report());
}

/// Each way to go through a file has its count, exact for the first calls of a file and by samples
/// of the rest.
#[test]
fn patterns_are_told_apart() {
    let place = Place::new();
    place.write("in.dat", vec![b'x'; 4 << 20]);
    let check = |script: &str, expected: &[(&str, u64)]| {
        let (output, profile) = place.profile(&["python3", "-c", &format!("import os\n{script}")]);
        assert!(output.status.success(), "{output:?}");
        let found = file(&profile, &place.work().join("in.dat"));
        for (name, count) in expected {
            let value = match *name {
                "seeks_nowhere" => number(found, name),
                name => number(&found["pattern"], name),
            };
            // Of some thousand calls every one is looked at, of more only bursts: a dozen here, whose
            // number scatters by 8 % (the gaps between them are random). Four times as much is no chance.
            let error = if *count > 4096 { count / 3 } else { 0 };
            assert!(value.abs_diff(*count) <= error, "{script}\n{name}: {value} for {count}");
        }
    };
    let open = "fd = os.open('in.dat', os.O_RDWR)\n";
    let strided =
        |calls: u64| format!("{open}for i in range({calls}): os.pread(fd, 100, i % 4000 * 1000)\n");
    check(&strided(1000), &[("sequential", 1), ("strided", 998), ("random", 1), ("re_reads", 0)]);
    check(&strided(100_000), &[("strided", 99_950)]);
    let twice = format!(
        "{open}for j in range(2):\n os.lseek(fd, 0, 0)\n for i in range(1000): os.read(fd, 100)\n"
    );
    let all = [("sequential", 1999), ("strided", 0), ("random", 1), ("re_reads", 1000)];
    check(&twice, &[&all[..], &[("re_writes", 0)]].concat());
    let written = twice.replace("os.read(fd, 100)", "os.write(fd, b'y' * 100)");
    check(&written, &[("sequential", 1999), ("re_writes", 1000), ("re_reads", 0)]);
    let nowhere = format!("{open}for i in range(500): os.lseek(fd, 0, 1); os.read(fd, 100)\n");
    check(&nowhere, &[("seeks_nowhere", 500), ("sequential", 500)]);
    let somewhere = format!("{open}for i in range(500): os.lseek(fd, i * 3 + 1, 0)\n");
    check(&somewhere, &[("seeks_nowhere", 0)]);
}

#[test]
fn what_cannot_be_buffered_says_why() {
    let place = Place::new();
    place.write("in.dat", vec![b'x'; 200 * 5_000]);
    let script = "dd bs=200 < in.dat > out.dat 2> /dev/null; \
                  dd if=in.dat bs=200 count=100 oflag=sync of=synchronous 2> /dev/null";
    let (_, profile) = place.profile(&["sh", "-c", script]);
    let check = |name: &str, reason: &str| {
        let file = file(&profile, &place.work().join(name));
        assert_eq!(file["verdict"], "not-buffered", "{file:#}");
        let reasons = file["reasons"].as_array().unwrap();
        assert!(reasons.iter().any(|found| found == reason), "{name}: {reasons:?}");
    };
    check("in.dat", "open before the program started, its offset is shared");
    check("synchronous", "opened for direct or synchronous access");
}

/// As `tar`, `cp -r` and `find` do.
#[test]
fn files_that_are_opened_in_a_folder_are_the_programs_own() {
    let place = Place::new();
    let input = place.write("inner/in.dat", vec![b'x'; 200 * 5_000]);
    let script = "import os\n\
                  folder = os.open('inner/', os.O_RDONLY)\n\
                  fd = os.open('in.dat', os.O_RDONLY, dir_fd=folder)\n\
                  while os.read(fd, 200): pass\n";
    let (_, profile) = place.profile(&["python3", "-c", script]);
    let folded = |file: &Value| file["path"].as_str().unwrap().ends_with('*');
    assert!(!profile["files"].as_array().unwrap().iter().any(folded), "{profile:#}");
    let read = file(&profile, &input);
    assert_eq!((number(read, "opens"), number(read, "reads")), (1, 5_001), "{read:#}");
    assert!((4_900..=5_001).contains(&number(&read["buffered"], "hits")), "{read:#}");
}

/// A tree of many small files: all calls are counted, those of most files in a line of their folder,
/// and a file that proves busy has its own, whatever came before it.
#[test]
fn small_files_are_counted_by_folder_and_busy_ones_apart() {
    let place = Place::new();
    let script = "import os\n\
                  os.mkdir('many')\n\
                  def put(name, times):\n\
                  \x20   fd = os.open(name, os.O_CREAT | os.O_WRONLY, 0o600)\n\
                  \x20   for _ in range(times): os.write(fd, b'x' * 100)\n\
                  \x20   os.close(fd)\n\
                  for i in range(1000): put(f'many/{i}', 40)\n\
                  put('many/busy', 5000)\n\
                  os.mkdir('alone')\n\
                  put('alone/first', 200)\n\
                  put('many/900', 10)\n\
                  put('many/7', 10)\n\
                  put('many/busy', 10)\n\
                  here = os.getcwd()\n\
                  os.chdir('alone')\n\
                  for i in range(10): put(f'{i}', 1)\n\
                  os.chdir('../many')\n\
                  put('1001', 1)\n\
                  folders = [os.open(f'{here}/{name}', os.O_DIRECTORY) for name in ('alone', 'many')]\n\
                  for folder in folders * 5:\n\
                  \x20   os.close(os.open('2000', os.O_RDONLY | os.O_CREAT, dir_fd=folder))\n";
    let (_, profile) = place.profile(&["python3", "-c", script]);
    let many = place.work().join("many").canonicalize().unwrap();
    let inside = |file: &&Value| Path::new(file["path"].as_str().unwrap()).parent() == Some(&many);
    let files: Vec<&Value> = profile["files"].as_array().unwrap().iter().filter(inside).collect();
    let sum = |name: &str| files.iter().map(|file| number(file, name)).sum::<u64>();
    assert_eq!((sum("writes"), sum("written_bytes")), (45_031, 4_503_100));
    let together = sum("together");
    assert!((740..=1003).contains(&together), "{together}");
    assert_eq!(sum("opens"), 1_010);
    assert!(files.len() < 260, "{}", files.len());
    let busy = file(&profile, &many.join("busy"));
    assert!((4_710..=4_760).contains(&number(busy, "writes")), "{busy:#}");
    assert_eq!(number(busy, "opens"), 1, "{busy:#}");
    assert!(number(&busy["buffered"], "appends") > 4_500, "{busy:#}");
    let known = file(&profile, &many.join("7"));
    assert_eq!(number(known, "writes"), 50, "it had a line already");
    let alone = many.with_file_name("alone").join("*");
    let alone = profile["files"]
        .as_array()
        .unwrap()
        .iter()
        .find(|file| file["path"] == alone.to_str().unwrap());
    assert_eq!(number(alone.expect("a line"), "opens"), 16);
    let waits = number(&alone.expect("a line")["buffered"], "appends");
    assert!((100..200).contains(&waits), "the first of a folder is followed: {alone:#?}");
}

/// Who gives each of thousands of small files all the room that there is (as `grep` does) makes small
/// calls; large ones stand in the same line for as many as there were.
#[test]
fn calls_are_large_by_what_they_moved() {
    let place = Place::new();
    let script = "import os\n\
                  for kind, size in (('small', 100), ('large', 300000)):\n\
                  \x20   os.mkdir(kind)\n\
                  \x20   for i in range(300):\n\
                  \x20       with open(f'{kind}/{i}', 'wb') as out: out.write(b'x' * size)\n\
                  for kind in ('small', 'large'):\n\
                  \x20   for i in range(300):\n\
                  \x20       fd = os.open(f'{kind}/{i}', os.O_RDONLY)\n\
                  \x20       while os.read(fd, 98304): pass\n\
                  \x20       os.close(fd)\n";
    let (_, profile) = place.profile(&["python3", "-c", script]);
    let large_of = |kind: &str| {
        let inside = |file: &&Value| {
            let path = Path::new(file["path"].as_str().unwrap());
            path.parent().is_some_and(|parent| parent.ends_with(kind))
        };
        let files = profile["files"].as_array().unwrap().iter().filter(inside);
        let sums = files.fold((0, 0, 0), |sums, file| {
            let times = &file["timed"]["reads"];
            let sized = file["read_sizes"].as_array().unwrap().iter();
            let large = sized.filter(|size| number(size, "bytes_min") >= 32 << 10);
            let large: u64 = large.map(|size| number(size, "calls")).sum();
            (sums.0 + number(times, "large"), sums.1 + number(times, "small"), sums.2 + large)
        });
        assert!(sums.1 > 0, "{kind}: none was timed");
        (sums.0, sums.2)
    };
    assert_eq!(large_of("small"), (0, 0));
    assert_eq!(large_of("large"), (900, 900));
}

#[test]
fn appends_and_what_the_shell_has_opened_for_writing_would_wait() {
    let place = Place::new();
    let input = place.write("in.dat", vec![b'x'; 200 * 5_000]);
    let script = "dd if=in.dat bs=200 > out.dat 2> /dev/null; \
                  dd if=in.dat bs=200 oflag=append conv=notrunc of=log 2> /dev/null";
    let (_, profile) = place.profile(&["sh", "-c", script]);
    for name in ["out.dat", "log"] {
        let file = file(&profile, &place.work().join(name));
        let waits = number(&file["buffered"], "appends");
        assert!((4_900..5_000).contains(&waits), "{file:#}");
        assert_eq!(file["reasons"].as_array().unwrap().len(), 0, "{file:#}");
        assert_eq!(file["verdict"], "will-gain", "{file:#}");
    }
    assert_eq!(number(file(&profile, &input), "reads"), 5_001);
}

#[test]
fn the_whole_tree_is_counted_killed_processes_included() {
    let place = Place::new();
    place.write("in.dat", vec![b'x'; 200 * 2_000]);
    let script = "exec 3> killed; i=0; while [ $i -lt 500 ]; do echo line >&3; i=$((i+1)); done; \
                  dd if=in.dat of=first bs=200 2> /dev/null & \
                  dd if=in.dat of=second bs=200 2> /dev/null; wait; kill -9 $$";
    let (output, profile) = place.profile(&["sh", "-c", script]);
    assert_eq!(output.status.signal(), Some(9));
    let calls = |name: &str| number(file(&profile, &place.work().join(name)), "writes");
    assert_eq!((calls("killed"), calls("first"), calls("second")), (500, 2000, 2000));
    let programs: Vec<&str> = profile["processes"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|process| process["program"].as_str())
        .collect();
    assert_eq!(programs.iter().filter(|name| **name == "dd").count(), 2, "{programs:?}");
    assert_eq!(profile["coverage"]["verdict"], "all", "{}", profile["coverage"]);
}

/// On a busy machine it is not the files that the programs of a shell wait for.
#[test]
fn how_long_each_process_waited_for_a_processor_is_known() {
    let place = Place::new();
    place.write("in.dat", vec![b'x'; 100 * 20_000]);
    let hogs: Vec<_> = (0..8)
        .map(|_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
        .collect();
    let script = "dd if=in.dat of=out.dat bs=100 2> /dev/null; true";
    let (_, profile) = place.profile(&["sh", "-c", script]);
    for mut hog in hogs {
        hog.kill().unwrap();
        hog.wait().unwrap();
    }
    let processes = profile["processes"].as_array().unwrap();
    let dd = processes.iter().find(|process| process["program"] == "dd").unwrap();
    let delayed = dd["delayed_seconds"].as_f64().unwrap();
    assert!(delayed > 0.0, "{profile:#}");
    assert!(profile["evicted_seconds"].as_f64().unwrap() >= delayed.min(0.001), "{profile:#}");
}

/// A child that becomes no other program, and is killed while it writes to what its parent opened.
#[test]
fn a_forked_child_counts_for_itself() {
    let place = Place::new();
    let source = "#include <fcntl.h>\n#include <signal.h>\n#include <sys/wait.h>\n\
                  #include <unistd.h>\nint main(void) { int fd = open(\"out\", O_CREAT | O_RDWR, 0600);\n\
                  for (int i = 0; i < 300; i++) write(fd, \"parent\", 6);\n\
                  if (fork() == 0) { for (int i = 0; i < 700; i++) write(fd, \"child\", 5);\n\
                  raise(SIGKILL); } wait(0); return 0; }\n";
    compile(&place, "forks", source, &[]);
    let (output, profile) = place.profile(&["./forks"]);
    assert!(output.status.success());
    let out = place.work().join("out").canonicalize().unwrap();
    let files = profile["files"].as_array().unwrap().iter();
    let out = files.filter(|file| file["path"] == out.to_str().unwrap());
    let mut writes: Vec<(u64, u64)> =
        out.map(|file| (number(file, "process"), number(file, "writes"))).collect();
    writes.sort_unstable();
    assert_eq!(writes, [(0, 300), (1, 700)]);
    let process = |index: usize| &profile["processes"][index];
    assert_eq!(process(1)["parent"], process(0)["pid"]);
    assert_eq!(
        (&process(0)["program"], &process(1)["program"]),
        (&"forks".into(), &"forks".into())
    );
}

#[test]
fn a_process_that_switches_it_off_is_not_observed() {
    let place = Place::new();
    place.write("in.dat", vec![b'x'; 200 * 2_000]);
    let script = "SWEETSPOT=Off dd if=in.dat of=out.dat bs=200 2> /dev/null; exit 0";
    let (_, profile) = place.profile(&["sh", "-c", script]);
    let processes = profile["processes"].as_array().unwrap();
    assert!(processes.iter().all(|process| process["program"] == "sh"), "{processes:?}");
    assert_eq!(profile["coverage"]["verdict"], "part", "{}", profile["coverage"]);
}

#[test]
fn streams_are_seen_and_their_share_is_said() {
    let place = Place::new();
    place.write("in.txt", "a line of text\n".repeat(50_000).as_bytes());
    let (_, profile) = place.profile(&["sort", "-o", "out.txt", "in.txt"]);
    let written = file(&profile, &place.work().join("out.txt"));
    assert_eq!(number(written, "written_bytes"), 750_000);
    assert_eq!(number(written, "stdio_calls"), number(written, "writes"), "{written:#}");
}

#[test]
fn streams_without_a_buffer_lead_to_stdio() {
    let place = Place::new();
    let source = "#include <stdio.h>\nint main(void) { FILE *f = fopen(\"out.txt\", \"w\");\n\
                  setvbuf(f, 0, _IONBF, 0); for (int i = 0; i < 200000; i++) fputs(\"line\\n\", f);\n\
                  return fclose(f); }\n";
    compile(&place, "lines", source, &[]);
    let (_, profile) = place.profile(&["./lines"]);
    let sentence = profile["sentence"].as_str().unwrap();
    assert!(sentence.contains("Try: sweetspot run --stdio -- ./lines"), "{sentence}");
    assert_eq!(profile["insights"][0]["code"], "stdio", "{}", profile["insights"]);
}

/// `--stdio` would not help it either: as root tcpdump is such a program.
#[test]
fn streams_of_a_process_that_gave_up_rights_have_no_gain() {
    let place = Place::new();
    let source = "#include <stdio.h>\n#include <unistd.h>\nint main(void) {\n\
                  if (setgid(getgid())) return 1;\n\
                  FILE *f = fopen(\"out.txt\", \"w\");\n\
                  setvbuf(f, 0, _IONBF, 0); for (int i = 0; i < 200000; i++) fputs(\"line\\n\", f);\n\
                  return fclose(f); }\n";
    compile(&place, "lines", source, &[]);
    let (_, profile) = place.profile(&["./lines"]);
    let sentence = profile["sentence"].as_str().unwrap();
    let reason = "sweetspot cannot buffer it here: the process gave up rights, or is confined. ";
    assert!(sentence.starts_with(reason), "{sentence}");
    assert_eq!(file(&profile, &place.work().join("out.txt"))["reasons"][1], "used through stdio");
}

/// Nothing shows what processes tell each other through memory: such a program is not led to `run`.
#[test]
fn a_program_that_shares_memory_has_no_gain() {
    let place = Place::new();
    compile_program(&place, "shares_memory", &[]);
    let reason = "the process shares writable memory with another";
    for how in ["file", "protected", "sysv", "fork"] {
        let (output, profile) = place.profile(&["./shares_memory", how, "5"]);
        assert!(output.status.success(), "{output:?}");
        let sentence = profile["sentence"].as_str().unwrap();
        assert!(sentence.contains(reason) && !sentence.contains("Try:"), "{how}: {sentence}");
        assert!(sentence.contains("promise = \"unobserved\""), "what mends it: {sentence}");
        assert!(!sentence.contains("nothing to gain"), "a rule would let it gain: {sentence}");
        let written = file(&profile, &place.work().join("out"));
        assert_eq!(written["verdict"], "not-buffered", "{how}: {written:#}");
        assert_eq!(written["reasons"][0], reason, "{how}");
    }
    let (_, profile) = place.profile(&["./shares_memory", "none", "5"]);
    let written = file(&profile, &place.work().join("out"));
    assert_eq!(written["verdict"], "will-gain", "{written:#}");
    assert_eq!(profile["obstacle"], Value::Null);
}

/// `__read_chk`, which every program of a distribution calls, is a read as any other.
#[test]
fn a_checked_read_is_counted_once_and_is_not_a_streams() {
    let place = Place::new();
    compile_program(&place, "fortified", &["-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]);
    let names = Command::new("nm").args(["-D", "fortified"]).current_dir(place.work()).output();
    let names = String::from_utf8(names.unwrap().stdout).unwrap();
    assert!(names.contains("__read_chk") && names.contains("__pread"), "{names}");
    let input = place.write("in.dat", vec![b'x'; 200 * 5_000]);
    for how in ["read", "pread"] {
        let (output, profile) = place.profile(&["./fortified", how, "in.dat"]);
        assert!(output.status.success(), "{output:?}");
        let read = file(&profile, &input);
        assert_eq!(number(read, "reads"), 5_001, "{how}: {read:#}");
        assert_eq!(number(read, "stdio_calls"), 0, "{how}: {read:#}");
        let sentence = profile["sentence"].as_str().unwrap();
        assert!(!sentence.contains("stdio"), "{how}: {sentence}");
    }
}

/// Compiles `programs/c/NAME.c`.
fn compile_program(place: &Place, name: &str, options: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../programs/c/{name}.c"));
    compile(place, name, &fs::read_to_string(source).unwrap(), options);
}

fn compile(place: &Place, name: &str, source: &str, options: &[&str]) {
    place.write(&format!("{name}.c"), source);
    let mut compiler = compiler::gcc();
    compiler.args(["-o", name, &format!("{name}.c")]).args(options);
    assert!(compiler.current_dir(place.work()).status().unwrap().success());
}

/// Seeks come by the million and take a way of their own: failures are what they were, and a
/// library that stands before libc is asked.
#[test]
fn seeks_fail_as_they_did_and_are_another_librarys_where_there_is_one() {
    let place = Place::new();
    let input = place.write("in.dat", vec![b'x'; 1 << 20]);
    let source = "#include <errno.h>\n#include <fcntl.h>\n#include <stdio.h>\n\
                  #include <unistd.h>\nint main(void) { int fd = open(\"in.dat\", O_RDONLY);\n\
                  int bad = 0; long at = 0; for (int i = 0; i < 50000; i++) { errno = 0;\n\
                  if (i % 5 == 4) bad += lseek(fd, -1, SEEK_SET) == -1 && errno == EINVAL;\n\
                  else at = lseek(fd, i, SEEK_SET) + errno; }\n\
                  printf(\"%d %ld\\n\", bad, at); return 0; }\n";
    compile(&place, "seeks", source, &[]);
    let (output, profile) = place.profile(&["./seeks"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "10000 49998\n");
    let seeks = file(&profile, &input);
    assert_eq!((number(seeks, "seeks"), number(seeks, "failed")), (50_000, 10_000), "{seeks:#}");
    let other = "#define _GNU_SOURCE\n#include <sys/syscall.h>\n#include <unistd.h>\n\
                 off_t lseek(int fd, off_t to, int whence) {\n\
                 return syscall(SYS_lseek, fd, to, whence) + 1000000; }\n";
    compile(&place, "other.so", other, &["-shared", "-fPIC"]);
    let script = "LD_PRELOAD=$LD_PRELOAD:./other.so ./seeks";
    let (output, _) = place.profile(&["sh", "-c", script]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0 1049998\n");
}

/// A stream may be opened by no path: a file without a name, or the one that it has already.
#[test]
fn streams_that_are_opened_without_a_path_are_counted() {
    let place = Place::new();
    let source = "#include <stdio.h>\nint main(void) { FILE *unnamed = tmpfile();\n\
                  FILE *named = fopen(\"out.dat\", \"w\"); named = freopen(NULL, \"a\", named);\n\
                  return !unnamed || !named || fputs(\"x\", unnamed) < 0 || fclose(unnamed)\n\
                  || fputs(\"x\", named) < 0 || fclose(named); }\n";
    compile(&place, "unnamed", source, &[]);
    let (output, profile) = place.profile(&["./unnamed"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let written = file(&profile, &place.work().join("out.dat"));
    assert_eq!(number(written, "writes"), 1, "{written:#}");
}

/// Names that are no memory are the kernel's to refuse, and what cannot be opened or closed has no
/// descriptor.
#[test]
fn what_cannot_be_opened_fails_as_it_did() {
    let place = Place::new();
    place.write("in.dat", vec![b'x'; 100]);
    let source = "#define _GNU_SOURCE\n#include <errno.h>\n#include <fcntl.h>\n#include <stdio.h>\n\
                  #include <unistd.h>\n#define TRY(call) (errno = 0, printf(\"%d %d\\n\", call, errno))\n\
                  int main(void) { char *bad = (char *)8; for (int i = 0; i < 300; i++) {\n\
                  int fd = open(\"in.dat\", O_RDONLY); close(fd); }\n\
                  TRY(open(bad, O_RDONLY)); TRY(openat(AT_FDCWD, bad, O_RDONLY));\n\
                  TRY(openat(3, bad, O_RDONLY)); TRY(openat(99, \"in.dat\", O_RDONLY));\n\
                  TRY(open(\"none\", O_RDONLY)); TRY(creat(bad, 0600)); TRY(close(77));\n\
                  TRY(close(-1)); return 0; }\n";
    compile(&place, "bad", source, &["-Wno-nonnull"]);
    let plain = Command::new("./bad").current_dir(place.work()).output().unwrap();
    let (output, _) = place.profile(&["./bad"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&plain.stdout));
}

#[test]
fn what_was_done_when_is_told_and_drawn() {
    let place = Place::new();
    place.write("in.dat", vec![b'x'; 200 * 30_000]);
    let script = "import os, time\n\
                  fd = os.open('in.dat', os.O_RDONLY)\n\
                  for _ in range(3):\n\
                  \x20   for _ in range(10_000): os.read(fd, 200)\n\
                  \x20   time.sleep(0.4)\n";
    let (_, profile) = place.profile(&["python3", "-c", script]);
    let moments = profile["timeline"].as_array().unwrap();
    let seconds = |moment: &Value| moment["seconds"].as_f64().unwrap();
    let first = (seconds(&moments[0]), number(&moments[0], "calls"));
    assert_eq!(first, (0.0, 0));
    let last = moments.last().unwrap();
    assert_eq!(seconds(last), profile["seconds"].as_f64().unwrap());
    let files = profile["files"].as_array().unwrap();
    let calls = |name: &str| files.iter().map(|file| number(file, name)).sum::<u64>();
    assert_eq!(number(last, "calls"), calls("reads") + calls("writes") + calls("seeks"));
    assert_eq!(number(last, "bytes"), calls("read_bytes") + calls("written_bytes"));
    assert!(moments.is_sorted_by(|one, next| seconds(one) < seconds(next)), "{moments:#?}");
    let still = |two: &&[Value]| two[0]["calls"] == two[1]["calls"];
    let still: f64 =
        moments.windows(2).filter(still).map(|two| seconds(&two[1]) - seconds(&two[0])).sum();
    assert!(still > 0.6, "three naps of 0.4 s: {moments:#?}");
    let json = place.folder.path().join("profile.json");
    let output = place.sweetspot(&["report", "--html", "-"]).arg(json).output().unwrap();
    let page = String::from_utf8_lossy(&output.stdout);
    for title in ["Calls a second during the run", "Bytes a second during the run"] {
        assert!(page.contains(title), "{title}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// As PHP loads its extensions: nothing is buffered from then on.
#[test]
fn a_program_that_loads_libraries_apart_has_no_gain() {
    let place = Place::new();
    let input = place.write("in.dat", vec![b'x'; 200 * 20_000]);
    let source = "#include <dlfcn.h>\n#include <fcntl.h>\n#include <unistd.h>\n\
                  int main(void) { char b[200]; dlopen(\"libm.so.6\", RTLD_NOW | 8);\n\
                  int fd = open(\"in.dat\", O_RDONLY); while (read(fd, b, 200) > 0); return 0; }\n";
    compile(&place, "apart", source, &["-ldl"]);
    let (_, profile) = place.profile(&["./apart"]);
    let file = file(&profile, &input);
    assert_eq!(file["verdict"], "not-buffered", "{file:#}");
    let sentence = profile["sentence"].as_str().unwrap();
    assert!(
        sentence.contains("whose calls are not seen (RTLD_DEEPBIND or RTLD_NEXT). "),
        "{sentence}"
    );
}

#[test]
fn a_static_program_gets_its_sizes_from_the_kernel() {
    let place = Place::new();
    place.write("in.dat", vec![b'x'; 100 * 20_000]);
    let source = "#include <fcntl.h>\n#include <unistd.h>\nint main(void) { char b[100];\n\
                  int fd = open(\"in.dat\", O_RDONLY); while (read(fd, b, 100) > 0); return 0; }\n";
    compile(&place, "static", source, &["-static"]);
    let (output, profile) = place.profile(&["./static"]);
    assert!(output.status.success());
    let coverage = &profile["coverage"];
    assert_eq!(coverage["verdict"], "nothing", "{coverage}");
    let reads = number(&coverage["kernel"], "reads");
    assert!((20_000..20_100).contains(&reads), "{coverage}");
    let sentence = profile["sentence"].as_str().unwrap();
    assert!(sentence.contains("statically linked"), "{sentence}");
    assert!(sentence.contains("Hint: it reads 100 bytes at a time"), "{sentence}");
    // A process that is not seen, in a tree that is: the sentence is about that one.
    let (_, profile) = place.profile(&["sh", "-c", "./static; exit 0"]);
    assert_eq!(profile["coverage"]["verdict"], "part", "{}", profile["coverage"]);
    let sentence = profile["sentence"].as_str().unwrap();
    assert!(sentence.contains("Hint: it reads 100 bytes at a time"), "{sentence}");
}

/// Calls through io_uring are in no counter, not even the kernel's.
#[test]
fn a_process_with_io_uring_is_not_seen() {
    let place = Place::new();
    let source = "#include <sys/syscall.h>\n#include <unistd.h>\n#include <string.h>\n\
                  int main(void) { char p[120]; memset(p, 0, sizeof p);\n\
                  return syscall(SYS_io_uring_setup, 4, p) < 0; }\n";
    compile(&place, "ring", source, &[]);
    let (output, profile) = place.profile(&["./ring"]);
    if !output.status.success() {
        assert!(std::env::var_os("CI").is_none(), "missing in CI: io_uring");
        eprintln!("skipped: this machine has no io_uring");
        return;
    }
    assert_eq!(profile["coverage"]["verdict"], "part", "{}", profile["coverage"]);
    let sentence = profile["sentence"].as_str().unwrap();
    assert!(sentence.contains("io_uring"), "{sentence}");
}

/// Far more processes than have lines: the lines add up to all that was counted, and each process
/// has its files to itself.
#[test]
fn lines_of_processes_add_up() {
    let place = Place::new();
    let script = "i=0; while [ $i -lt 100 ]; do dd if=/dev/zero of=out.$i bs=10 count=50 2>&-; \
                  i=$((i+1)); done";
    let (_, profile) = place.profile(&["sh", "-c", script]);
    let files = profile["files"].as_array().unwrap();
    assert!(files.iter().all(|file| file["process"].is_u64()), "{files:?}");
    let calls = |list: &str, names: &[&str]| -> u64 {
        let list = profile[list].as_array().unwrap().iter();
        list.map(|item| names.iter().map(|name| number(item, name)).sum::<u64>()).sum()
    };
    let all = calls("files", &["reads", "writes", "seeks"]);
    assert_eq!(calls("processes", &["calls"]), all);
    assert!(all >= 100 * 100, "{all}");
    let report = place.report();
    // Few files are shown, and all are in JSON: a hundred, /dev/zero for each, and the shell's.
    assert!(report.contains(" files more: ") && report.lines().count() < 60, "{report}");
    assert!(profile["files"].as_array().unwrap().len() >= 200);
    let lines = report.lines().skip_while(|line| !line.starts_with("process "));
    let lines = lines.skip(1).take_while(|line| !line.is_empty());
    let shown = lines.map(|line| {
        // Name (40 columns), process id, calls.
        let calls: String = line.chars().skip(40 + 12).take(12).collect();
        calls.replace(',', "").trim().parse::<u64>().unwrap_or_else(|_| panic!("{report}"))
    });
    assert_eq!(shown.sum::<u64>(), all, "{report}");
}

/// A line that is written over and over, and gone in the end; in a pipe there is none.
#[test]
fn progress_is_shown_on_a_terminal_and_nowhere_else() {
    let place = Place::new();
    let words = ["profile", "--", "timeout", "3.5", "dd", "if=/dev/zero", "of=/dev/null", "bs=100"];
    let mut piped = place.sweetspot(&words);
    let piped = piped.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let own = place.sweetspot(&words);
    let typed: Vec<&str> =
        [own.get_program()].into_iter().chain(own.get_args()).map(text).collect();
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &typed.join(" "), "/dev/null"]).current_dir(place.work());
    terminal.env("SWEETSPOT_CACHE", place.cache()).env("TERM", "xterm").env_remove("NO_COLOR");
    let shown = terminal.stdin(Stdio::null()).output().unwrap();
    assert_eq!(shown.status.code(), Some(124), "{shown:?}");
    let shown = String::from_utf8(shown.stdout).unwrap();
    let lines: Vec<&str> = shown.split("\r\x1b[K").collect();
    assert!(lines.len() >= 4 && lines[0].is_empty(), "{shown}");
    let mut most = 0;
    for line in &lines[1..lines.len() - 1] {
        let (seconds, rates) = line.split_once(" s: ").unwrap_or_else(|| panic!("{shown}"));
        assert!((2..60).contains(&seconds.parse().unwrap()), "{line}");
        let (calls, bytes) = rates.split_once(" calls/s, ").unwrap_or_else(|| panic!("{line}"));
        most = most.max(calls.replace(',', "").parse::<u64>().unwrap());
        assert!(bytes.ends_with("B/s") || bytes.ends_with("bytes/s"), "{line}");
    }
    assert!(most > 1000, "{shown}");
    let report = lines[lines.len() - 1];
    assert!(report.starts_with("\x1b[1m") && report.contains("seen  "), "{report}");
    let piped = piped.wait_with_output().unwrap();
    let said = String::from_utf8(piped.stderr).unwrap();
    assert!(!said.contains(['\r', '\x1b']) && !said.contains("calls/s"), "{said}");
}

fn text(word: &std::ffi::OsStr) -> &str {
    word.to_str().unwrap()
}

#[test]
fn two_profiles_are_compared() {
    let place = Place::new();
    place.write("in.dat", vec![b'x'; 200 * 1000]);
    for (name, size) in [("a.json", "bs=200"), ("b.json", "bs=20000")] {
        let dd = ["profile", "--json", name, "--", "dd", "if=in.dat", "of=out.dat", size];
        assert!(place.sweetspot(&dd).output().unwrap().status.success());
    }
    let compare = ["profile", "--compare", "a.json", "b.json"];
    let output = place.sweetspot(&compare).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("in.dat\n  calls 1,00"), "{text}");
    let both = place.sweetspot(&[&compare[..], &["--json", "c.json"]].concat()).output().unwrap();
    assert_eq!(both.status.code(), Some(125), "{both:?}");
    place.write("c.json", b"{}");
    let output = place.sweetspot(&["profile", "--compare", "a.json", "c.json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&output.stderr).contains("c.json: not a profile"));
}

#[test]
fn a_file_that_holds_something_else_is_not_overwritten() {
    let place = Place::new();
    place.write("data", b"precious");
    for option in ["--json", "--output"] {
        let output = place.sweetspot(&["profile", option, "data", "--", "true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        assert_eq!(fs::read(place.work().join("data")).unwrap(), b"precious");
    }
}

#[test]
fn nothing_is_left_behind() {
    let place = Place::new();
    let count = || {
        let uid = rustix::process::geteuid().as_raw();
        let own = format!("sweetspot-{uid}-");
        let names = fs::read_dir("/dev/shm").unwrap().flatten();
        names.filter(|entry| entry.file_name().to_string_lossy().starts_with(&own)).count()
    };
    let before = count();
    place.profile(&["true"]);
    // Other tests make and remove ledgers of their own meanwhile: wait for a moment without.
    let mut tries = 0;
    while count() > before && tries < 100 {
        std::thread::sleep(std::time::Duration::from_millis(100));
        tries += 1;
    }
    assert!(count() <= before);
    assert!(fs::read_dir(place.work()).unwrap().next().is_none(), "costs are measured and removed");
}

/// However the program ends, or this process is asked to, its counters go.
#[test]
fn nothing_is_left_behind_by_signals() {
    use std::io::{BufRead, BufReader};
    let place = Place::new();
    let profile = |script: &str| {
        let mut command = place.sweetspot(&["profile", "--", "sh", "-c"]);
        command.arg(script).stderr(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut path = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut path).unwrap();
        (child, path.trim().to_owned())
    };
    let check = |child: &mut std::process::Child, path: &str, what: &str| {
        assert!(child.wait().unwrap().signal().is_some(), "{what}");
        assert!(path.starts_with("/dev/shm/sweetspot-"), "{path:?}");
        assert!(!fs::exists(path).unwrap(), "{what}: {path} is left");
    };
    for signal in ["TERM", "KILL", "SEGV"] {
        let (mut child, path) = profile(&format!("echo $SWEETSPOT_LEDGER; kill -{signal} $$"));
        check(&mut child, &path, signal);
    }
    for signal in [Signal::TERM, Signal::HUP] {
        let (mut child, path) = profile("echo $SWEETSPOT_LEDGER; exec sleep 100");
        kill_process(Pid::from_child(&child), signal).unwrap();
        check(&mut child, &path, &format!("{signal:?} to this process"));
    }
}

/// A copy in small pieces, in C and C++; `NAME` is what the function is called.
const COPY: &str = r#"
#include <fcntl.h>
#include <unistd.h>
COPY(int in, int out, int n) {
    char record[200];
    for (int i = 0; i < n; i++) {
        if (read(in, record, sizeof record) <= 0) return;
        if (write(out, record, sizeof record) < 0) return;
    }
}
"#;
const MAIN: &str = r#"
int main(int count, char **names) {
    int in = open(names[1], O_RDONLY), out = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    copy_records(in, out, 1000000);
    return 0;
}
"#;

impl Place {
    /// Writes a source, compiles it, and says where the program is.
    fn compile(&self, name: &str, source: &str, compiler: &str) -> String {
        let path = self.write(name, source);
        let mut words = compiler.split(' ');
        let built = Command::new(words.next().unwrap())
            .args(words)
            .args([path.to_str().unwrap()])
            .current_dir(self.work())
            .status();
        assert!(built.is_ok_and(|status| status.success()), "{compiler}");
        self.work().join("program").to_str().unwrap().to_owned()
    }

    /// What `--where` says of the file `out`: its only place, and the report.
    fn place_of(&self, program: &[&str]) -> (Value, String) {
        let json = self.folder.path().join("profile.json");
        let mut command = self.sweetspot(&["profile", "--where", "--json"]);
        command.arg(&json).args(["--output", "../report", "--"]).args(program);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let profile: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        let found = file(&profile, &self.work().join("out"));
        let places = found["places"].as_array().unwrap();
        assert_eq!(places.len(), 1, "{places:#?}");
        assert_eq!(places[0]["share"], 1.0);
        (places[0].clone(), self.report())
    }
}

#[test]
fn where_names_function_file_and_line() {
    let place = Place::new();
    place.write("in", vec![b'r'; 8_000_000]);
    let c =
        format!("{}{MAIN}", COPY.replace("COPY", "__attribute__((noinline)) void copy_records"));
    for options in ["-O1 -g", "-O2 -g -fno-pie -no-pie", "-O2 -g -fomit-frame-pointer -pthread"] {
        let program = place.compile("copy.c", &c, &format!("cc {options} -o program"));
        let (found, report) = place.place_of(&[&program, "in"]);
        assert_eq!(found["function"], "copy_records", "{options}: {found:#}");
        assert!(found["file"].as_str().unwrap().ends_with("/copy.c"), "{found:#}");
        assert_eq!(found["line"], 8, "{options}: {found:#}");
        assert!(found["inlined_into"].is_null(), "{found:#}");
        assert!(report.contains("  100 % by copy_records (copy.c:8)\n"), "{report}");
        let advice = report.lines().find(|line| line.starts_with("* ")).unwrap();
        assert!(advice.contains("are made by copy_records (copy.c:"), "{report}");
    }
    // Nothing is said that was not asked for.
    let (_, profile) = place.profile(&[&place.work().join("program").to_string_lossy(), "in"]);
    assert_eq!(file(&profile, &place.work().join("out"))["places"], serde_json::json!([]));
    // Without debug information: the function; without symbols: the place in the file.
    let program = place.compile("copy.c", &c, "cc -O1 -o program");
    let (found, report) = place.place_of(&[&program, "in"]);
    assert!(found["function"] == "copy_records" && found["line"].is_null(), "{found:#}");
    assert!(report.contains("  100 % by copy_records in program\n"), "{report}");
    let program = place.compile("copy.c", &c, "cc -O1 -s -o program");
    let (found, report) = place.place_of(&[&program, "in"]);
    assert!(found["function"].is_null() && found["module"] == program, "{found:#}");
    let offset = number(&found, "offset");
    assert!(report.contains(&format!("  100 % by program+{offset:#x}\n")), "{report}");
}

#[test]
fn where_knows_other_languages_and_libraries() {
    let place = Place::new();
    place.write("in", vec![b'r'; 8_000_000]);
    let inlined = "static inline __attribute__((always_inline)) void copy_records";
    let cxx = format!(
        "namespace records {{ {} }}\nusing namespace records;\n{MAIN}",
        COPY.replace("COPY", inlined).replace("#include <fcntl.h>\n#include <unistd.h>\n", "")
    );
    let cxx = format!("#include <fcntl.h>\n#include <unistd.h>\n{cxx}");
    let program = place.compile("copy.cpp", &cxx, "c++ -O2 -g -o program");
    let (found, report) = place.place_of(&[&program, "in"]);
    let function = found["function"].as_str().unwrap();
    assert!(function.contains("copy_records"), "{found:#}");
    assert_eq!(found["inlined_into"], "main", "{found:#}");
    assert!(report.contains(", inlined into main\n"), "{report}");

    let rust = "use std::io::{Read, Write};
        #[inline(never)]
        fn copy_records(mut input: std::fs::File, mut output: std::fs::File) {
            let mut record = [0; 200];
            while input.read(&mut record).unwrap() > 0 { output.write_all(&record).unwrap(); }
        }
        fn main() {
            let input = std::fs::File::open(std::env::args().nth(1).unwrap()).unwrap();
            copy_records(input, std::fs::File::create(\"out\").unwrap());
        }";
    let program = place.compile("copy.rs", rust, "rustc -O -g -o program");
    let (found, _) = place.place_of(&[&program, "in"]);
    // What calls the C library is Rust's own: its caller is not looked for.
    assert_eq!(found["module"], program, "{found:#}");
    assert!(found["function"].as_str().unwrap().contains("::write"), "{found:#}");
    assert!(found["line"].is_u64(), "{found:#}");

    // A library that is loaded while the program runs.
    let library = COPY.replace("COPY", "void copy_records");
    place.compile("part.c", &library, "cc -O1 -g -shared -fPIC -o part.so");
    let main = "#include <dlfcn.h>\n#include <fcntl.h>\ntypedef void Copy(int, int, int);
        int main(int count, char **names) {
            void *part = dlopen(\"./part.so\", RTLD_NOW);
            int in = open(names[1], O_RDONLY), out = open(\"out\", O_WRONLY | O_CREAT | O_TRUNC, 0644);
            ((Copy *)dlsym(part, \"copy_records\"))(in, out, 1000000);
            dlclose(part);
            return 0;
        }";
    let program = place.compile("main.c", main, "cc -O1 -o program");
    let (found, _) = place.place_of(&[&program, "in"]);
    assert!(found["module"].as_str().unwrap().ends_with("/part.so"), "{found:#}");
    assert!(found["function"] == "copy_records" && found["line"] == 8, "{found:#}");

    let script = "import os\nout = os.open('out', os.O_WRONLY | os.O_CREAT)\n\
                  for _ in range(40000): os.write(out, b'r' * 200)\n";
    place.write("script.py", script);
    let (found, report) = place.place_of(&["/usr/bin/python3.11", "script.py"]);
    assert!(found["module"].as_str().unwrap().contains("python3.11"), "{found:#}");
    assert!(report.contains(", of the interpreter: the call is in its script\n"), "{report}");
}

/// Each thread and each handler has its own stack: what one notes is never the other's.
#[test]
fn where_tells_threads_and_handlers_apart() {
    let place = Place::new();
    let source = r#"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>
static int files[3];
__attribute__((noinline)) void in_handler(int number) { (void)number, write(files[2], "h", 1); }
__attribute__((noinline)) void *in_thread(void *none) {
    for (int i = 0; i < 200000; i++) write(files[1], "t", 1);
    return none;
}
__attribute__((noinline)) void in_main(void) {
    for (int i = 0; i < 200000; i++) write(files[0], "m", 1);
}
int main(void) {
    const char *names[] = {"main", "thread", "handler"};
    for (int i = 0; i < 3; i++) files[i] = open(names[i], O_WRONLY | O_CREAT | O_TRUNC, 0644);
    signal(SIGALRM, in_handler);
    struct itimerval often = {{0, 100}, {0, 100}};
    setitimer(ITIMER_REAL, &often, NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, NULL);
    in_main();
    pthread_join(thread, NULL);
    return 0;
}
"#;
    let program = place.compile("threads.c", source, "cc -O1 -g -w -pthread -o program");
    let json = place.folder.path().join("profile.json");
    let mut command = place.sweetspot(&["profile", "--where", "--json"]);
    command.arg(&json).args(["--output", "../report", "--", &program]);
    assert!(command.status().unwrap().success());
    let profile: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    for name in ["main", "thread", "handler"] {
        let found = file(&profile, &place.work().join(name));
        let places = found["places"].as_array().unwrap();
        let expected = format!("in_{name}");
        assert!(places.iter().all(|place| place["function"] == *expected), "{name}: {places:#?}");
        // Handlers are seldom enough that none may have been looked at.
        assert!(!places.is_empty() || name == "handler", "{name}");
    }
}

/// What shadows of the size in force do with the recorded calls is what those beside the run did: the
/// same counts, so the same prediction, however the calls were sampled.
#[test]
fn a_recording_says_of_auto_what_the_profile_says() {
    let place = Place::new();
    place.write("in.dat", vec![b'x'; 200 * 50_000]);
    place.write("early", vec![b'x'; 200 * 10_000]);
    let recording = place.folder.path().join("job.recording");
    // In order, back and forth, vectors, positions, appends, two at once, and files from outside.
    let python = "import os, random\n\
                  fd = os.open('in.dat', os.O_RDONLY)\n\
                  out = os.open('out.dat', os.O_CREAT | os.O_RDWR)\n\
                  log = os.open('log', os.O_CREAT | os.O_WRONLY | os.O_APPEND)\n\
                  while True:\n\
                  \x20   record = os.read(fd, 200)\n\
                  \x20   if not record: break\n\
                  \x20   os.write(out, record)\n\
                  \x20   if random.random() < 0.1: os.write(log, b'line')\n\
                  \x20   if random.random() < 0.001: os.stat('in.dat')\n\
                  for i in range(20000):\n\
                  \x20   if i % 16 == 0: os.lseek(fd, random.randrange(9000000), os.SEEK_SET)\n\
                  \x20   os.read(fd, 100)\n\
                  for i in range(20000): os.pread(fd, 50, i * 50); os.pwrite(out, b'x' * 50, i * 50)\n\
                  for i in range(300): os.writev(out, [b'a' * 10, b'b' * 10])\n";
    let script = format!(
        "dd bs=200 of=late 2> /dev/null < early; python3 -c \"{python}\" >> out; \
                          for i in 1 2; do python3 -c \"{python}\"; done"
    );
    let json = place.folder.path().join("profile.json");
    let profiled = place
        .sweetspot(&["profile", "--output", "../report", "--json"])
        .arg(&json)
        .arg("--record")
        .arg(&recording)
        .args(["--", "sh", "-c", &script])
        .output()
        .unwrap();
    assert!(profiled.status.success(), "{profiled:?}");
    let profile: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let told = place.sweetspot(&["tune", "--json", "--from"]).arg(&recording).output().unwrap();
    assert!(told.status.success(), "{told:?}");
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    let rows = told["predicted"].as_array().unwrap();
    let row = |buffer: &str| rows.iter().find(|row| row["buffer"] == buffer).unwrap();
    let seconds = |row: &Value| row["seconds"].as_f64().unwrap();
    let expected = profile["prediction"]["seconds"].as_f64().unwrap();
    let error = seconds(row("auto")) / expected - 1.0;
    assert!(error.abs() < 1e-9, "{error}: {:#} {:#}", row("auto"), profile["prediction"]);
    // Calls that go away take time, and small buffers leave more of them. What a call takes is measured:
    // where others keep the machine busy, the smallest buffer may seem to gain nothing.
    assert!(seconds(row("off")) > seconds(row("64K")), "{rows:#?}");
    assert!(seconds(row("4K")) > seconds(row("64K")), "{rows:#?}");

    let size = fs::metadata(&recording).unwrap().len();
    let calls: u64 =
        profile["processes"].as_array().unwrap().iter().map(|p| number(p, "calls")).sum();
    assert!(size < calls, "{size} bytes for {calls} calls");
    let other = place.write("mine", b"something else");
    let refused = place.sweetspot(&["profile", "--record", "mine", "--", "true"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(125));
    assert_eq!(fs::read(&other).unwrap(), b"something else");
}

/// A run of very many calls finds room: fewer of them are followed, and each stands for more.
#[test]
fn a_long_run_is_sampled_and_nothing_of_it_is_missing() {
    let place = Place::new();
    place.write("in.dat", vec![b'x'; 64 << 10]);
    let recording = place.folder.path().join("job.recording");
    // Each file's first calls are all followed while there is room: 300 files of 4,000 reads do not fit.
    let source = "#include <fcntl.h>\n#include <unistd.h>\nint main(void) { char record[16];\n\
                  for (int i = 0; i < 300; i++) { int fd = open(\"in.dat\", O_RDONLY);\n\
                  for (int j = 0; j < 4000; j++) if (read(fd, record, 16) != 16) return 1;\n\
                  close(fd); } return 0; }\n";
    compile(&place, "reads", source, &[]);
    let json = place.folder.path().join("profile.json");
    let mut profile = place.sweetspot(&["profile", "--output", "../report", "--json"]);
    profile.arg(&json).arg("--record").arg(&recording).args(["--", "./reads"]);
    assert!(profile.output().unwrap().status.success());
    let profile: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let told = place.sweetspot(&["tune", "--json", "--from"]).arg(&recording).output().unwrap();
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert!(!told["notes"].to_string().contains("found no room"), "{:#}", told["notes"]);
    let auto = told["predicted"].as_array().unwrap().last().unwrap();
    let expected = profile["prediction"]["seconds"].as_f64().unwrap();
    let error = auto["seconds"].as_f64().unwrap() / expected - 1.0;
    assert!(error.abs() < 1e-9, "{error}");
    // 16 reads a file are not enough to earn a window, the others are hits.
    let hits = number(&file(&profile, &place.work().join("in.dat"))["buffered"], "hits");
    assert!((1_150_000..=1_200_000).contains(&hits), "{hits}");
}
