//! What is said: mistakes, help, names that others chose, the demo.

use super::*;

#[test]
fn what_was_mistyped() {
    let place = Place::new();
    let check = |arguments: &[&str], status, parts: &[&str]| {
        assert_fails(&mut place.sweetspot(arguments), status, parts);
    };
    check(&[], 2, &["no command", "sweetspot run -- ./program"]);
    check(&["rum"], 2, &["'rum'", "sweetspot run"]);
    check(&["help", "rum"], 2, &["'rum'", "sweetspot run"]);
    check(&["./seqcopy"], 2, &["sweetspot run -- ./seqcopy"]);
    check(&["--nonsense"], 2, &["--nonsense"]);
    check(&["run"], 125, &["no program", "sweetspot run -- ./program"]);
    check(&["run", "--"], 125, &["no program"]);
    check(&["run", "--sumary", "true"], 125, &["--sumary", "--summary"]);
    check(&["run", "--max-age", "0", "true"], 125, &["between 1 and 60000 milliseconds"]);
    check(&["run", "--max-age", "60001", "true"], 125, &["max-age"]);
    check(&["run", "--buffer-size=2G", "true"], 125, &["'2G'", "1 GiB"]);
    check(&["run", "-DIO-BUFFER-SIZE=1073741825", "true"], 125, &["'1073741825'"]);
    check(&["run", "-DBUFFERS=1", "true"], 125, &["-DBUFFERS=1", "-DIO-BUFFER-SIZE=64K"]);
    check(&["run", "-DIO-BUFFER-SIZE=1", "--buffer-size=1", "true"], 125, &["--buffer-size"]);
    check(&["recover", ""], 2, &["recover: [LEDGER] needs a value"]);
    check(&["profile", "--compare", "a", "b", "--", "true"], 125, &["--compare and [CMD ARGS]"]);
    check(&["tune", "--machine", "none"], 125, &["none: No such file", "--machine DIR"]);
    check(&["summary", "none"], 125, &["none: No such file", "run --summary=DIR/"]);
    place.write("bad.toml", "[[rule]]\nbufer = 1\n");
    check(&["tune", "--config", "bad.toml", "--", "true"], 125, &["bad.toml:2: ", "bufer"]);
    check(&["demo", "--records", "0"], 2, &["records"]);
    check(&["demo", "--dir", "/no/such"], 1, &["/no/such", "--dir DIR"]);
}

#[test]
fn help_is_not_a_mistake() {
    let place = Place::new();
    for (arguments, part) in [
        (&["--help"][..], "Examples:"),
        (&["run", "--help"], "Examples:"),
        (&["demo", "--help"], "Examples:"),
        (&["help"], "Examples:"),
        (&["help", "run"], "--max-age"),
        (&["--version"], env!("CARGO_PKG_VERSION")),
    ] {
        let output = place.sweetspot(arguments).output().unwrap();
        assert!(output.status.success() && stdout(&output).contains(part), "{arguments:?}");
    }
}

/// An answer that did not arrive is a failure; a reader who has seen enough is none.
#[test]
fn what_cannot_be_printed_is_said() {
    let place = Place::new();
    place.write("a", "one\n");
    place.write("b", "two\n");
    let profile = ["profile", "--json", "p.json", "--output", "p.txt", "--", "true"];
    assert!(place.sweetspot(&profile).status().unwrap().success());
    for (arguments, status) in [
        (&["--help"][..], 125),
        (&["--version"], 125),
        (&["run", "--help"], 125),
        (&["doctor"], 125),
        (&["doctor", "--json"], 125),
        (&["recover", "--list"], 125),
        (&["report", "p.json"], 125),
        (&["report", "p.json", "--json"], 125),
        (&["report", "p.json", "--html", "-"], 125),
        (&["summary", "p.json"], 125),
        (&["profile", "--compare", "p.json", "p.json"], 125),
        (&["top", "--once"], 125),
        (&["work", "lines", "a"], 1),
        (&["work", "lines", "a", "--json"], 1),
        (&["work", "compare", "a", "b"], 2),
        (&["verify", "--", "cat", "a"], 2),
    ] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = place.sweetspot(arguments).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", stderr(&output));
        let said = stderr(&output);
        assert!(said.contains("No space left on device"), "{arguments:?}: {said}");

        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let gone = place.sweetspot(arguments).stdout(writer).output().unwrap();
        assert_eq!(stderr(&gone), "", "{arguments:?}");
        assert!(gone.status.code().is_some_and(|status| status <= 3), "{arguments:?}: {gone:?}");
    }
}

/// A device has no end, and a FIFO to which nobody writes has nothing in it; a pipe is as good as a file.
#[test]
fn what_is_named_is_not_read_for_good() {
    let place = Place::new();
    assert!(Command::new("mkfifo").arg(place.work().join("fifo")).status().unwrap().success());
    symlink("/dev/full", place.work().join("link")).unwrap();
    let check = |arguments: &[&str], parts: &[&str]| {
        assert_fails(&mut place.sweetspot(arguments), 125, &[parts, &["\n  "]].concat());
    };
    check(&["bench", "/dev/zero"], &["/dev/zero", "larger than 1 MiB", "plan.toml"]);
    check(&["run", "--config=/dev/zero", "true"], &["/dev/zero", "larger than 1 MiB"]);
    check(&["profile", "--compare", "/dev/zero", "fifo"], &["/dev/zero", "larger than 64 MiB"]);
    check(&["profile", "--compare", "fifo", "fifo"], &["fifo: not a profile"]);
    check(&["bench", "fifo"], &["fifo"]);
    check(&["report", "fifo"], &["fifo: report cannot read this kind of file"]);
    check(&["tune", "--from", "fifo"], &["fifo: no recording"]);
    check(
        &["run", "--config=fifo", "true"],
        &["fifo: cannot be read: nobody writes there", "cat sweetspot.toml > fifo &"],
    );
    let _socket = std::os::unix::net::UnixListener::bind(place.work().join("socket")).unwrap();
    // Each of their runs would have to read it.
    for rules in ["fifo", "socket", "/dev/zero", "link"] {
        let parts = [rules, "not a regular file, and every run must read it", "--config /dev/null"];
        check(&["tune", "--keep-rules", "--config", rules, "--", "true"], &parts);
        check(&["tune", "--config", rules, "--", "true"], &parts);
        let verify = ["verify", "--config", rules, "--", "true"];
        assert_fails(&mut place.sweetspot(&verify), 2, &parts);
    }
    let missing = ["tune", "--keep-rules", "--config", "new.toml", "--", "true"];
    check(&missing, &["new.toml: cannot be read", "ls -l new.toml"]);
    let folder = ["tune", "--keep-rules", "--config", ".", "--", "true"];
    check(&folder, &[".: cannot be read: it is a folder", "--config ./sweetspot.toml"]);
    for device in ["/dev/full", "link"] {
        let tune = ["tune", "--keep-rules", "--store", device, "--", "true"];
        check(&tune, &[device, "not a regular file", "--store FILE"]);
    }
    assert!(!Path::new("/dev/full-journal").exists() && !place.work().join("link-wal").exists());
    let profile = ["profile", "--json", "p.json", "--output", "p.txt", "--", "true"];
    assert!(place.sweetspot(&profile).status().unwrap().success());
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&fs::read(place.work().join("p.json")).unwrap()).unwrap();
    drop(writer);
    let piped = place.sweetspot(&["report", "/dev/stdin"]).stdin(reader).output().unwrap();
    assert!(piped.status.success(), "{}", stderr(&piped));
}

/// A terminal is written to, but not commanded, by names that others chose.
#[test]
fn names_control_no_terminal() {
    let place = Place::new();
    let evil = "e\x1b[2J\x1b]0;mine\x07\u{9b}31m\u{202e}";
    let script = format!(
        "head -c 300 /dev/zero | dd bs=1 of='{evil}' status=none; cp /bin/true ./'{evil}x'"
    );
    assert!(place.run(&[], &["sh", "-c", &script]).status().unwrap().success());
    let write = format!("head -c 300 /dev/zero | dd bs=1 of='{evil}' status=none");
    let evil_program = format!("./{evil}x");
    for command in [
        &["run", "--summary", "--", "sh", "-c", &write][..],
        &["run", "--summary", "--", &evil_program],
        &["run", "--", &format!("./{evil}")],
        &["run", "--config", evil, "--", "true"],
        &["run", &format!("--summary={evil}"), "--", "true"],
        &["profile", "--", "sh", "-c", &write],
        &["profile", "--", &evil_program],
        &["verify", "--", "sh", "-c", &write],
        &["recover", evil],
        &["tune", "--from", evil],
    ] {
        let output = place.sweetspot(command).output().unwrap();
        let said = stdout(&output) + &stderr(&output);
        let controls = |letter: char| letter.is_control() && letter != '\n' || letter == '\u{202e}';
        assert!(!said.is_empty() && !said.contains(controls), "{command:?}: {said:?}");
    }
}

/// A name is one line wherever it is said, and a command that is offered can be typed.
#[test]
fn names_begin_no_lines_of_their_own() {
    let place = Place::new();
    let evil = "e\nsweetspot: all is well\x1b[2J";
    let sh = |command: &mut Command| assert!(command.status().unwrap().success());
    sh(place.run(&["--summary=kept/"], &["true"]).stdin(Stdio::null()));
    fs::write(place.work().join("kept").join(evil), "nothing of ours").unwrap();
    place.write(&format!("{evil}.toml"), "[[rule]]\nstdio = \"a\\nsweetspot: all is well\"\n");
    place.write(&format!("{evil}.go"), "");
    let (config, program) = (format!("{evil}.toml"), format!("./{evil}.go"));
    for command in [
        &["run", "--config", &config, "--", "true"][..],
        &["run", "--config", evil, "--", "true"],
        &["run", &format!("--summary={evil}/x/y"), "--", "true"],
        &["run", "--buffer-size", evil, "--", "true"],
        &["run", &format!("-D{evil}"), "--", "true"],
        &["run", "--", &program],
        &["run", "--require", "--", &program],
        &["run", "--", evil],
        &["summary", "kept"],
        &["summary", evil],
        &["recover", evil],
        &["recover", "--discard", evil],
        &["profile", "--compare", evil, evil],
        &["tune", "--from", evil],
        &["report", evil],
    ] {
        let output = place.sweetspot(command).stdin(Stdio::null()).output().unwrap();
        let said = stdout(&output) + &stderr(&output);
        assert!(!said.is_empty(), "{command:?}");
        let controls = |letter: char| letter.is_control() && letter != '\n';
        assert!(!said.contains(controls), "{command:?}: {said:?}");
        let is_faked = |line: &str| line.starts_with("sweetspot: all is well");
        assert!(!said.lines().any(is_faked), "{command:?}: {said}");
    }
}

#[test]
fn the_demo_compares_and_cleans_up() {
    let place = Place::new();
    let scratch = place.folder.path().join("scratch folder");
    fs::create_dir(&scratch).unwrap();
    let scratch = scratch.to_str().unwrap();
    let few = ["demo", "--records", "1000", "--pairs", "1", "--dir", scratch];
    let only_dd = place.folder.path().join("bin");
    fs::create_dir(&only_dd).unwrap();
    symlink("/usr/bin/dd", only_dd.join("dd")).unwrap();
    let check = |command: &mut Command, program: &str| {
        let output = command.output().unwrap();
        let said = stdout(&output);
        assert!(output.status.success(), "{}", stderr(&output));
        let parts: Vec<&str> = said.split("\n\n").collect();
        assert!(parts[0].starts_with("profile  ") && parts[0].contains("system calls"), "{said}");
        assert!(
            parts[1].starts_with("tune     ") && parts[1].ends_with("(With 100 records.)"),
            "{said}"
        );
        let sentence = format!("run      {program} copied 1,000 records of 200 bytes");
        assert!(parts[2].starts_with(&sentence), "{said}");
        assert!(said.contains("All copies are identical to the original.\n"), "{said}");
        assert!(said.contains("\nwithout sweetspot  █"), "a picture: {said}");
        let last = said.lines().last().unwrap();
        assert!(last.ends_with(" profile -- ./program its arguments"), "what to type next: {last}");
        assert_eq!(stderr(&output), "", "silent in a pipe");
        assert_eq!(fs::read_dir(scratch).unwrap().count(), 0, "nothing is left");
    };
    check(place.sweetspot(&few).env("PATH", &only_dd), "dd");
    if Command::new("cobc").arg("--version").output().is_ok() {
        check(place.sweetspot(&few).env("SWEETSPOT", "off"), "GnuCOBOL");
    } else {
        skip("the demo with cobc (package gnucobol4)");
    }
    let much = ["demo", "--records", "1000000000", "--dir", scratch];
    let free = rustix::fs::statvfs(scratch).unwrap();
    if free.f_bavail * free.f_frsize < 400_000_000_000 {
        assert_fails(&mut place.sweetspot(&much), 1, &[" are free", "--dir DIR"]);
    }
}

#[test]
fn an_interrupted_doctor_cleans_up() {
    let place = Place::new();
    let scratch = place.folder.path().join("scratch");
    fs::create_dir(&scratch).unwrap();
    let left = || fs::read_dir(&scratch).unwrap().count();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::KILL] {
        let mut doctor = place.sweetspot(&["doctor"]);
        let doctor = doctor.env("TMPDIR", &scratch).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = doctor.spawn().unwrap();
        wait_until("the trial begins", || left() > 0);
        kill_process(pid(child.id()), signal).unwrap();
        assert_eq!(wait(&mut child).signal(), Some(signal.as_raw()));
        assert_eq!(left(), usize::from(signal == Signal::KILL), "{signal:?}");
    }
    // What none could remove, the next one does.
    assert!(place.sweetspot(&["doctor"]).env("TMPDIR", &scratch).output().is_ok());
    assert_eq!(left(), 0);
}

/// What is kept elsewhere than where a variable says now: by runs without it, and root's notes.
#[test]
fn a_doctor_names_all_folders_of_its_own() {
    let place = Place::new();
    let [home, state] = ["home", "state"].map(|name| place.folder.path().join(name));
    let kept = [home.join(".local/state/sweetspot"), state.join("sweetspot")];
    kept.iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
    let mut doctor = place.sweetspot(&["doctor"]);
    let output = doctor.env("HOME", &home).env("XDG_STATE_HOME", &state).output().unwrap();
    let said = stdout(&output);
    kept.iter().for_each(|folder| assert!(said.contains(folder.to_str().unwrap()), "{said}"));
}

#[test]
fn an_interrupted_demo_cleans_up() {
    let place = Place::new();
    let scratch = place.folder.path().join("scratch");
    fs::create_dir(&scratch).unwrap();
    let mut left = PathBuf::new();
    for signal in [Signal::KILL, Signal::INT, Signal::TERM, Signal::HUP] {
        let arguments = ["demo", "--records", "400000", "--pairs", "100", "--dir"];
        let mut command = place.sweetspot(&arguments);
        let mut child = command.arg(&scratch).stderr(Stdio::null()).spawn().unwrap();
        // In the middle of a copy. What was killed before is swept.
        wait_until("a copy is made", || {
            let mut folders = fs::read_dir(&scratch).unwrap().flatten();
            let folder = folders.next().filter(|_| folders.next().is_none());
            folder.is_some_and(|folder| {
                folder.path() != left && folder.path().join("copy.dat").exists()
            })
        });
        kill_process(pid(child.id()), signal).unwrap();
        assert_eq!(wait(&mut child).signal(), Some(signal.as_raw()));
        let folder = fs::read_dir(&scratch).unwrap().flatten().next();
        left = folder.map(|folder| folder.path()).unwrap_or_default();
        assert_eq!(left.exists(), signal == Signal::KILL, "{signal:?}");
    }
}
