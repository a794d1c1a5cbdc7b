//! `sweetspot.toml`: where it is found, and what it may say.
//!
//! The first rule that matches wins; the matching of files is the library's, here only programs
//! are matched. Not here: writing the file (`tune` does that).
//!
//! A file found by walking upwards could have been put there by someone else (`/tmp`), and a rule
//! can promise what is not true. So it counts only if it, and a link that it is, belongs to the user or
//! to root, and nobody else may write it or change its folder. Any other one is passed over, whatever
//! it is: nobody can stop the runs of others. So is what is no file (a FIFO would have to be waited
//! for). A file that is named may be anything: `--config <(...)` is a pipe.

use crate::buffer;
use crate::home;
use crate::named;
use serde::Deserialize;
use serde::de::{Deserializer, Visitor};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use sweetspot_core::environment::RULES;
use sweetspot_core::glob;
use sweetspot_core::ledger::{RULES_MAX, TEXT_BYTES_MAX};
use sweetspot_core::size::BufferSize;
use sweetspot_report::failure::Failure;
use sweetspot_report::shell::quoted;
use sweetspot_report::shown::shown;
use toml::Spanned;

/// The name that is looked for.
pub const FILE_NAME: &str = "sweetspot.toml";
/// The name of the user's own file about folders of this machine.
const MACHINE_FILE_NAME: &str = "machine.toml";
/// No sensible file is larger; a mistaken `--config big.dat` ends quickly.
const FILE_MEBIBYTES_MAX: u64 = 1;

/// What a rule promises about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Nobody looks at the file before it is closed.
    Unobserved,
}

/// Whether calls of C's stdio are buffered like any others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdio {
    On,
    Off,
}

/// One `[[rule]]`. What is `None` was not said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Glob over the program's file name.
    pub program: Option<String>,
    /// Glob over the file's path.
    pub file: Option<String>,
    pub buffer: Option<BufferSize>,
    pub promise: Option<Promise>,
    pub stdio: Option<Stdio>,
    /// It only says what `auto` means for these files (`tune --machine`).
    pub for_auto: bool,
}

impl Rule {
    /// Whether the rule is for the program with this file name.
    pub fn is_for_program(&self, name: &OsStr) -> bool {
        match &self.program {
            Some(pattern) => glob::matches(pattern.as_bytes(), name.as_bytes()),
            None => true,
        }
    }
}

/// All rules, from at most one file.
#[derive(Debug, Default)]
pub struct Config {
    /// Where they stand, if there is a file.
    pub path: Option<PathBuf>,
    /// At most [`RULES_MAX`], in the file's order.
    pub rules: Vec<Rule>,
}

/// What the rules say for all files of the program with this file name: the first that matches.
pub fn size_for(rules: &[Rule], program: &OsStr) -> Option<BufferSize> {
    rules.iter().find(|rule| rule.file.is_none() && rule.is_for_program(program))?.buffer
}

/// The file that is named: by `--config`, else by the environment.
pub fn named(explicit: Option<&Path>) -> Option<PathBuf> {
    let from_environment = || std::env::var_os(RULES).filter(|path| !path.is_empty());
    explicit.map(Path::to_path_buf).or_else(|| from_environment().map(PathBuf::from))
}

/// Reads `explicit`, or the nearest file from `folder` upwards, or nothing.
///
/// # Errors
/// Where the file cannot be read or says something that is not understood; the message names file,
/// line and cause.
pub fn load(
    explicit: Option<&Path>,
    folder: Option<&Path>,
    warnings: &mut Vec<String>,
) -> Result<Config, Failure> {
    let (path, text) = match explicit {
        Some(path) => (path.to_path_buf(), read(path, Waiting::Allowed)?),
        None => match folder.and_then(|folder| search(folder, warnings)) {
            Some(path) => (path.clone(), read(&path, Waiting::Never)?),
            None => return Ok(Config::default()),
        },
    };
    let rules = parse(&text, &path, warnings)?;
    Ok(Config { path: Some(path), rules })
}

/// To be asked of a file that is named where run after run is to read it: a pipe can be read only once.
///
/// # Errors
/// It is neither a file nor `/dev/null`.
pub fn check_lasts(path: &Path) -> Result<(), Failure> {
    let is_null = |found: &Metadata| {
        std::fs::metadata("/dev/null").is_ok_and(|null| null.rdev() == found.rdev())
    };
    match path.metadata() {
        Ok(found) if !found.is_file() && !found.is_dir() && !is_null(&found) => {
            Err(Failure::own(format!("{}: {NO_FILE}, and every run must read it", shown(path)))
                .next("put the rules into a file, or take none at all: --config /dev/null"))
        }
        _ => Ok(()),
    }
}

/// Where `tune --machine` keeps what `auto` means in which folder.
pub fn machine_place() -> Option<PathBuf> {
    Some(home::config()?.join(MACHINE_FILE_NAME))
}

/// What `auto` means in which folder, as many rules as there is room for. They are a help: where
/// they cannot be used there is a warning.
pub fn machine_rules(room: usize, warnings: &mut Vec<String>) -> Vec<Rule> {
    let Some(path) = machine_place() else { return Vec::new() };
    match path.metadata() {
        Ok(metadata) if is_trusted(&metadata) && metadata.is_file() => {}
        Ok(metadata) => {
            let why = match metadata.is_file() {
                true => "someone else could have written it",
                false => NO_FILE,
            };
            warnings.push(format!("{} is ignored: {why}", shown(&path)));
            return Vec::new();
        }
        Err(_) => return Vec::new(),
    }
    let mut mistakes = Vec::new();
    let rules = read(&path, Waiting::Never).and_then(|text| parse(&text, &path, &mut mistakes));
    if !mistakes.is_empty() {
        let ignored = |mistake: String| format!("{mistake}, so the file is ignored");
        warnings.extend(mistakes.into_iter().map(ignored));
        return Vec::new();
    }
    let rules = rules.unwrap_or_else(|failure| {
        warnings.push(failure.what().to_owned());
        Vec::new()
    });
    // Whatever else was written there by hand has its place in sweetspot.toml.
    let rules = rules.into_iter().filter(|rule| rule.file.is_some() && rule.buffer.is_some());
    let only_size = |rule: Rule| Rule { promise: None, stdio: None, for_auto: true, ..rule };
    rules.map(only_size).take(room).collect()
}

/// Why a folder, a FIFO, a socket or a device is passed over.
const NO_FILE: &str = "not a regular file";

fn search(folder: &Path, warnings: &mut Vec<String>) -> Option<PathBuf> {
    let mut ignored = Vec::new();
    let mut found = None;
    for folder in folder.ancestors() {
        let path = folder.join(FILE_NAME);
        let Ok(there) = path.symlink_metadata() else { continue };
        let why = if !is_own(&there, folder, &path) {
            "someone else owns it or can write to it, perhaps through a group (check it and its folder: ls -ld)"
        } else if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
            NO_FILE
        } else {
            found = Some(path);
            break;
        };
        ignored.push((path, why));
    }
    // One for all: an attacker who plants one can plant many.
    if let Some((path, why)) = ignored.first() {
        let (name, typed) = (shown(path), quoted(path));
        warnings.push(format!("{name} is ignored: {why}; to use it: --config {typed}"));
    }
    found
}

/// Why a file of rules does not count, which may be still to be made.
pub struct InOthersHands {
    /// It, or its folder.
    pub what: PathBuf,
    /// It is the user's own, but can be written by others.
    pub is_own: bool,
}

/// What makes a file of rules at this path, at which rules are looked for, one that does not count.
pub fn in_the_hands_of_others(path: &Path) -> Option<InOthersHands> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let what = match path.symlink_metadata() {
        _ if !is_safe(folder) => folder,
        Ok(there) if !is_own(&there, folder, path) => path,
        _ => return None,
    };
    let is_own = what.metadata().is_ok_and(|found| is_of_user(&found));
    Some(InOthersHands { what: what.to_owned(), is_own })
}

/// Whether what was found there, which may be a link, is the user's own. Where a link of the user's
/// own leads nowhere, reading it says so.
fn is_own(there: &Metadata, folder: &Path, path: &Path) -> bool {
    is_of_user(there)
        && is_safe(folder)
        && path.metadata().map_or(true, |metadata| is_trusted(&metadata))
}

/// Whether nobody else can change a name in this folder. In a sticky one others can add some.
fn is_safe(folder: &Path) -> bool {
    folder.metadata().is_ok_and(|folder| is_trusted(&folder) || folder.mode() & STICKY != 0)
}

/// The bit of a folder in which only its owner can remove or rename a file.
const STICKY: u32 = 0o1000;

fn is_of_user(metadata: &Metadata) -> bool {
    [0, rustix::process::geteuid().as_raw()].contains(&metadata.uid())
}

/// Whether others than the owner may write it.
fn is_open(metadata: &Metadata) -> bool {
    metadata.mode() & 0o022 != 0
}

fn is_trusted(metadata: &Metadata) -> bool {
    is_of_user(metadata) && !is_open(metadata)
}

/// Whether reading may wait for somebody who writes.
enum Waiting {
    Allowed,
    /// What was just a file may be a FIFO by now.
    Never,
}

fn read(path: &Path, waiting: Waiting) -> Result<String, Failure> {
    let shown = shown(path);
    let unreadable = |cause: &str, next: String| {
        Failure::own(format!("{shown}: cannot be read: {cause}")).next(next)
    };
    let io = |error: std::io::Error| {
        let next = match error.kind() {
            ErrorKind::NotFound => format!("check the name: ls -l {}", quoted(path)),
            ErrorKind::TimedOut => {
                format!("start its writer first, such as: cat {FILE_NAME} > {} &", quoted(path))
            }
            ErrorKind::PermissionDenied => format!("try: chmod u+r {}", quoted(path)),
            _ => "or take no rules at all: --config /dev/null".to_string(),
        };
        unreadable(&error.to_string(), next)
    };
    if path.metadata().map_err(io)?.is_dir() {
        let next = format!("name the file in it: --config {}", quoted(path.join(FILE_NAME)));
        return Err(unreadable("it is a folder", next));
    }
    let bytes = match waiting {
        Waiting::Allowed => {
            named::open_written(path).and_then(|written| named::rest(written, FILE_MEBIBYTES_MAX))
        }
        Waiting::Never => {
            named::open_at_once(path).and_then(|file| named::rest(file, FILE_MEBIBYTES_MAX))
        }
    };
    let bytes = bytes.map_err(io)?;
    String::from_utf8(bytes).map_err(|error| {
        let line =
            1 + memchr::memchr_iter(b'\n', &error.as_bytes()[..error.utf8_error().valid_up_to()])
                .count();
        Failure::own(format!("{shown}:{line}: it is not text in UTF-8"))
            .next("or take no rules at all: --config /dev/null")
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    #[serde(default)]
    rule: Vec<Spanned<RuleText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    program: Option<Spanned<String>>,
    file: Option<Spanned<String>>,
    buffer: Option<Spanned<SizeText>>,
    promise: Option<Spanned<String>>,
    stdio: Option<Spanned<String>>,
    /// When `tune` wrote the rule; nothing depends on it here.
    #[serde(rename = "tuned")]
    _tuned: Option<toml::Value>,
}

/// A size, with or without quotes.
struct SizeText(String);

impl<'de> Deserialize<'de> for SizeText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SizeText, D::Error> {
        struct Texts;
        impl Visitor<'_> for Texts {
            type Value = SizeText;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a size such as \"64K\", \"auto\" or \"off\"")
            }
            fn visit_str<E>(self, text: &str) -> Result<SizeText, E> {
                Ok(SizeText(text.to_string()))
            }
            fn visit_i64<E>(self, number: i64) -> Result<SizeText, E> {
                Ok(SizeText(number.to_string()))
            }
        }
        deserializer.deserialize_any(Texts)
    }
}

pub fn parse(text: &str, path: &Path, warnings: &mut Vec<String>) -> Result<Vec<Rule>, Failure> {
    let place = |at: usize| {
        let line = 1 + memchr::memchr_iter(b'\n', &text.as_bytes()[..at.min(text.len())]).count();
        format!("{}:{line}", shown(path))
    };
    let file: FileText = toml::from_str(text).map_err(|error| {
        let start = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
        // Where the text is no TOML, the parser goes on and may report what follows from it.
        let (_, broken) = toml::de::DeTable::parse_recoverable(text);
        let first = broken.into_iter().min_by_key(start).unwrap_or(error);
        let cause = shown(first.message().replace('\n', ", "));
        Failure::own(format!("{}: {cause}", place(start(&first)))).next(
            "a rule looks like this: [[rule]] on a line, then program = \"seqcopy\", buffer = \"64K\"",
        )
    })?;
    if let Some(rule) = file.rule.get(RULES_MAX) {
        let place = place(rule.span().start);
        return Err(Failure::own(format!("{place}: more than {RULES_MAX} rules"))
            .next("put several patterns into one, such as file = \"*.dat\""));
    }
    file.rule.into_iter().map(|rule| check(rule.into_inner(), &place, warnings)).collect()
}

/// Turns one rule's texts into what they mean.
fn check(
    rule: RuleText,
    place: &dyn Fn(usize) -> String,
    warnings: &mut Vec<String>,
) -> Result<Rule, Failure> {
    let pattern = |text: Option<Spanned<String>>| match text {
        Some(text) if text.get_ref().len() > TEXT_BYTES_MAX => {
            let place = place(text.span().start);
            Err(Failure::own(format!("{place}: the pattern is longer than {TEXT_BYTES_MAX} bytes"))
                .next("shorten it with a *, such as \"*/seqcopy.dat\""))
        }
        text => Ok(text.map(Spanned::into_inner)),
    };
    let word = |text: &Spanned<String>, key: &str, known: &str| {
        let (place, typed) = (place(text.span().start), shown(text.get_ref()));
        Failure::own(format!("{place}: {key} = \"{typed}\" is not known"))
            .next(format!("try: {key} = {known}"))
    };
    let buffer = match &rule.buffer {
        Some(size) => {
            let origin = format!("{}: buffer", place(size.span().start));
            Some(buffer::read(OsStr::new(&size.get_ref().0), &origin, warnings)?)
        }
        None => None,
    };
    let promise = match &rule.promise {
        // What it was called before 0.2, for one release.
        Some(text) if ["unobserved", "private"].contains(&text.get_ref().as_str()) => {
            Some(Promise::Unobserved)
        }
        Some(text) => return Err(word(text, "promise", "\"unobserved\"")),
        None => None,
    };
    let stdio = match &rule.stdio {
        Some(text) if text.get_ref() == "on" => Some(Stdio::On),
        Some(text) if text.get_ref() == "off" => Some(Stdio::Off),
        Some(text) => return Err(word(text, "stdio", "\"on\" or \"off\"")),
        None => None,
    };
    let (program, file) = (pattern(rule.program)?, pattern(rule.file)?);
    Ok(Rule { program, file, buffer, promise, stdio, for_auto: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_for_a_program_says_its_size() {
        let rule = |program: Option<&str>, file: Option<&str>, bytes| Rule {
            program: program.map(String::from),
            file: file.map(String::from),
            buffer: Some(BufferSize::Bytes(bytes)),
            ..Rule::default()
        };
        let rules =
            [rule(None, Some("*.log"), 4), rule(Some("seq*"), None, 5), rule(None, None, 6)];
        let check = |rules: &[Rule], program: &str, expected: Option<u32>| {
            let found = size_for(rules, OsStr::new(program));
            assert_eq!(found, expected.map(BufferSize::Bytes), "{program}");
        };
        check(&rules, "seqcopy", Some(5));
        check(&rules, "other", Some(6));
        check(&rules[..1], "other", None);
    }

    fn parsed(text: &str) -> Result<(Vec<Rule>, Vec<String>), String> {
        let mut warnings = Vec::new();
        let rules = parse(text, Path::new("s.toml"), &mut warnings);
        rules.map(|rules| (rules, warnings)).map_err(|failure| failure.to_string())
    }

    #[test]
    fn every_key() {
        let (rules, warnings) = parsed(
            "# rules\n[[rule]]\nprogram = \"seq*\"\nfile = \"*.dat\"\nbuffer = \"64K\"\n\
             promise = \"unobserved\"\nstdio = \"on\"\ntuned = \"2026-11-21\"\n\
             [[rule]]\nbuffer = 4096\ntuned = 2026-11-21\n[[rule]]\nbuffer = -1\n[[rule]]\n",
        )
        .unwrap();
        let first = Rule {
            program: Some("seq*".to_string()),
            file: Some("*.dat".to_string()),
            buffer: Some(BufferSize::Bytes(65536)),
            promise: Some(Promise::Unobserved),
            stdio: Some(Stdio::On),
            for_auto: false,
        };
        let size = |buffer| Rule { buffer: Some(buffer), ..Rule::default() };
        let others = [size(BufferSize::Bytes(4096)), size(BufferSize::Off), Rule::default()];
        assert_eq!(rules[0], first);
        assert_eq!(rules[1..], others);
        assert!(warnings.is_empty());
        assert_eq!(parsed("").unwrap().0, []);
    }

    #[test]
    fn mistakes_name_the_line_and_the_fix() {
        let check = |text: &str, parts: &[&str]| {
            let message = parsed(text).unwrap_err();
            for part in parts.iter().chain(&["\n  "]) {
                assert!(message.contains(part), "{part:?} is missing in {message:?}");
            }
        };
        check("[[rule]]\nbufer = 1\n", &["s.toml:2", "unknown field `bufer`", "`buffer`"]);
        check("[[rules]]\n", &["s.toml:1", "unknown field `rules`", "`rule`"]);
        check("[[rule]]\n\nbuffer = \"2G\"\n", &["s.toml:3", "'2G'", "1 GiB"]);
        check("[[rule]]\nbuffer = 1.5\n", &["s.toml:2", "64K"]);
        check("[[rule]]\npromise = \"none\"\n", &["s.toml:2", "\"none\"", "\"unobserved\""]);
        check("[[rule]]\nstdio = \"yes\"\n", &["s.toml:2", "\"on\" or \"off\""]);
        check("[[rule]]\nstdio = true\n", &["s.toml:2", "string"]);
        check("[[rule]\n", &["s.toml:1"]);
        check("[[rule]]\nfile = \"a\nb\"\n", &["s.toml:2"]);
    }

    #[test]
    fn limits() {
        let rules = |count: usize| "[[rule]]\n".repeat(count);
        assert_eq!(parsed(&rules(RULES_MAX)).unwrap().0.len(), RULES_MAX);
        let message = parsed(&rules(RULES_MAX + 1)).unwrap_err();
        assert!(message.contains(&format!("s.toml:{}", RULES_MAX + 1)), "{message}");
        let pattern = |len: usize| format!("[[rule]]\nfile = \"{}\"", "x".repeat(len));
        assert!(parsed(&pattern(TEXT_BYTES_MAX)).is_ok());
        assert!(parsed(&pattern(TEXT_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn a_text_that_is_no_size_is_a_warning() {
        let (rules, warnings) = parsed("[[rule]]\nbuffer = \"lots\"\n").unwrap();
        assert_eq!(rules[0].buffer, Some(BufferSize::Off));
        assert!(warnings[0].contains("s.toml:2") && warnings[0].contains("'lots'"), "{warnings:?}");
    }
}
