//! `sweetspot recover`: finishes what is pending where a program was killed together with its guard.
//!
//! `run` does the same before its program starts, so that a job that is simply started again finds
//! its files as they should be. What was changed since is never overwritten: the pending bytes are
//! saved beside, and both commands say where.
//!
//! Not here: how a piece is proved to belong where it goes (`sweetspot_guard::recover`).

use crate::arguments::Recover;
use crate::home;
use crate::say::say;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use sweetspot_guard::recover::{
    APPENDED, Fate, Mode, Piece, noted_ledgers, recover, recover_noted, remove_idle, saved_apart,
    stale_ledgers,
};
use sweetspot_guard::{Error, ErrorKind, Noted};
use sweetspot_report::failure::Failure;
use sweetspot_report::numbers::{count, exact_bytes};
use sweetspot_report::print::print;
use sweetspot_report::shell::quoted;
use sweetspot_report::shown::shown;

/// Exit status where something is not where it belongs afterwards.
const STATUS_UNFINISHED: u8 = 1;
/// What is said of a ledger that anyone could have put there.
const NOT_NOTED: &str = "not recorded by a guard of yours";

/// A ledger, and whether a guard of this user has noted it.
enum Candidate {
    Noted(Noted),
    /// It may have been put there by anyone who can write /dev/shm.
    Found(PathBuf),
}

impl Candidate {
    fn path(&self) -> &Path {
        match self {
            Candidate::Noted(noted) => noted.ledger(),
            Candidate::Found(path) => path,
        }
    }

    /// Looks at, finishes or discards it. One that is not noted is not finished, unless there is
    /// nothing in it.
    fn take(&self, mode: Mode) -> Result<Vec<Piece>, Error> {
        match (self, mode) {
            (Candidate::Noted(noted), _) => recover_noted(noted, mode),
            (Candidate::Found(path), Mode::List | Mode::Discard) => recover(path, mode),
            (Candidate::Found(path), Mode::Finish) => match remove_idle(path)? {
                true => Ok(Vec::new()),
                false => recover(path, Mode::List),
            },
        }
    }
}

/// Looks at, finishes or discards one ledger, or all that dead programs of this user left.
///
/// # Errors
/// The ledger that was named cannot be used at all.
pub fn run(arguments: &Recover) -> Result<u8, Failure> {
    let mode = match (arguments.list, arguments.discard) {
        (true, _) => Mode::List,
        (false, true) => Mode::Discard,
        (false, false) => Mode::Finish,
    };
    let named = arguments.ledger.as_deref();
    if let (Some(ledger), true) = (named, arguments.unverified) {
        return unverified(ledger);
    }
    let ledgers = named.map_or_else(all_ledgers, |ledger| vec![candidate(ledger)]);
    let mut text = String::new();
    let mut status = 0;
    for candidate in &ledgers {
        let ledger = candidate.path();
        match candidate.take(mode) {
            Ok(pieces) => {
                let is_left = matches!(candidate, Candidate::Found(_)) && mode != Mode::Discard;
                describe(&mut text, ledger, &pieces);
                if is_left && !pieces.is_empty() {
                    let ledger = quoted(ledger);
                    let _ = writeln!(text, "  {NOT_NOTED}: it could overwrite any of your files");
                    let _ =
                        writeln!(text, "  to write it: sweetspot recover --unverified {ledger}");
                    let _ =
                        writeln!(text, "  to throw it away: sweetspot recover --discard {ledger}");
                }
                let is_finished = mode != Mode::Finish || !is_left || pieces.is_empty();
                if !is_finished || !pieces.iter().all(|piece| is_as_asked(&piece.fate)) {
                    status = STATUS_UNFINISHED;
                }
            }
            Err(error) => match what_to_do(&error, named) {
                Answer::Skip => {}
                Answer::Say => {
                    let _ = writeln!(text, "{}: not finished: {error}", shown(ledger));
                    status = STATUS_UNFINISHED;
                }
                Answer::Fail => return Err(Failure::own(error.to_string()).next(advice(&error))),
            },
        }
    }
    if text.is_empty() {
        text.push_str("Nothing is pending.\n");
    }
    if mode == Mode::List && named.is_none() {
        saved_apart().iter().for_each(|saved| text.push_str(&bytes_nowhere_else(saved)));
    }
    print(&text)?;
    Ok(status)
}

/// Finishes a ledger that no guard of this user has noted. Every path is shown first, and at a
/// terminal it is asked for.
fn unverified(ledger: &Path) -> Result<u8, Failure> {
    let fail = |error: Error| Failure::own(error.to_string()).next(advice(&error));
    let mut text = String::new();
    describe(&mut text, ledger, &recover(ledger, Mode::List).map_err(fail)?);
    print(&text)?;
    if std::io::stdin().is_terminal() {
        print("Write this? [y/N] ")?;
        let mut answer = String::new();
        let is_yes = std::io::stdin().read_line(&mut answer).is_ok()
            && matches!(answer.trim(), "y" | "Y" | "yes");
        if !is_yes {
            return Ok(STATUS_UNFINISHED);
        }
    }
    let pieces = recover(ledger, Mode::Finish).map_err(fail)?;
    let mut text = String::new();
    describe(&mut text, ledger, &pieces);
    print(&text)?;
    let is_done = pieces.iter().all(|piece| is_as_asked(&piece.fate));
    Ok(if is_done { 0 } else { STATUS_UNFINISHED })
}

/// Finishes what dead programs of this user left, before the next one starts: of noted ledgers alone.
/// Where there is nothing (nearly always) this is one look into the folder of notes.
pub fn finish_stale() {
    for noted in noted_ledgers(&home::notes()) {
        let ledger = noted.ledger();
        match recover_noted(&noted, Mode::Finish) {
            Ok(pieces) => pieces.iter().filter_map(|piece| warning(ledger, piece)).for_each(say),
            Err(error) => complaint(&error).into_iter().for_each(say),
        }
    }
}

/// As [`finish_stale`], and removes what else dead processes of this user left, where nothing waits in it. For
/// verbs that stay: this looks at all that lies in shared memory, which a start that becomes its program is
/// not to pay for. Those that stay leave most of it, too: they look before they start anything.
pub fn clear_up() {
    finish_stale();
    for ledger in stale_ledgers(rustix::process::geteuid().as_raw()) {
        // What is not removed is in use, or nobody's business here.
        let _ = remove_idle(&ledger);
    }
}

/// What `run` says of a ledger that it could not look at. Mostly nothing: its program lives, or
/// somebody else is at it, or has just removed it; and a file that another user made under our name is
/// nobody's business here.
fn complaint(error: &Error) -> Option<String> {
    let is_ours = matches!(error.kind, ErrorKind::System | ErrorKind::OtherVersion);
    (is_ours && !is_gone(error)).then(|| format!("sweetspot: {error}"))
}

fn is_gone(error: &Error) -> bool {
    std::fs::symlink_metadata(&error.target).is_err()
}

/// The ledger that was named.
fn candidate(named: &Path) -> Candidate {
    let path = std::fs::canonicalize(named).unwrap_or_else(|_| named.to_owned());
    let noted = noted_ledgers(&home::notes()).into_iter().find(|noted| noted.ledger() == path);
    noted.map_or_else(|| Candidate::Found(named.to_owned()), Candidate::Noted)
}

/// Noted ledgers first, then what else looks like one.
fn all_ledgers() -> Vec<Candidate> {
    let mut all: Vec<Candidate> =
        noted_ledgers(&home::notes()).into_iter().map(Candidate::Noted).collect();
    let mut found = stale_ledgers(rustix::process::geteuid().as_raw());
    found.retain(|path| !all.iter().any(|noted| noted.path() == path));
    all.extend(found.into_iter().map(Candidate::Found));
    all
}

/// What a ledger that could not be used means.
enum Answer {
    /// It is gone, or was never one.
    Skip,
    Say,
    Fail,
}

fn what_to_do(error: &Error, named: Option<&Path>) -> Answer {
    match (error.kind, named) {
        (ErrorKind::InUse, Some(_)) if is_gone(error) => Answer::Skip,
        (ErrorKind::InUse, _) => Answer::Say,
        (_, Some(_)) => Answer::Fail,
        (ErrorKind::NotALedger | ErrorKind::NotYours, None) => Answer::Skip,
        (_, None) if is_gone(error) => Answer::Skip,
        (_, None) => Answer::Say,
    }
}

fn advice(error: &Error) -> String {
    match error.kind {
        ErrorKind::Elsewhere | ErrorKind::OtherVersion => {
            format!(
                "to throw away what is in it: sweetspot recover --discard {}",
                quoted(&error.target)
            )
        }
        _ => "to list all your ledgers that need it: sweetspot recover --list".to_owned(),
    }
}

/// Whether nothing is left for the user to do about a piece.
fn is_as_asked(fate: &Fate) -> bool {
    match fate {
        Fate::CanBeWritten | Fate::WouldBeSaved | Fate::Written | Fate::Discarded => true,
        Fate::Saved(_) | Fate::Stuck(_) => false,
    }
}

/// Of what was saved apart from its file: its name says of which file and offset it is.
fn bytes_nowhere_else(saved: &Path) -> String {
    let bytes = exact_bytes(saved.metadata().map_or(0, |data| data.len()));
    let name = saved.to_string_lossy();
    let offset = name.rsplit_once("-at-").map_or("", |(_, at)| {
        let digits = at.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(at.len());
        &at[..digits]
    });
    format!(
        "{}: {bytes} that a program could not write to its file\n    to put them there: {}\n",
        shown(saved),
        command(saved, "FILE", offset, name.contains(APPENDED))
    )
}

/// What puts saved bytes into a file: to its end, or to an offset.
fn command(saved: &Path, file: &str, offset: &str, appends: bool) -> String {
    let saved = quoted(saved);
    match appends {
        true => format!("cat {saved} >> {file}"),
        false => format!("dd if={saved} of={file} seek={offset} oflag=seek_bytes conv=notrunc"),
    }
}

fn describe(text: &mut String, ledger: &Path, pieces: &[Piece]) {
    if pieces.is_empty() {
        return;
    }
    let _ = writeln!(text, "{}", shown(ledger));
    for piece in pieces {
        let _ = writeln!(text, "  {}", line(piece));
        if let Fate::Saved(saved) = &piece.fate {
            let (file, offset) = (quoted(&piece.path), piece.base.to_string());
            let command = command(saved, &file, &offset, piece.appends);
            let _ = writeln!(text, "    to put it there anyway: {command}");
        }
    }
}

/// One piece in plain words.
fn line(piece: &Piece) -> String {
    let fate = match &piece.fate {
        Fate::CanBeWritten => "to be written".to_owned(),
        Fate::WouldBeSaved => {
            "to be saved beside, because the file is gone or has changed".to_owned()
        }
        Fate::Written => "written".to_owned(),
        Fate::Saved(saved) => {
            format!("the file is gone or has changed, so it was saved as {}", shown(saved))
        }
        Fate::Discarded => "discarded".to_owned(),
        Fate::Stuck(why) => format!("stays in the ledger: {why}"),
    };
    let process = piece.pid.map_or_else(String::new, |pid| format!(" of process {pid}"));
    let path = match piece.path.as_os_str().is_empty() {
        true => "a file with an unknown path".to_owned(),
        false => shown(&piece.path),
    };
    format!("{path}: {} at {}{process}: {fate}", exact_bytes(piece.bytes), count(piece.base))
}

/// What `run` says of a piece that is not where it belongs.
fn warning(ledger: &Path, piece: &Piece) -> Option<String> {
    match &piece.fate {
        Fate::Saved(_) => Some(format!("sweetspot: from a killed program: {}", line(piece))),
        Fate::Stuck(_) => Some(format!(
            "sweetspot: from a killed program: {}; try: sweetspot recover {}",
            line(piece),
            quoted(ledger)
        )),
        Fate::CanBeWritten | Fate::WouldBeSaved | Fate::Written | Fate::Discarded => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(fate: Fate) -> Piece {
        Piece {
            path: "/data/it's".into(),
            pid: Some(7),
            base: 4096,
            appends: false,
            bytes: 200,
            fate,
        }
    }

    #[test]
    fn only_what_the_user_must_know_is_said_before_a_run() {
        let check = |fate: Fate, parts: &[&str]| {
            let said = warning(Path::new("/l"), &piece(fate));
            assert_eq!(said.is_some(), !parts.is_empty(), "{said:?}");
            for part in parts {
                let said = said.as_deref().unwrap_or_default();
                assert!(said.contains(part) && !said.contains('\n'), "{said}");
            }
        };
        check(Fate::Written, &[]);
        check(Fate::Discarded, &[]);
        check(Fate::Saved("/data/s".into()), &["/data/it's", "200 bytes at 4,096", "/data/s"]);
        check(Fate::Stuck("no".into()), &["/data/it's", "sweetspot recover /l", "no"]);
    }

    #[test]
    fn a_ledger_that_another_run_removes_meanwhile_is_no_news() {
        let folder = std::env::temp_dir();
        let error = |target: &Path| {
            let (operation, kind) = ("use the ledger", ErrorKind::System);
            complaint(&Error { operation, target: target.to_owned(), kind, source: None })
        };
        assert_eq!(error(&folder.join("sweetspot-0-gone")), None);
        assert!(error(&folder).is_some_and(|said| said.contains("use the ledger")));
        let target = folder.clone();
        let (operation, kind) = ("use the ledger", ErrorKind::OtherVersion);
        let said = complaint(&Error { operation, target, kind, source: None });
        assert!(said.is_some_and(|said| said.contains("another version")));
    }

    #[test]
    fn a_saved_piece_comes_with_the_command_that_puts_it_there() {
        let piece = piece(Fate::Saved("/data/s".into()));
        let mut text = String::new();
        describe(&mut text, Path::new("/l"), std::slice::from_ref(&piece));
        let expected = r"dd if=/data/s of='/data/it'\''s' seek=4096 oflag=seek_bytes conv=notrunc";
        assert!(text.contains(expected), "{text}");
        assert!(text.starts_with("/l\n  /data/it's: 200 bytes at 4,096 of process 7: "), "{text}");

        let piece = Piece { path: "/data/a\nb\x1b[2J".into(), ..piece };
        text.clear();
        describe(&mut text, Path::new("/l"), std::slice::from_ref(&piece));
        assert!(text.contains(r"of=$'/data/a\nb\x1b[2J' seek"), "{text}");

        // Over nothing that others have appended.
        let appended = [Piece { appends: true, ..piece }];
        text.clear();
        describe(&mut text, Path::new("/l"), &appended);
        assert!(text.ends_with(": cat /data/s >> $'/data/a\\nb\\x1b[2J'\n"), "{text}");
        let nowhere = |name: &str| bytes_nowhere_else(Path::new(name));
        let said = nowhere("/state/out.sweetspot-saved-7-at-4096.1");
        assert!(said.ends_with("of=FILE seek=4096 oflag=seek_bytes conv=notrunc\n"), "{said}");
        let said = nowhere("/state/out.sweetspot-saved-7-appended-at-4096");
        assert!(said.ends_with("-appended-at-4096 >> FILE\n"), "{said}");
    }
}
