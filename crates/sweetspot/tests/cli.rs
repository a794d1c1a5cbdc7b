//! What a user of the command line sees: exit statuses, signals, the environment of the program,
//! the library's place, rules, mistakes, the demo.
//!
//! Each rule is checked in the ways a program can be started: by becoming it, and by waiting for
//! it. Not here: whether the bytes are right (the library's tests).

use test_start as _;

mod compiler;
mod place;

use place::Place;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// The ways to start a program: options of `run`.
const WAYS: [&[&str]; 2] = [&[], &["--wait"]];
/// Nothing here takes longer, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(20);

impl Place {
    fn run(&self, options: &[&str], program: &[&str]) -> Command {
        let mut command = self.sweetspot(&["run"]);
        command.args(options).arg("--").args(program);
        command
    }

    /// The one library in the cache.
    fn library(&self) -> PathBuf {
        let paths = fs::read_dir(self.cache()).unwrap().map(|entry| entry.unwrap().path());
        let mut libraries: Vec<_> = paths.filter(|path| path.is_file()).collect();
        assert_eq!(libraries.len(), 1, "{libraries:?}");
        libraries.remove(0)
    }

    fn write_program(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.work().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn assert_fails(command: &mut Command, status: i32, parts: &[&str]) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(status), "{command:?}: {said}");
    for part in parts {
        assert!(said.contains(part), "{command:?}: {part:?} is missing in {said:?}");
    }
    assert_eq!(stdout(&output), "", "{command:?}");
}

#[track_caller]
fn assert_says(command: &mut Command, expected: &str) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {} {}", output.status, stderr(&output));
    assert_eq!(stdout(&output), expected, "{command:?}");
    assert_eq!(stderr(&output), "", "{command:?}");
}

/// Starts the command and waits for its first line.
fn start(command: &mut Command) -> (Child, BufReader<std::process::ChildStdout>, String) {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    (child, reader, line.trim().to_string())
}

fn wait(child: &mut Child) -> ExitStatus {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if started.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("it did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap()).unwrap()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// What this machine lacks is said; where everything is meant to be there, it is a failure.
fn skip(what: &str) {
    assert!(std::env::var_os("CI").is_none(), "missing in CI: {what}");
    eprintln!("skipped: {what}");
}

/// What only root can set up is said too, and is no failure anywhere.
fn skip_without_root(what: &str) {
    eprintln!("skipped: {what} (only root can make it)");
}

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
        check("/", 126, &["folder"]);
        check("./plain.txt/x", 126, &["Not a directory", "./plain.txt/x"]);
        check("./loop", 126, &["symbolic links", "./loop"]);
        check(&format!("./{}", "x".repeat(300)), 126, &["too long"]);
        check(&"x".repeat(300), 126, &["too long"]);
        check("./lost.sh", 127, &["./lost.sh", "interpreter"]);
    }
}

#[test]
fn what_was_mistyped() {
    let place = Place::new();
    let check = |arguments: &[&str], status, parts: &[&str]| {
        assert_fails(&mut place.sweetspot(arguments), status, parts);
    };
    check(&[], 2, &["no command", "sweetspot run -- ./program"]);
    check(&["rum"], 2, &["'rum'", "sweetspot run"]);
    check(&["./seqcopy"], 2, &["sweetspot run -- ./seqcopy"]);
    check(&["--nonsense"], 2, &["--nonsense"]);
    check(&["run"], 125, &["no program", "sweetspot run -- ./program"]);
    check(&["run", "--"], 125, &["no program"]);
    check(&["run", "--sumary", "true"], 125, &["--sumary", "--summary"]);
    check(&["run", "--max-age", "0", "true"], 125, &["max-age"]);
    check(&["run", "--max-age", "60001", "true"], 125, &["max-age"]);
    check(&["run", "--buffer-size=2G", "true"], 125, &["'2G'", "1 GiB"]);
    check(&["run", "-DIO-BUFFER-SIZE=1073741825", "true"], 125, &["'1073741825'"]);
    check(&["run", "-DBUFFERS=1", "true"], 125, &["-DBUFFERS=1", "-DIO-BUFFER-SIZE=64K"]);
    check(&["run", "-DIO-BUFFER-SIZE=1", "--buffer-size=1", "true"], 125, &["--buffer-size"]);
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
        (&["--version"], env!("CARGO_PKG_VERSION")),
    ] {
        let output = place.sweetspot(arguments).output().unwrap();
        assert!(output.status.success() && stdout(&output).contains(part), "{arguments:?}");
    }
}

#[test]
fn a_size_from_option_environment_and_rules() {
    let place = Place::new();
    let echo = ["sh", "-c", "echo \"$IO_BUFFER_SIZE\""];
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

#[test]
fn a_text_that_is_no_size_is_told_once() {
    let place = Place::new();
    let echo = ["sh", "-c", "echo \"$IO_BUFFER_SIZE\"; sh -c :"];
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
    let echo = ["sh", "-c", "echo \"$IO_BUFFER_SIZE\""];
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
    let echo = ["sh", "-c", "echo \"$IO_BUFFER_SIZE\""];
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
    let output = place.run(&[], &["sh", "-c", "echo $IO_BUFFER_SIZE"]).output().unwrap();
    assert_eq!(stdout(&output), "auto\n");
    assert!(stderr(&output).contains("--config"), "{}", stderr(&output));
    let explicit = ["--config", path.to_str().unwrap()];
    assert_says(&mut place.run(&explicit, &["sh", "-c", "echo $IO_BUFFER_SIZE"]), "1\n");
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
        let mut command = place.run(&[], &["sh", "-c", "echo $IO_BUFFER_SIZE"]);
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
    let echo = ["sh", "-c", "echo $IO_BUFFER_SIZE"];
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
        assert_eq!(said.matches("is ignored: it is no regular file").count(), 1, "{what}: {said}");
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
    assert_says(&mut place.run(&[], &["bash", "-c", &script]), "7\n");
}

#[test]
fn a_folder_that_is_called_as_the_rules_stops_nobody() {
    let place = Place::new();
    fs::create_dir(place.work().join("sweetspot.toml")).unwrap();
    let output = place.run(&[], &["sh", "-c", "echo $IO_BUFFER_SIZE"]).output().unwrap();
    assert_eq!(stdout(&output), "auto\n", "{}", stderr(&output));
    assert!(stderr(&output).contains("is ignored: it is no regular file"), "{}", stderr(&output));
    let named = place.run(&["--config", "sweetspot.toml"], &["true"]).output().unwrap();
    assert_eq!(named.status.code(), Some(125));
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

fn make_fifo(path: &Path) {
    use rustix::fs::{CWD, FileType, mknodat};
    mknodat(CWD, path, FileType::Fifo, 0o600.into(), 0).unwrap();
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

#[test]
fn everything_else_in_the_environment_stays() {
    let place = Place::new();
    for options in WAYS {
        let mut command = place.run(options, &["env"]);
        command.env_clear().env("SWEETSPOT_CACHE", place.cache());
        command.env("PATH", "/usr/bin:/bin").env("EMPTY", "").env("LINES", "a\nb");
        let output = command.output().unwrap();
        let text = stdout(&output);
        for line in ["PATH=/usr/bin:/bin\n", "EMPTY=\n", "LINES=a\nb\n"] {
            assert!(text.contains(line), "{line:?} is missing in {text}");
        }
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
const LISTENER: &str = "for s in HUP INT QUIT USR1 USR2 TERM; do \
    trap \"echo got $s; exit 7\" $s; done; echo ready; while :; do sleep 0.02; done";

#[test]
fn signals_sent_to_run_reach_the_program() {
    let place = Place::new();
    let all = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::USR1, Signal::USR2, Signal::TERM];
    let passed_on = [Signal::HUP, Signal::USR1, Signal::USR2, Signal::TERM];
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
fn the_summary_goes_where_it_is_wanted() {
    let place = Place::new();
    let program = ["sh", "-c", "echo out; echo err >&2; exit 4"];
    let output = place.run(&["--summary"], &program).output().unwrap();
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(4), "out\n"));
    let said = stderr(&output);
    assert!(
        said.starts_with("err\nsweetspot summary\n") && said.contains("exit status 4"),
        "{said}"
    );

    let file = place.work().join("summary.txt");
    let option = format!("--summary={}", file.display());
    for _ in 0..2 {
        let output = place.run(&[&option], &program).output().unwrap();
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(4), "err\n"));
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text.matches("sweetspot summary").count(), 1, "{text}");
    }
    let output = place.run(&[&option], &["sh", "-c", "kill -9 $$"]).output().unwrap();
    assert_eq!(output.status.signal(), Some(9));
    assert!(fs::read_to_string(&file).unwrap().contains("ended by signal 9"));

    let precious = place.write("precious.dat", "years of work");
    let option = format!("--summary={}", precious.display());
    assert_fails(&mut place.run(&[&option], &["echo", "ran"]), 125, &["not overwritten"]);
    assert_eq!(fs::read_to_string(&precious).unwrap(), "years of work");
    let nowhere = ["--summary=/no/such/folder/file"];
    assert_fails(&mut place.run(&nowhere, &["echo", "ran"]), 125, &["/no/such/folder/file"]);
}

#[test]
fn a_fifo_takes_the_summary_if_somebody_reads_it() {
    let place = Place::new();
    let path = place.work().join("fifo");
    make_fifo(&path);
    let option = ["--summary=fifo"];
    let parts = ["--summary=fifo: nobody reads there", "cat fifo &"];
    assert_fails(&mut place.run(&option, &["echo", "ran"]), 125, &parts);
    // The reader may come a moment later.
    let mut child = place.run(&option, &["true"]).spawn().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(wait(&mut child).success());
    assert!(text.starts_with("sweetspot summary\n") && text.contains("exit status 0"), "{text}");
}

/// What the program wrote into the file of an option is never lost.
#[test]
fn the_summary_leaves_alone_what_the_program_wrote() {
    let place = Place::new();
    let file = place.work().join("out");
    let before: [(&str, &dyn Fn()); 3] = [
        ("absent", &|| fs::remove_file(&file).unwrap_or(())),
        ("empty", &|| fs::write(&file, "").unwrap()),
        ("an older summary", &|| fs::write(&file, "sweetspot summary\nof another run\n").unwrap()),
    ];
    let programs = [
        "echo precious > out",
        "echo precious >> out",
        "echo precious > new; mv new out",
        "rm out; echo precious > out",
        "echo precious > out; touch -d 2001-01-01 out",
    ];
    for (what, prepare) in before {
        for program in programs {
            prepare();
            let output = place.run(&["--summary=out"], &["sh", "-c", program]).output().unwrap();
            assert!(output.status.success(), "{what}: {program}");
            let text = fs::read_to_string(&file).unwrap();
            assert!(text.ends_with("precious\n"), "{what}: {program}: {text}");
            let said = stderr(&output);
            let parts = ["out", "left alone", "sweetspot summary\n", "exit status 0"];
            assert!(parts.iter().all(|part| said.contains(part)), "{what}: {program}: {said}");
        }
        prepare();
        let output = place.run(&["--summary=out"], &["cat", "out"]).output().unwrap();
        assert_eq!(stderr(&output), "", "{what}: it was only read");
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text.matches("sweetspot summary\n").count(), 1, "{what}: {text}");
        assert!(text.contains("exit status 0"), "{what}: {text}");
    }
    fs::remove_file(&file).unwrap();
    let mut command = place.sweetspot(&["profile", "--json", "out", "--"]);
    let output = command.args(["sh", "-c", "echo precious > out"]).output().unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious\n", "{}", stderr(&output));
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
fn files_that_only_passed_through_are_listed_with_the_reason() {
    let place = Place::new();
    place.write("data", "x".repeat(8_000_000));
    let copy = |from: &str, to: &str, size: &str| {
        let words = ["dd", from, to, size, "status=none"];
        stderr(&place.run(&["--summary"], &words).output().unwrap())
    };
    let said = copy("if=data", "of=large", "bs=100000");
    // One more read finds the end, and at the beginning dd asks for its position.
    for (file, calls, passed) in [("data", "82", "81"), ("large", "80", "80")] {
        let line = said.lines().find(|line| line.contains(&format!("/work/{file}"))).unwrap_or("");
        let words: Vec<&str> = line.split_whitespace().skip(1).take(2).collect();
        assert_eq!(words, ["auto", calls], "{said}");
        let end = format!("{passed}: already read or written in large pieces");
        assert!(line.ends_with(&end), "{said}");
    }
    let said = copy("if=data", "of=/dev/null", "bs=1000");
    assert!(said.contains("/dev/null") && said.contains("not a regular file"), "{said}");
    let said = copy("if=data", "of=few", "bs=1000000");
    assert!(!said.contains("/work/"), "eight calls are not worth a line: {said}");
}

#[test]
fn the_library_is_written_once() {
    let place = Place::new();
    let children: Vec<_> =
        (0..8).map(|_| place.run(&[], &["true"]).stderr(Stdio::piped()).spawn().unwrap()).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let library = place.library();
    let metadata = fs::metadata(&library).unwrap();
    assert_eq!(metadata.mode() & 0o7777, 0o555);
    assert_eq!(fs::metadata(place.cache()).unwrap().mode() & 0o022, 0);
    assert_says(&mut place.run(&[], &["true"]), "");
    assert_eq!(fs::metadata(place.library()).unwrap().ino(), metadata.ino());
}

#[test]
fn the_usual_places_of_the_library() {
    let place = Place::new();
    let home = place.folder.path().join("home");
    fs::create_dir(&home).unwrap();
    let check = |variables: &[(&str, &Path)], expected: &Path| {
        let mut command = place.run(&[], &["sh", "-c", "echo $LD_PRELOAD"]);
        command.env_remove("SWEETSPOT_CACHE").env_remove("XDG_CACHE_HOME").env("HOME", &home);
        command.envs(variables.iter().copied());
        let output = command.output().unwrap();
        let expected = expected.join("libsweetspot-").display().to_string();
        assert!(stdout(&output).starts_with(&expected), "{}{}", stdout(&output), stderr(&output));
    };
    check(&[], &home.join(".cache/sweetspot"));
    check(&[("XDG_CACHE_HOME", &home.join("xdg"))], &home.join("xdg/sweetspot"));
    check(&[("XDG_CACHE_HOME", Path::new("relative"))], &home.join(".cache/sweetspot"));
    check(&[("SWEETSPOT_CACHE", &home.join("named"))], &home.join("named"));
    // Home folders are often spread over disks; the link's target is what counts.
    fs::rename(home.join(".cache"), home.join("elsewhere")).unwrap();
    symlink("elsewhere", home.join(".cache")).unwrap();
    check(&[], &home.join("elsewhere/sweetspot"));
}

#[test]
fn a_library_that_someone_else_could_have_changed_is_not_loaded() {
    let attack = |what: &str, change: &dyn Fn(&Place, &Path), parts: &[&str]| {
        let place = Place::new();
        assert_says(&mut place.run(&[], &["true"]), "");
        change(&place, &place.library());
        let way_out: &[&str] = &["SWEETSPOT_CACHE=DIR"];
        let parts: Vec<&str> = parts.iter().chain(way_out).copied().collect();
        for options in WAYS {
            let started = Instant::now();
            assert_fails(&mut place.run(options, &["echo", what]), 125, &parts);
            assert!(started.elapsed() < PATIENCE, "{what}");
        }
    };
    let writable = |path: &Path| {
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    };
    attack(
        "content of the same length",
        &|_, library| {
            writable(library);
            let mut content = fs::read(library).unwrap();
            let middle = content.len() / 2;
            content[middle] ^= 1;
            fs::write(library, content).unwrap();
        },
        &["content", "rm -f"],
    );
    attack(
        "other content, and the times as they were, after it was noted",
        &|place, library| {
            std::thread::sleep(Duration::from_secs(3));
            assert_says(&mut place.run(&[], &["true"]), "");
            let modified = fs::metadata(library).unwrap().modified().unwrap();
            writable(library);
            let mut content = fs::read(library).unwrap();
            content[100] ^= 1;
            fs::write(library, content).unwrap();
            fs::File::open(library).unwrap().set_modified(modified).unwrap();
            fs::set_permissions(library, Permissions::from_mode(0o555)).unwrap();
        },
        &["content"],
    );
    attack(
        "an empty file",
        &|_, library| {
            writable(library);
            fs::write(library, "").unwrap();
        },
        &["content"],
    );
    attack(
        "a symbolic link to the same content",
        &|place, library| {
            let copy = place.work().join("copy.so");
            fs::rename(library, &copy).unwrap();
            symlink(copy, library).unwrap();
        },
        &["not a plain file"],
    );
    attack(
        "a pipe",
        &|_, library| {
            fs::remove_file(library).unwrap();
            assert!(Command::new("mkfifo").arg(library).status().unwrap().success());
        },
        &["not a plain file"],
    );
    for mode in [0o775, 0o757] {
        let change = |_: &Place, library: &Path| {
            fs::set_permissions(library, Permissions::from_mode(mode)).unwrap();
        };
        attack("a writable file", &change, &["others can write"]);
    }
    for (mode, cause) in [(0o777, "everyone"), (0o1777, "everyone"), (0o770, "group")] {
        let change = |place: &Place, _: &Path| {
            fs::set_permissions(place.cache(), Permissions::from_mode(mode)).unwrap();
        };
        attack("a writable folder", &change, &[cause]);
    }
    attack(
        "a writable folder above",
        &|place, _| {
            fs::set_permissions(place.folder.path(), Permissions::from_mode(0o777)).unwrap();
        },
        &["everyone can write"],
    );
    if !is_root() {
        return skip_without_root("a file of another user");
    }
    let give_away = |path: &Path| std::os::unix::fs::chown(path, Some(65534), None).unwrap();
    attack("a file of another user", &|_, library| give_away(library), &["someone else"]);
    attack("a folder of another user", &|place, _| give_away(&place.cache()), &["someone else"]);
}

#[test]
fn places_where_the_library_cannot_be() {
    let place = Place::new();
    let home = place.folder.path().join("home");
    fs::create_dir_all(home.join(".cache")).unwrap();
    let at = |variable: &(&str, PathBuf), options: &[&str]| {
        let mut command = place.run(options, &["echo", "ran"]);
        command.env_remove("SWEETSPOT_CACHE").env_remove("XDG_CACHE_HOME").env("HOME", &home);
        command.env(variable.0, &variable.1);
        command
    };
    // The program runs untouched, unless more is required.
    let check = |variable: (&str, PathBuf), parts: &[&str]| {
        assert_fails(&mut at(&variable, &["--require"]), 125, parts);
        for options in WAYS.into_iter().chain([&["--summary"][..]]) {
            let output = at(&variable, options).output().unwrap();
            let said = stderr(&output);
            assert_eq!(
                (output.status.code(), stdout(&output).as_str()),
                (Some(0), "ran\n"),
                "{said}"
            );
            for part in parts.iter().chain(&["nothing is buffered: "]) {
                assert!(said.contains(part), "{part:?} is missing in {said:?}");
            }
            assert_eq!(said.contains("buffered  no: "), options.contains(&"--summary"), "{said}");
        }
    };
    let inside = |name: &str| place.folder.path().join(name);
    for name in ["with space", "with:colon", "with$dollar"] {
        check(("SWEETSPOT_CACHE", inside(name)), &["LD_PRELOAD", "SWEETSPOT_CACHE=DIR"]);
    }
    place.write("file", "");
    for path in [place.work().join("file"), "/dev/null/x".into(), "/proc/no/such".into()] {
        check(("SWEETSPOT_CACHE", path), &["SWEETSPOT_CACHE=DIR"]);
    }
    symlink(place.work(), home.join(".cache/sweetspot")).unwrap();
    let parts = ["not a folder of its own", "SWEETSPOT_CACHE=DIR"];
    assert_fails(&mut at(&("HOME", home.clone()), &[]), 125, &parts);
    assert_eq!(fs::read_dir(place.work()).unwrap().count(), 1, "nothing was written behind it");
}

/// Programs that cannot be reached: `--require` says why before they run, the summary afterwards.
#[test]
fn who_cannot_be_reached() {
    let place = Place::new();
    let refused = |program: &Path, cause: &str| {
        let program = program.to_str().unwrap();
        assert_fails(&mut place.run(&["--require"], &[program]), 125, &[program, cause]);
    };
    let truth = fs::read("/bin/true").unwrap();
    let patched = |name: &str, from: &[u8], to: &[u8]| {
        let mut content = truth.clone();
        let at = content.windows(from.len()).position(|part| part == from).unwrap();
        content[at..at + to.len()].copy_from_slice(to);
        place.write_program(name, &content)
    };
    let class = patched("class32", b"\x7fELF\x02", b"\x7fELF\x01");
    refused(&class, "another kind of machine");
    let machine = if cfg!(target_arch = "x86_64") { 183 } else { 62 };
    let mut content = truth.clone();
    content[18] = machine;
    refused(&place.write_program("machine", &content), "another kind of machine");
    let interpreter = [b"/lib/ld64-uClibc.so.1".as_slice(), &[0]].concat();
    refused(&patched("uclibc", b"/lib", &interpreter), "neither glibc nor musl");
    // A note's name field: four bytes long in both.
    refused(&patched("go", b"GNU\0", b"Go\0\0"), "Go program");
    refused(&place.write_program("unknown", b"\0\x01\x02"), "format");
    let script = format!("#!{}\n", class.display());
    refused(&place.write_program("script", script.as_bytes()), "another kind of machine");

    assert_says(&mut place.run(&["--require"], &["true"]), "");
    let script = place.write_program("env.sh", b"#!/usr/bin/env sh\necho here\n");
    assert_says(&mut place.run(&["--require"], &[script.to_str().unwrap()]), "here\n");
}

#[test]
fn compiled_programs_that_cannot_be_reached() {
    let place = Place::new();
    let compile = |name: &str, source: &str, options: &[&str]| {
        let file = place.write(&format!("{name}.c"), source);
        let program = place.work().join(name);
        let mut compiler = compiler::gcc();
        compiler.arg("-o").arg(&program).arg(file).args(options).current_dir(place.work());
        compiler.output().is_ok_and(|output| output.status.success()).then_some(program)
    };
    let hello = "#include <stdio.h>\n#include <stdlib.h>\n\
        int main(void) { puts(getenv(\"LD_PRELOAD\") ? \"loaded\" : \"alone\"); return 6; }\n";
    let check = |name: &str, options: &[&str], cause: &str, said: &str| {
        let Some(program) = compile(name, hello, options) else {
            return skip(&format!("gcc {}", options.join(" ")));
        };
        let program = program.to_str().unwrap();
        assert_fails(&mut place.run(&["--require"], &[program]), 125, &[cause]);
        for options in WAYS.into_iter().chain([&["--summary"][..]]) {
            let mut command = place.run(options, &[program]);
            let output = command.env("LD_LIBRARY_PATH", place.work()).output().unwrap();
            let shown = stderr(&output);
            assert_eq!(
                (output.status.code(), stdout(&output).as_str()),
                (Some(6), said),
                "{shown}"
            );
            if options.contains(&"--summary") {
                assert!(shown.contains("buffered  no:") && shown.contains(cause), "{shown}");
            } else {
                assert_eq!(shown, "");
            }
        }
    };
    check("static", &["-static"], "statically linked", "loaded\n");
    check("static-pie", &["-static-pie"], "statically linked", "loaded\n");
    check("asan", &["-fsanitize=address"], "AddressSanitizer", "alone\n");
    let library = compile("liburing.so.2", "int io_uring_any;\n", &["-shared", "-fPIC"]);
    let link = ["-Wl,--no-as-needed", "-Wl,-soname,liburing.so.2", "./liburing.so.2"];
    if library.is_some() {
        fs::rename(place.work().join("liburing.so.2"), place.work().join("l.so")).unwrap();
        let named = ["-shared", "-fPIC", link[1]];
        assert!(compile("liburing.so.2", "int io_uring_any;\n", &named).is_some());
    }
    check("uring", &[link[0], link[2]], "io_uring", "loaded\n");

    if !is_root() {
        return skip_without_root("a set-uid program of another user");
    }
    let Some(program) = compile("setuid", hello, &[]) else { return skip("gcc") };
    std::os::unix::fs::chown(&program, Some(65534), None).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
    let named = program.to_str().unwrap();
    assert_fails(&mut place.run(&["--require"], &[named]), 125, &["set-uid"]);
    let output = place.run(&[], &[named]).output().unwrap();
    assert_eq!(stdout(&output), "alone\n");
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
        assert_fails(&mut place.sweetspot(&much), 1, &["MiB are free", "--dir DIR"]);
    }
}

#[test]
fn an_interrupted_demo_cleans_up() {
    let place = Place::new();
    let scratch = place.folder.path().join("scratch");
    fs::create_dir(&scratch).unwrap();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let arguments = ["demo", "--records", "400000", "--pairs", "100", "--dir"];
        let mut command = place.sweetspot(&arguments);
        let mut child = command.arg(&scratch).stderr(Stdio::null()).spawn().unwrap();
        // In the middle of a copy.
        wait_until("a copy is made", || {
            let folder = fs::read_dir(&scratch).unwrap().next();
            folder.is_some_and(|folder| folder.unwrap().path().join("copy.dat").exists())
        });
        kill_process(pid(child.id()), signal).unwrap();
        assert_eq!(wait(&mut child).signal(), Some(signal.as_raw()));
        assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0, "{signal:?}");
    }
}

/// Compiles `programs/c/NAME.c`.
fn compile_program(place: &Place, name: &str) -> PathBuf {
    let program = place.work().join(name);
    compiler::compile(name, &[], &program);
    program
}

#[test]
fn programs_under_restrictions_run_and_it_is_said_what_is_not_buffered() {
    let place = Place::new();
    let confined = compile_program(&place, "confined");
    let copy = compile_program(&place, "copy");
    let lines: String = (0..50_000).map(|line| format!("{line}\n")).collect();
    place.write("in.txt", &lines);
    let sweetspot = env!("CARGO_BIN_EXE_sweetspot").as_ref();
    let run: [&OsStr; 4] = [sweetspot, "run".as_ref(), "--summary".as_ref(), "--".as_ref()];
    let copying: [&OsStr; 4] = [copy.as_ref(), "in.txt".as_ref(), "out.txt".as_ref(), "7".as_ref()];
    let filter = "a seccomp filter is in force";
    for (how, outside, inside) in [
        // Of the filter around `run` it is known that it refuses nothing that the library needs.
        ("allow", "", filter),
        ("deny", "", filter),
        ("mark", "", filter),
        ("hide", "", filter),
        ("kill", filter, filter),
        // No code is changed.
        ("code", "", ""),
    ] {
        let restricted: [&OsStr; 2] = [confined.as_ref(), how.as_ref()];
        let commands = [
            (outside, [&restricted[..], &run, &copying].concat()),
            (inside, [&run[..], &restricted, &copying].concat()),
        ];
        for (expected, words) in commands {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).env("SWEETSPOT_CACHE", place.cache());
            let output = command.current_dir(place.work()).output().unwrap();
            let said = stderr(&output);
            if output.status.code() == Some(77) {
                skip(&format!("restriction {how}: {said}"));
                continue;
            }
            assert_eq!(output.status.code(), Some(0), "{words:?}: {said}");
            assert_eq!(
                fs::read_to_string(place.work().join("out.txt")).unwrap(),
                lines,
                "{words:?}"
            );
            assert!(said.contains("buffered  size auto, in "), "{words:?}: {said}");
            assert_eq!(said.contains("note "), !expected.is_empty(), "{words:?}: {said}");
            assert!(said.contains(expected), "{words:?}: {said}");
        }
    }
}

/// As where Yama lets nobody look at other processes: calls on what came from outside pass through.
#[test]
fn where_nobody_may_copy_a_descriptor_it_is_said() {
    let place = Place::new();
    let confined = compile_program(&place, "confined");
    let run = env!("CARGO_BIN_EXE_sweetspot");
    for (how, is_copied) in [("allow", true), ("copy", false)] {
        let mut command = Command::new(&confined);
        command.args([
            how,
            run,
            "run",
            "--summary",
            "--",
            "dd",
            "bs=9",
            "count=20000",
            "status=none",
        ]);
        command.env("SWEETSPOT_CACHE", place.cache()).current_dir(place.work());
        let out = fs::File::create(place.work().join("out")).unwrap();
        let zero = fs::File::open("/dev/zero").unwrap();
        let output = command.stdin(zero).stdout(out).output().unwrap();
        let said = stderr(&output);
        if output.status.code() == Some(77) {
            return skip(&format!("restriction {how}: {said}"));
        }
        assert_eq!(fs::read(place.work().join("out")).unwrap(), [0; 180_000], "{how}");
        let expected = "the system lets nobody copy it";
        assert_eq!(!said.contains(expected), is_copied, "{how}: {said}");
    }
}

#[test]
fn what_is_required_is_refused_where_buffering_is_switched_off() {
    let place = Place::new();
    let check = |options: &[&str], variable: (&str, &str), parts: &[&str]| {
        let mut command = place.run(&[&["--require"], options].concat(), &["touch", "ran"]);
        assert_fails(command.env(variable.0, variable.1), 125, parts);
        assert!(!place.work().join("ran").exists(), "it has run: {options:?} {variable:?}");
    };
    let nothing = ("NOTHING", "");
    let (switched, size) = ("SWEETSPOT=off is set", "the buffer size in force is off");
    check(&[], ("SWEETSPOT", "off"), &["'/", switched, "unset SWEETSPOT", "without --require"]);
    check(&["--summary"], ("SWEETSPOT", "OFF"), &[switched]);
    check(&["--buffer-size=off"], nothing, &[size, "--buffer-size auto"]);
    check(&["-DIO-BUFFER-SIZE=-1"], nothing, &[size]);
    check(&[], ("IO_BUFFER_SIZE", "off"), &[size]);
    check(&[], ("IO_BUFFER_SIZE", "lots"), &["'lots'", size]);
    place.write("sweetspot.toml", "[[rule]]\nprogram = \"touch\"\nbuffer = \"off\"\n");
    check(&[], nothing, &[size]);
    // Some files are to be buffered.
    let first = "[[rule]]\nfile = \"*.dat\"\nbuffer = \"64K\"\n";
    place.write("sweetspot.toml", format!("{first}[[rule]]\nbuffer = \"off\"\n"));
    assert_says(&mut place.run(&["--require"], &["true"]), "");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn what_is_required_is_looked_at_when_the_program_has_ended() {
    let place = Place::new();
    let confined = compile_program(&place, "confined");
    let confined = confined.to_str().unwrap();
    // The filter comes when the library is loaded already.
    let output = place.run(&["--require"], &[confined, "deny", "true"]).output().unwrap();
    if output.status.code() == Some(77) {
        return skip("restriction deny");
    }
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("has run, but nothing") && said.contains("is confined"), "{said}");
    let output = place.run(&["--require"], &["sh", "-c", "exit 7"]).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));

    // A loader that has never heard of LD_PRELOAD.
    let cc = |source: &Path, program: &Path, options: &[&str]| {
        let mut compiler = compiler::gcc();
        let output = compiler.args(options).arg("-o").arg(program).arg(source).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    };
    let source = place.write("program.c", "#include <unistd.h>\nint main(void) { _exit(3); }\n");
    let (loader, program) = (place.work().join("ld-linux-own.so"), place.work().join("program"));
    let end =
        place.write("end.s", ".globl _start\n_start: mov $231, %eax\nmov $3, %edi\nsyscall\n");
    cc(&end, &loader, &["-static", "-nostdlib"]);
    cc(&source, &program, &[&format!("-Wl,--dynamic-linker={}", loader.display())]);
    let program = program.to_str().unwrap();
    assert_eq!(place.run(&[], &[program]).output().unwrap().status.code(), Some(3));
    let loaded = "has run, but nothing of it was buffered: no process has loaded the library";
    assert_fails(&mut place.run(&["--require"], &[program]), 125, &[loaded]);
}

/// The question is asked inside the very program, which must not run for that.
#[test]
fn what_is_asked_whether_it_is_buffered_does_not_run() {
    let place = Place::new();
    let source = "#include <fcntl.h>\n#include <unistd.h>\n\
        static void note(const char *what) {\n\
            int fd = open(\"ran\", O_WRONLY | O_CREAT | O_APPEND, 0600); write(fd, what, 1); }\n\
        __attribute__((constructor)) static void begin(void) { note(\"b\"); }\n\
        __attribute__((destructor)) static void end(void) { note(\"e\"); }\n\
        int main(void) { note(\"m\"); return 0; }\n";
    let source = place.write("runs.c", source);
    let compile = |compiler: &str, name: &str| {
        let mut command = Command::new(compiler);
        command.args(["-w", "-o", name]).arg(&source).current_dir(place.work());
        command.output().is_ok_and(|output| output.status.success())
    };
    assert!(compile("cc", "runs"), "cc is needed: apt-get install gcc");
    let ran = place.work().join("ran");
    let require = || {
        assert_says(&mut place.run(&["--require"], &["./runs"]), "");
        let noted = fs::read_to_string(&ran).unwrap();
        fs::remove_file(&ran).unwrap();
        assert_eq!(noted, "bme", "it has run once");
    };
    // Asked, and the second time known.
    require();
    let answers = place.cache().join("buffered");
    let kept = || {
        let mut paths = fs::read_dir(&answers).unwrap().map(|entry| entry.unwrap().path());
        let path = paths.next().unwrap();
        assert_eq!(paths.next(), None);
        (fs::metadata(&path).unwrap().mode() & 0o7777, fs::read(&path).unwrap(), path)
    };
    let first = kept();
    assert_eq!(first.0, 0o600);
    require();
    assert_eq!(kept(), first);
    // A new program of the same name is asked anew; what somebody else has put there is not believed,
    // and where nothing can be kept nothing is.
    fs::write(&first.2, "spoilt").unwrap();
    require();
    assert_eq!(kept().1, first.1);
    fs::remove_dir_all(&answers).unwrap();
    fs::write(&answers, "in the way").unwrap();
    require();

    // musl calls constructors when the program has begun, its own last.
    if compile("musl-gcc", "runs") {
        fs::remove_file(&answers).unwrap();
        require();
        assert_eq!(kept().0, 0o600, "it was buffered");
    } else {
        skip("musl-gcc");
    }

    // A variable that was left over ends no program.
    let mut command = place.run(&[], &["./runs"]);
    assert_says(command.env("SWEETSPOT_PROBE", "/dev/shm/sweetspot-0-0"), "");
    fs::remove_file(&ran).unwrap();
    // Where another library cannot be loaded, the program does not run for a question either.
    let mut command = place.run(&["--require"], &["./runs"]);
    command.env("LD_PRELOAD", "/no/such/library.so");
    assert!(command.output().unwrap().status.success());
    fs::remove_file(&ran).unwrap();
    let missing = place.write("needs.c", "int any(void); int main(void) { return any(); }\n");
    let library = place.write("any.c", "int any(void) { return 0; }\n");
    let so = place.work().join("libany.so");
    for (options, from, to) in [
        (&["-shared", "-fPIC"][..], &library, &so),
        (&["-L.", "-lany", "-Wl,--no-as-needed"], &missing, &place.work().join("needs")),
    ] {
        let mut compiler = Command::new("cc");
        let words = compiler.arg("-o").arg(to).arg(from).args(options).current_dir(place.work());
        let output = words.output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
    // It does not start at all, and shows its own failure.
    let parts = ["error while loading shared libraries", "no process has loaded the library"];
    assert_fails(&mut place.run(&["--require"], &["./needs"]), 125, &parts);
}

/// Under a filter that keeps the library from working, everyone who is asked says so.
#[test]
fn where_nothing_can_be_buffered_everyone_says_so() {
    let place = Place::new();
    let confined = compile_program(&place, "confined");
    place.write("in.dat", vec![b'x'; 200 * 20_000]);
    let copy = ["dd", "if=in.dat", "of=out.dat", "bs=200", "status=none"];
    let reason = "a seccomp filter is in force";
    let verb = |words: &[&str]| {
        let mut command = Command::new(&confined);
        command.arg("kill").arg(env!("CARGO_BIN_EXE_sweetspot")).args(words).args(copy);
        command.env("SWEETSPOT_CACHE", place.cache()).env("TMPDIR", place.folder.path());
        command.env("XDG_STATE_HOME", place.folder.path().join("state"));
        command.env_remove("IO_BUFFER_SIZE").current_dir(place.work()).stdin(Stdio::null());
        let output = command.output().unwrap();
        let text = stdout(&output) + &stderr(&output);
        (output.status.code(), text, place.work().join("out.dat").exists())
    };
    let (code, said, _) = verb(&["run", "--require", "--"]);
    if code == Some(77) {
        return skip("seccomp filters");
    }
    let expect = |(code, said, has_run): (Option<i32>, String, bool), status, parts: &[&str]| {
        assert_eq!((code, has_run), (Some(status), false), "{said}");
        for part in [reason].iter().chain(parts) {
            assert!(said.contains(part), "{part:?} is missing in {said}");
        }
    };
    let mends = ["cannot be buffered", "seccomp=unconfined"];
    expect((code, said, false), 125, &mends);
    expect(verb(&["verify", "--"]), 3, &mends);
    expect(verb(&["tune", "--"]), 125, &mends);
    let (code, said, has_run) = verb(&["profile", "--"]);
    assert_eq!((code, has_run), (Some(0), true), "{said}");
    assert!(said.contains(reason) && said.contains("sweetspot cannot buffer it here"), "{said}");
    assert!(!said.contains("Try: sweetspot run"), "{said}");
}

#[test]
fn libraries_loaded_apart_end_buffering() {
    let place = Place::new();
    let source = "#include <dlfcn.h>\n#include <stdlib.h>\nint main(int count, char **words) {\n\
        return count > 1 && !dlopen(\"libm.so.6\", RTLD_NOW | atoi(words[1])); }\n";
    place.write("load.c", source);
    let compile = ["-o", "load", "load.c", "-ldl"];
    let compiled = compiler::gcc().args(compile).current_dir(place.work()).status().unwrap();
    assert!(compiled.success());
    for (flags, expected) in [("0", false), ("8", true)] {
        let output = place.run(&["--summary"], &["./load", flags]).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(stderr(&output).contains("RTLD_DEEPBIND"), expected, "{}", stderr(&output));
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
    check(&["--buffer-size", "off", "--summary"], "ledger\n");
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
    let (calls, left): (u64, u64) = (calls.parse().unwrap(), left.parse().unwrap());
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
    assert!(said.contains("reads are buffered only") && said.contains("process 1"), "{said}");
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
    let [_, _, _, _, read, ..] = words[..] else { panic!("{summary}") };
    // 1,600 of its 1,750 reads come after the first child's end.
    assert!(read.parse::<u64>().unwrap() > 20_000, "{summary}");
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
        let line = summary.lines().find(|line| line.starts_with("calls ")).unwrap();
        let (calls, made) = line.strip_prefix("calls").unwrap().split_once(" requested, ").unwrap();
        let made = made.strip_suffix(" made").unwrap();
        let [calls, made] = [calls, made].map(|number| number.trim().parse::<u64>().unwrap());
        assert_eq!(calls, 800 * 601, "{line}");
        made
    };
    // 16 reads of each before it has earned a window, and 20 pages or fewer of the largest. On a busy
    // machine a window grows old while it is read.
    let made = (0..3).map(|_| calls_made()).min().unwrap();
    assert!(made < 800 * 100, "{made} calls made");
}

/// Where nothing is buffered all calls are left, and no more than there were.
#[test]
fn calls_that_pass_through_are_counted_before_and_after() {
    let place = Place::new();
    let script = "import os\n\
                  fd = os.open('jumps.dat', os.O_RDWR | os.O_CREAT, 0o600)\n\
                  os.truncate(fd, 100 << 20)\n\
                  for i in range(100):\n\
                  \x20   os.lseek(fd, (i * 37 % 100) << 20, os.SEEK_SET)\n\
                  \x20   assert len(os.read(fd, 10)) == 10\n\
                  import mmap\n\
                  fd = os.open('mapped.dat', os.O_RDWR | os.O_CREAT, 0o600)\n\
                  os.truncate(fd, 1 << 20)\n\
                  memory = mmap.mmap(fd, 1 << 20, mmap.MAP_PRIVATE, mmap.PROT_READ)\n\
                  for i in range(100): assert len(os.read(fd, 10)) == 10\n\
                  for i in range(100): assert len(os.read(0, 10)) == 10\n";
    place.write("in.dat", vec![b'x'; 1000]);
    let mut run = place.run(&["--summary=summary"], &["python3", "-c", script]);
    let output = run.stdin(fs::File::open(place.work().join("in.dat")).unwrap()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let summary = fs::read_to_string(place.work().join("summary")).unwrap();
    let row = |file: &str, calls: &str, why: &str| {
        let row = summary.lines().find(|line| line.contains(file)).unwrap();
        let columns: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(columns[2..4], [calls, calls], "{summary}");
        assert!(row.ends_with(&format!(": {why}")), "{summary}");
    };
    row("jumps.dat", "200", "accessed at random");
    row("mapped.dat", "100", "mapped into memory");
    // Also of what came from outside.
    row("in.dat", "100", "open before the program started, its offset is shared");
}

#[test]
fn with_little_room_a_program_starts_without_the_library() {
    let place = Place::new();
    let sweetspot = env!("CARGO_BIN_EXE_sweetspot");
    let said = |output: Output| (output.status.code(), stderr(&output));
    // Addresses, and data: of those fewer are needed.
    for (limit, enough_for_sweetspot) in [("-v", 100_000), ("-d", 3000)] {
        for kilobytes in [1000, 3000, 5000, 8000, 12000, 20000, 100_000] {
            let limit = format!("ulimit {limit} {kilobytes}");
            let start = format!("({limit}; exec /bin/true)");
            let native = said(Command::new("sh").args(["-c", &start]).output().unwrap());
            let outer = said(place.run(&[], &["sh", "-c", &start]).output().unwrap());
            assert_eq!(outer, native, "{limit}");
            if kilobytes >= enough_for_sweetspot {
                let run = format!("{limit}; exec {sweetspot} run -- true");
                let inner = said(place.run(&[], &["sh", "-c", &run]).output().unwrap());
                assert_eq!(inner, native, "{limit}");
            }
        }
        let limited = |option: &str| {
            let run = format!("exec {sweetspot} run {option} -- sh -c 'echo [$LD_PRELOAD]'");
            let script = format!("ulimit {limit} 100000; {run}");
            place.run(&[], &["sh", "-c", &script]).output().unwrap()
        };
        let output = limited("--summary");
        assert_eq!(stdout(&output), "[]\n");
        assert!(stderr(&output).contains(&format!("ulimit {limit}")), "{}", stderr(&output));
        let output = limited("--require");
        assert_eq!(output.status.code(), Some(125));
        let mend = format!("ulimit {limit} unlimited");
        assert!(stderr(&output).contains(&mend), "{}", stderr(&output));
    }
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
