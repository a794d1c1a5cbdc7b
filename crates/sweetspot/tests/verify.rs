//! `sweetspot verify`: every kind of difference is found, what differs by itself is told from it, and
//! nothing of the user's is touched.
//!
//! Differences are planted by the programs themselves, which do something else where they see that
//! they run under `run`. Everything is tried as the user who runs the tests, and where that is root
//! as `nobody` too.

use test_start as _;

mod compiler;

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

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
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
        for name in ["IO_BUFFER_SIZE", "SWEETSPOT", "SWEETSPOT_LEDGER", "LD_PRELOAD", "TMPDIR"] {
            words.env_remove(name);
        }
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
    for part in expected {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
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
             for (int i = 0; i < 50000; i++) fputs(\"a record\", file); return fclose(file); }\n",
        );
        compile(&place.work().join("stream.c"), "stream");
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/c");
        compile(&programs.join("shares_memory.c"), "shares");
        let check = |options: &[&str], command: &[&str], status: i32, parts: &[&str]| {
            said(&place.verify(options, command).output().unwrap(), status, parts);
        };
        let stdio = "cannot tell: its calls are made by C's stdio; try: --stdio\n";
        check(&[], &["./stream"], 3, &[stdio]);
        check(&["--stdio"], &["./stream"], 0, &["identical\n", "50000 calls became "]);
        let shared = "cannot tell: the process shares writable memory with another";
        check(&[], &["./shares", "file", "1"], 3, &[shared]);
        check(&[], &["./shares", "none", "1"], 0, &["identical\n"]);
        let few = "cannot tell: no file was read or written often enough\n";
        check(&[], &["true"], 3, &[few]);
    }
}

#[test]
fn what_is_the_same_is_identical() {
    for user in users() {
        let place = Place::new(user);
        let copy = ["dd", "if=in.dat", "of=out.dat", "bs=15", "status=none"];
        let output = place.verify(&["--sizes", "auto,512", "--runs", "2"], &copy).output().unwrap();
        let text = said(
            &output,
            0,
            &[
                "identical\n",
                "compared   1 file of 75000 bytes, stdout of 0 bytes",
                "exit status 0",
            ],
        );
        // Two runs at each size, and in each of them fewer calls than natively: 5,000 reads and writes, one
        // that finds the end, and one question for the position.
        assert_eq!(text.matches("10002 calls became").count(), 4, "{text}");
        assert!(text.contains("auto: 10002"), "{text}");
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
    place.check(&[], &script, 1, &["/out: its content from byte", "as it is   10000 bytes"]);
    let script = format!("exec python3 -c '{program}'");
    place.check(&[], &script, 0, &["ended by signal 9", "1 file of 10000 bytes"]);
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
            &["identical", "compared but for that", "stdout: times", "/pid: times", "temporary names"],
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
    said(&output, 2, &["there is no such file"]);
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
            &["identical", "2 files of 75008 bytes, 1 removed", "in place: looked at"],
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
    said(&output, 0, &["identical", "stdout of 19 bytes"]);
    let mut child = verify(Stdio::piped());
    child.stdin.take().unwrap().write_all(b"first\nsecond\n").unwrap();
    said(&child.wait_with_output().unwrap(), 0, &["identical", "stdout of 8 bytes"]);
}

/// A descriptor leads around every overlay: what is written by `/dev/stdin` must not reach the file.
#[test]
fn the_file_that_is_standard_input_is_not_changed() {
    let place = Place::new(User::Ours);
    let script = "read line; echo more > /dev/stdin; chmod 777 /dev/stdin; cat; cat in.dat";
    let before = place.state();
    let named = place.work().join("in.dat");
    // One that has no name any more is copied.
    let unnamed = place.work().join("gone.dat");
    fs::copy(&named, &unnamed).unwrap();
    let inputs = [fs::File::open(&named).unwrap(), fs::File::open(&unnamed).unwrap()];
    fs::remove_file(&unnamed).unwrap();
    for input in inputs {
        let mut kept = input.try_clone().unwrap();
        let output = place.verify(&[], &["sh", "-c", script]).stdin(input).output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
        assert_eq!(place.state(), before);
        let (mode, mut text) = (kept.metadata().unwrap().permissions().mode(), String::new());
        kept.seek(SeekFrom::Start(0)).and_then(|_| kept.read_to_string(&mut text)).unwrap();
        assert_eq!((mode & 0o777, text), (0o644, "a line of text\n".repeat(5000)));
    }
}

/// In a user namespace that allows no further ones, without rights: as where a policy forbids them.
#[test]
fn where_the_kernel_refuses_it_says_so() {
    let place = Place::new(User::Ours);
    let refusing = "echo 0 > /proc/sys/user/max_user_namespaces && \
                    exec setpriv --bounding-set=-all --inh-caps=-all \"$@\"";
    let verify = place.verify(&[], &["touch", "out"]);
    let mut command = Command::new("unshare");
    command.args(["-Ur", "sh", "-c", refusing, "sh"]).arg(verify.get_program());
    command.args(verify.get_args()).current_dir(place.work());
    command.env("SWEETSPOT_CACHE", place.folder.path().join("cache"));
    let output = command.output().unwrap();
    let offers = [
        "a sandbox is not possible here: cannot make a user namespace",
        "--prepare CMD",
        "--in-place",
    ];
    said(&output, 2, &offers);
    assert!(!place.work().join("out").exists(), "nothing was run");
}

/// A small disk, mounted where the tests may do so.
struct Disk(PathBuf);

impl Disk {
    /// `None` where the tests may not, which is said, and in CI is a failure.
    fn mount(folder: PathBuf) -> Option<Disk> {
        if !is_root() {
            assert!(std::env::var_os("CI").is_none(), "needs root to mount a small disk");
            eprintln!("skipped: a small disk needs root");
            return None;
        }
        fs::create_dir(&folder).unwrap();
        let options = ["-t", "tmpfs", "-o", "size=10m,mode=777", "small"];
        succeed(Command::new("mount").args(options).arg(&folder));
        Some(Disk(folder))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A folder below which something is mounted cannot have an overlay, and works all the same.
#[test]
fn mounts_below_the_work_folder() {
    for user in users() {
        let place = Place::new(user);
        std::os::unix::fs::symlink("old.dat", place.work().join("link")).unwrap();
        let Some(disk) = Disk::mount(place.work().join("disk")) else { return };
        fs::write(disk.0.join("on-disk"), "on disk\n").unwrap();
        fs::set_permissions(disk.0.join("on-disk"), fs::Permissions::from_mode(0o666)).unwrap();
        let script = "cat in.dat link > disk/new; echo > out; echo x > disk/other; mktemp -d \
                      > /dev/null; rm link; ls";
        place.check(&[], script, 0, &["identical", "3 files of 75007 bytes, 1 removed"]);
        assert_eq!(fs::read_dir(&disk.0).unwrap().count(), 1);
        place.check(&[], &planted("rm link", ":"), 1, &["/link: whether it is there"]);
        place.check(&[], &planted(":", "echo x > disk/new"), 1, &["/disk/new: whether"]);
        // What lies in such a folder itself can be read, and not be written.
        place.check(&[], "echo x >> in.dat", 0, &["exit status 2"]);
    }
}

/// Others go on working in a folder while it is replaced by one of the sandbox's own.
#[test]
fn what_others_remove_meanwhile_is_no_change() {
    let place = Place::new(User::Ours);
    let Some(_disk) = Disk::mount(place.work().join("disk")) else { return };
    let goes_on = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let names: Vec<_> = (0..100).map(|n| place.work().join(format!("busy-{n}"))).collect();
            while goes_on.load(Ordering::Relaxed) {
                names.iter().for_each(|name| fs::write(name, "").unwrap());
                names.iter().for_each(|name| fs::remove_file(name).unwrap());
            }
        });
        let counts_them = (0..5).any(|_| {
            let copy = ["sh", "-c", "cat in.dat > disk/new"];
            let output = place.verify(&[], &copy).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            !text.contains("compared   1 file of ") || text.contains("removed")
        });
        goes_on.store(false, Ordering::Relaxed);
        assert!(!counts_them, "files of others count as removed");
    });
}

#[test]
fn a_small_disk_is_said() {
    let place = Place::new(User::Ours);
    let Some(disk) = Disk::mount(place.folder.path().join("disk")) else { return };
    let folder = disk.0.display().to_string();
    let write = |megabytes: u32| format!("head -c {megabytes}000000 /dev/zero > out");
    place.check(&["--dir", &folder], &write(12), 2, &["the disk is full", "--dir DIR"]);
    // Two of them fit, a third one would not: then only hashes are kept.
    place.check(&["--dir", &folder], &write(3), 0, &["identical", "only hashes are kept"]);
    let planted = format!("{}; {UNDER_RUN} && echo x >> out; true", write(3));
    place.check(&["--dir", &folder], &planted, 1, &["/out: its content after byte 2097152"]);
}

#[test]
fn interrupted_it_leaves_nothing() {
    let place = Place::new(User::Ours);
    let disk = place.folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let script = ["sh", "-c", "mkdir -m 0 closed; echo > out; exec sleep 60"];
    let options = ["--dir", &disk.display().to_string()];
    let mut child = place.verify(&options, &script).stderr(Stdio::null()).spawn().unwrap();
    let is_there = || fs::read_dir(&disk).unwrap().next().is_some();
    let started = Instant::now();
    while !is_there() && started.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    // Somewhere between the first mount and the end of the first run.
    std::thread::sleep(Duration::from_millis(300));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
    assert!(started.elapsed() < PATIENCE, "it did not wait for the program");
    assert!(!is_there(), "its scratch folder is left");
    assert!(!place.work().join("out").exists());
}

/// What a run makes outside of all files is gone with it, and disks are out of its reach.
#[test]
fn what_is_no_file_is_isolated_too() {
    for user in users() {
        let place = Place::new(user);
        let script = "ipcmk -M 28679 > /dev/null && ipcmk -Q > /dev/null && ipcmk -S 3 > /dev/null\n\
                      for name in /dev/*; do test ! -b $name || echo $name >&2; done\n\
                      test ! -e /dev/mem -a ! -e /dev/port -a ! -e /dev/loop-control || echo mem >&2\n\
                      if mknod disk b 7 0 2> /dev/null; then\n\
                      \x20   dd if=disk of=/dev/null count=1 2> /dev/null && echo opened >&2; rm disk\n\
                      fi\n\
                      echo x > /dev/null; head -c 9 /dev/zero | wc -c\n\
                      seq 100000 | dd bs=3 of=out status=none";
        // One namespace has them all, and only a segment can be told from those of others: by its size.
        let segments = || {
            let listed = Command::new("ipcs").arg("-m").output().unwrap().stdout;
            String::from_utf8(listed).unwrap().matches(" 28679 ").count()
        };
        let before = segments();
        let output = place.verify(&[], &["sh", "-c", script]).output().unwrap();
        said(&output, 0, &["identical\n", "stderr of 0"]);
        assert_eq!(segments(), before, "nothing is left");
    }
}

/// The machine's name and the kernel's settings stay as they are. Nothing is written here, whatever the
/// sandbox allows: it is only asked for, and the name is that of a namespace of the test's own.
#[test]
fn the_machine_keeps_its_name_and_its_settings() {
    let settings = "/proc/sys/vm/swappiness /proc/sys/kernel /proc/sysrq-trigger /sys /sys/kernel \
                    /sys/fs/cgroup /sys/fs/cgroup/*";
    let script = format!(
        "{BUFFERED}for name in {settings}; do test ! -w $name || echo $name >&2; done\n\
         ! hostname sandboxed 2> /dev/null || hostname >&2"
    );
    for user in users() {
        let place = Place::new(user);
        let verify = place.verify(&[], &["sh", "-c", &script]);
        let mut apart = Command::new("unshare");
        let own = ["--uts", "sh", "-c", "hostname before; \"$@\"; echo $?; hostname", "sh"];
        if !is_root() {
            apart.args(["--user", "--map-root-user"]);
        }
        apart.args(own).arg(verify.get_program()).args(verify.get_args()).stdin(Stdio::null());
        for (name, value) in verify.get_envs() {
            match value {
                Some(value) => apart.env(name, value),
                None => apart.env_remove(name),
            };
        }
        let output = apart.current_dir(place.work()).output().unwrap();
        let bytes = if user == User::Ours { "sandboxed\n".len() } else { 0 };
        let text = said(&output, 0, &["identical\n", &format!("stderr of {bytes}"), "before\n"]);
        assert!(text.contains("\n0\nbefore\n"), "{text}");
    }
}

/// What a sandbox leaves that is killed is removed by the next one; that of a living one stays.
#[test]
fn what_a_killed_sandbox_left_is_swept() {
    for user in users() {
        let place = Place::new(user);
        let mut command = place.verify(&[], &["sh", "-c", "touch begun; sleep 4"]);
        command.env("TMPDIR", place.work()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let started = Instant::now();
        // Other tests have sandboxes, too; it holds those open that are its own.
        let held = format!("/proc/{}/fd", child.id());
        let own = || -> Vec<PathBuf> {
            let open = fs::read_dir(&held).into_iter().flatten().flatten();
            let paths = open.filter_map(|entry| fs::read_link(entry.path()).ok());
            let is_one = |path: &PathBuf| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with("sweetspot-sandbox-")
            };
            paths.filter(is_one).collect()
        };
        while own().is_empty() || started.elapsed() < Duration::from_millis(700) {
            assert!(started.elapsed() < Duration::from_secs(20), "no sandbox was made");
            std::thread::sleep(Duration::from_millis(20));
        }
        let of_killed = own();
        let again = || {
            let mut command = place.verify(&[], &["true"]);
            command.env("TMPDIR", place.work()).output().unwrap();
        };
        again();
        assert!(of_killed.iter().all(|path| path.exists()), "it lives: {of_killed:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        while of_killed.iter().any(|path| path.exists()) {
            assert!(started.elapsed() < Duration::from_secs(40), "{of_killed:?} is left");
            std::thread::sleep(Duration::from_millis(200));
            again();
        }
    }
}

/// A name proves nothing: what the user has called so stays.
#[test]
fn what_only_has_the_name_of_a_sandbox_stays() {
    for user in users() {
        let place = Place::new(user);
        let names = ["sweetspot-sandbox-notes", "sweetspot-tune-results"];
        let folders = names.map(|name| place.work().join(name));
        folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
        if user == User::Nobody {
            succeed(Command::new("chown").args(["-R", "nobody:nogroup"]).arg(place.work()));
        }
        let mut command = place.verify(&[], &["true"]);
        command.env("TMPDIR", place.work()).output().unwrap();
        assert!(folders.iter().all(|folder| folder.exists()), "{folders:?}");
    }
}

/// No sandbox covers what an open descriptor leads to.
#[test]
fn what_the_command_would_inherit_is_refused() {
    let place = Place::new(User::Ours);
    let with = |redirection: &str, options: &[&str]| {
        let verify = place.verify(options, &["sh", "-c", "echo lost >&9; cat in.dat"]);
        let mut command = Command::new("bash");
        command.args(["-c", &format!("exec \"$@\" {redirection}"), "sh"]);
        command.arg(verify.get_program()).args(verify.get_args()).current_dir(place.work());
        verify.get_envs().for_each(|(name, value)| match value {
            Some(value) => drop(command.env(name, value)),
            None => drop(command.env_remove(name)),
        });
        command.stdin(Stdio::null()).output().unwrap()
    };
    for (redirection, name) in [("9>>old.dat", "old.dat"), ("9<in.dat", "in.dat"), ("9<.", "work")]
    {
        let output = with(redirection, &[]);
        said(&output, 2, &["descriptor 9", name, "9>&-"]);
        assert_eq!(fs::read_to_string(place.work().join("old.dat")).unwrap(), "old\n");
    }
    for harmless in ["9>/dev/null", "9> >(cat)", "9>>old.dat 9>&-"] {
        let output = with(harmless, &[]);
        assert_ne!(output.status.code(), Some(2), "{harmless}: {output:?}");
    }
    let output = with("9>>old.dat", &["--in-place"]);
    assert_ne!(output.status.code(), Some(2), "{output:?}");
}
