//! How long bytes wait and windows serve, and how much memory they take.

use super::*;
use sweetspot_report::numbers::counted;
use sweetspot_report::summary::Figures;

#[test]
fn without_a_buffer_there_is_no_ledger_and_no_guard() {
    let place = Place::new();
    let check = |options: &[&str], expected: &str| {
        let mut command = place.run(options, &["sh", "-c", "echo ${SWEETSPOT_LEDGER:+ledger}"]);
        // As of an outer `run`.
        let output = command.env("SWEETSPOT_LEDGER", "/nowhere").output().unwrap();
        assert_eq!(stdout(&output), expected, "{options:?}");
    };
    check(&["--buffer-size", "off"], "\n");
    check(&["--buffer-size", "off", "--wait"], "\n");
    check(&["--buffer-size", "off", "--summary"], "\n");
    check(&["--buffer-size", "1"], "ledger\n");
}

/// Runs that a test of times gets.
const TRIES_MAX: usize = 5;

/// The longest time, in milliseconds, for which the file of `age write` did not grow while it was
/// written to.
fn longest_wait_ms(mut command: Command, file: &Path) -> u128 {
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let (mut longest, mut since, mut len) = (0, Instant::now(), 0);
    while child.try_wait().unwrap().is_none() {
        let now = fs::metadata(file).map_or(0, |data| data.len());
        if now != len {
            // Before some 64 lines nothing waits.
            longest = if len < 500 { 0 } else { longest.max(since.elapsed().as_millis()) };
            (len, since) = (now, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(fs::metadata(file).unwrap().len(), 3000);
    longest
}

/// The clock that says how long bytes wait may move in the middle of a write.
#[test]
fn a_writer_keeps_its_buffer_however_often_the_clock_moves() {
    let place = Place::new();
    let write = ["dd", "if=/dev/zero", "of=file", "bs=16", "count=1000000", "status=none"];
    let ended = place.run(&["--max-age", "8", "--summary=summary"], &write).status().unwrap();
    assert!(ended.success());
    let summary = fs::read_to_string(place.work().join("summary")).unwrap();
    let line = summary.lines().find(|line| line.contains("/file ")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, _, calls, left, ..] = words[..] else { panic!("{summary}") };
    let (calls, left) = (counted(calls).unwrap(), counted(left).unwrap());
    assert!(calls > 900_000 && left < calls / 2, "{left} of {calls} calls are left");
}

#[test]
fn bytes_wait_for_a_second_at_most_and_less_where_the_guard_may_be_killed_too() {
    let place = Place::new();
    let age = compile_program(&place, "age");
    let (age, file) = (age.to_str().unwrap(), place.work().join("file"));
    let write = [age, "write", "file"];
    // Where others keep the machine busy, everything takes longer now and then, but not each time.
    let check = |max_age: &str, expected: Range<u128>, command: &dyn Fn() -> Command| {
        let waited: Vec<u128> = (0..TRIES_MAX)
            .map(|_| longest_wait_ms(command(), &file))
            .take_while(|waited| !expected.contains(waited))
            .collect();
        assert!(waited.len() < TRIES_MAX, "{max_age}: {waited:?} ms");
    };
    check("a second", 500..1500, &|| place.run(&[], &write));
    check("300 ms", 150..600, &|| place.run(&["--max-age", "300"], &write));
    // Also of an unobserved file, while others are written out all the time. By the older word.
    place.write("sweetspot.toml", "[[rule]]\nfile = \"file\"\npromise = \"private\"\n");
    check("300 ms", 150..600, &|| place.run(&["--max-age", "300"], &[age, "talk", "file"]));
    fs::remove_file(place.work().join("sweetspot.toml")).unwrap();

    let apart = |script: &str| {
        let mut command = Command::new("unshare");
        // A guard that ends with its namespace leaves its ledger: in a /dev/shm that ends too.
        let script = format!("mount -t tmpfs none /dev/shm; {script}");
        command.args(["--pid", "--fork", "--mount-proc", "sh", "-c", &script]);
        command.env("SWEETSPOT_CACHE", place.cache()).current_dir(place.work());
        command
    };
    if !apart("true").status().is_ok_and(|status| status.success()) {
        return skip_without_root("a pid namespace of its own");
    }
    let run = env!("CARGO_BIN_EXE_sweetspot");
    check("100 ms", 60..400, &|| apart(&format!("{run} run -- {age} write file; true")));

    // Process 1: its guard would die with it.
    let output = apart(&format!("exec {run} run --summary -- {age} write file")).output().unwrap();
    let said = stderr(&output);
    assert!(said.contains("only reads are buffered") && said.contains("process 1"), "{said}");
}

/// Closing one file and opening another one by instructions that no library sees.
#[test]
fn what_is_written_to_a_descriptor_that_was_replaced_unseen_is_for_the_new_file() {
    let place = Place::new();
    let program = compile_program(&place, "own_calls");
    let program = program.to_str().unwrap();
    for size in ["auto", "512", "1M"] {
        for words in [&[program][..], &[program, "append"]] {
            let options = ["--wait", "--buffer-size", size];
            assert_says(&mut place.run(&options, words), "at 5600\nclose 0\n");
            let bytes = |name: &str| fs::read(place.work().join(name)).unwrap();
            assert!(bytes("first") == b"of the first\n".repeat(400), "{size} {words:?}");
            assert!(bytes("second") == b"of the second\n".repeat(400), "{size} {words:?}");
        }
    }
}

/// It runs in its parent's memory, and ends there.
#[test]
fn the_child_of_a_vfork_leaves_its_parent_its_buffers() {
    let place = Place::new();
    let program = compile_program(&place, "vfork_child");
    let ended = place.run(&["--summary=summary"], &[program.to_str().unwrap()]).output().unwrap();
    assert!(ended.status.success());
    let summary = fs::read_to_string(place.work().join("summary")).unwrap();
    let line = summary.lines().find(|line| line.contains("/two ")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, _, _, _, read, "KiB", ..] = words[..] else { panic!("{summary}") };
    // 1,600 of its 1,750 reads come after the first child's end.
    assert!(read.parse::<f64>().unwrap() > 19.5, "{summary}");
}

#[test]
fn a_signal_in_the_middle_of_a_vfork_leaves_the_parent_its_buffers() {
    let place = Place::new();
    let program = compile_program(&place, "vfork_signals");
    let ended = place.run(&["--summary=summary"], &[program.to_str().unwrap()]).output().unwrap();
    assert!(ended.status.success());
    let summary = fs::read_to_string(place.work().join("summary")).unwrap();
    // The child was taken for its parent, and when it ended, the parent had ended.
    let line = summary.lines().find(|line| line.contains("/after ")).expect(&summary);
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, _, "5,000", made, ..] = words[..] else { panic!("{summary}") };
    assert!(counted(made).unwrap() < 2500, "{summary}");
}

#[test]
fn windows_are_never_older_than_a_second() {
    let place = Place::new();
    let age = compile_program(&place, "age");
    let file = place.write("file", "o".repeat(20_000));
    let mut command = place.run(&[], &[age.to_str().unwrap(), "read", "file"]);
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    // In place: no other size, no other file.
    fs::OpenOptions::new().write(true).open(&file).unwrap().write_all(&[b'n'; 20_000]).unwrap();
    assert_eq!(stdout(&child.wait_with_output().unwrap()), "nnnnnnnn\n");
}

/// Ledgers of this user.
fn ledgers() -> BTreeSet<PathBuf> {
    let names = fs::read_dir("/dev/shm").unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.to_string_lossy().contains("/sweetspot-")).collect()
}

#[test]
fn a_run_without_a_guard_leaves_no_ledger() {
    let place = Place::new();
    let run = env!("CARGO_BIN_EXE_sweetspot");
    for command in [
        // Enough for the ledger, not for what would wait in it.
        format!("ulimit -f 10000; exec {run} run -- sh -c 'echo ledger $SWEETSPOT_LEDGER'"),
        format!("ulimit -f 10000; {run} run --wait -- sh -c 'echo ledger'"),
        // Too few descriptors to start anything.
        format!(
            "for n in 5 6 7; do (ulimit -n $n; {run} run --summary -- true) 2>/dev/null; done; echo ledger"
        ),
    ] {
        let mut shell = Command::new("bash");
        shell.args(["-c", &command]).env("SWEETSPOT_CACHE", place.cache());
        let before = ledgers();
        let mut child = shell.stdout(Stdio::piped()).spawn().unwrap();
        let ended = wait(&mut child);
        assert!(ended.success());
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "ledger\n");
        // Of other tests there may be some, which have guards that remove them.
        let left: Vec<_> = ledgers().difference(&before).cloned().collect();
        wait_until(&format!("{command}: {left:?}"), || left.iter().all(|path| !path.exists()));
    }
}

#[test]
fn a_small_limit_on_file_size_does_not_end_the_first_run() {
    let place = Place::new();
    let run = env!("CARGO_BIN_EXE_sweetspot");
    let command = format!("ulimit -f 100; exec {run} run -- echo started");
    let mut shell = Command::new("bash");
    shell.args(["-c", &command]).env("SWEETSPOT_CACHE", place.cache());
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "started\n");
    assert!(String::from_utf8(output.stderr).unwrap().contains("File too large"));
    // Nothing half-written stays there.
    assert_eq!(fs::read_dir(place.cache()).unwrap().count(), 0);
    for verb in ["verify", "tune", "doctor"] {
        let command = if verb == "doctor" { "" } else { " -- dd if=/dev/null of=out" };
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("ulimit -f 0; exec {run} {verb}{command} </dev/null")]);
        let shell = shell.env("SWEETSPOT_CACHE", place.cache()).current_dir(place.work());
        let output = shell.output().unwrap();
        assert!(output.status.code().is_some(), "{verb}: {output:?}");
        let said = [output.stdout, output.stderr].concat();
        assert!(String::from_utf8(said).unwrap().contains("File too large"), "{verb}");
    }
}

#[test]
fn a_small_limit_on_file_size_is_no_end_of_what_run_says() {
    let place = Place::new();
    let run = env!("CARGO_BIN_EXE_sweetspot");
    let summary = place.work().join("summary");
    assert_says(&mut place.run(&["--summary=summary"], &["true"]), "");
    let older = fs::read(&summary).unwrap();
    let check = |command: &str, status, expected: &str| {
        let script = format!("ulimit -f 0; exec {run} {command}");
        let mut shell = place.command("bash");
        let output = shell.args(["-c", &script]).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{command}: {output:?}");
        assert_eq!(stdout(&output), expected, "{command}");
        assert!(fs::read(&summary).unwrap() == older, "{command}: there is no new one");
        stderr(&output)
    };
    let said = check("run --summary=summary -- sh -c 'echo out; exit 3'", 3, "out\n");
    assert!(said.contains("File too large"), "{said}");
    check("run --summary -- sh -c 'echo out; exit 3' 2>log", 3, "out\n");
    place.write("sweetspot.toml", "[[rule]]\nbuffer = \"lots\"\n");
    for options in WAYS {
        check(&format!("run {} -- echo started 2>log", options.join(" ")), 0, "started\n");
    }
    // The program has the signal as ever.
    let own = "dd if=/dev/zero of=large count=1 status=none";
    for options in WAYS {
        let script = format!("ulimit -f 0; exec {run} run {} -- {own} 2>log", options.join(" "));
        let ended = place.command("bash").args(["-c", &script]).status().unwrap();
        assert_eq!(ended.signal(), Some(Signal::XFSZ.as_raw()), "{options:?}");
    }
}

#[test]
fn a_run_inside_of_a_run_uses_its_ledger() {
    let place = Place::new();
    let run = env!("CARGO_BIN_EXE_sweetspot");
    let script = |options: &str| {
        format!("echo $SWEETSPOT_LEDGER; {run} run {options} -- sh -c 'echo $SWEETSPOT_LEDGER'")
    };
    for (options, joins) in
        [("", true), ("--buffer-size 1M", true), ("--max-age 50", false), ("--wait", false)]
    {
        let output = place.run(&[], &["sh", "-c", &script(options)]).output().unwrap();
        let said = stdout(&output);
        let (outer, inner) = said.trim_end().split_once('\n').unwrap();
        assert!(outer.contains("/dev/shm/sweetspot-"), "{said}");
        assert_eq!(outer == inner, joins, "{options}: {said}");
    }
}

#[test]
fn ten_thousand_open_files_stay_within_the_budget() {
    let place = Place::new();
    let many = compile_program(&place, "many_files");
    let many = many.to_str().unwrap();
    let folder = |name: &str| {
        let folder = place.folder.path().join(name);
        fs::create_dir(&folder).unwrap();
        folder
    };
    // What it says: a sum of what it read, its own memory and that of the ledger, in bytes.
    let run = |mut command: Command, name: &str| {
        let output = command.current_dir(folder(name)).output().unwrap();
        assert!(output.status.success(), "{}: {}", output.status, stderr(&output));
        let said = stdout(&output);
        let mut lines = said.lines().map(str::to_string);
        let sum = lines.next().unwrap();
        let mut number = || lines.next().unwrap().parse::<u64>().unwrap();
        (sum, number(), number())
    };
    let mut native = Command::new(many);
    native.arg("10000");
    if native.current_dir(folder("probe")).output().unwrap().status.code() == Some(77) {
        return skip_without_root("10,000 open files");
    }
    let (sum, own, _) = run(native, "native");
    for size in ["auto", "1M"] {
        let (seen, memory, ledger) =
            run(place.run(&["--buffer-size", size], &[many, "10000"]), size);
        assert_eq!(seen, sum, "{size}");
        // Beside the budget: tables of the library, and the ledger without what waits in it.
        let most = (64 << 20) + (16 << 20);
        assert!(memory < own + most, "{size}: {memory} bytes, natively {own}");
        assert!(ledger > 1 << 20 && ledger < most, "{size}: {ledger} bytes in the ledger");
        for file in [0, 1, 255, 256, 4095, 4096, 9999] {
            let read = |name: &str| fs::read(place.folder.path().join(name).join(file.to_string()));
            assert_eq!(read(size).unwrap(), read("native").unwrap(), "{size}: file {file}");
        }
    }
}

/// The first ones do not take it all: many files at once have smaller windows each.
#[test]
fn eight_hundred_files_that_are_read_at_once_have_windows() {
    let script = "import os\n\
                  fds = []\n\
                  for i in range(800):\n\
                  \x20   fd = os.open(f'{i}', os.O_RDWR | os.O_CREAT, 0o600)\n\
                  \x20   os.truncate(fd, 600_000)\n\
                  \x20   fds.append(fd)\n\
                  \x20   for _ in range(600): assert len(os.read(fd, 1000)) == 1000\n\
                  \x20   assert os.read(fd, 1000) == b''\n";
    let calls_made = || {
        let place = Place::new();
        let output =
            place.run(&["--summary=summary"], &["python3", "-c", script]).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let summary = fs::read_to_string(place.work().join("summary")).unwrap();
        // Nor are they taken for others that were mapped.
        assert!(!summary.contains("mapped into memory"), "{summary}");
        let (requested, made) = Figures::read(&summary).calls.unwrap();
        assert_eq!(requested, 800 * 601, "{summary}");
        made
    };
    // 16 reads of each before it has earned a window, and as many fills as that takes: some 50 in all. On a
    // busy machine windows are smaller, and grow old while they are read.
    let made = (0..3).map(|_| calls_made()).min().unwrap();
    assert!(made < 800 * 300, "{made} calls made");
}

#[test]
fn with_few_addresses_there_is_no_ledger() {
    let place = Place::new();
    let script = |limit: &str| {
        format!("{limit} grep -c /dev/shm/sweetspot- /proc/self/maps; seq 9 | dd bs=1 status=none")
    };
    let check = |limit: &str, ledgers: &str| {
        let output = place.run(&["--summary"], &["sh", "-c", &script(limit)]).output().unwrap();
        let said = stdout(&output);
        assert_eq!(said, format!("{ledgers}\n1\n2\n3\n4\n5\n6\n7\n8\n9\n"), "{limit}");
    };
    check("", "1");
    check("ulimit -v 200000;", "0");
}

/// How often a user who may have twenty processes can fork.
const FORKS: &str = "while (@all < 60) { $child = fork; last unless defined $child; if (!$child) { sleep 60; exit } \
                     push @all, $child } kill 9, @all; waitpid $_, 0 for @all; print scalar @all";
/// Before that, writes that wait.
const WRITES: &str = "open O, '>:unix', 'out'; for (1 .. 3000) { syswrite O, 'record'; \
                      select undef, undef, undef, 0.02 if $_ == 1000 } ";

/// The binary, where every user may start it.
fn copied(place: &Place) -> PathBuf {
    let copy = place.folder.path().join("sweetspot");
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_sweetspot")).arg(&copy).status();
    assert!(copied.unwrap().success());
    copy
}

fn give(place: &Place, user: u32) {
    for path in [place.folder.path(), &place.work()] {
        std::os::unix::fs::chown(path, Some(user), None).unwrap();
    }
}

#[test]
fn of_a_limit_on_processes_the_guard_takes_one_and_another_while_it_holds_files() {
    if !is_root() {
        return skip_without_root("a user who has no other process");
    }
    let place = Place::new();
    let copy = copied(&place);
    let run: [&OsStr; 3] = [copy.as_ref(), "run".as_ref(), "--".as_ref()];
    let first = 61_000 + std::process::id() % 900 * 4;
    // Each time another user: the guard of the last one may still be ending.
    let forks = |number: u32, run: &[&OsStr], before: &str| -> u32 {
        let user = first + number;
        give(&place, user);
        let home = place.folder.path().join(user.to_string());
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={user}"), format!("--regid={user}")]).arg("--clear-groups");
        command.args(["prlimit", "--nproc=20"]).args(run).args(["perl", "-e"]);
        command.arg(format!("{before}{FORKS}"));
        command.env("HOME", &home).env("SWEETSPOT_CACHE", &home).env_remove("XDG_STATE_HOME");
        let output = command.current_dir(place.work()).output().unwrap();
        let _ = fs::remove_file(place.work().join("out"));
        stdout(&output).parse().unwrap_or_else(|_| panic!("{output:?}"))
    };
    let plain = forks(0, &[], "");
    assert!((10..20).contains(&plain), "{plain}");
    let counts = [forks(1, &run, ""), forks(2, &run, WRITES)];
    assert!(counts[0] >= plain - 1 && counts[1] >= plain - 2, "{plain}, {counts:?}");
}

/// Neither this system nor its environment knows where the user's folders are. The one reason why nothing waits is
/// true, whatever descriptor 0 is.
#[test]
fn a_user_whom_nobody_knows_runs_programs() {
    if !is_root() {
        return skip_without_root("a user whom this system does not know");
    }
    let place = Place::new();
    let copy = copied(&place);
    let user = 54_306;
    give(&place, user);
    let cache = format!("SWEETSPOT_CACHE={}", place.folder.path().join("cache").display());
    let check = |variables: &[&str], input: &str| {
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={user}"), format!("--regid={user}")]).arg("--clear-groups");
        command.args(["env", "-i", "PATH=/usr/bin:/bin"]).args(variables).arg(&copy);
        let script = format!("{input}exec dd if=/dev/zero of=out bs=200 count=20000 status=none");
        command.args(["run", "--summary", "--", "sh", "-c", &script]);
        let output = command.current_dir(place.work()).output().unwrap();
        let said = stderr(&output);
        assert!(output.status.success(), "{said}");
        assert_eq!(fs::metadata(place.work().join("out")).unwrap().len(), 4_000_000);
        assert!(!said.contains("nearly full"), "{said}");
        said
    };
    assert!(check(&[], "").contains("HOME is not set"));
    assert!(check(&[&cache], "exec <&-; ").contains("no folder to note"));
    // A guard that can note nothing refuses each file: what is known of that is said when `dd` closes it.
    let home = place.folder.path().join("home");
    fs::create_dir_all(home.join(".local/state/sweetspot")).unwrap();
    fs::write(home.join(".local/state/sweetspot/ledgers"), "").unwrap();
    let home = format!("HOME={}", home.display());
    assert!(check(&[&cache, &home], "").contains("no folder to note"));
}

/// It has written what waited, and cannot say so any more.
#[test]
fn a_guard_that_is_killed_at_the_end_of_a_write_leaves_each_byte_once() {
    let place = Place::new();
    let program = compile_program(&place, "guard_killed");
    let program = program.to_str().unwrap();
    // The guard writes a mebibyte at a time: of a large piece only that is there.
    let large = ["positions", "fills"].map(|way| (way, 100_000, "4M"));
    let ways = ["readable", "adds", "positions", "fills", "outside"].map(|way| (way, 700, "64K"));
    for (way, waits, size) in ways.into_iter().chain(large) {
        let records = (0..waits + 300).map(|number| format!("record {number:08}\n"));
        let expected: String = records.collect();
        // On a busy machine it may come too late to meet the guard.
        let is_met = (0..MEETINGS_MAX).any(|turn| {
            let name = format!("out-{way}-{size}-{turn}");
            let file = place.work().join(&name);
            let mut run = place.run(
                &["--max-age", "300", "--buffer-size", size],
                &[program, way, &name, &waits.to_string()],
            );
            if way == "outside" {
                run.stdout(fs::File::create(&file).unwrap());
            }
            let mut run = run.spawn().unwrap();
            let watch = Command::new(program).args(["watch", &name]).status().unwrap();
            look_beside(&place);
            assert!(run.wait().unwrap().success(), "{way}, {size}");
            assert!(fs::read_to_string(&file).unwrap() == expected, "{way}, {size}");
            watch.success()
        });
        assert!(is_met, "{way}, {size}: the guard was not met in a write");
    }
}

/// How often a guard is tried to be met in a write.
const MEETINGS_MAX: u32 = 5;

/// Other runs, that cannot ask whether the one whose ledger they find lives: they leave it alone.
fn look_beside(place: &Place) {
    let others = format!(
        "for n in 5 6 7 8; do (ulimit -n $n; {} run --summary -- true) 2>/dev/null; done",
        env!("CARGO_BIN_EXE_sweetspot")
    );
    let mut bash = Command::new("bash");
    bash.args(["-c", &others]).env("SWEETSPOT_CACHE", place.cache()).status().unwrap();
}

/// What waits there by another description would no longer be in the file that it was to follow in.
#[test]
fn no_file_gets_another_time_while_bytes_wait_for_it() {
    let place = Place::new();
    let program = compile_program(&place, "killed_at_a_time");
    let path = program.to_str().unwrap();
    let run = place.run(&["--buffer-size", "64K"], &[path, "writes", "out", "other"]);
    let mut command = Command::new(&program);
    command.arg("kills").arg(run.get_program()).args(run.get_args()).current_dir(place.work());
    test_start::untold(&mut command).env("SWEETSPOT_CACHE", place.cache());
    assert!(command.status().unwrap().success());
    // The guard sees to what a killed one left.
    std::thread::sleep(Duration::from_millis(500));
    let names = fs::read_dir(place.work()).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    assert!(!names.iter().any(|name| name.contains("sweetspot-saved")), "{names:?}");
}
