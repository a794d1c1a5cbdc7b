//! `cargo xtask bench languages`: what `run` reaches, a row a language.
//!
//! Each row is a small program in `programs/`, written in the way of its language that does not
//! buffer, which copies records of 200 bytes. It is measured as every benchmark is; besides,
//! `sweetspot profile` is asked what it says, and `run --summary` what was left.
//!
//! The languages are not among the needs of the tests: what is not installed is skipped, and said.
//! `{sources}` stands for the folder `programs/` here.

use super::execute::{self, Runner};
use super::figures::{named, ratio, time};
use super::table::{BASE, Benchmark, Cell, Input, Tool, Way};
use super::{data, failed, root, tools};
use crate::needs;
use serde::Serialize;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use sweetspot_lab::Error;

/// The page whose table is made from a record.
const PAGE: &str = "docs/reach.md";
const BEGIN: &str = "<!-- languages:begin -->\n";
const END: &str = "<!-- languages:end -->\n";

/// What was said of a program, without the folders of this machine.
#[derive(Serialize)]
pub struct Said {
    /// The first sentence of `profile`.
    pub profile: String,
    /// The calls that were made under `run`, and those that were left of them; none where nothing
    /// was buffered.
    pub calls: Option<(u64, u64)>,
    /// The notes of the summary, and its lines about files.
    pub summary: Vec<String>,
}

impl Said {
    /// In words.
    pub fn text(&self) -> String {
        let summary: String =
            self.summary.iter().map(|line| format!("  summary: {line}\n")).collect();
        format!("  profile: {}\n{summary}", self.profile)
    }
}

/// Asks `profile` about a program, and the summary of a run.
pub fn ask(runner: &Runner<'_>, binary: &Path) -> Result<Said, Error> {
    let [.., cell] = runner.benchmark.cells else {
        return Err(failed(runner.benchmark.name, "it has no cells"));
    };
    let Way::With(options) = cell.way else {
        return Err(failed(runner.benchmark.name, "it does not run under `run`"));
    };
    let answer = runner.work.with_extension("said");
    let asked = |verb: &str, options: &[&str], option: &str| {
        data::remove(&runner.output())?;
        data::remove(&answer)?;
        let mut file = OsString::from(option);
        file.push(&answer);
        let command = runner.command(cell);
        let mut words: Vec<&OsStr> = vec![binary.as_ref(), verb.as_ref()];
        words.extend(options.iter().map(OsStr::new));
        words.extend([&*file, "--".as_ref()]);
        words.extend(command.iter().map(OsString::as_os_str));
        execute::run(&runner.work, &words)?;
        fs::read_to_string(&answer).map_err(Error::system("read", &answer))
    };
    let profile: Value = serde_json::from_str(&asked("profile", &[], "--json=")?)
        .map_err(|error| failed("sweetspot profile", &error.to_string()))?;
    let sentence = profile["sentence"].as_str().unwrap_or_default();
    let summary = asked("run", options, "--summary=")?;
    // What stands in its place is in the next column.
    let (sentence, _) = sentence.split_once(" -- ").unwrap_or((sentence, ""));
    let matters =
        |line: &&str| ["note ", "buffered  no", " /"].iter().any(|it| line.starts_with(it));
    Ok(Said {
        profile: without_folders(sentence, runner),
        calls: calls(&summary),
        summary: summary
            .lines()
            .filter(matters)
            .map(|line| without_folders(&words(line), runner))
            .collect(),
    })
}

/// A line with single spaces.
fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Calls made and calls left, from the text of a summary.
fn calls(summary: &str) -> Option<(u64, u64)> {
    let line = summary.lines().find_map(|line| line.strip_prefix("calls "))?;
    let (calls, left) = line.strip_suffix(" made")?.split_once(" requested, ")?;
    Some((calls.trim().parse().ok()?, left.trim().parse().ok()?))
}

/// A text in which files have no folders that tell where they lie on this machine.
fn without_folders(text: &str, runner: &Runner<'_>) -> String {
    let input = runner.input.as_deref().and_then(Path::parent);
    let folders = [Some(runner.programs), Some(runner.sources), Some(&*runner.work), input];
    folders
        .into_iter()
        .flatten()
        .fold(text.to_owned(), |text, folder| text.replace(&format!("{}/", folder.display()), ""))
}

/// Installs the packages of the tools that are missing.
pub fn install() {
    let missing = TOOLS.iter().filter(|tool| !tools::is_installed(tool.program));
    let packages: Vec<&str> = missing.flat_map(|tool| tool.package.split(' ')).collect();
    // What is still missing then is skipped, and said.
    let _ = packages.is_empty() || needs::install_packages(&packages);
}

/// Writes the table of the page from a record.
pub fn write_table(record: &Path) -> Result<(), Error> {
    let page = root().join(PAGE);
    let text = fs::read_to_string(&page).map_err(Error::system("read", &page))?;
    let path = record.join("run.json");
    let json = fs::read_to_string(&path).map_err(Error::system("read", &path))?;
    let json = serde_json::from_str(&json).map_err(|error| failed(PAGE, &error.to_string()))?;
    let folder = record.file_name().unwrap_or_default().to_string_lossy();
    let (before, _, after) = parts(&text).ok_or_else(|| failed(PAGE, "its marks are missing"))?;
    let table = table(&json, &format!("measurements/{folder}"));
    let text = format!("{before}{BEGIN}{table}{END}{after}");
    fs::write(&page, text).map_err(Error::system("write", &page))
}

/// The answer that `profile` begins with. In older records what was counted stands before it.
fn conclusion(sentence: &str) -> &str {
    let (first, _) = sentence.split_once(". Hint").unwrap_or((sentence, ""));
    match first.starts_with(|letter: char| letter.is_ascii_digit() || letter == 'l') {
        true => first.split_once("; ").map_or(first, |(_, answer)| answer),
        false => first.split_once(". ").map_or(first, |(answer, _)| answer),
    }
}

/// The page before its table, the table, and what comes after it.
fn parts(page: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (table, after) = rest.split_once(END)?;
    Some((before, table, after))
}

/// The table, from a record.
fn table(record: &Value, folder: &str) -> String {
    let environment = &record["environment"];
    let said = |name: &str| environment[name].as_str().unwrap_or_default();
    let load: Vec<String> = record["load"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|load| format!("{:.1}", load.as_f64().unwrap_or(0.0)))
        .collect();
    let mut text = format!(
        "One session on {} with {} cores ({}), {}, Linux {}, load\n{} at the beginning and at the end. Medians, and the ratio from alternating \
         pairs with its\n95 % interval; outputs equal in every round; of `profile` its answer\n\
         (`{folder}`).\n\n\
         | program, unchanged | Debian package | plain | under `run` | ratio | calls left | `profile` says |\n\
         |---|---|---|---|---|---|---|\n",
        if environment["virtual_machine"] == true { "a virtual machine" } else { "a machine" },
        environment["processors"],
        said("processor"),
        said("distribution"),
        said("kernel").split('-').next().unwrap_or_default(),
        load.join(" and "),
    );
    for language in LANGUAGES {
        let package = TOOLS.iter().find(|tool| language.needs.contains(&tool.name));
        let package = package.map_or("", |tool| tool.package);
        let findings = record["findings"].as_array().map_or(&[][..], Vec::as_slice);
        if !findings.iter().any(|finding| finding["name"] == language.name) {
            continue;
        }
        let finding = named(&record["findings"], "name", language.name);
        let [plain, run] =
            [0, 1].map(|cell| finding["cells"][cell]["median"].as_f64().unwrap_or(0.0));
        let with = match language.cells[1].name {
            "run" => String::new(),
            name => format!(", `{}`", &name["run ".len()..]),
        };
        let said = &finding["said"];
        let calls = match (said["calls"][0].as_u64(), said["calls"][1].as_u64()) {
            (Some(calls), Some(left)) => format!("{left} of {calls}"),
            _ => "all".to_owned(),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {package} | {} | {}{with} | {} | {calls} | {} |",
            finding["what"].as_str().unwrap_or_default(),
            time(plain),
            time(run),
            ratio(finding, "plain"),
            conclusion(said["profile"].as_str().unwrap_or_default()).replace('|', "\\|"),
        );
    }
    text
}

/// A program as it is, and under `run` with these of its options; the command, then its arguments.
macro_rules! copy {
    ($name:literal, $what:literal, $tool:literal, $run:literal $options:expr, [$($word:literal),+]) => {
        Benchmark {
            name: $name,
            what: $what,
            needs: &[$tool],
            input: Input::Records,
            count: [RECORDS, 1_000],
            cells: &[
                Cell { name: "plain", way: Way::Plain, command: &[$($word),+], bar: None },
                Cell { name: $run, way: Way::With($options), command: &[$($word),+], bar: None },
            ],
            ..BASE
        }
    };
    ($name:literal, $what:literal, $tool:literal, [$($word:literal),+]) => {
        copy!($name, $what, $tool, "run" &[], [$($word),+, "{input}", "{output}"])
    };
    // Where the calls are those of C's stdio.
    ($name:literal, $what:literal, $tool:literal, stdio [$($word:literal),+]) => {
        copy!(
            $name, $what, $tool, "run --stdio" &["--stdio"], [$($word),+, "{input}", "{output}"]
        )
    };
}

/// Takes a tenth of a second to two seconds in each language.
const RECORDS: u64 = 100_000;

/// The rows, in the order of the table.
#[rustfmt::skip]
pub const LANGUAGES: &[Benchmark] = &[
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
    Benchmark {
        count: [20_000, 1_000],
        ..copy!("erlang", "Erlang, `raw` files ({count} records)", "erlang",
            ["erl", "-noinput", "-pa", "{programs}", "-s", "record_copy", "start", "-extra"])
    },
    copy!("mono", "Mono, `FileStream` without a buffer", "mono",
        ["mono", "{programs}/RecordCopy.exe"]),
    copy!("mono-private", "the same with `MONO_DISABLE_SHARED_AREA=1`", "mono",
        ["env", "MONO_DISABLE_SHARED_AREA=1", "mono", "{programs}/RecordCopy.exe"]),
    copy!("octave", "Octave, `fread` and `fwrite` (it buffers itself)", "octave",
        ["octave-cli", "--no-init-file", "--norc", "{sources}/octave/record_copy.m"]),
    copy!("gawk", "GNU awk, `fflush` after each line", "gawk", "run --stdio" &["--stdio"],
        ["gawk", "-v", "output={output}", "-f", "{sources}/awk/record-copy.awk", "{input}"]),
    copy!("mawk", "mawk, `fflush` after each line", "mawk", "run --stdio" &["--stdio"],
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

    #[test]
    fn the_page_says_what_its_record_says() {
        let page = fs::read_to_string(root().join(PAGE)).unwrap();
        let (_, said, _) = parts(&page).expect("the page has its marks");
        let at = said.find("`measurements/").expect("the page names its record");
        let folder = said[at + 1..].split('`').next().unwrap();
        if std::env::var_os("UPDATE_README").is_some() {
            return write_table(&root().join(folder)).unwrap();
        }
        let record = fs::read_to_string(root().join(folder).join("run.json")).unwrap();
        let expected = table(&serde_json::from_str(&record).unwrap(), folder);
        assert!(
            said == expected,
            "UPDATE_README=1 cargo test -p xtask the_page_says; it should say:\n{expected}"
        );
    }

    #[test]
    fn of_what_profile_says_the_answer_matters() {
        for (said, expected) in [
            (
                "9 % of 1 s went into x; it has nothing to gain: y; try: z",
                "it has nothing to gain: y; try: z",
            ),
            (
                "it cannot be seen: it is a Go program. Hint: it reads; in pieces",
                "it cannot be seen: it is a Go program",
            ),
            ("no system calls", "no system calls"),
            ("Use it: 2 times as fast. 9 % of 1 s went into x. Try: z", "Use it: 2 times as fast"),
        ] {
            assert_eq!(conclusion(said), expected);
        }
    }

    #[test]
    fn every_language_has_its_tool_and_its_program() {
        for language in LANGUAGES {
            let tools: Vec<&Tool> =
                TOOLS.iter().filter(|tool| language.needs.contains(&tool.name)).collect();
            assert_eq!(tools.len(), 1, "{}", language.name);
            let words = tools[0].compile.iter().copied().chain([language.cells[0].command]);
            let mut words = words.flatten().filter_map(|word| word.strip_prefix("{sources}/"));
            let source = words.next().expect(language.name);
            assert!(root().join("programs").join(source).is_file(), "{source}");
        }
    }

    #[test]
    fn calls_are_read_in_a_summary() {
        assert_eq!(calls("x\ncalls     200002 requested, 244 made\n"), Some((200_002, 244)));
        assert_eq!(calls("note      nothing was buffered\n"), None);
    }
}
