//! What the library `sweetspot-io` is measured by, and `sweetspot work` on top of it: rows as in
//! [`table`](super::table), but the candidate is the library itself, not a program under `run`.

use super::table::{BASE, Benchmark, Cell, Figure, Input, NEVER_SLOWER, Way};

/// One way of a job of `crates/sweetspot-io/examples/bars.rs`, with the bar.
macro_rules! bar {
    ($job:literal, $way:literal, $bar:expr) => {
        Cell {
            name: $way,
            way: Way::Plain,
            command: &["{programs}/bars", $job, $way, "{input}"],
            bar: $bar,
        }
    };
}

const fn cell(name: &'static str, command: &'static [&'static str], bar: Option<f64>) -> Cell {
    Cell { name, way: Way::Plain, command, bar }
}

/// What all of these have in common.
const LIBRARY: Benchmark = Benchmark { needs: &["library"], ..BASE };

/// The benchmarks, in the order in which they run.
pub const BENCHMARKS: &[Benchmark] = &[
    Benchmark {
        name: "library-count-lines",
        what: "count {count} lines of 14 bytes",
        input: Input::ShortLines,
        count: [20_000_000, 10_000],
        cells: &[
            cell("wc -l", &["wc", "-l", "{input}"], Some(NEVER_SLOWER)),
            cell("work lines", &["{programs}/sweetspot", "work", "lines", "{input}"], None),
        ],
        ..LIBRARY
    },
    // From a file, eight times `read_until` is out of reach: the kernel's copy alone, which both pay
    // for, takes about an eighth of its time. In memory both are on their own.
    Benchmark {
        name: "library-each-line",
        what: "do something for each of {count} lines of 14 bytes in a file",
        input: Input::ShortLines,
        count: [20_000_000, 10_000],
        figure: Figure::PerTransfer,
        cells: &[
            bar!("each-line", "memchr_iter", Some(2.0)),
            bar!("each-line", "read_until", Some(8.0)),
            bar!("each-line", "library", None),
        ],
        ..LIBRARY
    },
    // A map needs no copy.
    Benchmark {
        name: "library-each-line-mapped",
        what: "do something for each of {count} lines of 14 bytes in a mapped file",
        input: Input::ShortLines,
        count: [20_000_000, 10_000],
        figure: Figure::PerTransfer,
        cells: &[
            bar!("each-line", "memchr_iter", Some(2.0)),
            bar!("each-line", "read_until", Some(8.0)),
            bar!("each-line", "mapped", None),
        ],
        ..LIBRARY
    },
    Benchmark {
        name: "library-each-line-in-memory",
        what: "do something for each line of 14 bytes in a MiB of memory",
        input: Input::ShortLines,
        count: [20_000_000, 10_000],
        figure: Figure::PerTransfer,
        cells: &[
            bar!("each-line-in-memory", "memchr_iter", Some(2.0)),
            bar!("each-line-in-memory", "read_until", Some(8.0)),
            bar!("each-line-in-memory", "library", None),
        ],
        ..LIBRARY
    },
    Benchmark {
        name: "library-copy",
        what: "copy a file of {count} bytes",
        input: Input::Bytes,
        count: [100_000_000, 1_000_000],
        cells: &[
            cell("cp", &["cp", "{input}", "{output}"], Some(NEVER_SLOWER)),
            cell(
                "work copy",
                &["{programs}/sweetspot", "work", "copy", "{input}", "{output}"],
                None,
            ),
        ],
        ..LIBRARY
    },
    Benchmark {
        name: "library-compare",
        what: "compare two equal files of {count} bytes",
        input: Input::Pair,
        count: [100_000_000, 1_000_000],
        cells: &[
            cell("cmp", &["cmp", "{input}/one", "{input}/other"], Some(NEVER_SLOWER)),
            cell(
                "work compare",
                &["{programs}/sweetspot", "work", "compare", "{input}/one", "{input}/other"],
                None,
            ),
        ],
        ..LIBRARY
    },
    Benchmark {
        name: "library-latin1-accented",
        what: "decode {count} characters of Latin-1, one in sixteen accented",
        input: Input::Accented,
        count: [32_000_000, 100_000],
        figure: Figure::PerTransfer,
        cells: &[bar!("latin1", "encoding_rs", Some(5.0)), bar!("latin1", "library", None)],
        ..LIBRARY
    },
    Benchmark {
        name: "library-latin1-ascii",
        what: "decode {count} lines of Latin-1 without accents",
        input: Input::ShortLines,
        count: [2_000_000, 10_000],
        figure: Figure::PerTransfer,
        cells: &[
            bar!("latin1", "encoding_rs", Some(NEVER_SLOWER)),
            bar!("latin1", "library", None),
        ],
        ..LIBRARY
    },
    Benchmark {
        name: "library-parallel",
        what: "do something for each of {count} lines of 200 bytes, in a thread for each processor",
        input: Input::Records,
        count: [2_000_000, 10_000],
        figure: Figure::PerTransfer,
        cells: &[bar!("parallel", "pread", Some(0.8)), bar!("parallel", "library", None)],
        ..LIBRARY
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bar_is_a_row() {
        for benchmark in BENCHMARKS {
            let (candidate, references) = benchmark.cells.split_last().unwrap();
            assert!(benchmark.name.starts_with("library-"), "{}", benchmark.name);
            assert!(candidate.bar.is_none() && !references.is_empty(), "{}", benchmark.name);
            assert!(references.iter().all(|cell| cell.bar.is_some()), "{}", benchmark.name);
        }
    }
}
