//! Every benchmark of `run`, as data.
//!
//! A benchmark runs its cells in rounds. The last cell is the candidate: the unchanged program
//! under `sweetspot run`. It is compared with each of the others. A *bar* is the speedup that the
//! project aims for against that cell; it is printed beside what was measured and never asserted.
//!
//! In a command these are filled in:
//!
//! | text | meaning |
//! |---|---|
//! | `{input}` | the benchmark's input: a file or a folder |
//! | `{output}` | a name that does not exist yet; what is there afterwards is compared |
//! | `{count}` | the benchmark's count |
//! | `{programs}` | the folder with the compiled programs |
//! | `{sources}` | the folder `benchmarks/` with their sources |
//!
//! To add a benchmark, add a row here; to add a program, put its source in `benchmarks/` and a row
//! in [`TOOLS`].

/// A benchmark: one job, done in several ways.
#[derive(Clone, Copy)]
pub struct Benchmark {
    /// What `--filter` looks at.
    pub name: &'static str,
    /// What the job is, in words; `{count}` is filled in.
    pub what: &'static str,
    /// When it runs.
    pub scale: Scale,
    /// The tools it needs, by name in [`TOOLS`].
    pub needs: &'static [&'static str],
    /// What the job reads.
    pub input: Input,
    /// How much it reads or does, in units of its input, normally and with `--quick`.
    pub count: [u64; 2],
    /// Where the files are.
    pub place: FileAccess,
    /// Whether the input is in the page cache.
    pub cache: Cache,
    /// What is compared.
    pub figure: Figure,
    /// The ways of doing it; the last is the candidate.
    pub cells: &'static [Cell],
}

/// One way of doing a benchmark's job.
pub struct Cell {
    /// What the table calls it.
    pub name: &'static str,
    /// What is put around the command.
    pub way: Way,
    /// The command.
    pub command: &'static [&'static str],
    /// The speedup of the candidate against this cell that the project aims for.
    pub bar: Option<f64>,
}

/// What is put around a command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Nothing.
    Plain,
    /// `sweetspot run --`, or what `--wrapper` says.
    Buffered,
    /// The same with these options of `run`.
    With(&'static [&'static str]),
    /// `LD_PRELOAD` of a library with nothing in it.
    EmptyPreload,
}

/// When a benchmark runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Always.
    Normal,
    /// Only with `--full`.
    Full,
}

/// What a job reads.
#[derive(Clone, Copy)]
pub enum Input {
    /// Nothing.
    None,
    /// A file of `{count}` lines of 200 bytes, the line end included.
    Records,
    /// A file of `{count}` bytes.
    Bytes,
    /// A folder with two equal files of `{count}` bytes: `one` and `other`.
    Pair,
    /// A file of `{count}` lines of 14 bytes, the line end included.
    ShortLines,
    /// A file of `{count}` characters of Latin-1, one in sixteen of them accented.
    Accented,
    /// A folder of `{count}` files of 1,000 bytes.
    SmallFiles,
    /// A git repository of `{count}` files, all committed.
    Repository,
    /// SQL that inserts `{count}` rows in one transaction.
    SqlOneTransaction,
    /// SQL that inserts `{count}` rows, each in a transaction of its own.
    SqlSeparate,
}

/// How the files are reached.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FileAccess {
    /// In the folder given by `--dir`.
    Plain,
    /// There too, seen through a FUSE mount, where each call is a round trip.
    Fuse,
}

/// Whether the input is in the page cache when a run starts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// It was read before.
    Warm,
    /// It was dropped before each run, which is verified. The host of a virtual machine may have
    /// it still: guest-cold.
    Cold,
}

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// The wall time of the process, its start included.
    Wall,
    /// Nanoseconds per transfer, as the program prints it.
    PerTransfer,
}

/// A tool that benchmarks need, and what it has to compile.
pub struct Tool {
    /// The name that benchmarks use.
    pub name: &'static str,
    /// The program that must be there.
    pub program: &'static str,
    /// The Debian package it is in.
    pub package: &'static str,
    /// How it makes the benchmarks' programs; placeholders as in a benchmark's command.
    pub compile: &'static [&'static [&'static str]],
    /// The command that prints its version, for the record.
    pub version: &'static [&'static str],
}

const fn plain(command: &'static [&'static str], bar: f64) -> Cell {
    Cell { name: "plain", way: Way::Plain, command, bar: Some(bar) }
}

const fn buffered(command: &'static [&'static str]) -> Cell {
    Cell { name: "run", way: Way::Buffered, command, bar: None }
}

/// Nothing may be slower by more than 2 %. The jobs with this bar take half a second and more, as the start
/// of `run` is measured by itself.
pub const NEVER_SLOWER: f64 = 1.0 / 1.02;

/// What most benchmarks have in common.
pub const BASE: Benchmark = Benchmark {
    name: "",
    what: "",
    scale: Scale::Normal,
    needs: &[],
    input: Input::None,
    count: [1, 1],
    place: FileAccess::Plain,
    cache: Cache::Warm,
    figure: Figure::Wall,
    cells: &[],
};

const COBOL: &[&str] = &["{programs}/record-copy", "{input}", "{output}"];
const C_COPY: &[&str] = &["{programs}/record-copy-plain", "{input}", "{output}"];
const COBOL_CELLS: &[Cell] = &[
    plain(COBOL, 6.0),
    Cell {
        name: "by hand",
        way: Way::Plain,
        command: &["{programs}/record-copy-by-hand", "{input}", "{output}"],
        bar: Some(0.9),
    },
    buffered(COBOL),
];

/// A plain command and the same under `run`, with the bar.
macro_rules! pair {
    ($bar:expr, [$($word:expr),+ $(,)?]) => {
        &[plain(&[$($word),+], $bar), buffered(&[$($word),+])]
    };
}

/// One row of the transfer-size table: the size in bytes, and how often the file is read.
macro_rules! transfer_size {
    ($size:literal, $passes:literal) => {
        Benchmark {
            name: concat!("transfer-", $size),
            what: concat!("read a cached file of {count} bytes in transfers of ", $size, " bytes"),
            needs: &["c"],
            input: Input::Bytes,
            count: [100_000_000, 1_000_000],
            figure: Figure::PerTransfer,
            cells: &[
                Cell {
                    name: "read",
                    way: Way::Plain,
                    command: transfer_size!("read", $size, $passes),
                    bar: Some(NEVER_SLOWER),
                },
                Cell {
                    name: "fread",
                    way: Way::Plain,
                    command: transfer_size!("fread", $size, $passes),
                    bar: Some(NEVER_SLOWER),
                },
                Cell {
                    name: "fread, setvbuf 64K",
                    way: Way::Plain,
                    command: transfer_size!("fread-64k", $size, $passes),
                    bar: Some(NEVER_SLOWER),
                },
                Cell {
                    name: "read under run",
                    way: Way::Buffered,
                    command: transfer_size!("read", $size, $passes),
                    bar: None,
                },
            ],
            ..BASE
        }
    };
    ($mode:literal, $size:literal, $passes:literal) => {
        &["{programs}/transfer-size", $mode, $size, $passes, "{input}"]
    };
}

/// A loop that starts `/bin/true` again and again.
const TRUE_LOOP: &[&str] =
    &["sh", "-c", "i=0; while [ $i -lt {count} ]; do /bin/true; i=$((i+1)); done; echo $i"];

/// A command again and again, in a shell: the start of `run` costs a millisecond or two, whatever it
/// starts, and is a benchmark of its own.
const REPEATED: &str = "i=0; while [ $i -lt $0 ]; do \"$@\" || exit; i=$((i+1)); done";

/// The benchmarks, in the order in which they run.
pub const BENCHMARKS: &[Benchmark] = &[
    // Faster: programs that read or write in small pieces.
    Benchmark {
        name: "cobol-copy",
        what: "GnuCOBOL copies {count} records of 200 bytes",
        needs: &["cobol", "c"],
        input: Input::Records,
        count: [1_000_000, 2_000],
        cells: COBOL_CELLS,
        ..BASE
    },
    Benchmark {
        name: "cobol-copy-5m",
        what: "GnuCOBOL copies {count} records of 200 bytes",
        scale: Scale::Full,
        needs: &["cobol", "c"],
        input: Input::Records,
        count: [5_000_000, 2_000],
        cells: COBOL_CELLS,
        ..BASE
    },
    Benchmark {
        name: "cobol-copy-cold",
        what: "GnuCOBOL copies {count} records of 200 bytes, guest-cold",
        needs: &["cobol", "c"],
        input: Input::Records,
        count: [1_000_000, 2_000],
        cache: Cache::Cold,
        cells: COBOL_CELLS,
        ..BASE
    },
    Benchmark {
        name: "cobol-copy-fuse",
        what: "GnuCOBOL copies {count} records of 200 bytes on a FUSE mount (bindfs)",
        needs: &["cobol", "bindfs"],
        input: Input::Records,
        count: [100_000, 1_000],
        place: FileAccess::Fuse,
        cells: &[plain(COBOL, 20.0), buffered(COBOL)],
        ..BASE
    },
    Benchmark {
        name: "c-copy",
        what: "a loop in C copies {count} records of 200 bytes, by read and write",
        needs: &["c"],
        input: Input::Records,
        count: [1_000_000, 2_000],
        cells: &[
            plain(C_COPY, 6.0),
            Cell {
                name: "by hand",
                way: Way::Plain,
                command: &["{programs}/record-copy-by-hand", "{input}", "{output}"],
                bar: Some(0.9),
            },
            buffered(C_COPY),
        ],
        ..BASE
    },
    transfer_size!("8", "1"),
    transfer_size!("64", "1"),
    transfer_size!("1024", "5"),
    transfer_size!("8192", "10"),
    transfer_size!("65536", "20"),
    Benchmark {
        name: "java-readline",
        what: "Java's DataInputStream.readLine reads {count} lines of 200 bytes without a buffer",
        needs: &["java"],
        input: Input::Records,
        count: [20_000, 100],
        cells: pair!(5.0, ["java", "-cp", "{programs}", "ReadLines", "{input}"]),
        ..BASE
    },
    Benchmark {
        name: "rust-println",
        what: "Rust's println! writes {count} lines to a file that it inherits",
        needs: &["rust"],
        count: [1_000_000, 1_000],
        cells: pair!(7.0, ["{programs}/print-lines", "{count}"]),
        ..BASE
    },
    Benchmark {
        name: "rust-write",
        what: "Rust's File::write_all writes {count} lines to a file that it opens",
        needs: &["rust"],
        count: [1_000_000, 1_000],
        cells: pair!(7.0, ["{programs}/print-lines", "{count}", "{output}"]),
        ..BASE
    },
    Benchmark {
        name: "python-copy",
        what: "Python with buffering=0 copies {count} records of 200 bytes",
        needs: &["python"],
        input: Input::Records,
        count: [500_000, 1_000],
        cells: pair!(2.4, ["/usr/bin/python3", "{sources}/record_copy.py", "{input}", "{output}"]),
        ..BASE
    },
    Benchmark {
        name: "dd-200",
        what: "dd bs=200 copies {count} records",
        input: Input::Records,
        count: [500_000, 1_000],
        cells: pair!(4.0, ["dd", "bs=200", "status=none", "if={input}", "of={output}"]),
        ..BASE
    },
    Benchmark {
        name: "fortran-flush",
        what: "gfortran writes {count} formatted records of integers, with a flush after each",
        needs: &["fortran"],
        count: [500_000, 1_000],
        cells: pair!(3.0, ["{programs}/flush-records", "{count}", "integer", "{output}"]),
        ..BASE
    },
    Benchmark {
        name: "fortran-flush-real",
        what: "gfortran writes {count} formatted records with a real number, with a flush after each",
        needs: &["fortran"],
        count: [500_000, 1_000],
        // Half of the time is the program's own (the digits of a real number): 2.4x is the limit.
        cells: pair!(2.0, ["{programs}/flush-records", "{count}", "real", "{output}"]),
        ..BASE
    },
    // Never slower: programs that buffering cannot help.
    Benchmark {
        name: "random-pread",
        what: "500,000 preads of 4 KiB at random places of a file of {count} bytes",
        needs: &["c"],
        input: Input::Bytes,
        count: [1 << 30, 1 << 20],
        cells: pair!(NEVER_SLOWER, ["{programs}/random-access", "pread", "500000", "{input}"]),
        ..BASE
    },
    Benchmark {
        name: "random-seek",
        what: "500,000 times lseek and read of 4 KiB at random places of a file of {count} bytes",
        needs: &["c"],
        input: Input::Bytes,
        count: [1 << 30, 1 << 20],
        cells: pair!(NEVER_SLOWER, ["{programs}/random-access", "seek", "500000", "{input}"]),
        ..BASE
    },
    Benchmark {
        name: "small-files-read",
        what: "open, read and close {count} files of 1,000 bytes, 20 times",
        needs: &["c"],
        input: Input::SmallFiles,
        count: [10_000, 100],
        cells: pair!(NEVER_SLOWER, ["{programs}/small-files", "read", "{count}", "{input}", "20"]),
        ..BASE
    },
    Benchmark {
        name: "small-files-write",
        what: "create, write and close {count} files of 1,000 bytes",
        needs: &["c"],
        count: [10_000, 100],
        cells: pair!(NEVER_SLOWER, ["{programs}/small-files", "write", "{count}", "{output}"]),
        ..BASE
    },
    Benchmark {
        name: "true-loop",
        what: "a shell loop starts {count} times /bin/true",
        needs: &["c"],
        count: [1_000, 10],
        cells: &[
            Cell { name: "plain", way: Way::Plain, command: TRUE_LOOP, bar: None },
            Cell {
                name: "empty preload",
                way: Way::EmptyPreload,
                command: TRUE_LOOP,
                bar: Some(1.0 / 1.05),
            },
            buffered(TRUE_LOOP),
        ],
        ..BASE
    },
    Benchmark {
        name: "start",
        what: "/bin/true, once: the difference is the start of run",
        cells: &[
            Cell { name: "plain", way: Way::Plain, command: &["/bin/true"], bar: None },
            buffered(&["/bin/true"]),
        ],
        ..BASE
    },
    Benchmark {
        name: "cp",
        what: "cp copies a file of {count} bytes",
        input: Input::Bytes,
        count: [256 << 20, 1 << 20],
        cells: pair!(NEVER_SLOWER, ["cp", "{input}", "{output}"]),
        ..BASE
    },
    Benchmark {
        name: "dd-1m",
        what: "dd bs=1M copies a file of {count} bytes",
        input: Input::Bytes,
        count: [256 << 20, 1 << 20],
        cells: pair!(NEVER_SLOWER, ["dd", "bs=1M", "status=none", "if={input}", "of={output}"]),
        ..BASE
    },
    Benchmark {
        name: "sqlite-one-transaction",
        what: "sqlite3 inserts {count} rows in one transaction",
        needs: &["sqlite"],
        input: Input::SqlOneTransaction,
        count: [500_000, 100],
        cells: pair!(NEVER_SLOWER, ["sqlite3", "{output}", ".read {input}"]),
        ..BASE
    },
    Benchmark {
        name: "sqlite-separate",
        what: "sqlite3 inserts {count} rows, each in a transaction of its own",
        needs: &["sqlite"],
        input: Input::SqlSeparate,
        count: [500, 10],
        cells: pair!(NEVER_SLOWER, ["sqlite3", "{output}", ".read {input}"]),
        ..BASE
    },
    Benchmark {
        name: "git-status",
        what: "git status 40 times in a repository of {count} files",
        needs: &["git"],
        input: Input::Repository,
        count: [5_000, 50],
        cells: pair!(NEVER_SLOWER, ["sh", "-c", REPEATED, "40", "git", "-C", "{input}", "status"]),
        ..BASE
    },
    Benchmark {
        name: "gcc",
        what: "gcc compiles a C file {count} times",
        needs: &["c"],
        count: [10, 1],
        cells: pair!(
            NEVER_SLOWER,
            [
                "sh",
                "-c",
                REPEATED,
                "{count}",
                "gcc",
                "-O2",
                "-c",
                "-o",
                "{output}",
                "{sources}/../classics/transfer-size/transfer-size.c"
            ]
        ),
        ..BASE
    },
    Benchmark {
        name: "stdio-copy",
        what: "a C program copies {count} lines of 200 bytes with fgetc and fputs",
        needs: &["c"],
        input: Input::Records,
        count: [500_000, 1_000],
        cells: pair!(NEVER_SLOWER, ["{programs}/stdio-copy", "{input}", "{output}"]),
        ..BASE
    },
];

/// The tools that benchmarks need.
pub const TOOLS: &[Tool] = &[
    Tool {
        name: "c",
        program: "gcc",
        package: "gcc libc6-dev",
        compile: &[
            &[
                "gcc",
                "-O2",
                "-o",
                "{programs}/record-copy-by-hand",
                "{sources}/../classics/cobol-copy/record-copy-by-hand.c",
            ],
            &["gcc", "-O2", "-o", "{programs}/record-copy-plain", "{sources}/record-copy-plain.c"],
            &[
                "gcc",
                "-O2",
                "-o",
                "{programs}/transfer-size",
                "{sources}/../classics/transfer-size/transfer-size.c",
            ],
            &["gcc", "-O2", "-o", "{programs}/random-access", "{sources}/random-access.c"],
            &["gcc", "-O2", "-o", "{programs}/small-files", "{sources}/small-files.c"],
            &["gcc", "-O2", "-o", "{programs}/stdio-copy", "{sources}/stdio-copy.c"],
            &["gcc", "-shared", "-fPIC", "-o", "{programs}/empty.so", "{sources}/empty.c"],
        ],
        version: &["gcc", "--version"],
    },
    Tool {
        name: "cobol",
        program: "cobc",
        package: "gnucobol4",
        compile: &[&[
            "cobc",
            "-x",
            "-O2",
            "-o",
            "{programs}/record-copy",
            "{sources}/../classics/cobol-copy/record-copy.cob",
        ]],
        version: &["cobc", "--version"],
    },
    Tool {
        name: "fortran",
        program: "gfortran",
        package: "gfortran",
        compile: &[&[
            "gfortran",
            "-O2",
            "-o",
            "{programs}/flush-records",
            "{sources}/flush_records.f90",
        ]],
        version: &["gfortran", "--version"],
    },
    Tool {
        name: "java",
        program: "javac",
        package: "default-jdk-headless",
        compile: &[&["javac", "-d", "{programs}", "{sources}/ReadLines.java"]],
        version: &["java", "-version"],
    },
    Tool {
        name: "rust",
        program: "rustc",
        package: "rustc",
        compile: &[&["rustc", "-O", "-o", "{programs}/print-lines", "{sources}/print_lines.rs"]],
        version: &["rustc", "--version"],
    },
    Tool {
        name: "python",
        // Not the first on the PATH: that may be a version manager's script.
        program: "/usr/bin/python3",
        package: "python3",
        compile: &[],
        version: &["/usr/bin/python3", "--version"],
    },
    Tool {
        name: "library",
        program: "cargo",
        package: "cargo",
        compile: &[
            &[
                "cargo",
                "build",
                "--release",
                "--manifest-path",
                "{sources}/../Cargo.toml",
                "--target-dir",
                "{sources}/../target",
                "-p",
                "sweetspot",
                "-p",
                "sweetspot-io",
                "--bin",
                "sweetspot",
                "--example",
                "bars",
            ],
            &["cp", "{sources}/../target/release/sweetspot", "{programs}/sweetspot"],
            &["cp", "{sources}/../target/release/examples/bars", "{programs}/bars"],
        ],
        version: &["cp", "--version"],
    },
    Tool {
        name: "sqlite",
        program: "sqlite3",
        package: "sqlite3",
        compile: &[],
        version: &["sqlite3", "--version"],
    },
    Tool {
        name: "git",
        program: "git",
        package: "git",
        compile: &[],
        version: &["git", "--version"],
    },
    Tool {
        name: "bindfs",
        program: "bindfs",
        package: "bindfs fuse3",
        compile: &[],
        version: &["bindfs", "--version"],
    },
];

#[cfg(test)]
mod tests;
