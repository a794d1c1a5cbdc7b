//! Programs that cannot be buffered: who says so, when, and why.

use super::*;

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
fn a_sanitizer_that_is_preloaded_comes_first() {
    let place = Place::new();
    let named = compiler::gcc().arg("-print-file-name=libasan.so").output();
    let named = named.map(|output| stdout(&output).trim().to_owned()).unwrap_or_default();
    if !named.starts_with('/') {
        return skip("libasan");
    }
    for options in WAYS.into_iter().chain([&["--summary"][..]]) {
        let mut command = place.run(options, &["sh", "-c", "echo $LD_PRELOAD"]);
        let output = command.env("LD_PRELOAD", &named).output().unwrap();
        let shown = stderr(&output);
        assert_eq!(stdout(&output), format!("{named}\n"), "{shown}");
        assert_eq!(shown.contains("AddressSanitizer"), options == ["--summary"], "{shown}");
    }
    let mut command = place.run(&["--require"], &["true"]);
    assert_fails(command.env("LD_PRELOAD", &named), 125, &["AddressSanitizer"]);
}

/// Valgrind is to find what the program does, where it does it.
#[test]
fn what_valgrind_runs_is_as_without_us() {
    let place = Place::new();
    let valgrind = "valgrind -q --track-fds=yes --trace-children=yes";
    let script = r#"echo "[$LD_PRELOAD]"; sh -c 'echo "[$LD_PRELOAD]"; exec 4</dev/null'"#;
    let start = [r#"exec $0 sh -c "$1""#, valgrind, script];
    let native = Command::new("sh").arg("-c").args(start).output().unwrap();
    if !stdout(&native).contains("vgpreload") {
        return skip("valgrind");
    }
    let without_numbers = |output: &Output| {
        stderr(output)
            .lines()
            .map(|line| {
                line.trim_start_matches(|c: char| c == '=' || c.is_ascii_digit()).to_owned()
            })
            .collect::<Vec<_>>()
    };
    let run = |options: &[&str]| place.run(options, &[&["sh", "-c"][..], &start].concat());
    for options in WAYS {
        let output = run(options).output().unwrap();
        assert_eq!(stdout(&output), stdout(&native));
        assert_eq!(without_numbers(&output), without_numbers(&native));
    }
    let counted = run(&[]).env("SWEETSPOT_VALGRIND", "1").output().unwrap();
    assert!(stdout(&counted).contains("sweetspot"), "{counted:?}");
}

/// Scripts that pack a program copy what `ldd` lists.
#[test]
fn what_a_program_needs_is_listed_without_us() {
    let place = Place::new();
    let script = "ldd /bin/sh; LD_TRACE_LOADED_OBJECTS=1 /bin/cat; LD_TRACE_LOADED_OBJECTS=1; \
                  export LD_TRACE_LOADED_OBJECTS; /bin/cat; exec /bin/cat";
    let names = |command: &mut Command| {
        let listed = stdout(&command.output().unwrap());
        listed.lines().map(|line| line.split('(').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let native = names(Command::new("sh").args(["-c", script]));
    assert!(native.iter().filter(|line| line.contains("libc.so.6")).count() >= 4, "{native:?}");
    for options in WAYS {
        assert_eq!(names(&mut place.run(options, &["sh", "-c", script])), native);
        let mut lists = place.run(options, &["cat"]);
        let listed = names(lists.env("LD_TRACE_LOADED_OBJECTS", "1"));
        assert!(!listed.iter().any(|line| line.contains("sweetspot")), "{listed:?}");
        assert!(listed.iter().any(|line| line.contains("libc.so.6")), "{listed:?}");
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
            // So many that the guard answers before the last, on a busy machine, too.
            "count=400000",
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
        assert_eq!(fs::read(place.work().join("out")).unwrap(), vec![0; 3_600_000], "{how}");
        let expected = "the system does not allow copying its descriptor";
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
    let loaded = "has run, but nothing of it was buffered: no process loaded the library";
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
    // However many programs there are, also under names that are used once.
    assert_eq!(first.2.file_name().unwrap().len(), 3, "{first:?}: of 4,096 files");
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
    let parts = ["error while loading shared libraries", "no process loaded the library"];
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
        assert_has(&said, [reason].iter().chain(parts));
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
    let source = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdlib.h>\nint main(int count, char **words) {\n\
        int flags = RTLD_NOW | atoi(words[1]);\n\
        return !(count > 2 ? dlmopen(LM_ID_BASE, \"libm.so.6\", flags) : dlopen(\"libm.so.6\", flags)); }\n";
    place.write("load.c", source);
    let compile = ["-o", "load", "load.c", "-ldl"];
    let compiled = compiler::gcc().args(compile).current_dir(place.work()).status().unwrap();
    assert!(compiled.success());
    for (words, expected) in
        [(&["0"][..], false), (&["8"], true), (&["0", "m"], false), (&["8", "m"], true)]
    {
        let command = [&["./load"], words].concat();
        let output = place.run(&["--summary"], &command).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(stderr(&output).contains("RTLD_DEEPBIND"), expected, "{}", stderr(&output));
    }
}

/// Not the library that is asked for makes calls of its own, but one that it needs.
#[test]
fn libraries_that_a_plugin_needs_end_buffering() {
    let place = Place::new();
    place.write("ring.c", "int ring(void) { return 0; }\n");
    place.write("plug.c", "int ring(void);\nint plug(void) { return ring(); }\n");
    let source = "#include <dlfcn.h>\nint main(int count, char **words) {\n\
        void *plug = dlopen(words[1], RTLD_NOW), *use = plug ? dlsym(plug, \"plug\") : 0;\n\
        return count < 2 || !use || ((int (*)(void))use)(); }\n";
    place.write("load.c", source);
    let library = ["-shared", "-fPIC", "-o"];
    let compiled = |words: &[&str]| {
        assert!(compiler::gcc().args(words).current_dir(place.work()).status().unwrap().success());
    };
    compiled(&["-o", "load", "load.c", "-ldl"]);
    for name in ["liburing.so.2", "libother.so.2"] {
        let named = format!("-Wl,-soname,{name},-rpath,.");
        compiled(&[&library[..], &[name, &named, "ring.c"]].concat());
        compiled(&[&library[..], &["plug.so", "plug.c", name, "-Wl,-rpath,."]].concat());
        let output = place.run(&["--summary"], &["./load", "./plug.so"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let expected = name == "liburing.so.2";
        assert_eq!(stderr(&output).contains("io_uring"), expected, "{}", stderr(&output));
    }
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
fn options_are_understood_where_there_is_little_stack() {
    let place = Place::new();
    let sweetspot = env!("CARGO_BIN_EXE_sweetspot");
    for options in ["--buffer-size 64K", "--buffer-size never"] {
        let run = format!("{sweetspot} run {options} -- echo begun");
        let limited = format!("ulimit -s 64; exec {run}");
        let [limited, run] = [limited, run].map(|script| {
            let output = place.run(&[], &["sh", "-c", &script]).output().unwrap();
            (output.status.code(), stdout(&output), stderr(&output))
        });
        assert_eq!(limited, run);
    }
}

/// What watches the loader has a C library of its own: nothing of its calls is seen.
#[test]
fn what_watches_the_loader_ends_buffering() {
    let place = Place::new();
    let copy = ["dd", "if=/dev/zero", "of=out", "bs=10", "count=300", "status=none"];
    let mut command = place.run(&["--summary"], &copy);
    let said = command.env("LD_AUDIT", "/dev/null").output().unwrap().stderr;
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("a library was loaded whose calls are not seen"), "{said}");
}
