//! The library's place.

use super::*;

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
    // A home folder that is not there is not made by root, who could.
    if is_root() {
        let none = home.join("none");
        check(&[("HOME", &none)], Path::new("/var/cache/sweetspot"));
        assert!(!none.exists());
    }
}

#[test]
fn folders_are_their_owners_whatever_the_umask() {
    let place = Place::new();
    let home = place.folder.path().join("home");
    let caches = home.join("a/b");
    fs::create_dir(&home).unwrap();
    let script = "umask 0777; \"$0\" run --wait -- dd if=/dev/zero of=zeroes bs=100 count=40000 status=none &&
        exec \"$0\" run -- echo again";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_sweetspot")]).current_dir(&home);
    shell.env("SWEETSPOT_CACHE", &caches).env("XDG_STATE_HOME", home.join("c/d"));
    assert_says(&mut shell, "again\n");
    for folder in ["a", "a/b", "c", "c/d", "c/d/sweetspot"] {
        let mode = fs::metadata(home.join(folder)).unwrap().mode() & 0o7777;
        assert_eq!(mode, 0o700, "{folder}");
    }
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

/// Nobody else could have changed it: a whole one takes its place.
#[test]
fn a_damaged_library_is_written_anew() {
    let place = Place::new();
    assert_says(&mut place.run(&[], &["true"]), "");
    let good = fs::read(place.library()).unwrap();
    let check = |what: &str, bytes: &[u8]| {
        let library = place.library();
        let modified = fs::metadata(&library).unwrap().modified().unwrap();
        fs::set_permissions(&library, Permissions::from_mode(0o755)).unwrap();
        fs::write(&library, bytes).unwrap();
        fs::File::open(&library).unwrap().set_modified(modified).unwrap();
        fs::set_permissions(&library, Permissions::from_mode(0o555)).unwrap();
        assert_says(&mut place.run(&["--require"], &["echo", what]), &format!("{what}\n"));
        assert!(fs::read(place.library()).unwrap() == good, "{what}");
    };
    let mut changed = good.clone();
    changed[good.len() / 2] ^= 1;
    check("other content of the same length", &changed);
    check("an empty file", b"");
    std::thread::sleep(Duration::from_secs(3));
    assert_says(&mut place.run(&[], &["true"]), "");
    check("other content, and the times as they were, after it was noted", &changed);
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
            assert_has(&said, parts.iter().chain(&["nothing is buffered: "]));
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
