//! Counts: calls, files, processes, streams, and how they are told apart.

use super::*;

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
    assert!(report.contains("se `sweetspot run`: it should be about "), "{report}");
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

/// A program that gives each of thousands of small files all the room that there is (as `grep` does) makes
/// small calls; large ones stand in the same line for as many as there were.
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

/// Also what buffering would have done until shortly before.
#[test]
fn of_a_killed_program_it_is_known_what_would_have_been_buffered() {
    let place = Place::new();
    let script = "import os\n\
                  fd = os.open('out.dat', os.O_WRONLY | os.O_CREAT, 0o600)\n\
                  for _ in range(600): os.write(fd, b'a record')\n\
                  os.kill(os.getpid(), 9)\n";
    let (output, profile) = place.profile(&["python3", "-c", script]);
    assert_eq!(output.status.signal(), Some(9));
    let written = file(&profile, &place.work().join("out.dat"));
    let appends = number(&written["buffered"], "appends");
    assert!(number(written, "writes") == 600 && (300..600).contains(&appends), "{written}");
}

/// A script without a first line that names its shell: the system refuses it, and its shell is started. What it
/// was given to read is still there.
#[test]
fn a_script_that_names_no_shell_has_its_standard_input() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let input = place.write("in.txt", b"a line\n");
    let script = place.write("script", b"read line\n[ \"$line\" = 'a line' ]\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    for verb in [&["profile", "--output", "/dev/null", "--"][..], &["run", "--wait", "--"]] {
        let mut command = place.sweetspot(&[verb, &["./script"]].concat());
        let status = command.stdin(fs::File::open(&input).unwrap()).status().unwrap();
        assert!(status.success(), "{verb:?}");
    }
}

/// Costs are measured beside the busiest file, which changes nothing there.
#[test]
fn the_folder_of_the_busiest_file_stays_as_it_was() {
    let place = Place::new();
    let folder = place.work().join("own");
    fs::create_dir(&folder).unwrap();
    place.write("own/in.dat", vec![b'x'; 200 * 20_000]);
    let before = fs::metadata(&folder).unwrap().modified().unwrap();
    place.profile(&["dd", "if=own/in.dat", "of=/dev/null", "bs=200", "status=none"]);
    assert_eq!(fs::metadata(&folder).unwrap().modified().unwrap(), before);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
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

/// Before the program's first call, `profile` has let go of what both were given to read: the program is
/// the only one that has it, as under `run`.
#[test]
fn standard_input_is_the_programs_alone_before_it_starts() {
    let place = Place::new();
    place.write("in.txt", b"a line\n");
    let script =
        "[ /proc/$PPID/fd/0 -ef /proc/self/fd/0 ] && exit 9; read line; [ \"$line\" = 'a line' ]";
    // strace keeps `profile` from letting go of it, which it does by this call alone.
    let delayed = ["-f", "-o", "trace", "-e", "trace=dup2,dup3", "-e"];
    let delay = "inject=dup2,dup3:delay_enter=100000";
    let mut strace = Command::new("strace");
    strace.args(delayed).args([delay, env!("CARGO_BIN_EXE_sweetspot"), "profile"]);
    strace.args(["--output", "/dev/null", "--", "sh", "-c", script]);
    strace.stdin(fs::File::open(place.work().join("in.txt")).unwrap());
    strace.current_dir(place.work()).env("SWEETSPOT_CACHE", place.cache());
    let Ok(ended) = strace.status() else {
        return test_start::skip("strace is not installed");
    };
    assert_eq!(ended.code(), Some(0));
    assert!(fs::read_to_string(place.work().join("trace")).unwrap().contains("(DELAYED)"));
}

/// What `profile` does itself meanwhile is not counted as the program's: it looks how the program fares.
#[test]
fn a_program_that_waits_has_made_no_calls() {
    let place = Place::new();
    let (_, profile) = place.profile(&["sleep", "5"]);
    let coverage = &profile["coverage"];
    assert_eq!(coverage["verdict"], "all", "{coverage}");
    assert!(number(&coverage["kernel"], "reads") < 50, "{coverage}");
}

/// What a script reads on from afterwards stays as it is, so nothing is promised of it.
#[test]
fn standard_input_that_a_script_has_too_is_not_promised() {
    let place = Place::new();
    place.write("in.txt", "a line of some length\n".repeat(4000).as_bytes());
    let hits = |script: &str, program: &str| {
        // A session of its own: in the one that the machine began with nobody may look at the first process.
        let mut shell = Command::new("setsid");
        shell.args(["--wait", "sh", "-c", script, env!("CARGO_BIN_EXE_sweetspot"), "profile"]);
        shell.args(["--json", "p.json", "--output", "report", "--", "sh", "-c", program]);
        shell.current_dir(place.work()).env("SWEETSPOT_CACHE", place.cache());
        assert!(shell.status().unwrap().success());
        let profile = fs::read(place.work().join("p.json")).unwrap();
        let profile = serde_json::from_slice(&profile).unwrap();
        number(&file(&profile, &place.work().join("in.txt"))["buffered"], "hits")
    };
    // Some shells keep what they redirect until the program has ended.
    let (alone, reads) = ("exec \"$0\" \"$@\" < in.txt", "while read line; do :; done");
    let child_reads = format!("bash -c \"sh -c '{reads}' < in.txt; true\"");
    // Where many processes begin meanwhile, the look may find no end.
    let is_promised = |start, program| (0..TRIES_MAX).any(|_| hits(start, program) > 80_000);
    assert_eq!(is_promised(alone, reads), test_start::sees_all_processes());
    assert_eq!(is_promised("exec \"$0\" \"$@\"", &child_reads), test_start::sees_all_processes());
    assert_eq!(hits("{ \"$0\" \"$@\"; cat; } < in.txt", reads), 0);
    // The shell is near, and has capabilities that a look at it would need: nothing is known to be anyone's alone.
    if !rustix::process::geteuid().is_root() {
        return test_start::skip("capabilities to give up: only root has them");
    }
    let weaker = "setpriv --bounding-set -all --inh-caps -all \"$0\" \"$@\" || exit";
    assert_eq!(hits(weaker, &child_reads), 0);
}
