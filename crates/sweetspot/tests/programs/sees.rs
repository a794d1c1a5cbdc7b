//! The harness sees differences: programs behind wrappers that each do one thing wrong.

use crate::harness::{Place, differences};
use crate::table::{Case, DEFAULT};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const CASE: Case = Case {
    group: "harness",
    prepare: "seq 1000 > in.txt; ln -s in.txt link; mkdir folder; touch -d 2020-01-01 folder/old",
    command: "$RUN sh -c 'cat in.txt > out.txt; cat folder/old; echo said; echo complained >&2'",
    times: &["folder/old"],
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
