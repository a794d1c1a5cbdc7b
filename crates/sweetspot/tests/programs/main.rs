//! Real programs with and without `sweetspot run`: everything that can be seen must be equal.
//!
//! One test a group of the table in `table.rs`; each runs its programs once as they are and once
//! at every buffer size, and compares standard output, standard error, exit status or signal, and
//! every file of the work folder. `harness.rs` runs, `seen.rs` compares, `build.rs` compiles the sources
//! that lie in `programs/`. That the harness sees differences at all is a test of its own
//! (`sees.rs`), and so is that the programs are really buffered (`active.rs`), and that they do the same
//! twice by themselves (`memory.rs`), and that `profile` knows how many calls are left (`predicted.rs`).
//!
//! Not here: killed processes at random moments and random programs of calls.
//!
//! From outside: `SWEETSPOT_TEST_RUN` replaces the words before the program (`{size}` stands for
//! the buffer size), `SWEETSPOT_TEST_SIZES` the sizes, `SWEETSPOT_TEST_LONG` how much is done of
//! what takes long (`no`: it is built; `few`: one size, and two of the five elsewhere; `all`), and
//! `SWEETSPOT_TEST_ONLY` keeps the programs whose name contains a text; `SWEETSPOT_TEST_TIMES` and `SWEETSPOT_TEST_SHOW` print what
//! each took and what it does natively. `SWEETSPOT_TEST_BIN` is a folder of executables, where there
//! is no compiler; `SWEETSPOT_TEST_PATIENCE` is how many times as long a program may take, where the
//! machine is emulated.

use test_start as _;

mod active;
mod build;
mod harness;
mod memory;
mod predicted;
mod seen;
mod sees;
mod table;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Does something with each of many, so many at once: most of what runs here waits.
fn at_once<T: Sync>(count: usize, all: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let work_on = || {
        while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(one);
        }
    };
    thread::scope(|scope| (0..count).for_each(|_| drop(scope.spawn(work_on))));
}

/// One test a group, named after it.
macro_rules! groups {
    ($($group:ident)*) => {
        $(#[test]
        fn $group() {
            harness::check_group(stringify!($group));
        })*

        #[test]
        fn every_program_belongs_to_a_tested_group() {
            let tested = [$(stringify!($group)),*];
            for case in table::cases() {
                assert!(tested.contains(&case.group), "{} {}", case.group, case.name);
            }
            for group in tested {
                assert!(table::cases().any(|case| case.group == group), "no program in {group}");
            }
        }
    };
}

groups! {
    c_calls c_errors c_fuzz c_sharing c_ends
    cxx cobol fortran java python perl node rust
    musl shell coreutils tools
}
