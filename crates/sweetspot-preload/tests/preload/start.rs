//! What the library costs a process that does nothing, in numbers that do not depend on the machine's
//! speed.
#![allow(unsafe_code, reason = "the standard library does not tell the faults of a child")]

use std::process::{Command, Stdio};

use crate::library;

/// Pages: a stretch of code, one of symbols, the page of data, and what the loader needs for its own
/// record of any library: six to seven on the average.
const PAGES_MAX: u64 = 7;

/// As often is each process started. Where in a stretch of pages the library comes to lie is another
/// place each time: single starts scatter by two pages to either side, their sum hardly does.
const STARTS: u64 = 200;

/// The pages that `STARTS` processes are given together.
fn faults(environment: &[(&str, &str)]) -> u64 {
    let once = || {
        let mut command = Command::new("/bin/true");
        command.env_clear().envs(environment.iter().copied()).stdin(Stdio::null());
        #[expect(clippy::zombie_processes, reason = "waited for by the next call")]
        let child = command.spawn().expect("/bin/true starts");
        let mut status = 0;
        // SAFETY: an all-zero `rusage` is a valid value; both are valid for writing.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::wait4(child.id() as i32, &mut status, 0, &mut usage);
            usage
        };
        assert_eq!(status, 0);
        usage.ru_minflt as u64
    };
    (0..STARTS).map(|_| once()).sum()
}

#[test]
fn a_start_touches_few_pages() {
    let library = library::path().to_str().unwrap();
    // Pages that are not in memory are given one by one.
    std::fs::read(library).unwrap();
    let native = faults(&[]);
    let buffered = faults(&[("LD_PRELOAD", library), ("IO_BUFFER_SIZE", "auto")]);
    let told = format!("{STARTS} starts: {native} pages without it, {buffered} with it");
    // Where it does not load, nothing is shown.
    assert!(buffered > native + STARTS, "{told}");
    assert!(buffered <= native + STARTS * PAGES_MAX, "{told}");
}
