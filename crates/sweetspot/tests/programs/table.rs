//! The table of real programs: what each needs, how it is made and started, what may differ.
//!
//! A row is data. To add a program, add a row; to add a language, add a group in `main.rs`, too.
//! Data are small, yet thousands of records, so that windows open and fill several times.

mod c;
mod ends;
mod everyday;
mod languages;
mod musl;

use crate::build::Build;

/// One program that is run with and without buffering.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The test that runs it.
    pub group: &'static str,
    /// Unique in its group.
    pub name: &'static str,
    /// Commands that must be there, beside what `build` needs; see `programs/needs.txt`.
    pub needs: &'static [&'static str],
    /// Programs made before, found under `$BIN`.
    pub build: &'static [Build],
    /// Shell text that makes the files, run once in an empty folder.
    pub prepare: &'static str,
    /// Shell text that is compared. `$RUN` stands for `sweetspot run` or for nothing.
    pub command: &'static str,
    /// How it ends natively, so that a program that cannot even start is no success.
    pub ends: &'static str,
    /// Files that are not compared, each with its reason in the row.
    pub may_differ: &'static [&'static str],
    /// Files whose modification time the program sets, compared to the nanosecond.
    pub times: &'static [&'static str],
    /// A run that takes longer hangs, seconds.
    pub seconds_max: u64,
    /// It takes seconds, as it waits or looks for what happens rarely: one size is enough.
    pub long: bool,
    /// The program is killed, so a guard may write its last bytes just after its end.
    pub finished_late: bool,
    /// Why what `profile` says of its calls is not compared with what `run` makes of them; empty where it is.
    pub not_predicted: &'static str,
}

const FEW_CALLS: &str = "it makes fewer calls than count on any file";
const TIMING: &str = "its threads, handlers or processes are faster or slower";
const HANDLERS: &str = "`profile` does not see handlers begin, and they begin all the time";
const LOOKS: &str = "it looks whether it is buffered, and does more or less";
const FAULTS: &str = "it blocks, ignores or provokes the signals of bad addresses";
const APART: &str = "`profile` looks at each process by itself";
const UNSEEN: &str = "its files are shared or watched in ways that `profile` does not follow";
const ANSWERED: &str = "another library answers its calls";
const FORKED: &str = "`run` counts no more of what a fork has shared";

/// A row says only what is special.
pub const DEFAULT: Case = Case {
    group: "",
    name: "",
    needs: &[],
    build: &[],
    prepare: "",
    command: "",
    ends: "exit 0",
    may_differ: &[],
    times: &[],
    seconds_max: 60,
    long: false,
    finished_late: false,
    not_predicted: "",
};

/// Every program.
pub fn cases() -> impl Iterator<Item = &'static Case> {
    TABLES.iter().copied().flatten()
}

/// The Debian package of a command, from `programs/needs.txt`.
pub fn package_of(command: &str) -> &'static str {
    const NEEDS: &str = include_str!("../../../../programs/needs.txt");
    let mut rows = NEEDS.lines().filter_map(|line| line.split_once(' '));
    rows.find(|(name, _)| *name == command).map_or("?", |(_, package)| package)
}

const TABLES: &[&[Case]] = &[
    c::CALLS,
    c::FUZZ,
    c::ERRORS,
    c::SHARING,
    ends::ENDS,
    languages::LANGUAGES,
    musl::ALL,
    everyday::SHELL,
    everyday::COREUTILS,
    everyday::TOOLS,
];

/// 3,000 lines of 63 bytes and a newline.
const LINES: &str = "seq -f 'line %058.0f' 3000 > in.txt";
