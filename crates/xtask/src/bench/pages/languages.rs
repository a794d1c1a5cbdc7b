//! The table of docs/reach.md, from a record of `benchmarks/languages.toml`.

use super::{effect, machine, median};
use crate::bench::report::{self, Place, fact, runs};
use serde_json::Value;
use std::fmt::Write;
use sweetspot_lab::statistics;
use sweetspot_report::numbers::count;

/// What the page calls the programs of the plan, in its order.
pub const ROWS: [(&str, &str); 30] = [
    ("ruby", "Ruby, `sysread` and `syswrite`"),
    ("php", "PHP, `fread` and `fwrite`, as installed"),
    ("php-n", "the same with `php -n`"),
    ("java-stream", "Java `FileInputStream`, `FileOutputStream`"),
    ("java-random", "Java `RandomAccessFile`"),
    ("tcl", "Tcl, `fconfigure -buffering none`"),
    ("lua", "Lua, `setvbuf(\"no\")`"),
    ("perl", "Perl, `sysread` and `syswrite`"),
    ("python", "Python, `buffering=0`"),
    ("pypy", "PyPy, `buffering=0`"),
    ("node", "Node, `readSync` and `writeSync`"),
    ("r", "R, `readBin` and `writeBin` (it buffers itself)"),
    ("guile", "Guile, ports opened with `0`"),
    ("ocaml", "OCaml, `Unix.read` and `Unix.write`"),
    ("haskell", "GHC, `NoBuffering`"),
    ("sbcl", "SBCL, `unix-read` and `unix-write`"),
    ("erlang", "Erlang, `raw` files (20,000 records)"),
    ("mono", "Mono, `FileStream` without a buffer"),
    ("mono-private", "the same with `MONO_DISABLE_SHARED_AREA=1`"),
    ("octave", "Octave, `fread` and `fwrite` (it buffers itself)"),
    ("gawk", "GNU awk, `fflush` after each line"),
    ("mawk", "mawk, `fflush` after each line"),
    ("bash", "bash, `while read` and `printf`"),
    ("pascal", "Free Pascal, `blockread` and `blockwrite`"),
    ("ada", "Ada, `Ada.Direct_IO`"),
    ("go", "Go, `os.File`"),
    ("crystal", "Crystal, `sync = true`"),
    ("chicken", "Chicken, `file-read` and `file-write`"),
    ("nim", "Nim, a buffer of 0"),
    ("d", "D, `_IONBF`"),
];

/// The table.
pub fn table(record: &Value, folder: &str) -> String {
    let session = super::of(record, Place::Disk);
    let mut text = format!(
        "One session on {}, {}. Medians,\nand the ratio from {} random rounds with its 95 % interval; outputs \
         equal in every round\n(`{folder}`).\n\n\
         | program, unchanged | Debian package | plain | under `run` | ratio | calls made |\n\
         |---|---|---|---|---|---|\n",
        machine(session),
        fact(session, "distribution"),
        session["rounds"],
    );
    let plan = super::plan("languages.toml", None);
    for ((program, words), planned) in ROWS.into_iter().zip(&plan.programs) {
        let install = planned.install.as_deref().unwrap_or_default();
        let package = install.trim_start_matches("apt-get install ");
        let cell = |way: &str| format!("{program}, how {way}");
        let plain = cell("without");
        let cells = report::list(&session["cells"]);
        let with_stdio = cells.iter().any(|found| found["name"] == cell("run --stdio"));
        let (run, with) = match with_stdio {
            true => (cell("run --stdio"), ", `--stdio`"),
            false => (cell("run"), ""),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {words} | {package} | {} | {}{with} | {} | {} of {} |",
            median(session, &plain),
            median(session, &run),
            effect(session, &plain, &run),
            count(calls(session, &run)),
            count(calls(session, &plain)),
        );
    }
    text
}

/// How often the programs of a cell read and wrote: the median over its runs.
fn calls(session: &Value, cell: &str) -> u64 {
    let calls = |run: &Value| run["read_calls"].as_f64().zip(run["write_calls"].as_f64());
    let both = |run| calls(run).map(|(reads, writes)| reads + writes);
    let all: Vec<f64> = runs(session, cell).filter_map(both).collect();
    statistics::median(&all).unwrap_or_else(|error| panic!("'{cell}': {error}")) as u64
}
