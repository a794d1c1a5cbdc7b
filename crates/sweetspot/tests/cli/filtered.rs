//! Filters of system calls that answer a call with an error, or with a success that is none.
//!
//! Whatever they answer, a program ends as it does without sweetspot, and so does all that sweetspot starts.

use super::*;

/// How a call is answered: EPERM, EACCES, ENOSYS, nothing is done.
const ANSWERS: [&str; 4] = ["1", "13", "38", "0"];

/// How a program ended that copies a file, with what it said, and what the file holds then. `None`: it does not end.
fn copied(
    place: &Place,
    filter: &str,
    run: &[&OsStr],
) -> Option<(Option<i32>, String, String, Vec<u8>)> {
    let (confined, copy) = (place.work().join("confined"), place.work().join("copy"));
    let out = place.work().join("out.txt");
    let _ = fs::remove_file(&out);
    let mut command = Command::new(confined);
    command.arg(filter).args(run).arg(copy).args(["in.txt", "out.txt", "24", "update"]);
    command.env("SWEETSPOT_CACHE", place.cache()).current_dir(place.work());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output().unwrap();
    let file = fs::read(&out).unwrap_or_default();
    Some((output.status.code(), stdout(&output), stderr(&output), file))
}

/// Processes of this place that live: guards, as all others were waited for.
fn living(place: &Place) -> Vec<PathBuf> {
    let cache = format!("SWEETSPOT_CACHE={}", place.cache().display());
    let is_of_it = |process: &PathBuf| {
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == cache.as_bytes())
    };
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    processes.filter(is_of_it).collect()
}

/// Checks each of the calls with each answer.
fn check(calls: &[&str]) {
    let place = Place::new();
    compile_program(&place, "confined");
    compile_program(&place, "copy");
    let lines: String = (0..4_000).map(|line| format!("record {line:016}\n")).collect();
    place.write("in.txt", lines);
    let sweetspot = env!("CARGO_BIN_EXE_sweetspot").as_ref();
    let run: [&OsStr; 5] =
        [sweetspot, "run".as_ref(), "--buffer-size".as_ref(), "64K".as_ref(), "--".as_ref()];
    // What is written once for all is written.
    assert!(copied(&place, "allow", &run).is_some());
    for call in calls {
        for answer in ANSWERS {
            let filter = format!("answer:{call}:{answer}");
            let natively = copied(&place, &filter, &[]);
            if let Some((Some(77), _, said, _)) = &natively {
                return skip(&format!("seccomp filters: {said}"));
            }
            assert!(natively.is_some(), "{filter}: it does not end natively");
            assert_eq!(copied(&place, &filter, &run), natively, "{filter}");
        }
    }
    wait_until("all processes end", || living(&place).is_empty());
}

/// What was left by a call before is not what the next one waits by.
#[test]
fn a_filter_that_answers_what_is_tried_holds_up_nobody() {
    check(&["clock_gettime", "waitid", "nanosleep", "clone", "exit_group"]);
}

#[test]
fn what_a_filter_refuses_to_the_engine_is_not_relied_on() {
    check(&["pwrite64", "pread64", "lseek", "fstat", "fcntl", "rt_sigprocmask"]);
}

#[test]
fn a_guard_ends_whatever_its_waits_are_answered() {
    check(&["epoll_wait", "epoll_wait_for_ever", "futex", "eventfd2"]);
}

#[test]
fn a_program_starts_where_run_itself_could_not() {
    check(&["poll", "rt_sigaction", "statx", "faccessat2", "getrandom", "geteuid", "prlimit64"]);
    // Nothing runs unbuffered that was not to.
    let place = Place::new();
    let confined = compile_program(&place, "confined");
    let mut command = Command::new(confined);
    command.args(["answer:poll:1", env!("CARGO_BIN_EXE_sweetspot"), "run", "--require", "true"]);
    assert_fails(&mut command, 125, &["'true' cannot be buffered", "seccomp filter"]);
}

#[test]
fn programs_under_restrictions_run_and_it_is_said_what_is_not_buffered() {
    let place = Place::new();
    let confined = compile_program(&place, "confined");
    let copy = compile_program(&place, "copy");
    let lines: String = (0..50_000).map(|line| format!("{line}\n")).collect();
    place.write("in.txt", &lines);
    let sweetspot = env!("CARGO_BIN_EXE_sweetspot").as_ref();
    let run: [&OsStr; 4] = [sweetspot, "run".as_ref(), "--summary".as_ref(), "--".as_ref()];
    let copying: [&OsStr; 4] = [copy.as_ref(), "in.txt".as_ref(), "out.txt".as_ref(), "7".as_ref()];
    let filter = "a seccomp filter is in force";
    // What is started under a filter that came later has no library that could say so.
    let later = "the process gave up rights, or is confined";
    for (how, outside, inside) in [
        // Of the filter around `run` it is known that it refuses nothing that the library needs.
        ("allow", "", later),
        ("deny", "", later),
        ("mark", "", later),
        ("hide", "", later),
        ("kill", filter, later),
        // No code is changed.
        ("code", "", ""),
    ] {
        let restricted: [&OsStr; 2] = [confined.as_ref(), how.as_ref()];
        let commands = [
            (outside, [&restricted[..], &run, &copying].concat()),
            (inside, [&run[..], &restricted, &copying].concat()),
        ];
        for (expected, words) in commands {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).env("SWEETSPOT_CACHE", place.cache());
            let output = command.current_dir(place.work()).output().unwrap();
            let said = stderr(&output);
            if output.status.code() == Some(77) {
                skip(&format!("restriction {how}: {said}"));
                continue;
            }
            assert_eq!(output.status.code(), Some(0), "{words:?}: {said}");
            assert_eq!(
                fs::read_to_string(place.work().join("out.txt")).unwrap(),
                lines,
                "{words:?}"
            );
            assert!(said.contains("buffered  size auto, in "), "{words:?}: {said}");
            assert_eq!(said.contains("note "), !expected.is_empty(), "{words:?}: {said}");
            assert!(said.contains(expected), "{words:?}: {said}");
        }
    }
}
