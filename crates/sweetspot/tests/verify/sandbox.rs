//! The sandbox: nothing of the user's is touched, whatever the command does, and nothing is left.

use super::*;
use rustix::process::{Pid, Signal, kill_process};

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

/// `None` where the tests may mount none, which is said, and in CI is a failure.
fn small_disk(folder: PathBuf) -> Option<Disk> {
    let disk = Disk::mount(folder, 10);
    if disk.is_none() {
        test_start::skip("a small disk needs root");
    }
    disk
}

/// Where no disk takes an overlay there is memory, in which a run has a folder of its own.
#[test]
fn the_folder_of_a_run_may_lie_in_memory() {
    for user in users() {
        let place = Place::new(user);
        let options = ["--dir", "/dev/shm"];
        place.check(&options, "echo > /dev/shm/own", 0, &["identical", "1 file of 1"]);
        place.check(&options, &planted(":", "echo > out"), 1, &["/out: whether it is there"]);
    }
}

/// A root whose devices lie in a plain folder of it, as where somebody has made them by hand.
#[test]
fn devices_that_are_no_mount() {
    if !is_root() {
        test_start::skip("a root of its own needs root");
        return;
    }
    let place = Place::new(User::Ours);
    // In memory, with the machine's programs and libraries: an overlay upon an overlay would be one too many.
    let script = r#"set -e; folder=$1 binary=$2; shift
        mount --make-rprivate /; mkdir "$folder/root"; mount -t tmpfs root "$folder/root"
        cd "$folder/root"; mkdir -p dev/shm proc mnt; mknod -m 666 dev/null c 1 3
        for own in /usr /bin /lib* /etc "$folder/work" "$folder/home" "$(dirname "$binary")"; do
            if [ -L "$own" ]; then cp -P "$own" ".$own"; continue; fi
            mkdir -p ".$own"; mount --bind "$own" ".$own"
        done
        mount -t proc proc proc; pivot_root . mnt; umount -l mnt
        exec chroot . sh -c 'cd "$0"; exec "$@"' "$folder/work" "$@""#;
    let home = place.folder.path().join("home");
    let verify = |command: &[&str]| {
        let verify = place.verify(&["--dir", home.to_str().unwrap()], command);
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh"]).arg(place.folder.path());
        command.arg(verify.get_program()).args(verify.get_args());
        command.env("SWEETSPOT_CACHE", home.join("cache"));
        command.stdin(Stdio::null()).output().unwrap()
    };
    let written = format!("{BUFFERED}test -c /dev/null && echo > /dev/null && test ! -s /dev/null");
    said(&verify(&["sh", "-c", &written]), 0, &["identical", "exit status 0"]);
}

/// A folder below which something is mounted cannot have an overlay, and works all the same.
#[test]
fn mounts_below_the_work_folder() {
    for user in users() {
        let place = Place::new(user);
        std::os::unix::fs::symlink("old.dat", place.work().join("link")).unwrap();
        let Some(disk) = small_disk(place.work().join("disk")) else { return };
        fs::write(disk.0.join("on-disk"), "on disk\n").unwrap();
        fs::set_permissions(disk.0.join("on-disk"), fs::Permissions::from_mode(0o666)).unwrap();
        let script = "cat in.dat link > disk/new; echo > out; echo x > disk/other; mktemp -d \
                      > /dev/null; rm link; ls";
        place.check(&[], script, 0, &["identical", "3 files of 75,007 bytes, 1 removed"]);
        assert_eq!(fs::read_dir(&disk.0).unwrap().count(), 1);
        place.check(&[], &planted("rm link", ":"), 1, &["/link: whether it is there"]);
        place.check(&[], &planted(":", "echo x > disk/new"), 1, &["/disk/new: whether"]);
        // What lies in such a folder itself can be read, and not be written.
        place.check(&[], "echo x >> in.dat", 0, &["exit status 2"]);
    }
}

/// Each name in such a folder is a mount; where they would be too many, it says so.
#[test]
fn many_names_beside_a_mount() {
    let place = Place::new(User::Ours);
    let Some(_disk) = small_disk(place.work().join("disk")) else { return };
    let script = "cat in.dat > disk/new; ls | wc -l > disk/count; cat n-* > disk/all";
    let add = |names: std::ops::Range<u32>| {
        names.for_each(|n| fs::write(place.work().join(format!("n-{n}")), "word\n").unwrap());
    };
    add(0..400);
    place.check(&[], &format!("{script}; echo > out"), 0, &["4 files of 77,005 bytes"]);
    add(400..2_001);
    place.check(&[], script, 2, &["beside too many names", "--in-place"]);
}

/// Others go on working in a folder while it is replaced by one of the sandbox's own.
#[test]
fn what_others_remove_meanwhile_is_no_change() {
    let place = Place::new(User::Ours);
    let Some(_disk) = small_disk(place.work().join("disk")) else { return };
    let goes_on = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let names: Vec<_> = (0..100).map(|n| place.work().join(format!("busy-{n}"))).collect();
            while goes_on.load(Ordering::Relaxed) {
                names.iter().for_each(|name| fs::write(name, "").unwrap());
                names.iter().for_each(|name| fs::remove_file(name).unwrap());
            }
        });
        let counts_them = (0..3).find_map(|_| {
            let copy = ["sh", "-c", "cat in.dat > disk/new"];
            let output = place.verify(&[], &copy).output().unwrap();
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text).into_owned();
            let is_wrong = !text.contains("compared   1 file of ") || text.contains("removed");
            is_wrong.then_some(text)
        });
        goes_on.store(false, Ordering::Relaxed);
        assert_eq!(counts_them, None, "files of others count as removed");
    });
}

#[test]
fn a_small_disk_is_said() {
    let place = Place::new(User::Ours);
    let Some(disk) = small_disk(place.folder.path().join("disk")) else { return };
    let folder = disk.0.display().to_string();
    let write = |megabytes: u32| format!("head -c {megabytes}000000 /dev/zero > out");
    place.check(&["--dir", &folder], &write(12), 2, &["the disk is full", "--dir DIR"]);
    // Two of them fit, a third one would not: then only hashes are kept.
    place.check(&["--dir", &folder], &write(3), 0, &["identical", "only hashes are kept"]);
    let planted = format!("{}; {UNDER_RUN} && echo x >> out; true", write(3));
    place.check(&["--dir", &folder], &planted, 1, &["/out: its content after byte 2097152"]);
}

#[test]
fn where_shared_memory_is_full_nothing_runs() {
    if !is_root() {
        return test_start::skip("mounting a file system needs root");
    }
    let place = Place::new(User::Ours);
    let script = "mount -t tmpfs -o size=64k none /dev/shm; echo mine > /dev/shm/mine; \
                  head -c 100000 /dev/zero > /dev/shm/full 2>/dev/null; \
                  TMPDIR=/var/tmp \"$0\" verify -- rm /dev/shm/mine; echo \"status $?\"; cat /dev/shm/mine";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_sweetspot")]);
    command.env("SWEETSPOT_CACHE", place.folder.path().join("home/cache"));
    let output = command.env("HOME", place.folder.path().join("home")).output().unwrap();
    said(&output, 0, &["no room in /dev/shm", "status 2\n", "mine\n"]);
}

/// A command that a shell starts by this script, which has its words.
fn by_shell(place: &Place, script: &str, command: &Command) -> Command {
    let mut shell = Command::new("bash");
    shell.args(["-c", script, "sh"]).arg(command.get_program()).args(command.get_args());
    command.get_envs().for_each(|(name, value)| match value {
        Some(value) => drop(shell.env(name, value)),
        None => drop(shell.env_remove(name)),
    });
    shell.current_dir(place.work()).stdin(Stdio::null());
    shell
}

/// Sends a signal somewhere between the first mount and the end of the first run, and waits for the end.
fn signalled(place: &Place, script: &str, ignored: &str, signal: Signal) -> Output {
    let disk = place.folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let options = ["--dir", &disk.display().to_string()];
    let verify = place.verify(&options, &["sh", "-c", script]);
    let mut command = by_shell(place, &format!("trap '' {ignored}; exec \"$@\""), &verify);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let is_there = || fs::read_dir(&disk).unwrap().next().is_some();
    let started = Instant::now();
    while !is_there() && started.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(300));
    kill_process(Pid::from_child(&child), signal).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(started.elapsed() < PATIENCE, "it did not wait for the program");
    assert!(!is_there(), "its scratch folder is left");
    output
}

#[test]
fn interrupted_it_leaves_nothing() {
    let place = Place::new(User::Ours);
    let script = "mkdir -m 0 closed; echo > out; exec sleep 60";
    said(&signalled(&place, script, "USR1", Signal::TERM), 2, &["interrupted"]);
    assert!(!place.work().join("out").exists());
}

/// `nohup` has it go on when the terminal goes.
#[test]
fn a_hang_up_that_is_ignored_stays_ignored() {
    let place = Place::new(User::Ours);
    let output = signalled(&place, "exec sleep 1", "HUP", Signal::HUP);
    said(&output, 3, &["cannot tell: no file was read or written often enough\n"]);
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
        said(&output, 0, &["identical\n", "stderr 0"]);
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
        let text = said(&output, 0, &["identical\n", &format!("stderr {bytes}"), "before\n"]);
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
        let killed = Instant::now();
        while of_killed.iter().any(|path| path.exists()) {
            assert!(killed.elapsed() < 2 * PATIENCE, "{of_killed:?} is left");
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
        by_shell(&place, &format!("exec \"$@\" {redirection}"), &verify).output().unwrap()
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

/// Others mount and unmount, and remove the folders in which they did.
#[test]
fn what_others_mounted_goes_meanwhile() {
    if !is_root() {
        test_start::skip("mounting needs root");
        return;
    }
    let place = Place::new(User::Ours);
    let goes_on = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let others: Vec<_> = (0..8).map(|n| place.folder.path().join(format!("{n}"))).collect();
            while goes_on.load(Ordering::Relaxed) {
                for other in &others {
                    fs::create_dir_all(other.join("work/disk")).unwrap();
                    std::os::unix::fs::symlink("disk", other.join("work/link")).unwrap();
                    let flags = rustix::mount::MountFlags::empty();
                    rustix::mount::mount("none", other.join("work/disk"), "tmpfs", flags, None)
                        .unwrap();
                }
                for other in &others {
                    let flags = rustix::mount::UnmountFlags::DETACH;
                    rustix::mount::unmount(other.join("work/disk"), flags).unwrap();
                    fs::remove_dir_all(other).unwrap();
                }
            }
        });
        let copy = format!("{BUFFERED}cp in.dat out");
        let failed = (0..3).find_map(|_| {
            let output = place.verify(&[], &["sh", "-c", &copy]).output().unwrap();
            (output.status.code() != Some(0)).then_some(output)
        });
        goes_on.store(false, Ordering::Relaxed);
        assert!(failed.is_none(), "{failed:?}");
    });
}

/// The folder of the user's state may be named by a link; what is kept there of the runs is no difference.
#[test]
fn what_is_kept_behind_a_link_is_no_difference() {
    let place = Place::new(User::Ours);
    let [kept, link] = ["kept", "link"].map(|name| place.folder.path().join(name));
    fs::create_dir(&kept).unwrap();
    std::os::unix::fs::symlink(&kept, &link).unwrap();
    let script = format!("{BUFFERED}for i in 1 2 3; do cat in.dat; done > out");
    let mut verify = place.verify(&["--sizes", "64K"], &["sh", "-c", &script]);
    let output = verify.env("XDG_STATE_HOME", &link).output().unwrap();
    said(&output, 0, &["identical\n"]);
}
