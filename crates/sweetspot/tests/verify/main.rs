//! `sweetspot verify`: every kind of difference is found, what differs by itself is told from it, and
//! nothing of the user's is touched.
//!
//! Differences are planted by the programs themselves, which do something else where they see that
//! they run under `run`. Everything is tried as the user who runs the tests, and where that is root
//! as `nobody` too.

use test_start::{assert_has, is_root, untold};

#[path = "../compiler/mod.rs"]
mod compiler;
#[path = "../memory_disk/mod.rs"]
mod memory_disk;
mod sandbox;

use memory_disk::Disk;

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How a shell script asks whether it runs under `run`.
const UNDER_RUN: &str = r#"[ -n "$SWEETSPOT_LEDGER" ]"#;

/// What a script does first, so that something of it is buffered; nobody can see that it did.
const BUFFERED: &str = "dd if=in.dat of=/dev/null bs=15 status=none; ";

/// Nothing that is waited for takes longer, on a busy machine; less than the program sleeps.
const PATIENCE: Duration = Duration::from_secs(50);

/// Who verifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum User {
    Ours,
    Nobody,
}

/// Whether a file in memory can have the attributes that overlays leave (Linux 6.6).
fn memory_takes_overlays() -> bool {
    let file = tempfile::tempfile_in("/dev/shm").unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::fsetxattr(&file, "user.overlay.try", b"y", flags).is_ok()
}

/// Everyone that can be tried here.
fn users() -> Vec<User> {
    if is_root() { vec![User::Ours, User::Nobody] } else { vec![User::Ours] }
}

#[track_caller]
fn succeed(command: &mut Command) {
    let status = command.status();
    assert!(status.as_ref().is_ok_and(|status| status.success()), "{command:?}: {status:?}");
}

/// A work folder and a cache of its own.
struct Place {
    folder: TempDir,
    user: User,
}

impl Place {
    fn new(user: User) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let place = Place { folder, user };
        for name in ["work", "home"] {
            fs::create_dir(place.folder.path().join(name)).unwrap();
        }
        place.write("in.dat", &"a line of text\n".repeat(5000));
        place.write("old.dat", "old\n");
        if user == User::Nobody {
            fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
            succeed(Command::new("chown").args(["-R", "nobody:nogroup"]).arg(place.folder.path()));
        }
        place
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.work().join(name), content).unwrap();
    }

    /// `sweetspot verify` with its options and a command.
    fn verify(&self, options: &[&str], command: &[&str]) -> Command {
        let mut words = match self.user {
            User::Ours => Command::new(env!("CARGO_BIN_EXE_sweetspot")),
            User::Nobody => {
                let mut words = Command::new("setpriv");
                words.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]);
                words.arg(env!("CARGO_BIN_EXE_sweetspot"));
                words
            }
        };
        untold(&mut words);
        match memory_takes_overlays() {
            // A disk looks long for the number of a new file where thousands have just been removed.
            true => words.env("TMPDIR", "/dev/shm"),
            false => words.env_remove("TMPDIR"),
        };
        words.env("SWEETSPOT_CACHE", self.folder.path().join("home/cache"));
        words.env("HOME", self.folder.path().join("home")).current_dir(self.work());
        words.arg("verify").args(options).arg("--").args(command).stdin(Stdio::null());
        words
    }

    /// All names in the work folder with what is in them.
    fn state(&self) -> Vec<(String, Vec<u8>)> {
        let mut state: Vec<_> = fs::read_dir(self.work())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.display().to_string(), fs::read(&path).unwrap_or_default()))
            .collect();
        state.sort();
        state
    }

    /// Verifies a script of which something is buffered; expects a status and these words, and that
    /// nothing was touched.
    #[track_caller]
    fn check(&self, options: &[&str], script: &str, status: i32, expected: &[&str]) -> String {
        let before = self.state();
        let buffered = format!("{BUFFERED}{script}");
        let output = self.verify(options, &["sh", "-c", &buffered]).output().unwrap();
        let said = said(&output, status, expected);
        assert_eq!(self.state(), before, "{script}: something of the user's was touched");
        said
    }
}

#[track_caller]
fn said(output: &Output, status: i32, expected: &[&str]) -> String {
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert_eq!(output.status.code(), Some(status), "{text}");
    assert_has(&text, expected);
    text
}

/// Where nothing was buffered, nothing was proved; the reason is the real one.
#[test]
fn where_nothing_was_buffered_it_cannot_be_told() {
    for user in users() {
        let place = Place::new(user);
        let compile = |source: &Path, name: &str| {
            let program = place.work().join(name);
            succeed(Command::new("cc").arg("-w").arg("-o").arg(&program).arg(source));
        };
        place.write(
            "stream.c",
            "#include <stdio.h>\nint main(void) { FILE *file = fopen(\"out\", \"w\");\n\
             setvbuf(file, NULL, _IONBF, 0);\n\
             for (int i = 0; i < 400000; i++) fputs(\"a record\", file); return fclose(file); }\n",
        );
        compile(&place.work().join("stream.c"), "stream");
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/c");
        compile(&programs.join("shares_memory.c"), "shares");
        let check = |options: &[&str], command: &[&str], status: i32, parts: &[&str]| {
            said(&place.verify(options, command).output().unwrap(), status, parts);
        };
        let stdio = "cannot tell: its calls are made by C's stdio; try: --stdio\n";
        check(&[], &["./stream"], 3, &[stdio]);
        check(&["--stdio"], &["./stream"], 0, &["identical\n", "400,000 calls requested, "]);
        let shared = "cannot tell: the process shares writable memory with another";
        check(&[], &["./shares", "file", "1"], 3, &[shared]);
        check(&[], &["./shares", "none", "20"], 0, &["identical\n"]);
        let few = "cannot tell: no file was read or written often enough\n";
        check(&[], &["true"], 3, &[few]);
    }
}

#[test]
fn what_is_the_same_is_identical() {
    for user in users() {
        let place = Place::new(user);
        let copy = ["dd", "if=in.dat", "of=out.dat", "bs=15", "status=none"];
        let mut verify = place.verify(&["--sizes", "auto,512", "--runs", "2"], &copy);
        let output = verify.env_remove("TMPDIR").output().unwrap();
        let text = said(
            &output,
            0,
            &["identical\n", "compared   1 file of 75,000 bytes, stdout 0 bytes", "exit status 0"],
        );
        // Two runs at each size, and in each of them fewer calls than natively: 5,000 reads and writes, one
        // that finds the end, and one question for the position.
        assert_eq!(text.matches("10,002 calls requested").count(), 4, "{text}");
        assert!(text.contains("auto: 10,002"), "{text}");
        assert!(!place.work().join("out.dat").exists());

        place.check(
            &[],
            "rm old.dat; mkdir -p d/e; echo x > d/e/f; ln d/e/f g; mv in.dat d; kill -9 $$",
            0,
            &["identical", "2 removed", "ended by signal 9"],
        );
    }
}

/// A script that does one thing natively and another under `run`.
fn planted(natively: &str, under_run: &str) -> String {
    format!("if {UNDER_RUN}; then {under_run}; else {natively}; fi")
}

/// Natively, under `run`, and how the difference is listed.
const KINDS: &[(&str, &str, &str)] = &[
    ("printf abcd > f1", "printf abXd > f1", "/f1: its content (4 bytes | 4 bytes)"),
    ("printf abc > f2", "printf ab > f2", "/f2: its content (3 bytes | 2 bytes)"),
    ("echo x >> f3", ":", "/f3: its content (6 bytes | 4 bytes)"),
    (":", "echo x >> f4", "/f4: its content (4 bytes | 6 bytes)"),
    ("echo > f5", "echo > f5; chmod 600 f5", "/f5: its mode (mode 644 | mode 600)"),
    ("chmod 640 f6", ":", "/f6: its mode (mode 640 | mode 644)"),
    ("mkdir -m 0 c1; echo > c2; chmod 0 c2", "mkdir c1", "/c1: its mode (mode 0 | mode 755)"),
    ("echo > f7; ln f7 g7", "echo > f7; echo > g7", "/f7: its names (2 names, one of them"),
    ("ln -s a f8", "ln -s b f8", "/f8: what it is (a link to a | a link to b)"),
    ("mkfifo f9", "mkdir f9", "/f9: what it is (of type"),
    ("rm f10", ":", "/f10: whether it is there (missing | there)"),
    ("mv f11 g11", "cp f11 g11", "/f11: whether it is there (missing | there)"),
    ("rm f12; mkdir f12", "rm f12", "/f12: whether it is there (there | missing)"),
    (
        "echo > f13; touch -d @1000 f13",
        "echo > f13; touch -d @1001 f13",
        "/f13: its time of modification (modified 1000.0",
    ),
    (
        "python3 -c 'import os; os.setxattr(\"f14\", \"user.a\", b\"b\")'",
        "python3 -c 'import os; os.setxattr(\"f14\", \"user.a\", b\"c\")'",
        "/f14: its attributes (user.a=b | user.a=c)",
    ),
    ("echo a", "echo b", "stdout: its content (2 bytes | 2 bytes)"),
    ("echo a >&2", ":", "stderr: its content (2 bytes | 0 bytes)"),
];

#[test]
fn every_kind_of_difference_is_found() {
    for user in users() {
        let place = Place::new(user);
        for name in ["f3", "f4", "f6", "f10", "f11", "f12", "f14"] {
            let path = place.work().join(name);
            fs::copy(place.work().join("old.dat"), &path).unwrap();
            if user == User::Nobody {
                succeed(Command::new("chown").arg("nobody:nogroup").arg(&path));
            }
        }
        let all = |side: fn(&(&'static str, &'static str, &'static str)) -> &'static str| {
            KINDS.iter().map(side).collect::<Vec<_>>().join("\n")
        };
        let natively = format!("{}\nexit 3", all(|kind| kind.0));
        let under_run = format!("{}\nexit 4", all(|kind| kind.1));
        let mut expected = vec!["differs\n", "first      the end: how it ends", "exit status 4"];
        expected.extend(KINDS.iter().map(|kind| kind.2));
        place.check(&[], &planted(&natively, &under_run), 1, &expected);
    }
}

#[test]
fn the_first_difference_is_shown() {
    let place = Place::new(User::Ours);
    let check = |natively: &str, under_run: &str, expected: &[&str]| {
        let all = [&["differs\n", "again      sweetspot verify -- sh -c"], expected].concat();
        place.check(&[], &planted(natively, under_run), 1, &all);
    };
    check(
        "printf 'ab\ncdef' > out",
        "printf 'ab\ncXef' > out",
        &[
            "/out: its content from byte 4 (line 2) on",
            "as it is   7 bytes: \"def\"",
            "under run  7 bytes: \"Xef\"",
        ],
    );
    check("printf abc > out", "printf ab > out", &["byte 2", "3 bytes: \"c\"", "2 bytes, ends"]);
    check("exit 9", "kill -9 $$", &["as it is   exit status 9", "under run  ended by signal 9"]);
    check("kill -10 $$", "kill -12 $$", &["ended by signal 10", "ended by signal 12"]);
    check(
        "echo > a; sleep 1.1; echo > b",
        "echo > b; sleep 1.1; echo > a",
        &["/b: the order of modification", "modified after", "modified before"],
    );
    if is_root() {
        check("chown 1:2 old.dat", "chown 1:3 old.dat", &["owner 1, group 2", "owner 1, group 3"]);
    }
}

/// A library that buffers naively loses what it holds when its program is killed.
#[test]
fn a_wrong_library_is_found() {
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("verify-naive.so");
    compiler::compile("naive", &["-shared", "-fPIC"], &library);
    let place = Place::new(User::Ours);
    let program = "import os\nfile = open(\"out\", \"wb\", buffering=0)\n\
                   for i in range(1000): file.write(b\"0123456789\")\nos.kill(os.getpid(), 9)";
    let script = format!(
        "{UNDER_RUN} && export LD_PRELOAD={}:$LD_PRELOAD; exec python3 -c '{program}'",
        library.display()
    );
    place.check(&[], &script, 1, &["/out: its content from byte", "as it is   10,000 bytes"]);
    let script = format!("exec python3 -c '{program}'");
    place.check(&[], &script, 0, &["ended by signal 9", "1 file of 10,000 bytes"]);
}

#[test]
fn what_differs_by_itself_is_told_from_it() {
    for user in users() {
        let place = Place::new(user);
        // Times, process numbers, temporary names.
        place.check(
            &[],
            "date +%T.%N; echo $$ > pid; date +%s.%N >&2; f=$(mktemp keep.XXXXXX); echo $f | tee $f",
            0,
            &["identical", "the rest was compared", "stdout: times", "/pid: times", "temporary names"],
        );
        // Everything else that is random cannot be told.
        place.check(
            &[],
            "head -c 100 /dev/urandom > random; echo > out",
            3,
            &["cannot tell: the program's own results differ", "/random: its content"],
        );
        place.check(
            &[],
            "od -An -N8 -tu8 /dev/urandom",
            3,
            &["cannot tell", "stdout: its content"],
        );
        // But a difference elsewhere is one.
        let planted = format!("head -c 100 /dev/urandom > random; {UNDER_RUN} && echo > out");
        place.check(&[], &planted, 1, &["differs", "/out: whether it is there", "/random"]);
        let planted = format!("date; {UNDER_RUN} && echo total 2 || echo total 1");
        place.check(&[], &planted, 1, &["differs", "stdout: its content"]);
        let planted =
            format!("f=$(mktemp k.XXXXXX); echo x > $f; {UNDER_RUN} && echo y > $f; true");
        place.check(&[], &planted, 1, &["differs", "its content from byte 0"]);
    }
}

/// In a user namespace folders of others cannot be copied, but written in all the same.
#[test]
fn folders_and_files_of_others() {
    if !is_root() {
        return;
    }
    let place = Place::new(User::Nobody);
    fs::create_dir_all(place.work().join("open/below")).unwrap();
    for folder in ["open", "open/below"] {
        let path = place.work().join(folder);
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let write = "echo > open/new; echo > open/below/new; echo > /var/tmp/sweetspot-test-new";
    let text = place.check(&[], write, 0, &["identical", "3 files of 3 bytes", "exit status 0"]);
    assert!(!text.contains("belongs to another"), "{text}");
    assert!(!Path::new("/var/tmp/sweetspot-test-new").exists());
    // Natively forbidden, and so it is here.
    place.check(&[], "echo > /etc/new", 0, &["exit status 2", "0 files"]);
    let file = place.work().join("theirs");
    fs::write(&file, "theirs").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    place.check(&[], "echo > theirs", 0, &["exit status 2", "/theirs belongs to another user"]);
}

#[test]
fn what_cannot_be_buffered_cannot_be_told() {
    let place = Place::new(User::Ours);
    place.write("static.c", "int main(void) { return 0; }");
    let options = ["-static", "-o", "static", "static.c"];
    succeed(compiler::gcc().args(options).current_dir(place.work()));
    let output = place.verify(&[], &["./static"]).output().unwrap();
    said(&output, 3, &["cannot tell: ", "statically linked"]);
    let output = place.verify(&[], &["dd"]).env("SWEETSPOT", "off").output().unwrap();
    said(&output, 2, &["SWEETSPOT=off is set"]);
    let output = place.verify(&[], &["/no/such"]).output().unwrap();
    said(&output, 2, &["no such file"]);
    let output = place.verify(&["--sizes", "many"], &["dd"]).output().unwrap();
    said(&output, 2, &["'many' is not a size"]);
}

#[test]
fn in_place_it_changes_what_the_program_changes() {
    for user in users() {
        let place = Place::new(user);
        let script = format!("{BUFFERED}cat in.dat >> old.dat; echo new > out; rm -f gone");
        let script = ["sh", "-c", &script];
        let prepare = ["--prepare", "echo old > old.dat; touch gone; rm -f out"];
        let output = place.verify(&prepare, &script).output().unwrap();
        said(
            &output,
            0,
            &["identical", "2 files of 75,008 bytes, 1 removed", "in place: looked at"],
        );
        assert_eq!(fs::read(place.work().join("out")).unwrap(), b"new\n");
        // Without setting back it grows from run to run.
        let output = place.verify(&["--in-place"], &script).output().unwrap();
        said(&output, 3, &["cannot tell", "/old.dat: its content"]);
        let planted = format!("{UNDER_RUN} && echo a > old.dat || echo b > old.dat");
        let output = place.verify(&["--in-place"], &["sh", "-c", &planted]).output().unwrap();
        said(&output, 1, &["/old.dat: its content from byte 0", "\"b\\n\"", "\"a\\n\""]);
        let output = place.verify(&["--prepare", "exit 7"], &["true"]).output().unwrap();
        said(&output, 2, &["--prepare failed (exit status: 7)"]);
    }
}

#[test]
fn every_run_reads_the_same_input() {
    let place = Place::new(User::Ours);
    let verify = |stdin: Stdio| {
        let script = format!("{BUFFERED}read line; echo $line; wc -c");
        let script = ["sh", "-c", &script];
        place.verify(&[], &script).stdin(stdin).stdout(Stdio::piped()).spawn().unwrap()
    };
    let mut file = fs::File::open(place.work().join("in.dat")).unwrap();
    file.seek(SeekFrom::Start(2)).unwrap();
    let output = verify(file.into()).wait_with_output().unwrap();
    said(&output, 0, &["identical", "stdout 19 bytes"]);
    let mut child = verify(Stdio::piped());
    child.stdin.take().unwrap().write_all(b"first\nsecond\n").unwrap();
    said(&child.wait_with_output().unwrap(), 0, &["identical", "stdout 8 bytes"]);
}

/// Where `run` fails before the program begins, nothing was compared: that is no difference.
#[test]
fn a_run_that_fails_by_itself_is_no_difference() {
    let place = Place::new(User::Ours);
    place.write("rules.toml", "");
    place.write("sweetspot.toml", "[[rule]]\nbuffer = \"lots\"\n");
    let output = place.verify(&[], &["true"]).output().unwrap();
    said(&output, 2, &["sweetspot.toml:2: buffer: 'lots' is not a size", "fix that first"]);
    let options = ["--prepare", "echo '[[' > rules.toml", "--config", "rules.toml"];
    let output = place.verify(&options, &["true"]).output().unwrap();
    said(&output, 2, &["`run` itself has failed: rules.toml:1: ", "a rule looks like"]);
}
