//! The program that was started: its exit status, signals, streams, environment and name are what they
//! would be without us.

use super::*;

#[test]
fn the_programs_own_exit_status() {
    let place = Place::new();
    for options in WAYS.into_iter().chain([&["--summary"][..]]) {
        for status in [0, 1, 3, 125, 127, 255] {
            let exit = format!("exit {status}");
            let output = place.run(options, &["sh", "-c", &exit]).output().unwrap();
            assert_eq!(output.status.code(), Some(status), "{options:?}");
        }
    }
}

#[test]
fn death_by_signal() {
    let place = Place::new();
    for options in WAYS.into_iter().chain([&["--summary"][..]]) {
        for signal in [1, 2, 3, 6, 9, 10, 11, 13, 15] {
            let kill = format!("ulimit -c 0; kill -{signal} $$; sleep 5");
            let output = place.run(options, &["sh", "-c", &kill]).output().unwrap();
            assert_eq!(output.status.signal(), Some(signal), "{options:?}");
        }
    }
}

#[test]
fn what_cannot_be_started() {
    let place = Place::new();
    place.write("plain.txt", "text");
    place.write("two words", "text");
    place.write_program("lost.sh", b"#!/no/such/interpreter\n");
    symlink("loop", place.work().join("loop")).unwrap();
    for options in WAYS.into_iter().chain([&["--summary"][..]]) {
        let check = |program: &str, status, parts: &[&str]| {
            let mut command = place.run(options, &[program]);
            assert_fails(command.env("PATH", "/usr/bin:/bin"), status, parts);
        };
        check("no-such-program", 127, &["'no-such-program'", "PATH", "\n  "]);
        let mut command = place.run(options, &["no-such-program"]);
        assert_fails(command.env("PATH", "/etc/passwd:/bin"), 127, &["it is not in PATH"]);
        check("", 127, &["''"]);
        check("./no-such-program", 127, &["no such file", "ls -l"]);
        check("plain.txt", 127, &["did you mean ./plain.txt"]);
        check("./plain.txt", 126, &["chmod +x ./plain.txt"]);
        check("./two words", 126, &["chmod +x './two words'"]);
        check("./no words", 127, &["ls -l './no words'"]);
        check("/", 126, &["folder"]);
        check("./plain.txt/x", 126, &["Not a directory", "./plain.txt/x"]);
        check("./loop", 126, &["symbolic links", "./loop"]);
        check(&format!("./{}", "x".repeat(300)), 126, &["too long"]);
        check(&"x".repeat(300), 126, &["too long"]);
        check("./lost.sh", 127, &["./lost.sh", "interpreter"]);
    }
}

/// As `execvp` finds it: behind a script whose interpreter is missing.
#[test]
fn what_can_be_started_is_found_behind_what_cannot() {
    let place = Place::new();
    let write = |name: &str, line: &str| {
        let program = place.write(name, format!("{line}\necho $0\n"));
        fs::set_permissions(program, Permissions::from_mode(0o755)).unwrap();
    };
    write("first/program", "#!/no/such/interpreter");
    write("second/program", "#! ./first");
    write("third/program", "#!/bin/sh");
    let folders = ["first", "second", "third"].map(|name| place.work().join(name));
    let folders = folders.map(|folder| folder.display().to_string());
    let path = format!("{}:/usr/bin:/bin", folders.join(":"));
    for verb in ["run", "run --wait", "run --summary=summary", "profile --output report"] {
        let verb: Vec<&str> = verb.split(' ').collect();
        let mut command = place.sweetspot(&[&verb[..], &["--", "program"]].concat());
        assert_says(command.env("PATH", &path), &format!("{}/program\n", folders[2]));
    }
    let mut verify = place.sweetspot(&["verify", "--", "program"]);
    let output = verify.env("PATH", &path).stdin(Stdio::null()).output().unwrap();
    assert_has(&stdout(&output), ["exit status 0"]);
    // The first one is what is told of where there is no other.
    let only = folders[..2].join(":");
    let parts = ["first/program", "interpreter"];
    assert_fails(place.run(&[], &["program"]).env("PATH", only), 127, &parts);
}

#[test]
fn other_libraries_stay_preloaded() {
    let place = Place::new();
    let check = |others: Option<&str>, expected: &dyn Fn(&str) -> String| {
        let mut command = place.run(&[], &["sh", "-c", "echo \"$LD_PRELOAD\""]);
        if let Some(others) = others {
            command.env("LD_PRELOAD", others);
        }
        let output = command.output().unwrap();
        let ours = place.library().display().to_string();
        assert_eq!(stdout(&output), format!("{}\n", expected(&ours)), "{others:?}");
    };
    check(None, &|ours| ours.to_string());
    check(Some("libm.so.6"), &|ours| format!("{ours}:libm.so.6"));
    check(Some("libm.so.6:libdl.so.2"), &|ours| format!("{ours}:libm.so.6:libdl.so.2"));
    check(Some("libm.so.6 libdl.so.2"), &|ours| format!("{ours} libm.so.6 libdl.so.2"));
    // A run inside a run loads it once.
    let nested = [env!("CARGO_BIN_EXE_sweetspot"), "run", "sh", "-c", "echo $LD_PRELOAD"];
    let ours = place.library().display().to_string();
    assert_says(&mut place.run(&[], &nested), &format!("{ours}\n"));
}

/// Two of them take each other for libc, and call each other for ever.
#[test]
fn a_run_inside_of_a_run_has_one_library_also_where_its_own_lies_elsewhere() {
    let place = Place::new();
    let other = place.folder.path().join("other");
    let script = format!(
        "SWEETSPOT_CACHE={} exec {} run -- sh -c 'rm -f nothing; echo $LD_PRELOAD'",
        other.display(),
        env!("CARGO_BIN_EXE_sweetspot")
    );
    let (mut child, _, line) = start(&mut place.run(&[], &["sh", "-c", &script]));
    assert!(wait(&mut child).success());
    assert!(line.starts_with(&other.join("libsweetspot-").display().to_string()), "{line}");
    assert!(!line.contains(':'), "{line}");
}

#[test]
fn everything_else_in_the_environment_stays() {
    let place = Place::new();
    for options in WAYS {
        let mut command = place.run(options, &["env"]);
        command.env_clear().env("SWEETSPOT_CACHE", place.cache());
        command.env("PATH", "/usr/bin:/bin").env("EMPTY", "").env("LINES", "a\nb");
        let output = command.output().unwrap();
        let text = stdout(&output);
        assert_has(&text, ["PATH=/usr/bin:/bin\n", "EMPTY=\n", "LINES=a\nb\n"]);
        let ours = ["LD_PRELOAD=", "IO_BUFFER_SIZE=", "SWEETSPOT_"];
        let others = text.lines().filter(|line| !ours.iter().any(|name| line.starts_with(name)));
        assert_eq!(others.count(), 4, "{text}");
    }
}

#[test]
fn switched_off_means_untouched() {
    let place = Place::new();
    place.write("sweetspot.toml", "not toml");
    let print = ["sh", "-c", "echo \"[$LD_PRELOAD][$IO_BUFFER_SIZE][$SWEETSPOT_LEDGER]\""];
    for options in [&[][..], &["--wait"], &["--buffer-size=64K"]] {
        let mut command = place.run(options, &print);
        assert_says(command.env("SWEETSPOT", "off").env("IO_BUFFER_SIZE", "7x"), "[][7x][]\n");
    }
    assert!(!place.cache().exists(), "nothing is written either");
    let output = place.run(&["--summary"], &["true"]).env("SWEETSPOT", "off").output().unwrap();
    assert!(stderr(&output).contains("SWEETSPOT=off"), "{}", stderr(&output));
}

#[test]
fn the_program_keeps_its_place() {
    let place = Place::new();
    let mut command = place.run(&[], &["sh", "-c", "echo $$ $PPID"]);
    let (mut child, _, line) = start(&mut command);
    assert_eq!(line, format!("{} {}", child.id(), std::process::id()));
    wait(&mut child);
    let (mut child, _, line) = start(&mut place.run(&["--wait"], &["sh", "-c", "echo $PPID"]));
    assert_eq!(line, child.id().to_string());
    wait(&mut child);
}

#[test]
fn the_name_by_which_the_program_knows_itself() {
    let place = Place::new();
    place.write_program("name.sh", b"#!/bin/sh\necho \"$0\" \"$@\"\n");
    let (work, path) = (place.work(), format!("{}:/usr/bin:/bin", place.work().display()));
    let full = work.join("name.sh").display().to_string();
    for options in WAYS {
        assert_says(&mut place.run(options, &["./name.sh", "", "a b"]), "./name.sh  a b\n");
        let mut command = place.run(options, &["name.sh", "--", "-x"]);
        assert_says(command.env("PATH", &path), &format!("{full} -- -x\n"));
        // Without a first line that names one, the shell runs it.
        place.write_program("bare.sh", b"echo bare \"$1\"\n");
        assert_says(&mut place.run(options, &["./bare.sh", "x"]), "bare x\n");
        let output = place.run(options, &["sh", "-c", "tr '\\0' ' ' </proc/$$/cmdline"]).output();
        assert!(stdout(&output.unwrap()).starts_with("sh -c "), "argv[0] is what was typed");
    }
}

/// What a program sees of signals and descriptors, started by `caller` with and without us.
#[test]
fn dispositions_masks_and_descriptors_are_the_callers() {
    let place = Place::new();
    // Not by a shell: some clear the mask when they start.
    let signals = "grep -E '^Sig(Ign|Blk)' /proc/self/status";
    let others = "sh -c 'for fd in 0 1 2 3 4 5 6 7 8 9; do \
                  test -e /proc/$$/fd/$fd && echo open $fd; done; umask; pwd'";
    let blocked = "exec perl -MPOSIX -e 'sigprocmask(SIG_BLOCK, \
                   POSIX::SigSet->new(SIGTERM, SIGUSR2, SIGALRM)); exec @ARGV' --";
    let started = |setting: &str, how: &str, show: &str| {
        let separator = if setting.starts_with("exec perl") { "" } else { "; exec" };
        let script = format!("{setting}{separator} {how} {show}");
        let mut shell = Command::new("bash");
        shell.args(["-c", &script]).current_dir(place.work()).env("SWEETSPOT_CACHE", place.cache());
        stdout(&shell.stdin(Stdio::null()).output().unwrap())
    };
    for setting in [
        ":",
        "trap '' PIPE",
        "trap '' INT QUIT HUP TERM",
        "trap '' CHLD",
        blocked,
        "exec <&-",
        "exec 2>&-",
        "exec <&- 2>&-",
        "exec 5</dev/null 9</dev/null",
        "umask 077",
    ] {
        for (show, part) in [(signals, "SigIgn"), (others, "open 1")] {
            let expected = started(setting, "", show);
            assert!(expected.contains(part), "{setting}: {expected}");
            for way in ["run --", "run --wait --", "run --summary=/dev/null --"] {
                let how = format!("{} {way}", env!("CARGO_BIN_EXE_sweetspot"));
                assert_eq!(started(setting, &how, show), expected, "{setting} with {way}");
            }
        }
    }
}

#[test]
fn a_reader_that_leaves_ends_the_writer() {
    let place = Place::new();
    for options in WAYS {
        let (mut child, reader, line) = start(&mut place.run(options, &["yes"]));
        assert_eq!(line, "y");
        drop(reader);
        assert_eq!(wait(&mut child).signal(), Some(13), "{options:?}");
    }
}

#[test]
fn standard_streams_pass_through() {
    let place = Place::new();
    let content: Vec<u8> = (0..300_000u32).map(|i| (i * 7 % 251) as u8).collect();
    for options in WAYS {
        let mut command = place.run(options, &["sh", "-c", "cat; echo err >&2"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut stdin, sent) = (child.stdin.take().unwrap(), content.clone());
        let writer = std::thread::spawn(move || stdin.write_all(&sent));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        assert!(output.stdout == content, "{options:?}");
        assert_eq!(output.stderr, b"err\n");
    }
}

/// A shell that says which signal it got, and ends.
const LISTENER: &str = "for s in HUP INT QUIT USR1 USR2 TERM ALRM ABRT PWR; do \
    trap \"echo got $s; exit 7\" $s; done; echo ready; while :; do sleep 0.02; done";

#[test]
fn signals_sent_to_run_reach_the_program() {
    let place = Place::new();
    let passed_on = [
        Signal::HUP,
        Signal::USR1,
        Signal::USR2,
        Signal::TERM,
        Signal::ALARM,
        Signal::ABORT,
        Signal::POWER,
    ];
    let all = [&passed_on[..], &[Signal::INT, Signal::QUIT]].concat();
    for (options, signals) in [(&[][..], &all[..]), (&["--wait"], &passed_on)] {
        for signal in signals {
            let mut command = place.run(options, &["sh", "-c", LISTENER]);
            let (mut child, mut reader, line) = start(&mut command);
            assert_eq!(line, "ready");
            kill_process(pid(child.id()), *signal).unwrap();
            assert_eq!(wait(&mut child).code(), Some(7), "{options:?} {signal:?}");
            let mut said = String::new();
            reader.read_to_string(&mut said).unwrap();
            assert_eq!(said.lines().count(), 1, "once: {said}");
        }
    }
}

#[test]
fn the_terminals_signals_reach_both() {
    let place = Place::new();
    let state = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().and_then(|rest| rest.chars().next())
    };
    for options in WAYS {
        // Ctrl-Z, fg, Ctrl-C. No shell: one that is about to start something cannot be stopped.
        let script = "echo $$; exec sleep 60";
        let mut command = place.run(options, &["sh", "-c", script]);
        let (mut child, _, program) = start(command.process_group(0));
        let program: u32 = program.parse().unwrap();
        let group = pid(child.id());
        kill_process_group(group, Signal::TSTP).unwrap();
        for pid in [child.id(), program] {
            wait_until("both stop", || state(pid) == Some('T'));
        }
        kill_process_group(group, Signal::CONT).unwrap();
        wait_until("both go on", || state(child.id()) != Some('T') && state(program) != Some('T'));
        kill_process_group(group, Signal::INT).unwrap();
        assert_eq!(wait(&mut child).signal(), Some(2), "{options:?}");
        // Ctrl-C: the program decides.
        let mut command = place.run(options, &["sh", "-c", LISTENER]);
        let (mut child, _reader, line) = start(command.process_group(0));
        assert_eq!(line, "ready");
        kill_process_group(pid(child.id()), Signal::INT).unwrap();
        assert_eq!(wait(&mut child).code(), Some(7), "{options:?}");
    }
}

#[test]
fn a_program_that_stops_itself_is_waited_for() {
    let place = Place::new();
    let script = "echo $$; kill -STOP $$; exit 5";
    let (mut child, _, program) = start(&mut place.run(&["--wait"], &["sh", "-c", script]));
    let program: u32 = program.parse().unwrap();
    let stat = || fs::read_to_string(format!("/proc/{program}/stat")).unwrap();
    wait_until("it stops", || stat().contains(") T "));
    assert_eq!(child.try_wait().unwrap(), None);
    kill_process(pid(program), Signal::CONT).unwrap();
    assert_eq!(wait(&mut child).code(), Some(5));
}

#[test]
fn who_kills_the_parent_kills_the_program() {
    let place = Place::new();
    let summary = format!("--summary={}", place.work().join("summary").display());
    for options in [&[][..], &["--wait"], &["--require"], &[&summary]] {
        let mut command = place.run(options, &["sh", "-c", "echo $$; exec sleep 60"]);
        let (mut child, _, program) = start(&mut command);
        kill_process(pid(child.id()), Signal::KILL).unwrap();
        assert_eq!(wait(&mut child).signal(), Some(9), "{options:?}");
        let folder = format!("/proc/{program}");
        wait_until("the program is gone, too", || !Path::new(&folder).exists());
    }
}

#[test]
fn an_alarm_that_was_set_before_rings_in_the_program() {
    let place = Place::new();
    for options in WAYS {
        let command = place.run(options, &["sleep", "60"]);
        let mut perl = Command::new("perl");
        perl.args(["-e", "alarm 1; exec @ARGV", "--"]).arg(command.get_program());
        perl.args(command.get_args()).env("SWEETSPOT_CACHE", place.cache());
        assert_eq!(wait(&mut perl.spawn().unwrap()).signal(), Some(14), "{options:?}");
    }
}

/// A shell lets a whole group go on: what is passed on besides would wake the program once more.
#[test]
fn a_group_goes_on_once() {
    const STOPS: usize = 5;
    let place = Place::new();
    let script = format!("for i in $(seq {STOPS}); do kill -STOP $$; done");
    for options in WAYS {
        let script = format!("echo $$; {script}");
        let mut command = place.run(options, &["sh", "-c", &script]);
        let (mut child, _, program) = start(command.process_group(0));
        let stat = format!("/proc/{program}/stat");
        let is_stopped = || fs::read_to_string(&stat).unwrap_or_default().contains(") T ");
        for _ in 0..STOPS {
            wait_until("it stops", is_stopped);
            // Time for what comes late.
            std::thread::sleep(Duration::from_millis(50));
            assert!(is_stopped(), "{options:?}: it has stopped, and goes on by itself");
            kill_process_group(pid(child.id()), Signal::CONT).unwrap();
        }
        assert!(wait(&mut child).success(), "{options:?}");
    }
}

/// A child does not inherit record locks, and a parent that closes the file has none any more.
#[test]
fn who_holds_a_record_lock_is_told_that_it_would_be_lost() {
    let place = Place::new();
    let script = "import fcntl, os, sys\nf = os.open('lock', os.O_RDWR | os.O_CREAT)\n\
                  fcntl.lockf(f, fcntl.LOCK_EX)\nos.set_inheritable(f, True)\nos.execvp(sys.argv[1], sys.argv[1:])";
    for (options, status) in [(&[][..], 0), (&["--wait"], 125), (&["--require"], 125)] {
        let run = place.run(options, &["true"]);
        let mut command = Command::new("python3");
        command.args(["-c", script]).arg(run.get_program()).args(run.get_args());
        command.current_dir(place.work()).env("SWEETSPOT_CACHE", place.cache());
        let ended = command.output().unwrap();
        assert_eq!(ended.status.code(), Some(status), "{options:?} {}", stderr(&ended));
        assert_eq!(stderr(&ended).contains("a file is locked"), status != 0, "{}", stderr(&ended));
    }
}

/// A parent that stays has nothing of what was the program's: neither a pipe, nor a lock, nor the folder.
#[test]
fn what_the_program_gives_up_nobody_else_has() {
    let place = Place::new();
    let summary = format!("--summary={}", place.work().join("summary").display());
    for options in [&[][..], &["--wait"], &["--require"], &[&summary]] {
        // It closes what it writes to, and what a lock came with.
        let program = "echo $$; exec 7>&- >&-; read -r line < go; exit 3";
        let run = place.run(options, &["sh", "-c", program]);
        let mut command = Command::new("sh");
        command.args(["-c", "mkfifo go; exec 7> lock; flock 7; exec \"$@\"", "sh"]);
        command.arg(run.get_program()).args(run.get_args()).current_dir(place.work());
        command.env("SWEETSPOT_CACHE", place.cache());
        let (mut child, mut reader, _) = start(&mut command);
        // Ends only when nobody has the other end any more, and the program is waiting for that.
        assert_eq!(reader.read_to_string(&mut String::new()).unwrap(), 0, "{options:?}");
        let folder = || fs::read_link(format!("/proc/{}/cwd", child.id())).unwrap();
        // A parent leaves it after it has closed what it had.
        match options.is_empty() {
            true => assert_ne!(folder(), Path::new("/"), "it is the program"),
            false => wait_until("nobody has the folder", || folder() == Path::new("/")),
        }
        let lock = fs::File::open(place.work().join("lock")).unwrap();
        // The guard of one that has become the program may just be beginning.
        wait_until("nobody has the lock", || lock.try_lock().is_ok());
        fs::write(place.work().join("go"), "go on\n").unwrap();
        assert_eq!(wait(&mut child).code(), Some(3), "{options:?}");
        fs::remove_file(place.work().join("go")).unwrap();
    }
}

/// Where the next process would be the first one of a pid namespace, nothing is started before the program's own.
#[test]
fn a_pid_namespace_without_a_process_is_the_programs() {
    if !is_root() {
        return skip_without_root("a pid namespace");
    }
    let place = Place::new();
    for options in [&[][..], &["--wait"], &["--summary=summary"]] {
        let command = place.run(options, &["sh", "-c", "/bin/true && /bin/echo on"]);
        let mut unshare = Command::new("unshare");
        unshare.arg("--pid").arg(command.get_program()).args(command.get_args());
        unshare.env("SWEETSPOT_CACHE", place.cache()).current_dir(place.work());
        let plain = Command::new("unshare")
            .args(["--pid", "sh", "-c", "/bin/true && /bin/echo on"])
            .output();
        let (plain, output) = (plain.unwrap(), unshare.output().unwrap());
        if options.is_empty() {
            assert_eq!(output.stdout, plain.stdout, "{output:?}");
        } else {
            assert_eq!(output.stdout, b"on\n", "{options:?}: {output:?}");
        }
    }
}
