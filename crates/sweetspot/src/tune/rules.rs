//! Writes what was found into `sweetspot.toml`.
//!
//! Invariant: every byte of the file that is not of our rules stays (`sweetspot_report::tune::rules`), as do
//! its owner and its mode. The file appears whole or not at all. What `run` passes over because it is
//! someone else's stays that: to write it anew would make its other rules the user's own.

use crate::config::{self, InOthersHands};
use rustix::fs::Access;
use std::fs::Metadata;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use sweetspot_report::failure::Failure;
use sweetspot_report::numbers::typed;
use sweetspot_report::shell::quoted;
use sweetspot_report::shown::shown;
use sweetspot_report::tune::rules::{self as text, Rule, Tuned};
use tempfile::NamedTempFile;

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
        text::update(&before.text, &Tuned { program: None, date: "", rules: &[] })
            .map_err(failure)?;
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
    let changed = text::update(&before.text, tuned)
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
    text::has_own(&std::fs::read_to_string(path).unwrap_or_default(), program)
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

#[cfg(test)]
mod tests {
    use super::*;
    use sweetspot_core::size::BufferSize;

    fn rule(file: Option<&str>, bytes: u32) -> Rule {
        Rule { file: file.map(String::from), buffer: BufferSize::Bytes(bytes) }
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
