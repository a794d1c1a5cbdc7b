//! The C programs by themselves, without buffering: they use no memory that was never set, and do the
//! same twice. A program that says what a compiler happened to leave on the stack would differ from
//! itself on another machine, and every comparison with it would say nothing.
//!
//! Each program of the table is here once with arguments that keep it short, as valgrind's memcheck
//! takes dozens of times as long; or in `NOT_CHECKED`, with the reason.

use crate::build::{self, Build};
use crate::harness::{self, Long, Place};
use crate::seen::differences;
use crate::table::{Case, DEFAULT, cases};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

/// Programs of `programs/c`, and how each is run in a folder with a file of lines, `in.txt`.
const CHECKED: &[(&str, &str)] = &[
    ("alone", "$RUN $BIN/c/alone threads"),
    ("apart", "$RUN $BIN/c/apart"),
    ("action_lists", "$RUN $BIN/c/action_lists closes"),
    ("asks_for_size", "$RUN $BIN/c/asks_for_size stat"),
    ("appends", "for way in position beside flags family; do $RUN $BIN/c/appends $way; done"),
    ("behind_window", "$RUN $BIN/c/behind_window"),
    ("blocked_faults", "$RUN $BIN/c/blocked_faults"),
    ("cancelled", "$RUN $BIN/c/cancelled"),
    ("children", "$RUN $BIN/c/children"),
    ("coherence", "$RUN $BIN/c/coherence"),
    ("copy", "$RUN $BIN/c/copy in.txt out 7; $RUN $BIN/c/copy in.txt out 65 append"),
    ("ends", "$RUN $BIN/c/ends term-handled append"),
    ("counts_writes", "$RUN $BIN/c/counts_writes inotify"),
    ("errors_descriptors", "$RUN $BIN/c/errors_descriptors"),
    ("errors_limits", "$RUN $BIN/c/errors_limits"),
    ("errors_read", "$RUN $BIN/c/errors_read"),
    ("errors_seek", "$RUN $BIN/c/errors_seek"),
    ("errors_size", "$RUN $BIN/c/errors_size"),
    ("errors_stat", "$RUN $BIN/c/errors_stat"),
    ("errors_write", "$RUN $BIN/c/errors_write"),
    ("forks_itself", "$RUN $BIN/c/forks_itself close"),
    ("first_ended", "$RUN $BIN/c/first_ended"),
    ("fork_append", "$RUN $BIN/c/fork_append fork 5; $RUN $BIN/c/fork_append exec 5"),
    ("fork_memory", "$RUN $BIN/c/fork_memory"),
    ("found_by_name", "$RUN $BIN/c/found_by_name"),
    ("fuzz_calls", "for way in mixed appending; do $RUN $BIN/c/fuzz_calls 7 150 $way; done"),
    ("freed", "$RUN $BIN/c/freed"),
    ("gaps", "$RUN $BIN/c/gaps"),
    ("given_away", "$RUN $BIN/c/given_away"),
    ("handed_on", "$RUN $BIN/c/handed_on"),
    ("acquire_points", "$RUN $BIN/c/acquire_points <> outside"),
    ("hidden", "$RUN $BIN/c/hidden hidden"),
    ("high_numbers", "$RUN $BIN/c/high_numbers"),
    ("ignored_faults", "$RUN $BIN/c/ignored_faults"),
    ("input", "for way in duplicates sends moves; do $RUN $BIN/c/input $way < in.txt; done"),
    ("knows", "$RUN $BIN/c/knows everywhere file"),
    ("large", "$RUN $BIN/c/large"),
    ("loads_later", "cp $BIN/c/later_versioned l.so; $RUN $BIN/c/loads_later ./l.so"),
    ("memory_locked", "cp in.txt in; $RUN $BIN/c/memory_locked"),
    ("nameless", "$RUN $BIN/c/nameless pwrite"),
    ("neighbours", "$RUN $BIN/c/neighbours apart 0"),
    (
        "not_buffered",
        "for way in 'received ignore' 'opened ignore' 'sends ignore'; do $RUN $BIN/c/not_buffered $way; done",
    ),
    ("of_go", "$RUN $BIN/c/of_go"),
    ("calls_go", "$RUN $BIN/c/calls_go"),
    ("opens_that_cut", "$RUN $BIN/c/opens_that_cut path"),
    ("reported_late", "$RUN $BIN/c/reported_late printed"),
    ("own_writes", "$RUN $BIN/c/own_writes system"),
    ("swapped", "$RUN $BIN/c/swapped"),
    ("taken", "$RUN $BIN/c/taken open"),
    ("old_versions", "$RUN $BIN/c/old_versions"),
    ("order", "$RUN $BIN/c/order pipe; $RUN $BIN/c/order stamp"),
    ("other_errors", "$RUN $BIN/c/other_errors"),
    ("other_masks", "$RUN $BIN/c/other_masks"),
    ("outside", "$RUN $BIN/c/outside both > out 3> said"),
    ("overlap", "$RUN $BIN/c/overlap"),
    ("held_for_dead", "$RUN $BIN/c/held_for_dead"),
    (
        "own_files",
        "for function in localtime wcsftime gettext; do $RUN $BIN/c/own_files $function; done",
    ),
    ("own_threads", "$RUN $BIN/c/own_threads"),
    ("unobserved", "$RUN $BIN/c/unobserved ages"),
    ("process", "$RUN $BIN/c/process"),
    ("profiled", "$RUN $BIN/c/profiled"),
    ("quiesced", "$RUN $BIN/c/quiesced"),
    ("queue", "$RUN $BIN/c/queue"),
    ("read_what_waits", "$RUN $BIN/c/read_what_waits"),
    ("real_time", "taskset -c $(taskset -cp $$ | sed 's/.*[^0-9]//') $RUN $BIN/c/real_time out"),
    ("rpc_inside", "for way in grows changes; do $RUN $BIN/c/rpc_inside $way; done"),
    ("relay", "$RUN $BIN/c/relay in.txt out fork cat in.txt"),
    ("rights", "$RUN $BIN/c/rights"),
    ("rewrite", "$RUN $BIN/c/rewrite in.txt 61 2"),
    ("shared_offset", "$RUN $BIN/c/shared_offset"),
    (
        "signals_between",
        "for way in queue once mask timer; do $RUN $BIN/c/signals_between $way 30; done",
    ),
    ("handler_releases", "$RUN $BIN/c/handler_releases 300"),
    ("signals_window", "$RUN $BIN/c/signals_window 6"),
    ("stacks", "$RUN $BIN/c/stacks"),
    ("shell_starts", "$RUN $BIN/c/shell_starts sets; $RUN $BIN/c/shell_starts leaves"),
    ("stamps", "$RUN $BIN/c/stamps last"),
    ("stdio", "$RUN $BIN/c/stdio; $RUN $BIN/c/stdio rest < in.txt > rest"),
    (
        "stream_and_descriptor",
        "for way in ends reads mapped own-files leaves modes library; do $RUN $BIN/c/stream_and_descriptor $way; done",
    ),
    ("stopped", "$RUN $BIN/c/stopped"),
    ("streams_taken", "$RUN $BIN/c/streams_taken confined"),
    ("threads_spawn", "$RUN $BIN/c/threads_spawn 5"),
    ("threads_tell", "for way in filling opening; do $RUN $BIN/c/threads_tell $way 100; done"),
    ("threads_write", "$RUN $BIN/c/threads_write 20"),
    ("seeks_beside", "$RUN $BIN/c/seeks_beside"),
    ("times", "$RUN $BIN/c/times"),
    ("two_times", "$RUN $BIN/c/two_times"),
    ("unusual", "$RUN $BIN/c/unusual answer 0; $RUN $BIN/c/unusual edges"),
    ("unusual_kin", "$RUN $BIN/c/unusual_kin handlers"),
    ("without_call", "$RUN $BIN/c/without_call signal"),
    ("unsaid", "$RUN $BIN/c/unsaid"),
    ("beneath", "$RUN $BIN/c/beneath"),
    ("clone_returns", "$RUN $BIN/c/clone_returns"),
    ("vfork_child", "$RUN $BIN/c/vfork_child"),
    ("sends_number", "$RUN $BIN/c/sends_number"),
    ("vfork_forks", "$RUN $BIN/c/vfork_forks"),
    ("vfork_killed", "$RUN $BIN/c/vfork_killed"),
    ("changes_meanwhile", "$RUN $BIN/c/changes_meanwhile"),
    ("walk", "mkdir tree; $RUN $BIN/c/walk tree"),
    ("watched_writer", "$RUN $BIN/c/watched_writer"),
    ("watchers", "$RUN $BIN/c/watchers"),
];

/// Programs that valgrind cannot run, or of which there is nothing to check, and why.
const NOT_CHECKED: &[(&str, &str)] = &[
    ("replaced", "each way is a race of a million calls, which take minutes"),
    (
        "meets_handlers",
        "handlers that come every tenth of a millisecond leave no time for anything else",
    ),
    ("put_elsewhere", "it ends by a write to an address that is nobody's"),
    ("closed_beside", "each way is a race of a million calls, which take minutes"),
    ("no_clock", "valgrind itself reads the clock that is forbidden here"),
    ("deaths", "it learns of deaths by pidfds, which valgrind does not know, and waits for them"),
    ("fetched", "it takes descriptors by pidfds, which valgrind does not know"),
    ("ends_beside", "one of its ways to end is a write to an address that is nobody's"),
    ("ends_well", "its threads wait for each other without a call, which take turns there"),
    ("limited_beside", "its threads wait for each other without a call, which take turns there"),
    ("atfork_beside", "its threads wait for each other without a call, which take turns there"),
    ("closes_for_good", "valgrind keeps descriptors of its own in the same table"),
    ("bad_vector", "it hands over addresses that are nobody's"),
    ("errors_vector", "vectors of thousands of bad pieces take minutes, as each is reported"),
    ("ends_of_pipes", "its child ends by a write to an address that is nobody's"),
    ("death_reports", "its children end by a write to an address that is nobody's"),
    ("beside_forks", "valgrind makes a fork of each vfork, and its children wait for the parent"),
    ("asks_whether", "it makes calls that are newer than valgrind"),
    ("by_threads", "it fetches a descriptor by a pidfd, which valgrind does not know"),
    ("other_actions", "clone() with flags that are neither a fork's nor a thread's"),
    ("sent_faults", "valgrind takes the signals that are sent here for faults of its own"),
    ("moves_late", "what takes long here is the time that it waits for"),
    ("signal_values", "valgrind takes the signals of timers itself, and sends them on"),
    ("raised", "memory is taken away while it is written from, which valgrind takes for an error"),
    ("confined", "the calls that it forbids are valgrind's, too"),
    ("traced", "nobody can trace what valgrind runs"),
    ("tracer", "nobody can trace what valgrind runs"),
    ("appended", "it looks for seconds at the clock, and does nothing else"),
    ("vfork_passive", "one of its ways to go on is a write to an address that is nobody's"),
    ("filtered", "the calls that it forbids itself are valgrind's, too"),
    ("titled", "where the environment lies, valgrind has put it elsewhere"),
    ("vfork_signals", "valgrind makes a fork of each vfork, which ends by a signal"),
    ("uncovered", "its threads wait for each other without a call, which take turns there"),
    ("vfork_leaves", "valgrind makes a fork of each vfork, whose memory is its own"),
    ("vforks_at_once", "valgrind makes a fork of each vfork, and its children wait for each other"),
    ("goes", "its threads wait for each other without a call, which take turns there"),
    ("parent", "one call, which says a process number, another one each time"),
    ("spawn_stack", "it paints the stack below its own frame, to see how much of it is used"),
    ("at_once", "valgrind runs handlers one after the other"),
    ("stops_world", "it stops its threads every millisecond, which take turns there"),
    ("stops", "it learns of stops by pidfds, too, which valgrind does not know"),
    ("opens_by_ring", "what the kernel stores for its rings, valgrind does not see"),
    ("handler_seeks", "its timer fires faster than valgrind runs what it interrupts"),
    ("switched", "its timer fires faster than valgrind runs a coroutine"),
    ("tables", "clone() with flags that are neither a fork's nor a thread's"),
];

/// Those that take ten seconds and more under memcheck: there only where all is done.
const LONG: &[&str] = &[
    "appends",
    "cancelled",
    "coherence",
    "errors_descriptors",
    "errors_read",
    "errors_seek",
    "errors_size",
    "errors_stat",
    "errors_write",
    "fork_append",
    "acquire_points",
    "signals_between",
    "handler_releases",
    "signals_window",
    "own_threads",
];

/// What memcheck says of memory that was never set, and of memory that is nobody's. Not "Syscall param
/// ... unaddressable": calls with bad addresses are what some of them test.
const FAULTS: [&str; 3] = ["uninitialised", "Invalid read", "Invalid write"];

#[test]
fn every_c_program_of_the_table_is_checked_or_cannot_be() {
    let in_table: BTreeSet<&str> = cases()
        .flat_map(|case| case.build)
        .filter_map(|build| if let Build::C(name) = build { Some(*name) } else { None })
        .collect();
    let here = CHECKED.iter().chain(NOT_CHECKED).map(|(name, _)| *name);
    assert_eq!(here.clone().collect::<BTreeSet<_>>(), in_table);
    assert_eq!(here.count(), in_table.len(), "one is there twice");
    let is_checked = |name: &&str| CHECKED.iter().any(|(checked, _)| checked == name);
    assert!(LONG.iter().all(is_checked), "one is long and not checked");
}

#[test]
fn c_programs_set_what_they_use_and_do_the_same_twice() {
    let mut wrong = Vec::new();
    if !harness::is_there("valgrind") {
        harness::skipped("memcheck: no valgrind (apt-get install valgrind)", &mut wrong);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        return;
    }
    let found = Mutex::new(&mut wrong);
    crate::at_once(2, CHECKED, |(name, command)| {
        let start = Instant::now();
        if let Err(message) = check(name, command) {
            found.lock().expect("no one panics").push(message);
        }
        harness::say_time(start, "memory", name);
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Runs one program twice as it is, and once under memcheck.
fn check(name: &'static str, command: &'static str) -> Result<(), String> {
    let prepare = "seq -f 'line %058.0f' 3000 > in.txt";
    let build = vec![Build::C(name)].leak();
    let case = Case { group: "memory", name, build, prepare, command, ..DEFAULT };
    let place = Place::new(&case)?;
    let (first, second) = (place.run(&case, "")?, place.run(&case, "")?);
    if first.ended.contains("still") {
        return Err(format!("{name}: {}", first.ended));
    }
    let differs = differences(&case, &first, &second);
    if !differs.is_empty() {
        return Err(format!("{name} differs from itself:\n{}", differs.join("\n")));
    }
    if LONG.contains(&name) && harness::long() != Long::All {
        place.remove();
        return Ok(());
    }
    let logs = build::executables().join(format!("{name}.memcheck-{}", std::process::id()));
    let _ = fs::remove_dir_all(&logs);
    fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
    let log = logs.join("%p");
    place.run(&case, &format!("valgrind --leak-check=no --log-file={}", log.display()))?;
    place.remove();
    let said = said_in(&logs)?;
    let _ = fs::remove_dir_all(&logs);
    if said.is_empty() {
        return Err(format!("{name}: valgrind has said nothing, not even its name"));
    }
    match FAULTS.iter().find(|fault| said.contains(**fault)) {
        Some(_) => Err(format!("{name} under valgrind's memcheck:\n{said}")),
        None => Ok(()),
    }
}

/// What all processes of a run have said.
fn said_in(logs: &Path) -> Result<String, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", logs.display());
    let mut said = String::new();
    for log in fs::read_dir(logs).map_err(wrong)? {
        said += &fs::read_to_string(log.map_err(wrong)?.path()).map_err(wrong)?;
    }
    Ok(said)
}
