//! The harness sees differences: programs behind wrappers that each do one thing wrong, and the
//! programs of the table with a library that buffers naively.

use crate::build::{self, Build};
use crate::harness::{self, Place};
use crate::seen::differences;
use crate::table::{Case, DEFAULT, cases, package_of};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const CASE: Case = Case {
    group: "harness",
    prepare: "seq 1000 > in.txt; ln -s in.txt link; mkdir folder; touch -d 2020-01-01 folder/old",
    command: "$RUN sh -c 'cat in.txt > out.txt; cat folder/old; echo said; echo complained >&2'",
    times: &["folder/old"],
    seconds_max: 3,
    ..DEFAULT
};

/// What a wrapper does with the program, and a part of what the harness must say.
const WRAPPERS: &[(&str, &str)] = &[
    ("exec \"$@\"", ""),
    (
        "\"$@\"; printf X | dd of=out.txt bs=1 seek=77 conv=notrunc status=none",
        "first difference at 77",
    ),
    ("\"$@\"; truncate -s -1 out.txt", "3892 bytes, natively 3893"),
    ("\"$@\"; printf '\\0' >> out.txt", "3894 bytes, natively 3893"),
    ("\"$@\" | tr i j", "stdout: 5 bytes"),
    ("\"$@\"; echo warning >&2", "stderr: 19 bytes"),
    ("\"$@\"; exit 1", "ended with exit 1, natively exit 0"),
    ("\"$@\"; kill -11 $$", "ended with exit 139, natively exit 0"),
    ("\"$@\"; chmod 600 out.txt", "mode 600, natively 644"),
    ("\"$@\"; chmod 700 folder", "mode 700, natively 755"),
    ("\"$@\"; touch more", "file more should not be there"),
    ("\"$@\"; rm in.txt", "file in.txt is missing"),
    ("\"$@\"; ln -sf out.txt link", "file link: another kind"),
    ("\"$@\"; ln out.txt folder/second", "2 links, natively 1"),
    ("\"$@\"; touch folder/old", "file folder/old: modified"),
    ("exit 0", "file out.txt is missing"),
    ("\"$@\"; sleep 30", "still running after 3 s"),
    ("\"$@\"; sleep 30 & exit 0", "stdout still held open"),
];

#[test]
fn the_harness_sees_every_kind_of_difference() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs-wrappers");
    fs::create_dir_all(&folder).expect("a folder for wrappers");
    for (number, (script, expected)) in WRAPPERS.iter().enumerate() {
        let wrapper = folder.join(format!("wrapper-{number}"));
        fs::write(&wrapper, format!("#!/bin/sh\n{script}\n")).expect("a wrapper");
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).expect("executable");
        let place = Place::new(&Case { name: "wrapper", ..CASE }).expect("prepared");
        let native = place.run(&CASE, "").expect("native run");
        let seen = place.run(&CASE, &wrapper.display().to_string()).expect("wrapped run");
        let found = differences(&CASE, &native, &seen).join("\n");
        place.remove();
        match *expected {
            "" => assert_eq!(found, "", "{script}"),
            _ => assert!(found.contains(expected), "{script}: {expected:?} not in {found:?}"),
        }
    }
}

#[test]
fn what_is_missing_is_said_with_its_package() {
    let check = |case: &Case, expected: Option<&str>| {
        assert_eq!(harness::missing(case).as_deref(), expected);
    };
    check(&CASE, None);
    check(&Case { needs: &["sh", "cat"], ..CASE }, None);
    let lacking = Case { needs: &["sh", "no-such-command"], ..CASE };
    check(&lacking, Some("no no-such-command (apt-get install ?)"));
    for case in cases() {
        for name in case.needs.iter().chain(case.build.iter().flat_map(|build| build.needs())) {
            assert_ne!(package_of(name), "?", "{name} is not in programs/needs.txt");
        }
    }
}

/// Programs that a library which buffers as one would at first (`programs/c/naive.c`) gets wrong.
const NAIVELY_WRONG: &[(&str, &str)] = &[
    ("c_calls", "append by 33 bytes"),
    ("c_errors", "read and pread"),
    ("c_errors", "write and pwrite"),
    ("c_errors", "vectors"),
    ("c_errors", "lseek, and what has no position"),
    ("c_errors", "sizes, flags, locks, transfers"),
    ("c_errors", "open, dup, close"),
    ("c_errors", "every way to ask for a size"),
    ("c_errors", "file size limits"),
    ("c_fuzz", "mixed"),
    ("c_sharing", "one description, many holders"),
    ("c_sharing", "one file, many descriptions"),
    ("c_sharing", "times that are set stand"),
    ("c_sharing", "what others see, and when"),
    ("c_sharing", "counters under locks"),
    ("c_sharing", "small stacks, coroutines, jumps out of handlers"),
    ("c_sharing", "inotify, leases, busy programs, seals"),
    ("c_sharing", "descriptor tables of threads and clones"),
    ("c_sharing", "one thread ends it while others write"),
    ("c_ends", "quick_exit"),
    ("c_ends", "abort"),
    ("c_ends", "segv"),
    ("c_ends", "kill"),
    ("c_ends", "exec"),
    ("c_ends", "raw-exit"),
    ("c_ends", "child-killed"),
    ("c_ends", "seccomp-filter"),
    ("cxx", "streams"),
    ("java", "RandomAccessFile"),
    ("perl", "sysread, syswrite, sysseek"),
    ("python", "descriptors"),
    ("rust", "println and File"),
];

#[test]
fn the_programs_catch_a_naive_library() {
    let mut wrong = Vec::new();
    if let Err(message) = build::make(Build::CLibrary("naive")) {
        harness::skipped(&format!("a naive library: {message}"), &mut wrong);
        return assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
    let wrapper = format!("env LD_PRELOAD={}/c/naive", build::executables().display());
    for (group, name) in NAIVELY_WRONG {
        let found = cases().find(|case| case.group == *group && case.name == *name);
        let case = found.unwrap_or_else(|| panic!("no program {group} {name} in the table"));
        if let Some(missing) = harness::missing(case) {
            harness::skipped(&format!("a naive library under {name}: {missing}"), &mut wrong);
            continue;
        }
        // A folder of its own: the same program is compared elsewhere at the same time.
        let case = Case { group: "naive", ..*case };
        let place = Place::new(&case).expect("prepared");
        let native = place.run(&case, "").expect("native run");
        let seen = place.run(&case, &wrapper).expect("run with the naive library");
        place.remove();
        if differences(&case, &native, &seen).is_empty() {
            wrong.push(format!("{group} {name}: no difference with a library that is wrong"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
