//! The rows of the table, and the toolchains that they need.
//!
//! In a command these are filled in:
//!
//! | text | meaning |
//! |---|---|
//! | `{input}` | the file that is copied |
//! | `{output}` | a name that does not exist yet |
//! | `{programs}` | the folder with the compiled programs |
//! | `{sources}` | the folder `programs/` with their sources |

/// A small program, written in the way of its language that does not buffer, which copies records.
pub struct Language {
    /// What `--filter` looks at.
    pub name: &'static str,
    /// What the table calls it.
    pub what: &'static str,
    /// The tool that it needs, by its name in [`TOOLS`].
    pub tool: &'static str,
    /// How many records it copies.
    pub records: u64,
    /// Options of `run`.
    pub options: &'static [&'static str],
    /// The command.
    pub command: &'static [&'static str],
}

/// A toolchain, and what it has to compile.
pub struct Tool {
    /// The name that rows use.
    pub name: &'static str,
    /// The program that must be there.
    pub program: &'static str,
    /// The Debian package it is in.
    pub package: &'static str,
    /// How it makes the programs.
    pub compile: &'static [&'static [&'static str]],
    /// The command that prints its version, for the record.
    pub version: &'static [&'static str],
}

/// Takes a tenth of a second to two seconds in each language.
const RECORDS: u64 = 100_000;

/// A row: the command, its last words being the two files where nothing else is said.
macro_rules! copy {
    // Where the calls are those of C's stdio.
    ($name:literal, $what:literal, $tool:literal, stdio [$($word:literal),+]) => {
        copy!($name, $what, $tool, &["--stdio"], [$($word),+, "{input}", "{output}"])
    };
    ($name:literal, $what:literal, $tool:literal, $options:expr, [$($word:literal),+]) => {
        Language {
            name: $name,
            what: $what,
            tool: $tool,
            records: RECORDS,
            options: $options,
            command: &[$($word),+],
        }
    };
    ($name:literal, $what:literal, $tool:literal, [$($word:literal),+]) => {
        copy!($name, $what, $tool, &[], [$($word),+, "{input}", "{output}"])
    };
}

/// The rows, in the order of the table.
#[rustfmt::skip]
pub const LANGUAGES: &[Language] = &[
    copy!("ruby", "Ruby, `sysread` and `syswrite`", "ruby",
        ["ruby", "{sources}/ruby/record-copy.rb"]),
    copy!("php", "PHP, `fread` and `fwrite`, as installed", "php",
        ["php", "{sources}/php/record-copy.php"]),
    copy!("php-n", "the same with `php -n`", "php",
        ["php", "-n", "{sources}/php/record-copy.php"]),
    copy!("java-stream", "Java `FileInputStream`, `FileOutputStream`", "java",
        ["java", "-cp", "{programs}", "RecordCopy", "stream"]),
    copy!("java-random", "Java `RandomAccessFile`", "java",
        ["java", "-cp", "{programs}", "RecordCopy", "random"]),
    copy!("tcl", "Tcl, `fconfigure -buffering none`", "tcl",
        ["tclsh", "{sources}/tcl/record-copy.tcl"]),
    copy!("lua", "Lua, `setvbuf(\"no\")`", "lua",
        stdio ["lua5.4", "{sources}/lua/record-copy.lua"]),
    copy!("perl", "Perl, `sysread` and `syswrite`", "perl",
        ["/usr/bin/perl", "{sources}/perl/record-copy.pl"]),
    copy!("python", "Python, `buffering=0`", "python",
        ["/usr/bin/python3", "{sources}/python/record_copy.py"]),
    copy!("pypy", "PyPy, `buffering=0`", "pypy",
        ["pypy3", "{sources}/python/record_copy.py"]),
    copy!("node", "Node, `readSync` and `writeSync`", "node",
        ["node", "{sources}/node/record-copy.js"]),
    copy!("r", "R, `readBin` and `writeBin` (it buffers itself)", "r",
        ["Rscript", "--vanilla", "{sources}/r/record-copy.R"]),
    copy!("guile", "Guile, ports opened with `0`", "guile",
        ["guile", "--no-auto-compile", "-s", "{sources}/guile/record-copy.scm"]),
    copy!("ocaml", "OCaml, `Unix.read` and `Unix.write`", "ocaml",
        ["{programs}/ocaml-record-copy"]),
    copy!("haskell", "GHC, `NoBuffering`", "ghc",
        ["{programs}/haskell-record-copy"]),
    copy!("sbcl", "SBCL, `unix-read` and `unix-write`", "sbcl",
        ["sbcl", "--script", "{sources}/lisp/record-copy.lisp"]),
    Language {
        records: 20_000,
        ..copy!("erlang", "Erlang, `raw` files (20,000 records)", "erlang",
            ["erl", "-noinput", "-pa", "{programs}", "-s", "record_copy", "start", "-extra"])
    },
    copy!("mono", "Mono, `FileStream` without a buffer", "mono",
        ["mono", "{programs}/RecordCopy.exe"]),
    copy!("mono-private", "the same with `MONO_DISABLE_SHARED_AREA=1`", "mono",
        ["env", "MONO_DISABLE_SHARED_AREA=1", "mono", "{programs}/RecordCopy.exe"]),
    copy!("octave", "Octave, `fread` and `fwrite` (it buffers itself)", "octave",
        ["octave-cli", "--no-init-file", "--norc", "{sources}/octave/record_copy.m"]),
    copy!("gawk", "GNU awk, `fflush` after each line", "gawk", &["--stdio"],
        ["gawk", "-v", "output={output}", "-f", "{sources}/awk/record-copy.awk", "{input}"]),
    copy!("mawk", "mawk, `fflush` after each line", "mawk", &["--stdio"],
        ["mawk", "-v", "output={output}", "-f", "{sources}/awk/record-copy.awk", "{input}"]),
    copy!("bash", "bash, `while read` and `printf`", "bash",
        ["bash", "{sources}/shell/record-copy.bash"]),
    copy!("pascal", "Free Pascal, `blockread` and `blockwrite`", "pascal",
        ["{programs}/pascal-record-copy"]),
    copy!("ada", "Ada, `Ada.Direct_IO`", "ada",
        stdio ["{programs}/ada-record-copy"]),
    copy!("go", "Go, `os.File`", "go",
        ["{programs}/go-record-copy"]),
    copy!("crystal", "Crystal, `sync = true`", "crystal",
        ["{programs}/crystal-record-copy"]),
    copy!("chicken", "Chicken, `file-read` and `file-write`", "chicken",
        ["{programs}/scheme-record-copy"]),
    copy!("nim", "Nim, a buffer of 0", "nim",
        stdio ["{programs}/nim-record-copy"]),
    copy!("d", "D, `_IONBF`", "d",
        stdio ["{programs}/d-record-copy"]),
];

/// The tools of the rows.
#[rustfmt::skip]
pub const TOOLS: &[Tool] = &[
    Tool { name: "ruby", program: "ruby", package: "ruby",
        compile: &[],
        version: &["ruby", "--version"] },
    Tool { name: "php", program: "php", package: "php-cli",
        compile: &[],
        version: &["php", "--version"] },
    Tool { name: "java", program: "javac", package: "default-jdk-headless",
        compile: &[
            &["javac", "-d", "{programs}", "{sources}/java/RecordCopy.java"],
        ],
        version: &["java", "-version"] },
    Tool { name: "tcl", program: "tclsh", package: "tcl",
        compile: &[],
        version: &[] },
    Tool { name: "lua", program: "lua5.4", package: "lua5.4",
        compile: &[],
        version: &["lua5.4", "-v"] },
    Tool { name: "perl", program: "/usr/bin/perl", package: "perl",
        compile: &[],
        version: &["/usr/bin/perl", "-e", "print $^V"] },
    Tool { name: "python", program: "/usr/bin/python3", package: "python3",
        compile: &[],
        version: &["/usr/bin/python3", "--version"] },
    Tool { name: "pypy", program: "pypy3", package: "pypy3",
        compile: &[],
        version: &["pypy3", "--version"] },
    Tool { name: "node", program: "node", package: "nodejs",
        compile: &[],
        version: &["node", "--version"] },
    Tool { name: "r", program: "Rscript", package: "r-base-core",
        compile: &[],
        version: &["Rscript", "--version"] },
    Tool { name: "guile", program: "guile", package: "guile-3.0",
        compile: &[],
        version: &["guile", "--version"] },
    Tool { name: "ocaml", program: "ocamlopt", package: "ocaml-nox",
        compile: &[
            &["cp", "{sources}/ocaml/record_copy.ml", "{programs}"],
            &["ocamlopt", "-I", "+unix", "unix.cmxa", "-o", "ocaml-record-copy", "record_copy.ml"],
        ],
        version: &["ocamlopt", "-version"] },
    Tool { name: "ghc", program: "ghc", package: "ghc",
        compile: &[
            &["ghc", "-O", "-outputdir", "{programs}/haskell", "-o", "{programs}/haskell-record-copy", "{sources}/haskell/RecordCopy.hs"],
        ],
        version: &["ghc", "--version"] },
    Tool { name: "sbcl", program: "sbcl", package: "sbcl",
        compile: &[],
        version: &["sbcl", "--version"] },
    Tool { name: "erlang", program: "erlc", package: "erlang-base",
        compile: &[
            &["erlc", "-o", "{programs}", "{sources}/erlang/record_copy.erl"],
        ],
        version: &["erl", "-noinput", "-eval", "io:put_chars(erlang:system_info(otp_release)), halt()."] },
    Tool { name: "mono", program: "mcs", package: "mono-mcs mono-runtime",
        compile: &[
            &["mcs", "-out:{programs}/RecordCopy.exe", "{sources}/csharp/RecordCopy.cs"],
        ],
        version: &["mono", "--version"] },
    Tool { name: "octave", program: "octave-cli", package: "octave",
        compile: &[],
        version: &["octave-cli", "--version"] },
    Tool { name: "gawk", program: "gawk", package: "gawk",
        compile: &[],
        version: &["gawk", "--version"] },
    Tool { name: "mawk", program: "mawk", package: "mawk",
        compile: &[],
        version: &["mawk", "-W", "version"] },
    Tool { name: "bash", program: "bash", package: "bash",
        compile: &[],
        version: &["bash", "--version"] },
    Tool { name: "pascal", program: "fpc", package: "fp-compiler",
        compile: &[
            &["fpc", "-O2", "-FE{programs}", "-opascal-record-copy", "{sources}/pascal/record_copy.pas"],
        ],
        version: &["fpc", "-iV"] },
    Tool { name: "ada", program: "gnatmake", package: "gnat",
        compile: &[
            &["gnatmake", "-q", "-O2", "-o", "{programs}/ada-record-copy", "{sources}/ada/record_copy.adb"],
        ],
        version: &["gnatmake", "--version"] },
    Tool { name: "go", program: "go", package: "golang-go",
        compile: &[
            &["go", "build", "-o", "{programs}/go-record-copy", "{sources}/go/record-copy.go"],
        ],
        version: &["go", "version"] },
    Tool { name: "crystal", program: "crystal", package: "crystal",
        compile: &[
            &["crystal", "build", "--release", "-o", "{programs}/crystal-record-copy", "{sources}/crystal/record-copy.cr"],
        ],
        version: &["crystal", "--version"] },
    Tool { name: "chicken", program: "csc", package: "chicken-bin",
        compile: &[
            &["csc", "-O2", "-o", "{programs}/scheme-record-copy", "{sources}/scheme/record-copy.scm"],
        ],
        version: &["csc", "-release"] },
    Tool { name: "nim", program: "nim", package: "nim",
        compile: &[
            &["nim", "c", "-d:release", "--hints:off", "--nimcache:{programs}/nim", "-o:{programs}/nim-record-copy", "{sources}/nim/record_copy.nim"],
        ],
        version: &["nim", "--version"] },
    Tool { name: "d", program: "gdc", package: "gdc",
        compile: &[
            &["gdc", "-O2", "-o", "{programs}/d-record-copy", "{sources}/d/record_copy.d"],
        ],
        version: &["gdc", "--version"] },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::root;

    #[test]
    fn every_language_has_its_tool_and_its_program() {
        for language in LANGUAGES {
            let tools: Vec<&Tool> =
                TOOLS.iter().filter(|tool| tool.name == language.tool).collect();
            assert_eq!(tools.len(), 1, "{}", language.name);
            let words = tools[0].compile.iter().copied().chain([language.command]);
            let mut words = words.flatten().filter_map(|word| word.strip_prefix("{sources}/"));
            let source = words.next().expect(language.name);
            assert!(root().join("programs").join(source).is_file(), "{source}");
        }
    }
}
