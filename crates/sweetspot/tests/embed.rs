//! Programs that know of us, by `sweetspot.h`: the examples in C and Python with the library and
//! without, and what each function promises.
//!
//! That nothing but time changes when they are called at any moment is a row of the table of real
//! programs: `c_sharing: "flushes and advice at any moment"`.

use test_start::stdout;

mod compiler;
mod memory_disk;
mod place;

use memory_disk::Disk;
use place::Place;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs that a program gets to show what a busy machine hides.
const RUNS_MAX: usize = 5;

const PRELOAD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sweetspot-preload");

impl Place {
    /// Compiles a C program with these words before its source.
    fn compile(&self, name: &str, compiler: &str, source: &Path) -> PathBuf {
        let target = self.folder.path().join(name);
        let mut words = compiler.split(' ');
        let built = Command::new(words.next().unwrap())
            .args(words)
            .arg(format!("-I{PRELOAD}/include"))
            .arg("-o")
            .arg(&target)
            .arg(source)
            .status();
        assert!(built.is_ok_and(|status| status.success()), "{compiler} {}", source.display());
        target
    }

    fn knows(&self) -> PathBuf {
        let target = self.folder.path().join("knows");
        compiler::compile("knows", &[&format!("-I{PRELOAD}/include")], &target);
        target
    }

    /// What a program says under `run` with these options.
    fn said(&self, options: &[&str], program: &[&str]) -> String {
        let mut command = self.sweetspot(&["run"]);
        let output = command.args(options).arg("--").args(program).output().unwrap();
        assert!(output.status.success(), "{program:?}: {output:?}");
        stdout(&output)
    }

    /// The same without sweetspot.
    fn said_natively(&self, program: &[&str]) -> String {
        let output =
            Command::new(program[0]).args(&program[1..]).current_dir(self.work()).output().unwrap();
        assert!(output.status.success(), "{program:?}: {output:?}");
        stdout(&output)
    }
}

/// Runs a program without sweetspot, and with it until it says what is expected: a machine that is
/// busy may start the guard after the last record.
#[track_caller]
fn check_example(place: &Place, program: &[&str], expected: &str) {
    let out = place.work().join("out.dat");
    assert_eq!(place.said_natively(program), "sweetspot is not loaded\n");
    let natively = fs::read(&out).unwrap();
    assert_eq!(natively.len(), 20_000_000);
    let said = (0..10).map(|_| place.said(&[], program)).find(|said| said == expected);
    assert!(said.is_some(), "{program:?} never says: {expected}");
    assert!(fs::read(&out).unwrap() == natively, "{program:?}: the bytes differ");
}

#[test]
fn the_example_in_c_runs_with_and_without_the_library() {
    let place = Place::new();
    let source = PathBuf::from(PRELOAD).join("examples/embed.c");
    let compilers = [
        "cc -std=c99 -Wall -Wextra -Wpedantic -Werror -D_DEFAULT_SOURCE",
        "cc -O2 -fno-pie -no-pie",
        "cc -O2 -flto",
        "c++ -x c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror",
    ];
    for compiler in compilers {
        let program = place.compile("embed", compiler, &source);
        check_example(&place, &[program.to_str().unwrap()], "writes wait\n");
    }
    let program = place.compile("embed", "cc", &source);
    let said = place.said(&["--summary=summary.txt"], &[program.to_str().unwrap()]);
    let summary = fs::read_to_string(place.work().join("summary.txt")).unwrap();
    assert!(summary.contains("/out.dat  1M"), "{said}{summary}");
    // Nothing reaches a static program, and the functions do nothing.
    let program = place.compile("embed-static", "cc -static", &source);
    check_example(&place, &[program.to_str().unwrap()], "sweetspot is not loaded\n");
}

#[test]
fn the_example_in_python_runs_with_and_without_the_library() {
    let place = Place::new();
    let source = format!("{PRELOAD}/examples/embed.py");
    check_example(&place, &["/usr/bin/python3", &source], "writes wait\n");
}

#[test]
fn the_header_may_be_included_anywhere() {
    let place = Place::new();
    let part = place.write(
        "part.c",
        "#include \"sweetspot.h\"\n#include \"sweetspot.h\"\nint (*pointer(void))(int);\n\
         int (*pointer(void))(int) { return sweetspot_status; }\n",
    );
    let main = place.write(
        "main.c",
        "#include <stdio.h>\n#include \"sweetspot.h\"\nint (*pointer(void))(int);\n\
         int main(void) { printf(\"%d %d\\n\", sweetspot_status(-1), pointer()(-1)); return 0; }\n",
    );
    for options in ["-O0", "-O2", "-O0 -flto", "-O2 -flto", "-O2 -fno-pie -no-pie"] {
        let compiler = format!("cc -Wall -Wextra -Werror {options} {}", part.display());
        let program = place.compile("parts", &compiler, &main);
        let program = program.to_str().unwrap();
        assert_eq!(place.said_natively(&[program]), "0 0\n", "{options}");
        assert_eq!(place.said(&[], &[program]), "2 2\n", "{options}");
        assert_eq!(place.said(&["--buffer-size", "off"], &[program]), "1 1\n", "{options}");
    }
}

#[test]
fn a_flush_writes_all_that_waits_at_once() {
    let place = Place::new();
    let knows = place.knows();
    let expected = "waits 1\nflush 0 errno 0\nmissing 0\nclose 0 errno 0\n";
    assert_eq!(place.said(&[], &[knows.to_str().unwrap(), "seen", "file"]), expected);
}

/// The error is told, and the program's own calls go on failing with it, until the bytes are written.
#[test]
fn an_error_of_a_flush_is_not_taken_away() {
    let place = Place::new();
    let knows = place.knows();
    let failing = |errno: i32| {
        format!("flush -1 errno {errno}\nfsync -1 errno {errno}\nflush -1 errno {errno}\n")
    };
    let well = "flush 0 errno 0\nfsync 0 errno 0\nflush 0 errno 0\n";
    // Another process sets a limit on the size of files: what was accepted before does not meet it.
    assert_eq!(
        place.said(&[], &[knows.to_str().unwrap(), "limit", "file"]),
        format!("{well}{well}close 0 errno 0\n")
    );
    let Some(disk) = Disk::mount(place.folder.path().join("disk"), 96) else {
        test_start::skip("mounting a file system needs root");
        return;
    };
    let output = place
        .sweetspot(&["run", "--"])
        .arg(&knows)
        .args(["full", "file"])
        .current_dir(&disk.0)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert_eq!(stdout(&output), format!("{}{well}missing 0\nclose 0 errno 0\n", failing(28)));
}

/// The numbers of the header: they keep their meaning for good.
#[test]
fn what_becomes_of_a_descriptor_is_said() {
    let place = Place::new();
    let knows = place.knows();
    let program = [knows.to_str().unwrap(), "status", "file"];
    let expected = "absent or off -1\nnew 4\npipe 3, closed 2, none 2, beyond 2\nwrites 16\n\
                    and reads 24\nduplicate 24\nmapped 3\nadvise mapped -1 errno 95\n\
                    advise pipe -1 errno 95\nadvise off, a pipe 0 errno 0\n\
                    advise a device -1 errno 95\nadvise closed -1 errno 9\n\
                    advise too much -1 errno 22\nclose 0 errno 0\n";
    assert_eq!(place.said(&[], &program), expected);
    let off = place.said(&["--buffer-size", "off"], &program);
    assert!(off.starts_with("absent or off 1\nnew 1\npipe 1,"), "{off}");
    let natively = place.said_natively(&program);
    assert!(natively.starts_with("absent or off 0\nnew 0\npipe 0,"), "{natively}");
}

#[test]
fn advice_holds_for_the_next_buffer() {
    let place = Place::new();
    let knows = place.knows();
    let step = "advise size 0 errno 0\nmissing 0\nnow 4\nflush 0 errno 0\nat most 1, at least 1\n";
    let expected = format!("{}all 1\nclose 0 errno 0\n", step.repeat(4));
    let program = [knows.to_str().unwrap(), "sizes", "file"];
    // On a busy machine what waits may leave before there is as much of it as was asked for.
    let said = |options: &[&str]| {
        let mut runs = (0..RUNS_MAX).map(|_| place.said(options, &program));
        runs.find(|said| *said == expected).unwrap_or_else(|| place.said(options, &program))
    };
    assert_eq!(said(&[]), expected);
    // It comes before the size of `run`.
    assert_eq!(said(&["--buffer-size", "3000"]), expected);
}

#[test]
fn what_is_off_stays_off() {
    let place = Place::new();
    let knows = place.knows();
    let expected = "advise off 0 errno 0\nmissing 0\noff for good 3\nadvise on -1 errno 95\n\
                    advise off again 0 errno 0\nmissing 0\nclose 0 errno 0\n";
    assert_eq!(place.said(&[], &[knows.to_str().unwrap(), "off", "file"]), expected);
    place.write("sweetspot.toml", "[[rule]]\nfile = \"file\"\nbuffer = \"off\"\n");
    let by_rule = place.said(&[], &[knows.to_str().unwrap(), "sizes", "file"]);
    assert!(by_rule.starts_with("advise size -1 errno 95\n"), "{by_rule}");
}
