//! Writes what was found into `sweetspot.toml`.
//!
//! Invariant: only rules that carry `tuned` and name this program (or, without a program, this file)
//! are changed or removed; every other byte of the file stays, as do its owner and its mode. The file
//! appears whole or not at all. What `run` passes over because it is someone else's stays that: to write
//! it anew would make its other rules the user's own.

use crate::config::{self, InOthersHands};
use rustix::fs::Access;
use std::fs::Metadata;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use sweetspot_core::size::BufferSize;
use sweetspot_report::failure::Failure;
use sweetspot_report::numbers::typed;
use sweetspot_report::shell::quoted;
use sweetspot_report::shown::shown;
use tempfile::NamedTempFile;
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, value};

/// A rule for the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// For which file; `None`: all others.
    pub file: Option<String>,
    pub buffer: BufferSize,
}

/// What belongs to all rules of one session.
pub struct Tuned<'a> {
    /// The program's file name; `None`: for every program.
    pub program: Option<&'a str>,
    /// The day: `2026-11-21`.
    pub date: &'a str,
    /// Those for single files first, as the first that matches wins.
    pub rules: &'a [Rule],
}

/// The file to write.
#[derive(Clone, Debug)]
pub struct RulesFile {
    pub path: PathBuf,
    found: Found,
}

/// How it is known which file to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// Somebody has named it, and so answers for it.
    ByName,
    ByLooking,
}

impl RulesFile {
    /// A file that was named.
    pub fn named(path: &Path) -> RulesFile {
        RulesFile { path: path.to_owned(), found: Found::ByName }
    }

    /// A file that has a usual name.
    pub fn usual(path: &Path) -> RulesFile {
        RulesFile { path: path.to_owned(), found: Found::ByLooking }
    }

    /// The one that is in force here, or a new one here.
    ///
    /// # Errors
    /// Where the one in force cannot be read or understood: each run would fail by it.
    pub fn of(explicit: Option<&Path>, folder: &Path) -> Result<RulesFile, Failure> {
        if let Some(path) = config::named(explicit) {
            config::check_lasts(&path)?;
            if path.exists() {
                config::load(Some(&path), None, &mut Vec::new())?;
            }
            return Ok(RulesFile::named(&path));
        }
        let found = config::load(None, Some(folder), &mut Vec::new())?;
        Ok(RulesFile::usual(&found.path.unwrap_or_else(|| folder.join(config::FILE_NAME))))
    }

    /// To be asked before a session: whether a rule could be written at its end, and would be used.
    ///
    /// # Errors
    /// What stands in the way.
    pub fn check(&self) -> Result<(), Failure> {
        self.may_be_written()?;
        let failure = |cause: String| {
            Failure::own(format!("{}: no rule can be written: {cause}", shown(&self.path)))
                .next("nothing was run; to tune without writing a rule: --keep-rules")
        };
        let before = Before::of(&self.path).map_err(|error| failure(error.to_string()))?;
        update(&before.text, &Tuned { program: None, date: "", rules: &[] }).map_err(failure)?;
        begun(&before).map_err(|error| failure(error.to_string()))?;
        Ok(())
    }

    /// Whether `run` understands a text in this place.
    fn can_be_read(&self, text: &str) -> Result<(), Failure> {
        config::parse(text, &self.path, &mut Vec::new()).map(drop)
    }

    fn may_be_written(&self) -> Result<(), Failure> {
        let others = match self.found {
            Found::ByName => None,
            Found::ByLooking => config::in_the_hands_of_others(&self.path),
        };
        let Some(InOthersHands { what, is_own }) = others else { return Ok(()) };
        let mend = match is_own {
            true => format!("try: chmod go-w {}, or ", quoted(&what)),
            false => String::new(),
        };
        Err(Failure::own(format!(
            "{}: nothing was written, as `sweetspot run` would ignore it: someone else can write, or owns, {}",
            shown(&self.path),
            shown(&what)
        ))
        .next(format!(
            "{mend}name a file to tune and to run with: --config {}",
            quoted(&self.path)
        )))
    }
}

/// The file as it is.
struct Before {
    /// A link stays a link: what it leads to is replaced.
    target: PathBuf,
    text: String,
    /// `None`: it is not there.
    found: Option<Metadata>,
}

impl Before {
    fn of(path: &Path) -> std::io::Result<Before> {
        let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        if target.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
            return Err(std::io::Error::other("it is a link that leads nowhere"));
        }
        let found = match target.metadata() {
            Ok(found) => found,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Before { target, text: String::new(), found: None });
            }
            Err(error) => return Err(error),
        };
        if !found.is_file() {
            return Err(std::io::Error::other("not a regular file"));
        }
        rustix::fs::access(&target, Access::WRITE_OK)?;
        Ok(Before { text: std::fs::read_to_string(&target)?, found: Some(found), target })
    }
}

/// Puts rules into the file at `place`, or makes it. Returns a warning where they will not be used.
///
/// # Errors
/// Where it cannot be read, understood or written, or is someone else's; it is as it was then.
pub fn write(place: &RulesFile, tuned: &Tuned) -> Result<Option<String>, Failure> {
    place.may_be_written()?;
    let path = &place.path;
    let shown = shown(path);
    let failure = |error: std::io::Error| {
        Failure::own(format!("{shown}: {error}")).next(format!(
            "nothing was changed; to use the answer by hand: sweetspot run --buffer-size {} -- ...",
            tuned.rules.last().map_or_else(String::new, |rule| typed(rule.buffer))
        ))
    };
    let before = Before::of(path).map_err(failure)?;
    let changed = update(&before.text, tuned)
        .map_err(|cause| Failure::own(format!("{shown}: {cause}")).next("nothing was changed"))?;
    place.can_be_read(&changed).map_err(|cause| cause.next("nothing was changed"))?;
    replace(&before, &changed).map_err(failure)?;
    shadowed(path, tuned)
}

/// Puts a file with this text in the place of the one that was there before.
fn replace(before: &Before, text: &str) -> std::io::Result<()> {
    let mut file = begun(before)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(&before.target)?;
    Ok(())
}

/// An empty file that may take its place: with its owner and its mode.
fn begun(before: &Before) -> std::io::Result<NamedTempFile> {
    let mode = before.found.as_ref().map_or(0o644, MetadataExt::mode);
    let file = tempfile::Builder::new()
        .permissions(PermissionsExt::from_mode(mode & 0o777))
        .tempfile_in(before.target.parent().unwrap_or(Path::new(".")))?;
    if let Some(before) = &before.found {
        let now = file.as_file().metadata()?;
        let (owner, group) = (before.uid(), before.gid());
        if (now.uid(), now.gid()) != (owner, group) {
            fchown(file.as_file(), Some(owner), Some(group)).map_err(|error| {
                let what = format!("a new one cannot have its owner and group, {owner}:{group}");
                std::io::Error::other(format!("{what}: {error}"))
            })?;
        }
        // The umask has taken bits away, and a new owner may.
        file.as_file().set_permissions(PermissionsExt::from_mode(mode & 0o7777))?;
    }
    Ok(file)
}

/// Whether the file at `path` has rules of `tune` about this program. A file that cannot be read or
/// understood has none.
pub fn has_own(path: &Path, program: &str) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let document: DocumentMut = text.parse().unwrap_or_default();
    let is_own = |table: &Table| {
        table.contains_key("tuned") && table.get("program").and_then(Item::as_str) == Some(program)
    };
    document
        .get("rule")
        .and_then(Item::as_array_of_tables)
        .is_some_and(|all| all.iter().any(is_own))
}

/// Says which rule of the user's stands before one of ours and wins.
fn shadowed(path: &Path, tuned: &Tuned) -> Result<Option<String>, Failure> {
    let Some(name) = tuned.program.map(std::ffi::OsStr::new) else { return Ok(None) };
    let rules = config::load(Some(path), None, &mut Vec::new())?.rules;
    let wins = |ours: &Rule| {
        let is_for = |rule: &&config::Rule| {
            rule.is_for_program(name) && (rule.file.is_none() || rule.file == ours.file)
        };
        rules.iter().find(is_for).filter(|first| first.buffer != Some(ours.buffer))
    };
    let Some(first) = tuned.rules.iter().find_map(wins) else { return Ok(None) };
    let pattern = first.program.as_deref().map_or(String::new(), |p| format!(" for '{p}'"));
    Ok(Some(format!(
        "an earlier rule{pattern} in {} wins over it: move or remove that one",
        shown(path)
    )))
}

/// As an editor of the user's has written it: with its mark at the start and its ends of lines.
fn update(text: &str, tuned: &Tuned) -> Result<String, String> {
    const MARK: char = '\u{feff}';
    let changed = updated(text, tuned)?;
    let mark = if text.starts_with(MARK) { MARK.to_string() } else { String::new() };
    let is_of_windows =
        text.contains('\n') && text.split_inclusive('\n').all(|line| line.ends_with("\r\n"));
    let changed = changed.trim_start_matches(MARK);
    Ok(match is_of_windows {
        true => mark + &changed.replace("\r\n", "\n").replace('\n', "\r\n"),
        false => mark + changed,
    })
}

fn updated(text: &str, tuned: &Tuned) -> Result<String, String> {
    let mut document: DocumentMut =
        text.parse().map_err(|error: toml_edit::TomlError| error.message().replace('\n', ", "))?;
    let item = document.entry("rule").or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    let all = item
        .as_array_of_tables_mut()
        .ok_or("its rules are not written as [[rule]], so none can be added")?;
    let file_of = |table: &Table| table.get("file").and_then(Item::as_str).map(str::to_owned);
    let is_own = |table: &Table| {
        let program = table.get("program").and_then(Item::as_str);
        let names_file = || tuned.rules.iter().any(|rule| rule.file == file_of(table));
        table.contains_key("tuned")
            && program == tuned.program
            && (program.is_some() || names_file())
    };
    let have: Vec<Option<String>> = all.iter().filter(|table| is_own(table)).map(file_of).collect();
    let want: Vec<Option<String>> = tuned.rules.iter().map(|rule| rule.file.clone()).collect();
    if have == want {
        // In their places, with whatever was written around them.
        let own = all.iter_mut().filter(|table| is_own(table));
        for (table, rule) in own.zip(tuned.rules) {
            change(table, "buffer", &typed(rule.buffer));
            change(table, "tuned", tuned.date);
        }
        return Ok(document.to_string());
    }
    all.retain(|table| !is_own(table));
    for rule in tuned.rules {
        let mut table = Table::new();
        if let Some(program) = tuned.program {
            table["program"] = value(program);
        }
        if let Some(file) = &rule.file {
            table["file"] = value(file);
        }
        table["buffer"] = value(typed(rule.buffer));
        table["tuned"] = value(tuned.date);
        if !text.is_empty() || !all.is_empty() {
            table.decor_mut().set_prefix("\n");
        }
        all.push(table);
    }
    Ok(document.to_string())
}

/// Puts a text in the place of another one; what is written behind it stays.
fn change(table: &mut Table, key: &str, text: &str) {
    let decor = table.get(key).and_then(Item::as_value).map(|old| old.decor().clone());
    table[key] = value(text);
    if let (Some(decor), Some(new)) = (decor, table[key].as_value_mut()) {
        *new.decor_mut() = decor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHERS: &str = "# mine\n[[rule]]   # first\nprogram = \"a*\"\nbuffer = \"4K\"\n\n\
                          [[rule]]\nprogram = \"job\" # by hand\nfile = \"*.log\"\nbuffer = 'off'\n";

    fn rule(file: Option<&str>, bytes: u32) -> Rule {
        Rule { file: file.map(String::from), buffer: BufferSize::Bytes(bytes) }
    }

    fn changed(text: &str, rules: &[Rule]) -> String {
        update(text, &Tuned { program: Some("job"), date: "2026-11-21", rules }).unwrap()
    }

    #[test]
    fn every_other_line_stays() {
        let once = changed(OTHERS, &[rule(None, 65536)]);
        let own = "\n[[rule]]\nprogram = \"job\"\nbuffer = \"64K\"\ntuned = \"2026-11-21\"\n";
        assert_eq!(once, format!("{OTHERS}{own}"));
        let again = changed(&once, &[rule(None, 4096)]);
        assert_eq!(again, format!("{OTHERS}{}", own.replace("64K", "4K")), "replaced in its place");
        let noted = once.replace("\"64K\"\n", "\"64K\" # for the NAS\n");
        assert_eq!(changed(&noted, &[rule(None, 4096)]), noted.replace("64K", "4K"));
        let with_note = format!("{OTHERS}\n# found in November{own}# the end\n");
        let kept = changed(&with_note, &[rule(None, 4096)]);
        assert_eq!(kept, with_note.replace("64K", "4K"));
    }

    #[test]
    fn a_file_that_could_not_be_read_any_more_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sweetspot.toml");
        let rules = [rule(None, 4096)];
        let tuned = Tuned { program: Some("job"), date: "2026-11-21", rules: &rules };
        let full = "[[rule]]\nbuffer = \"4K\"\n".repeat(64);
        std::fs::write(&path, &full).unwrap();
        let refused = write(&RulesFile::named(&path), &tuned).unwrap_err().to_string();
        assert!(refused.contains("more than 64 rules"), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), full);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        assert!(write(&RulesFile::named(&link), &tuned).is_err());
        assert!(link.is_symlink());
    }

    #[test]
    fn a_file_of_windows_stays_one() {
        let theirs = format!("\u{feff}{}", OTHERS.replace('\n', "\r\n"));
        let own =
            "\r\n[[rule]]\r\nprogram = \"job\"\r\nbuffer = \"64K\"\r\ntuned = \"2026-11-21\"\r\n";
        assert_eq!(changed(&theirs, &[rule(None, 65536)]), format!("{theirs}{own}"));
    }

    #[test]
    fn rules_for_files_stand_before_the_rule_for_all() {
        let once = changed(OTHERS, &[rule(None, 65536)]);
        let both = [rule(Some("*.idx"), 4096), rule(None, 65536)];
        let found = changed(&once, &both);
        let file_at = found.find("*.idx").unwrap();
        assert!(found.starts_with(OTHERS) && file_at < found.find("64K").unwrap(), "{found}");
        assert_eq!(found.matches("tuned").count(), 2);
        assert_eq!(changed(&found, &[rule(None, 65536)]), once, "and go again");
        assert_eq!(changed(&found, &[]), OTHERS, "as do all where none is wanted");
    }

    #[test]
    fn a_new_file_is_what_run_reads() {
        let folder = tempfile::tempdir().unwrap();
        let place = RulesFile::of(None, folder.path()).unwrap();
        let path = place.path.clone();
        let rules = [rule(None, 65536)];
        let tuned = Tuned { program: Some("job"), date: "2026-11-21", rules: &rules };
        assert_eq!(write(&place, &tuned).unwrap(), None);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("[[rule]]\nprogram = \"job\"\n"), "{text}");
        let rules = config::load(Some(&path), None, &mut Vec::new()).unwrap().rules;
        assert_eq!(rules[0].buffer, Some(BufferSize::Bytes(65536)));
        assert!(has_own(&path, "job") && !has_own(&path, "other"));
        assert!(!has_own(&folder.path().join("missing"), "job"));
    }

    #[test]
    fn a_rule_that_wins_over_ours_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sweetspot.toml");
        std::fs::write(&path, "[[rule]]\nprogram = \"j*\"\nbuffer = 4096\n").unwrap();
        let rules = [rule(None, 65536)];
        let tuned = Tuned { program: Some("job"), date: "2026-11-21", rules: &rules };
        let warning = write(&RulesFile::usual(&path), &tuned).unwrap().unwrap();
        assert!(warning.contains("rule for 'j*'"), "{warning}");
        let for_a_file = [rule(Some("*.idx"), 65536)];
        let tuned = Tuned { rules: &for_a_file, ..tuned };
        assert!(write(&RulesFile::usual(&path), &tuned).unwrap().is_some());
    }

    #[test]
    fn what_cannot_be_changed_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sweetspot.toml");
        for text in ["rule = []\n", "[[rule]\n", "rule = 5\n"] {
            std::fs::write(&path, text).unwrap();
            let rules = [rule(None, 65536)];
            let tuned = Tuned { program: Some("job"), date: "2026-11-21", rules: &rules };
            let message = write(&RulesFile::usual(&path), &tuned).unwrap_err().to_string();
            assert!(message.contains("sweetspot.toml: "), "{message}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn what_is_someone_elses_is_not_made_ours() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sweetspot.toml");
        let text = "[[rule]]\nbuffer = 1\n";
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o664)).unwrap();
        let rules = [rule(None, 65536)];
        let tuned = Tuned { program: Some("job"), date: "2026-11-21", rules: &rules };
        let place = RulesFile::of(None, folder.path()).unwrap();
        let message = write(&place, &tuned).unwrap_err().to_string();
        assert!(message.contains("sweetspot.toml: nothing was written"), "{message}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);

        write(&RulesFile::named(&path), &tuned).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().contains("job"));
        let found = path.metadata().unwrap();
        assert_eq!(found.mode() & 0o7777, 0o664);
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: only root can give a file away");
        }
        std::os::unix::fs::chown(&path, Some(54321), Some(54322)).unwrap();
        write(&RulesFile::named(&path), &tuned).unwrap();
        let found = path.metadata().unwrap();
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (54321, 54322, 0o664));
        assert!(write(&place, &tuned).is_err());
    }
}
