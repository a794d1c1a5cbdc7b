//! Sizes and rules: which ones hold, and which files of rules count for nobody.

use super::*;

/// Says the size, whether somebody has asked for it or not (`Auto`, `04096`).
const SAYS_SIZE: &str = "echo $IO_BUFFER_SIZE | sed 's/^0//; y/AO/ao/'";

#[test]
fn a_size_from_option_environment_and_rules() {
    let place = Place::new();
    let echo = ["sh", "-c", SAYS_SIZE];
    let check = |option: &[&str], environment: Option<&str>, rules: &str, expected: &str| {
        place.write("sweetspot.toml", rules);
        let mut command = place.run(option, &echo);
        if let Some(text) = environment {
            command.env("IO_BUFFER_SIZE", text);
        }
        assert_says(&mut command, &format!("{expected}\n"));
    };
    let rules = "[[rule]]\nfile = \"*.dat\"\nbuffer = \"1K\"\n\
                 [[rule]]\nprogram = \"s?\"\nbuffer = \"2K\"\n\
                 [[rule]]\nbuffer = \"3K\"\n";
    for (text, expected) in [
        ("4096", "4096"),
        ("64K", "65536"),
        ("64KiB", "65536"),
        ("1g", "1073741824"),
        ("0", "auto"),
        ("AUTO", "auto"),
        ("off", "off"),
        ("-1", "off"),
        ("-64K", "off"),
    ] {
        check(&["--buffer-size", text], None, "", expected);
        check(&[&format!("--buffer-size={text}")], Some("7"), rules, expected);
        check(&[&format!("-DIO-BUFFER-SIZE={text}")], Some("7"), rules, expected);
        check(&["-D", &format!("IO-BUFFER-SIZE={text}")], None, "", expected);
        check(&[], Some(text), rules, expected);
        check(&[], None, &format!("[[rule]]\nbuffer = \"{text}\""), expected);
    }
    check(&[], None, "", "auto");
    check(&[], None, rules, "2048");
    check(&[], None, "[[rule]]\nprogram = \"other\"\nbuffer = \"2K\"\n", "auto");
}

/// What `run` sets where nobody has asked is nothing that anybody has asked for.
#[test]
fn rules_hold_for_a_run_inside_of_a_run() {
    let place = Place::new();
    place.write("in", "x".repeat(10_000));
    place.write("sweetspot.toml", "[[rule]]\nfile = \"out\"\nbuffer = \"off\"\n");
    let inner = format!(
        "exec {} run --summary -- dd if=in of=out bs=10 status=none",
        env!("CARGO_BIN_EXE_sweetspot")
    );
    let check = |options: &[&str], before: &str, expected: &str| {
        let output = place.run(options, &["sh", "-c", &format!("{before} {inner}")]).output();
        let said = stderr(&output.unwrap());
        let row = said.lines().find(|line| line.contains("/out ")).unwrap_or(&said);
        let size = row.split_whitespace().nth(1);
        assert_eq!(size, Some(expected), "{options:?} {before}: {said}");
    };
    check(&[], "", "off");
    check(&["--wait"], "", "off");
    check(&["--buffer-size=auto"], "", "auto");
    check(&[], "IO_BUFFER_SIZE=64K", "64K");
    let again = format!("{} run -- {}", env!("CARGO_BIN_EXE_sweetspot"), inner.replace("exec", ""));
    check(&[], &format!("{again};"), "off");
}

#[test]
fn a_text_that_is_no_size_is_told_once() {
    let place = Place::new();
    let echo = ["sh", "-c", &format!("{SAYS_SIZE}; sh -c :")];
    let check = |command: &mut Command, origin: &str| {
        let output = command.output().unwrap();
        assert_eq!(stdout(&output), "off\n");
        let said = stderr(&output);
        assert!(said.contains("'lots'") && said.contains(origin), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    };
    check(&mut place.run(&["--buffer-size=lots"], &echo), "--buffer-size");
    check(&mut place.run(&["-DIO-BUFFER-SIZE=lots"], &echo), "-DIO-BUFFER-SIZE");
    check(place.run(&[], &echo).env("IO_BUFFER_SIZE", "lots"), "IO_BUFFER_SIZE");
    place.write("sweetspot.toml", "[[rule]]\n\nbuffer = \"lots\"\n");
    check(&mut place.run(&[], &echo), "sweetspot.toml:3");
}

#[test]
fn the_environment_names_the_rules_unless_an_option_does() {
    let place = Place::new();
    let echo = ["sh", "-c", SAYS_SIZE];
    place.write("sweetspot.toml", "[[rule]]\nbuffer = 1\n");
    let other = place.write("apart/other.toml", "[[rule]]\nbuffer = 2\n");
    let option = place.write("apart/option.toml", "[[rule]]\nbuffer = 3\n");
    let with = |options: &[&str], rules: &OsStr| {
        let mut command = place.run(options, &echo);
        command.env("SWEETSPOT_RULES", rules);
        command
    };
    assert_says(&mut with(&[], other.as_ref()), "2\n");
    assert_says(&mut with(&["--config", option.to_str().unwrap()], other.as_ref()), "3\n");
    assert_says(&mut with(&[], "".as_ref()), "1\n");
    assert_fails(&mut with(&[], "missing.toml".as_ref()), 125, &["missing.toml"]);
}

#[test]
fn rules_are_looked_for_upwards() {
    let place = Place::new();
    let echo = ["sh", "-c", SAYS_SIZE];
    place.write("sweetspot.toml", "[[rule]]\nbuffer = 1\n");
    place.write("a/sweetspot.toml", "[[rule]]\nbuffer = 2\n");
    place.write("a/b/c/here.txt", "");
    let other = place.write("other.toml", "[[rule]]\nbuffer = 3\n");
    let check = |folder: &str, options: &[&str], expected: &str| {
        let mut command = place.run(options, &echo);
        assert_says(command.current_dir(place.work().join(folder)), &format!("{expected}\n"));
    };
    check(".", &[], "1");
    check("a", &[], "2");
    check("a/b/c", &[], "2");
    check("a", &["--config", other.to_str().unwrap()], "3");
    check("a", &["--config", "../other.toml"], "3");
    check("a", &["--config", "/dev/null"], "auto");
}

#[test]
fn rules_that_cannot_be_read() {
    let place = Place::new();
    let check = |options: &[&str], parts: &[&str]| {
        assert_fails(&mut place.run(options, &["echo", "started"]), 125, parts);
    };
    check(&["--config", "none.toml"], &["none.toml", "No such file"]);
    check(&["--config", "."], &["folder"]);
    let path = place.write("sweetspot.toml", "[[rule]]\nbuffer = \"64K\"\nbufer = 1\n");
    check(&[], &["sweetspot.toml:3", "bufer"]);
    check(&["--buffer-size=1"], &["sweetspot.toml:3"]);
    place.write("sweetspot.toml", "[[rule]]\nbuffer = \"2G\"\n");
    check(&[], &["sweetspot.toml:2", "1 GiB"]);
    fs::write(&path, b"# \xff\n").unwrap();
    check(&[], &["sweetspot.toml:1", "UTF-8"]);
    fs::remove_file(&path).unwrap();
    symlink("gone.toml", &path).unwrap();
    check(&[], &["sweetspot.toml", "No such file"]);
    fs::remove_file(&path).unwrap();
    place.write("sweetspot.toml", "# long\n".repeat(200_000));
    check(&[], &["sweetspot.toml", "1 MiB"]);
    fs::set_permissions(&path, Permissions::from_mode(0o000)).unwrap();
    let mut command = place.run(&[], &["echo", "started"]);
    if is_root() {
        // Root may read everything; somebody else finds the same file.
        let copy = place.folder.path().join("sweetspot");
        // By a process of its own: what other tests start meanwhile must not have it open for writing.
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_sweetspot")).arg(&copy).status();
        assert!(copied.unwrap().success());
        for path in [place.folder.path(), &place.work(), &path] {
            std::os::unix::fs::chown(path, Some(65534), None).unwrap();
        }
        command = Command::new(copy);
        command.args(["run", "echo", "started"]).current_dir(place.work()).uid(65534);
    }
    assert_fails(&mut command, 125, &["sweetspot.toml", "chmod u+r"]);
}

#[test]
fn rules_that_someone_else_could_have_written_do_not_count() {
    let place = Place::new();
    let path = place.write("sweetspot.toml", "[[rule]]\nbuffer = 1\n");
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    let output = place.run(&[], &["sh", "-c", SAYS_SIZE]).output().unwrap();
    assert_eq!(stdout(&output), "auto\n");
    assert!(stderr(&output).contains("--config"), "{}", stderr(&output));
    let explicit = ["--config", path.to_str().unwrap()];
    assert_says(&mut place.run(&explicit, &["sh", "-c", SAYS_SIZE]), "1\n");
}

#[test]
fn rules_of_others_stop_nobody_and_count_for_nobody() {
    let place = Place::new();
    let job = place.work().join("above/job");
    fs::create_dir_all(&job).unwrap();
    let above = place.work().join("above");
    let path = above.join("sweetspot.toml");
    let rule = "[[rule]]\nbuffer = 1\n";
    place.write("rule", rule);
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let check = |what: &str, is_believed: bool| {
        let mut command = place.run(&[], &["sh", "-c", SAYS_SIZE]);
        let output = command.current_dir(&job).output().unwrap();
        let (said, warned) = (stdout(&output), stderr(&output));
        assert_eq!(said, if is_believed { "1\n" } else { "auto\n" }, "{what}: {warned}");
        assert_eq!(warned.matches("is ignored").count(), usize::from(!is_believed), "{what}");
        match fs::symlink_metadata(&path).unwrap().is_dir() {
            true => fs::remove_dir(&path).unwrap(),
            false => fs::remove_file(&path).unwrap(),
        }
    };
    let write = || fs::write(&path, rule).unwrap();
    write();
    check("the user's own", true);
    symlink("../rule", &path).unwrap();
    check("a link of the user's own", true);
    for (bits, what) in [(0o664, "for a group"), (0o646, "for all")] {
        write();
        mode(&path, bits);
        check(what, false);
    }
    for (bits, is_believed) in [(0o775, false), (0o757, false), (0o1777, true)] {
        write();
        mode(&above, bits);
        check(&format!("in a folder of mode {bits:o}"), is_believed);
    }
    if !is_root() {
        return println!("skipped: only root can be two users");
    }
    let foreign = || std::os::unix::fs::lchown(&path, Some(54322), None).unwrap();
    for target in ["nowhere", "../rule", "sweetspot.toml", "/proc/self/mem", "/dev/zero"] {
        symlink(target, &path).unwrap();
        foreign();
        check(&format!("a link to {target}"), false);
    }
    fs::write(&path, "[[[ no toml").unwrap();
    foreign();
    check("a text", false);
    fs::create_dir(&path).unwrap();
    foreign();
    check("a folder", false);
    make_fifo(&path);
    foreign();
    check("a FIFO", false);
    // Of the owner of the folder from which somebody else starts.
    std::os::unix::fs::chown(&above, Some(54322), None).unwrap();
    fs::write(&path, rule).unwrap();
    foreign();
    check("of the folder's owner", false);
}

/// What is found may be anything; what is named may be a pipe.
#[test]
fn rules_are_never_waited_for_where_nobody_named_them() {
    let place = Place::new();
    let path = place.work().join("sweetspot.toml");
    let echo = ["sh", "-c", SAYS_SIZE];
    let check = |what: &str| {
        let mut child = place
            .run(&[], &echo)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        assert!(wait(&mut child).success(), "{what}");
        let output = child.wait_with_output().unwrap();
        let said = stderr(&output);
        assert_eq!(stdout(&output), "auto\n", "{what}: {said}");
        assert_eq!(said.matches("is ignored: not a regular file").count(), 1, "{what}: {said}");
        fs::remove_file(&path).unwrap();
    };
    make_fifo(&path);
    check("a FIFO");
    make_fifo(&place.work().join("fifo"));
    symlink("fifo", &path).unwrap();
    check("a link to a FIFO");
    let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    check("a socket");

    let sweetspot = env!("CARGO_BIN_EXE_sweetspot");
    let script = format!(
        "unset IO_BUFFER_SIZE; exec {sweetspot} run --config <(echo [[rule]]; echo buffer = 7) -- \
         sh -c 'echo $IO_BUFFER_SIZE'"
    );
    assert_says(&mut place.run(&[], &["bash", "-c", &script]), "07\n");
}

#[test]
fn a_folder_that_is_called_as_the_rules_stops_nobody() {
    let place = Place::new();
    fs::create_dir(place.work().join("sweetspot.toml")).unwrap();
    let output = place.run(&[], &["sh", "-c", SAYS_SIZE]).output().unwrap();
    assert_eq!(stdout(&output), "auto\n", "{}", stderr(&output));
    assert!(stderr(&output).contains("is ignored: not a regular file"), "{}", stderr(&output));
    let named = place.run(&["--config", "sweetspot.toml"], &["true"]).output().unwrap();
    assert_eq!(named.status.code(), Some(125));
}

/// The kernel says of a file without a name that it was removed, and not all of a long path is looked at.
#[test]
fn a_rule_switches_a_file_off_whatever_its_path_is() {
    let place = Place::new();
    place.write("sweetspot.toml", "[[rule]]\nfile = \"*.off\"\nbuffer = \"off\"\n");
    let deep = ["f"; 3].map(|letter| letter.repeat(200)).join("/");
    let removed = "exec < in.off; rm in.off; exec dd of=/dev/null bs=10 status=none";
    let opened = "dd if=in.off of=/dev/null bs=10 status=none";
    for (folder, script) in [(".", opened), (".", removed), (&deep, opened)] {
        place.write(&format!("{folder}/in.off"), "x".repeat(100_000));
        let mut run = place.run(&["--summary"], &["sh", "-c", script]);
        let said = stderr(&run.current_dir(place.work().join(folder)).output().unwrap());
        assert!(
            said.contains("switched off by a rule or by the buffer size"),
            "{folder}, {script}: {said}"
        );
    }
}

#[test]
fn off_in_any_letters_switches_everything_off() {
    let place = Place::new();
    for text in ["off", "OFF", "Off"] {
        // Set by the program for its child, so that it is the library that reads it.
        let script = format!("SWEETSPOT={text} dd if=data of=copy bs=8 status=none; wc -c < copy");
        place.write("data", "x".repeat(8000));
        let output = place.run(&["--summary"], &["sh", "-c", &script]).output().unwrap();
        assert_eq!(stdout(&output), "8000\n");
        assert!(!stderr(&output).contains("/data"), "{}", stderr(&output));
        // Nor do rules switch it on again, which are in force for the shell.
        place.write("sweetspot.toml", "[[rule]]\nprogram = \"sh\"\nbuffer = \"64K\"\n");
    }
}
