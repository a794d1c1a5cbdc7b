//! Files on a mount of their own, natively and with each size: when it can be unmounted, when their room is there
//! again, whether reads show, whose number changes, and which a thread of the program itself serves or keeps waiting.
//!
//! Needs root, to mount in a namespace of mounts; without it the skip is printed, and with `CI` set a skip is a
//! failure.

use test_start as _;

mod compiler;

use std::fs;
use std::process::Command;

fn check(way: &str) {
    check_program("mounted", way);
}

fn check_program(name: &str, way: &str) {
    let Some((natively, buffered)) = said(name, way) else { return };
    for (size, said) in buffered {
        assert_eq!(said.as_ref(), Some(&natively), "{name} {way}, {size}");
    }
}

/// What a program says at each size.
type Buffered = Vec<(&'static str, Option<String>)>;

/// What it says natively, and so.
fn said(name: &str, way: &str) -> Option<(String, Buffered)> {
    let place = tempfile::tempdir().unwrap();
    let [program, folder, work, cache] =
        [name, "mnt", "work", "cache"].map(|name| place.path().join(name));
    compiler::compile(name, &[], &program);
    fs::create_dir(&work).unwrap();
    let said = |run: Option<&str>| {
        let mut command = Command::new("unshare");
        command.arg("-m").current_dir(&work);
        if let Some(size) = run {
            command.env("SWEETSPOT_CACHE", &cache).arg(env!("CARGO_BIN_EXE_sweetspot"));
            command.args(["run", "--buffer-size", size, "--"]);
        }
        let output = command.arg(&program).arg(way).arg(&folder).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    };
    let Some(natively) = said(None) else {
        test_start::skip("mounting a file system needs root");
        return None;
    };
    Some((natively, ["auto", "512", "1M"].map(|size| (size, said(Some(size)))).to_vec()))
}

/// Another process that is told of a close by a name, or by rights, may unmount at once.
#[test]
fn a_mount_is_free_when_anything_tells_of_the_close() {
    check("told");
}

#[test]
fn what_has_no_name_is_free_when_it_is_closed() {
    check("nameless");
}

#[test]
fn each_read_shows_where_its_time_is_kept() {
    check("reads");
}

#[test]
fn each_read_shows_from_the_moment_when_its_time_is_kept() {
    check("strict");
}

#[test]
fn who_can_unmount_knows_who_is_dead() {
    check("left");
}

#[test]
fn a_file_that_is_copied_up_is_one_file() {
    check("copied");
}

#[test]
fn a_program_uses_the_file_system_that_it_serves() {
    check_program("answers", "fuse");
}

#[test]
fn what_a_server_does_at_a_write_is_seen() {
    check_program("answers", "served");
}

#[test]
fn room_is_counted_in_the_blocks_of_the_file_system() {
    check_program("answers", "small");
}

#[test]
fn each_read_reaches_a_server_that_makes_each_answer() {
    check_program("direct", "each");
}

#[test]
fn a_server_that_answers_when_all_is_there_is_asked_for_no_more() {
    check_program("direct", "steps");
}

#[test]
fn what_the_kernel_keeps_for_a_server_is_read() {
    check_program("direct", "cached");
}

#[test]
fn each_write_is_a_request_to_a_server_that_wants_it_so() {
    check_program("direct", "records");
}

/// Whether the file may be read, too, or not, or is open for appending.
#[test]
fn what_is_written_waits_where_the_kernel_keeps_the_file() {
    let mut found = Vec::new();
    for _ in 0..KEPT_TRIES_MAX {
        let Some((natively, buffered)) = said("direct", "kept") else { return };
        assert_eq!(natively.matches("in many requests").count(), 3, "{natively}");
        let is_kept = |said: &Option<String>| {
            said.as_ref().is_some_and(|said| said.matches("in few requests").count() == 3)
        };
        if buffered.iter().all(|(_, said)| is_kept(said)) {
            return;
        }
        found = buffered;
    }
    panic!("{found:?}");
}

/// On a busy machine the guard may grant a buffer when most of a file is written.
const KEPT_TRIES_MAX: u32 = 8;

#[test]
fn a_server_that_takes_little_at_a_time_keeps_what_is_written() {
    check_program("direct", "few");
}

#[test]
fn a_program_thaws_what_it_has_frozen() {
    check_program("answers", "freeze");
}

#[test]
fn a_file_system_that_is_shut_down_takes_nothing() {
    check_program("answers", "shutdown");
}

#[test]
fn a_program_is_asked_about_its_own_reads() {
    check_program("answers", "fanotify");
}

#[test]
fn a_program_brings_the_memory_into_which_it_reads() {
    check_program("answers", "userfaultfd");
}

#[test]
fn a_file_system_that_hangs_holds_up_nobody_who_does_not_use_it() {
    check_program("hangs", "for_long");
}

#[test]
fn a_server_that_takes_its_time_costs_nobody_the_guard() {
    check_program("hangs", "a_moment");
}

#[test]
fn a_server_that_takes_its_time_at_a_close_holds_up_nobody() {
    check_program("hangs", "closes");
}

#[test]
fn what_follows_from_a_slow_write_is_seen_after_it() {
    check_program("hangs", "newer");
}

#[test]
fn what_lies_where_a_server_hangs_is_waited_for_once() {
    check_program("hangs", "opens");
}

#[test]
fn files_of_a_slow_server_cost_nobody_the_guard_and_hold_up_nobody() {
    check_program("hangs", "many");
}
