//! The pages below `docs/use`: whatever they tell somebody to type is typed here, in a scratch folder,
//! from top to bottom, and prints what they show.
//!
//! | in the page | here |
//! |---|---|
//! | a block `sh` | runs, with `sh -eu`; the page is one script |
//! | a block `text` behind it | what it prints: numbers stand for numbers, blanks for blanks, a line `...` for any lines; `/data` is the scratch folder |
//! | `<!-- has: WORDS -->` before a block `text` | what is printed differs from run to run, but has these words; several of them may stand there |
//! | `<!-- file: NAME -->` before a block | the block is that file |
//! | `<!-- run ... -->` | runs, too, but readers are spared it: preparation, and proof |
//! | `<!-- needs: COMMAND PACKAGE -->` | without it the page is skipped, which in CI is a failure |
//! | `<!-- needs: root -->` | without it the page is skipped |
//! | `<!-- under: SCRIPT -->` | the script runs under this one of `scripts/` |
//!
//! With `SWEETSPOT_PAGES=write` in the environment the pages then show what was printed, so that their
//! figures are measured ones. `SWEETSPOT_PAGE=make.md` runs that page alone.
//!
//! Wherever a summary is shown, the one that came out must say that nearly all calls were spared.

use test_start::{stderr, untold};

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use sweetspot_report::summary::Figures;

/// A page that hangs is a failure, too. The longest takes half a minute, alone on the machine.
const SECONDS_MAX: &str = "300";
/// At most one call in so many is made. On a busy machine the guard may answer late, and until then
/// writes pass through; without buffering all are made.
const CALLS_PER_MADE_MIN: u64 = 2;
/// How often a page is run at most.
const TRIES_MAX: u32 = 4;

/// Ends a file in the script; in no page.
const END: &str = "END-OF-A-FILE-OF-A-PAGE";

/// For proofs: the summary in a file says that the program was buffered.
const PRELUDE: &str = "\
buffered() {
    awk '{ gsub(\",\", \"\") } /^calls/ { asked = $2; made = $4 } END { exit !(asked > 1000 && made * 2 < asked) }' \"$1\" ||
        { cat \"$1\"; echo \"$1: not buffered\"; exit 1; }
}
";

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A page as a script, and what each of its blocks is to print.
#[derive(Default)]
struct Page {
    script: String,
    shown: Vec<Shown>,
    needs: Vec<String>,
    under: Option<String>,
}

/// The output of a block.
struct Shown {
    /// The number of the block, whose output is written to a file of this name.
    block: usize,
    text: String,
    /// If there are any, only these must be in what is printed.
    has: Vec<String>,
}

impl Shown {
    fn is(&self, printed: &str) -> bool {
        match self.has.is_empty() {
            true => matches(&plain(&self.text), &plain(printed)),
            false => self.has.iter().all(|words| printed.contains(words)),
        }
    }
}

impl Page {
    fn read(text: &str) -> Page {
        let mut page = Page { script: PRELUDE.to_owned(), ..Page::default() };
        let mut lines = text.lines();
        let mut blocks = 0;
        let mut file = None;
        let mut has = Vec::new();
        let mut is_behind_commands = false;
        while let Some(line) = lines.next() {
            let mut until = |end: &str| -> String {
                lines
                    .by_ref()
                    .take_while(|line| *line != end)
                    .map(|line| format!("{line}\n"))
                    .collect()
            };
            if let Some(kind) = line.strip_prefix("```") {
                let content = until("```");
                match (file.take(), kind) {
                    (Some(name), _) => {
                        page.script += &format!("cat >{name} <<'{END}'\n{content}{END}\n");
                    }
                    (None, "sh") => page.add(&mut blocks, &content),
                    (None, "text") if is_behind_commands => {
                        let has = std::mem::take(&mut has);
                        page.shown.push(Shown { block: blocks, text: content, has });
                    }
                    (None, kind) => panic!("what is to be done with a block {kind:?}?\n{content}"),
                }
                is_behind_commands = kind == "sh";
            } else if line == "<!-- run" {
                page.add(&mut blocks, &until("-->"));
            } else if let Some(note) = line.strip_prefix("<!-- ") {
                let note = note.strip_suffix(" -->").expect("a note of one line");
                match note.split_once(": ").expect("a note with a value") {
                    ("file", name) => file = Some(name.to_owned()),
                    ("has", words) => has.push(words.to_owned()),
                    ("needs", what) => page.needs.push(what.to_owned()),
                    ("under", script) => page.under = Some(script.to_owned()),
                    other => panic!("unknown note {other:?}"),
                }
            } else if !line.trim().is_empty() {
                is_behind_commands = false;
            }
        }
        page
    }

    fn add(&mut self, blocks: &mut usize, commands: &str) {
        *blocks += 1;
        self.script += &format!("exec >\"$OUTPUTS/{blocks}\" 2>&1\n{commands}");
    }

    /// What this machine lacks, and whether it ought to be there.
    fn lacking(&self) -> Option<(String, bool)> {
        self.needs.iter().find_map(|need| match need.split_once(' ') {
            None => {
                let is_root = rustix::process::geteuid().is_root();
                (!is_root).then(|| (format!("not {need}"), false))
            }
            Some((command, package)) => {
                let is_there = |folder: &str| Path::new(folder).join(command).metadata().is_ok();
                let found = path().split(':').any(is_there);
                (!found).then(|| (format!("no {command} (apt-get install {package})"), true))
            }
        })
    }

    /// Runs it; returns each output that is shown, with what was printed.
    fn run(&self, name: &str) -> Result<Vec<(&str, String)>, String> {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        for folder in ["data", "bin", "home", "outputs"] {
            fs::create_dir(at(folder)).unwrap();
        }
        symlink(env!("CARGO_BIN_EXE_sweetspot"), at("bin/sweetspot")).unwrap();
        fs::write(at("script"), &self.script).unwrap();
        let mut command = Command::new("timeout");
        command.arg(SECONDS_MAX);
        command.args(self.under.iter().map(|script| project().join("scripts").join(script)));
        command.args(["sh", "-eu"]).arg(at("script")).current_dir(at("data"));
        untold(&mut command)
            .env("PATH", format!("{}:{}", at("bin").display(), path()))
            .env("HOME", at("home"))
            .env("SWEETSPOT_CACHE", at("cache"))
            .env("OUTPUTS", at("outputs"))
            .env("PROJECT", project())
            .env("LC_ALL", "C.UTF-8");
        let output = command.output().unwrap();
        let data = at("data").display().to_string();
        let printed = |block: usize| {
            let text = fs::read(at(&format!("outputs/{block}"))).unwrap_or_default();
            // The table is as wide as the path was.
            let blanks = " ".repeat(data.len() - "/data".len());
            let text = String::from_utf8_lossy(&text).replace(&data, "/data");
            text.replace(&format!(" file{blanks}"), " file")
        };
        if !output.status.success() {
            let last = fs::read_dir(at("outputs")).unwrap().count();
            let said = stderr(&output);
            return Err(format!(
                "{name}: {} in block {last}, which printed:\n{}{said}",
                output.status,
                printed(last)
            ));
        }
        let mut outputs = Vec::new();
        for shown in &self.shown {
            let printed = printed(shown.block);
            if !shown.is(&printed) {
                let Shown { text, has, .. } = shown;
                return Err(format!(
                    "{name} shows\n{text}\nand there was printed\n{printed}\nIt must have {has:?}."
                ));
            }
            check_counts(&printed).map_err(|counts| format!("{name}: not buffered: {counts}"))?;
            outputs.push((&*shown.text, printed));
        }
        Ok(outputs)
    }
}

/// The distribution's programs first, as everywhere in these tests.
fn path() -> String {
    let inherited = std::env::var("PATH").unwrap_or_default();
    format!("/usr/bin:/bin:/usr/sbin:/sbin:{inherited}")
}

/// Lines in which each number is 0 and each run of blanks is one.
fn plain(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let mut plain = String::new();
        let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut letters = words.chars().peekable();
        while let Some(letter) = letters.next() {
            let is_within =
                plain.ends_with('0') && letters.peek().is_some_and(char::is_ascii_digit);
            match letter.is_ascii_digit() || is_within && matches!(letter, '.' | ',') {
                true if plain.ends_with('0') => {}
                true => plain.push('0'),
                false => plain.push(letter),
            }
        }
        // How large a size was chosen depends on the machine, and what unit suits a time.
        let plain = plain.replace("0 MiB: a call", "0 KiB: a call");
        ["0 ms", "0 us", "0 ns"].into_iter().fold(plain, |plain, unit| plain.replace(unit, "0 s"))
    };
    text.lines().map(line).collect()
}

/// Whether the lines are those that were shown.
fn matches(shown: &[String], printed: &[String]) -> bool {
    match (shown, printed) {
        ([], printed) => printed.is_empty(),
        ([any, rest @ ..], printed) if any == "..." => {
            (0..=printed.len()).any(|skipped| matches(rest, &printed[skipped..]))
        }
        ([line, rest @ ..], [other, others @ ..]) => line == other && matches(rest, others),
        (_, []) => false,
    }
}

/// Each summary that was printed says that nearly all calls were spared.
fn check_counts(printed: &str) -> Result<(), String> {
    for line in printed.lines().filter(|line| line.starts_with("calls ")) {
        match Figures::read(line).calls {
            Some((requested, made)) if made * CALLS_PER_MADE_MIN < requested => {}
            _ => return Err(line.to_owned()),
        }
    }
    Ok(())
}

#[test]
fn every_page_does_what_it_says() {
    let mut wrong = Vec::new();
    let mut pages = 0;
    for entry in fs::read_dir(project().join("docs/use")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if std::env::var("SWEETSPOT_PAGE").is_ok_and(|only| only != name) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let page = Page::read(&text);
        pages += 1;
        if let Some((lacking, is_a_failure_in_ci)) = page.lacking() {
            eprintln!("skipped: docs/use/{name}: {lacking}");
            if is_a_failure_in_ci && std::env::var_os("CI").is_some() {
                wrong.push(format!("{name}: skipped, and in CI a skip is a failure: {lacking}"));
            }
            continue;
        }
        // On a busy machine the guard may come when a short job is over: then it is done once more.
        let once_more = |before: String| {
            page.run(&name).map_err(|again| format!("{before}\n\nand once more: {again}"))
        };
        let ran = (1..TRIES_MAX).fold(page.run(&name), |ran, _| ran.or_else(once_more));
        match ran {
            Ok(outputs) if std::env::var("SWEETSPOT_PAGES").is_ok_and(|what| what == "write") => {
                let outputs =
                    outputs.iter().filter(|(shown, _)| !shown.lines().any(|line| line == "..."));
                let block = |content: &str| format!("```text\n{content}```\n");
                let text = outputs.fold(text, |text, (shown, printed)| {
                    text.replace(&block(shown), &block(printed))
                });
                fs::write(&path, text).unwrap();
            }
            Ok(_) => {}
            Err(error) => wrong.push(error),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(pages > 5 || std::env::var_os("SWEETSPOT_PAGE").is_some(), "{pages}");
}

#[test]
fn outputs_are_compared() {
    let check = |shown: &str, printed: &str, same: bool| {
        assert_eq!(matches(&plain(shown), &plain(printed)), same, "{shown:?}, {printed:?}");
    };
    check("a 12  b\n", "a  3.25 b\n", true);
    check("a\n...\nb\n", "a\nx\ny\nb\n", true);
    check("a\n...\n", "a\n", true);
    check("a\n", "b\n", false);
    check("a\n", "a\nb\n", false);
    check("pid 12.\n", "pid 3,\n", false);
    let varying = |printed: &str| {
        let has = vec!["b 1".to_owned(), "c".to_owned()];
        Shown { block: 1, text: String::new(), has }.is(printed)
    };
    assert!(varying("c, a\nb 1\n"));
    assert!(!varying("a\nb 1\n"));
    assert!(check_counts("calls     200,000 requested, 489 made\n").is_ok());
    assert!(check_counts("calls     200,000 requested, 200,000 made\n").is_err());
}
