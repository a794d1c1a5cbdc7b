//! Job control: what a user types at a terminal has the same effect on a program with and without
//! `run`, whether it becomes the program or waits for it.
//!
//! An interactive shell runs on a pseudo terminal. Each dialogue is typed to it with every way to
//! start its program, the natural one first; what the shell then says of the program must be what
//! is expected, so it is the same for all of them. Nothing here sleeps for something to happen: each
//! step waits until the kernel or the terminal shows that the one before it has had its effect.

use test_start::untold;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What is put before the program; `SWEETSPOT` stands for its path.
const WAYS: [&str; 5] = [
    "",
    "SWEETSPOT run --",
    "SWEETSPOT run --wait --",
    "SWEETSPOT run --summary=summary.txt --",
    "SWEETSPOT run --wait --summary=summary.txt --",
];
/// Interactive shells, without line editing and without anyone's settings.
const SHELLS: [&[&str]; 2] =
    [&["bash", "--norc", "--noprofile", "--noediting", "-i"], &["dash", "-i"]];
/// Nothing here takes longer, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(20);

const PROMPT: &str = "ready> ";
const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const CTRL_Z: &str = "\x1a";
const CTRL_BACKSLASH: &str = "\x1c";

#[derive(Clone, Copy)]
enum Step {
    /// Types a line at the shell's prompt; `RUN` stands for the way to start a program.
    Line(&'static str),
    /// Presses keys, no matter who reads them.
    Key(&'static str),
    /// Waits until this is new on the terminal.
    Text(&'static str),
    /// Waits until the program of this name runs in the foreground.
    Foreground(&'static str),
    /// Waits until it runs in the background.
    Background(&'static str),
    /// Waits until it is stopped.
    Stopped(&'static str),
}
use Step::{Background, Foreground, Key, Line, Stopped, Text};

struct Dialogue {
    name: &'static str,
    steps: &'static [Step],
    /// What the lines `echo "seen: $?"` showed.
    seen: &'static [&'static str],
}

const SAY: Step = Line("echo \"seen: $?\"");

const DIALOGUES: [Dialogue; 11] = [
    Dialogue {
        name: "Ctrl-C ends the program",
        steps: &[Line("RUN sleep 1000"), Foreground("sleep"), Key(CTRL_C), SAY],
        seen: &["130"],
    },
    Dialogue {
        name: "Ctrl-\\ ends the program",
        steps: &[Line("RUN sleep 1000"), Foreground("sleep"), Key(CTRL_BACKSLASH), SAY],
        seen: &["131"],
    },
    Dialogue {
        name: "Ctrl-C is the program's to handle",
        steps: &[
            Line("RUN sh -c 'trap \"exit 7\" INT; echo on''ce; while :; do sleep 0.02; done'"),
            Text("once"),
            Key(CTRL_C),
            SAY,
        ],
        seen: &["7"],
    },
    Dialogue {
        name: "Ctrl-Z, fg, Ctrl-C",
        steps: &[
            Line("RUN sleep 1000"),
            Foreground("sleep"),
            Key(CTRL_Z),
            Text("Stopped"),
            SAY,
            Stopped("sleep"),
            Line("fg"),
            Foreground("sleep"),
            Key(CTRL_C),
            SAY,
        ],
        seen: &["148", "130"],
    },
    Dialogue {
        name: "a program that stops itself, fg",
        steps: &[
            Line("RUN sh -c 'kill -STOP $$; kill -TSTP $$; exit 7'"),
            Text("Stopped"),
            SAY,
            Line("fg"),
            Text("Stopped"),
            SAY,
            Line("fg"),
            SAY,
        ],
        seen: &["147", "148", "7"],
    },
    Dialogue {
        name: "Ctrl-Z, bg, kill the job",
        steps: &[
            Line("RUN sleep 1000"),
            Foreground("sleep"),
            Key(CTRL_Z),
            Text("Stopped"),
            Stopped("sleep"),
            Line("bg"),
            Background("sleep"),
            Line("kill %1; wait %1"),
            SAY,
        ],
        seen: &["143"],
    },
    Dialogue {
        name: "SIGTERM to the process that the shell knows",
        steps: &[
            Line("RUN sleep 1000 &"),
            Background("sleep"),
            Line("kill -TERM $!; wait $!"),
            SAY,
        ],
        seen: &["143"],
    },
    Dialogue {
        name: "SIGTSTP and SIGCONT to the job",
        steps: &[
            Line("RUN sleep 1000 &"),
            Background("sleep"),
            Line("kill -TSTP %1"),
            Stopped("sleep"),
            Line("kill -CONT %1"),
            Background("sleep"),
            Line("fg"),
            Foreground("sleep"),
            Key(CTRL_C),
            SAY,
        ],
        seen: &["130"],
    },
    Dialogue {
        name: "SIGTTIN stops a reader in the background",
        steps: &[
            Line("RUN cat &"),
            Stopped("cat"),
            Line("fg"),
            Foreground("cat"),
            Key("lo\u{e9}\n"),
            Text("lo\u{e9}\r\nlo\u{e9}"),
            Key(CTRL_D),
            SAY,
        ],
        seen: &["0"],
    },
    Dialogue {
        name: "SIGTTOU stops a writer in the background",
        steps: &[
            Line("stty tostop; RUN sh -c 'echo writ''ten; exit 5' &"),
            Stopped("sh"),
            Line("stty -tostop; fg"),
            Text("written"),
            SAY,
        ],
        seen: &["5"],
    },
    Dialogue {
        name: "a program that stops itself",
        steps: &[
            Line("RUN sh -c 'kill -STOP 0; exit 6'"),
            Text("Stopped"),
            Stopped("sh"),
            Line("fg"),
            SAY,
        ],
        seen: &["6"],
    },
];

/// A process, as /proc/PID/stat shows it.
struct Process {
    name: String,
    state: char,
    group: i32,
    /// The process group in the foreground of its terminal.
    foreground: i32,
}

impl Process {
    fn read(pid: u32) -> Option<Process> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let number = |index: usize| fields[index].parse().ok();
        let state = fields[0].chars().next()?;
        Some(Process { name: name.to_string(), state, group: number(2)?, foreground: number(5)? })
    }
}

/// All that descends from a process.
fn below(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    let children = children.split_whitespace().map(|pid| pid.parse().unwrap());
    children.flat_map(|pid| [vec![pid], below(pid)].concat()).collect()
}

/// A shell on a terminal of its own.
struct Terminal {
    keyboard: File,
    screen: Arc<Mutex<Vec<u8>>>,
    /// What was on the screen when the last step began.
    looked_at: usize,
    shell: Child,
}

impl Terminal {
    fn new(shell: &[&str], folder: &Path) -> Terminal {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC);
        let keyboard = keyboard.unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap();
        let name = std::ffi::OsStr::from_bytes(name.as_bytes());
        let open = || File::options().read(true).write(true).open(name).unwrap();
        let mut command = Command::new("setsid");
        let shell = untold(&mut command)
            .env_remove("ENV")
            .arg("--ctty")
            .args(shell)
            .env("PS1", PROMPT)
            .env("SWEETSPOT_CACHE", folder.join("cache"))
            .current_dir(folder)
            .stdin(open())
            .stdout(open())
            .stderr(open())
            .spawn()
            .unwrap();
        let keyboard = File::from(keyboard);
        let screen = Arc::new(Mutex::new(Vec::new()));
        let (mut source, shown) = (keyboard.try_clone().unwrap(), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // EIO: the shell and all that had the terminal are gone.
            while let Ok(count @ 1..) = source.read(&mut bytes) {
                shown.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Terminal { keyboard, screen, looked_at: 0, shell }
    }

    fn screen(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned()
    }

    /// What is new since the last key.
    fn news(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()[self.looked_at..]).into_owned()
    }

    fn press(&mut self, keys: &str) {
        self.looked_at = self.screen.lock().unwrap().len();
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// A shell throws away what was typed before it has the terminal back.
    fn line(&mut self, line: &str) {
        self.wait_until(line, |this| this.news().ends_with(PROMPT));
        self.press(&(line.to_string() + "\n"));
    }

    #[track_caller]
    fn wait_until(&self, what: &str, holds: impl Fn(&Terminal) -> bool) {
        let started = Instant::now();
        while !holds(self) {
            assert!(started.elapsed() < PATIENCE, "{what}; on the screen:\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn processes(&self) -> impl Iterator<Item = Process> {
        below(self.shell.id()).into_iter().filter_map(Process::read)
    }

    fn has(&self, name: &str, is_so: impl Fn(&Process) -> bool) -> bool {
        self.processes().any(|process| process.name == name && is_so(&process))
    }

    fn all_of(&self, group: i32, is_so: impl Fn(&Process) -> bool) -> bool {
        self.processes().filter(|process| process.group == group).all(|process| is_so(&process))
    }

    /// Plays a dialogue and returns what was seen.
    fn play(&mut self, dialogue: &Dialogue, way: &str) -> Vec<String> {
        let name = dialogue.name;
        let way = way.replace("SWEETSPOT", env!("CARGO_BIN_EXE_sweetspot"));
        for step in dialogue.steps {
            match step {
                Line(line) => self.line(&line.replace("RUN ", &format!("{way} "))),
                Key(keys) => self.press(keys),
                Text(text) => self.wait_until(name, |this| this.news().contains(text)),
                Foreground(program) => self.wait_until(name, |this| {
                    this.has(program, |it| it.state != 'T' && it.group == it.foreground)
                }),
                Background(program) => self.wait_until(name, |this| {
                    this.has(program, |it| it.state != 'T' && it.group != it.foreground)
                }),
                // All of the job: a shell that has not heard yet that its own child has stopped takes
                // the job for a running one, and does not continue it.
                Stopped(program) => self.wait_until(name, |this| {
                    this.has(program, |it| this.all_of(it.group, |it| it.state == 'T'))
                }),
            }
            // What is typed is echoed, but not what `$?` becomes.
            if let Line(line) = step
                && line.contains("seen:")
            {
                self.wait_until(name, |this| seen(&this.news()).len() == 1);
            }
        }
        let whole = self.screen();
        seen(whole.rsplit(BEGIN).next().unwrap())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Its jobs go with it: the session loses its terminal.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// Separates dialogues on the screen.
const BEGIN: &str = "-- begins --";

fn seen(screen: &str) -> Vec<String> {
    let after = screen.split("seen: ").skip(1);
    let number = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    after.map(number).filter(|number| !number.is_empty()).collect()
}

#[test]
fn job_control_is_the_programs_own() {
    for shell in SHELLS {
        if Command::new(shell[0]).args(["-c", ":"]).status().is_err() {
            assert!(std::env::var_os("CI").is_none(), "missing in CI: {}", shell[0]);
            eprintln!("skipped: {} is not installed", shell[0]);
            continue;
        }
        for way in WAYS {
            let folder = tempfile::tempdir().unwrap();
            let mut terminal = Terminal::new(shell, folder.path());
            // A core file of Ctrl-\ would land in the folder.
            terminal.line("ulimit -c 0");
            for dialogue in &DIALOGUES {
                terminal.line(&format!("echo '{BEGIN}'"));
                let seen = terminal.play(dialogue, way);
                let how = format!("{}: {}, started by {way:?}", shell[0], dialogue.name);
                assert_eq!(seen, dialogue.seen, "{how}; on the screen:\n{}", terminal.screen());
            }
        }
    }
}

/// People are told that a program cannot be buffered. Anyone who reads a pipe or cron's mail is not.
#[test]
fn what_cannot_be_buffered_is_said_on_a_terminal_only() {
    let folder = tempfile::tempdir().unwrap();
    // A format that the kernel does not know: the shell runs it.
    let mut header = b"\x7fELF\x01\x01\x01".to_vec();
    header.resize(64, 0);
    let program = folder.path().join("other");
    fs::write(&program, header).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&program, mode).unwrap();
    let mut terminal = Terminal::new(SHELLS[1], folder.path());
    let run = |options: &str| {
        format!("{} run {options} -- ./other; echo \"seen: $?\"", env!("CARGO_BIN_EXE_sweetspot"))
    };
    for (options, redirection, is_told) in
        [("", "", true), ("--quiet", "", false), ("", " 2>said", false)]
    {
        let line = run(options).replace("./other;", &format!("./other{redirection};"));
        terminal.line(&line);
        terminal.wait_until(&line, |this| seen(&this.news()).len() == 1);
        let told = terminal.news().contains("/other cannot be buffered: ");
        assert_eq!(told, is_told, "{line}; on the screen:\n{}", terminal.screen());
    }
    let said = fs::read_to_string(folder.path().join("said")).unwrap();
    assert!(!said.contains("is not buffered"), "{said}");
    // What is buffered is not mentioned.
    terminal.line(&run("").replace("./other", "true"));
    terminal.wait_until("true", |this| seen(&this.news()) == ["0"]);
    assert!(!terminal.news().contains("is not buffered"), "{}", terminal.screen());
}

#[test]
fn a_recording_is_not_for_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::new(SHELLS[1], folder.path());
    for place in ["-", "/dev/tty"] {
        let sweetspot = env!("CARGO_BIN_EXE_sweetspot");
        let line = format!("{sweetspot} profile --record {place} -- true; echo \"seen: $?\"");
        terminal.line(&line);
        terminal.wait_until(&line, |this| seen(&this.news()) == ["125"]);
        assert!(terminal.news().contains("is not for a terminal"), "{}", terminal.screen());
    }
}
