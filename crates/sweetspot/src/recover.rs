//! `sweetspot recover`: finishes what is pending where a program was killed together with its guard.
//!
//! `run` does the same before its program starts, so that a job that is simply started again finds
//! its files as they should be. What was changed since is never overwritten: the pending bytes are
//! saved beside, and both commands say where.
//!
//! Not here: how a piece is proved to belong where it goes (`sweetspot_guard::recover`).

use crate::arguments::Recover;
use crate::failure::{Failure, say};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use sweetspot_guard::recover::{Fate, Mode, Piece, recover, stale_ledgers};
use sweetspot_guard::{Error, ErrorKind};

/// Exit status where something is not where it belongs afterwards.
const STATUS_UNFINISHED: u8 = 1;

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
    let ledgers = named.map_or_else(all_ledgers, |ledger| vec![ledger.to_owned()]);
    let mut text = String::new();
    let mut status = 0;
    for ledger in &ledgers {
        match recover(ledger, mode) {
            Ok(pieces) => {
                describe(&mut text, ledger, &pieces);
                if !pieces.iter().all(|piece| is_as_asked(&piece.fate)) {
                    status = STATUS_UNFINISHED;
                }
            }
            Err(error) => match what_to_do(&error, named) {
                Answer::Skip => {}
                Answer::Say => {
                    let _ = writeln!(text, "{}: not finished: {error}", ledger.display());
                    status = STATUS_UNFINISHED;
                }
                Answer::Fail => return Err(Failure::own(error.to_string()).next(advice(&error))),
            },
        }
    }
    if text.is_empty() {
        text.push_str("Nothing is pending.\n");
    }
    // A reader that has gone away is no reason to fail: what was to be done is done.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(status)
}

/// Finishes what dead programs of this user left, before the next one starts. Where there is
/// nothing (nearly always) this is one look into the folder of ledgers.
pub fn finish_stale() {
    for ledger in all_ledgers() {
        match recover(&ledger, Mode::Finish) {
            Ok(pieces) => pieces.iter().filter_map(|piece| warning(&ledger, piece)).for_each(say),
            Err(error) => complaint(&error).into_iter().for_each(say),
        }
    }
}

/// What `run` says of a ledger that it could not look at. Mostly nothing: its program lives, or
/// somebody else is at it, or has just removed it; and a file that another user made under our name is
/// nobody's business here.
fn complaint(error: &Error) -> Option<String> {
    let is_ours = error.kind == ErrorKind::System && !is_gone(error);
    is_ours.then(|| format!("sweetspot: {error}"))
}

fn is_gone(error: &Error) -> bool {
    std::fs::symlink_metadata(&error.target).is_err()
}

fn all_ledgers() -> Vec<PathBuf> {
    stale_ledgers(rustix::process::geteuid().as_raw())
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
            format!("to lose what is in it: sweetspot recover --discard {}", error.target.display())
        }
        _ => "to see all ledgers of yours that need it: sweetspot recover --list".to_owned(),
    }
}

/// Whether nothing is left for the user to do about a piece.
fn is_as_asked(fate: &Fate) -> bool {
    match fate {
        Fate::CanBeWritten | Fate::WouldBeSaved | Fate::Written | Fate::Discarded => true,
        Fate::Saved(_) | Fate::Stuck(_) => false,
    }
}

fn describe(text: &mut String, ledger: &Path, pieces: &[Piece]) {
    if pieces.is_empty() {
        return;
    }
    let _ = writeln!(text, "{}", ledger.display());
    for piece in pieces {
        let _ = writeln!(text, "  {}", line(piece));
        if let Fate::Saved(saved) = &piece.fate {
            let _ = writeln!(text, "    to put it there all the same: {}", command(piece, saved));
        }
    }
}

/// One piece in plain words.
fn line(piece: &Piece) -> String {
    let fate = match &piece.fate {
        Fate::CanBeWritten => "to be written".to_owned(),
        Fate::WouldBeSaved => "to be saved beside, as the file is gone or was changed".to_owned(),
        Fate::Written => "written".to_owned(),
        Fate::Saved(saved) => {
            format!("the file is gone or was changed, so saved as {}", saved.display())
        }
        Fate::Discarded => "discarded".to_owned(),
        Fate::Stuck(why) => format!("stays in the ledger: {why}"),
    };
    let process = piece.pid.map_or_else(String::new, |pid| format!(" of process {pid}"));
    format!("{}: {} bytes at {}{process}: {fate}", piece.path.display(), piece.bytes, piece.base)
}

/// What writes a saved piece where it was meant to be.
fn command(piece: &Piece, saved: &Path) -> String {
    let quoted = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', r"'\''"));
    format!(
        "dd if={} of={} seek={} oflag=seek_bytes conv=notrunc",
        quoted(saved),
        quoted(&piece.path),
        piece.base
    )
}

/// What `run` says of a piece that is not where it belongs.
fn warning(ledger: &Path, piece: &Piece) -> Option<String> {
    match &piece.fate {
        Fate::Saved(_) => Some(format!("sweetspot: from a killed program: {}", line(piece))),
        Fate::Stuck(_) => Some(format!(
            "sweetspot: from a killed program: {}; try: sweetspot recover {}",
            line(piece),
            ledger.display()
        )),
        Fate::CanBeWritten | Fate::WouldBeSaved | Fate::Written | Fate::Discarded => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(fate: Fate) -> Piece {
        Piece { path: "/data/it's".into(), pid: Some(7), base: 4096, bytes: 200, fate }
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
        check(Fate::Saved("/data/s".into()), &["/data/it's", "200 bytes at 4096", "/data/s"]);
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
    }

    #[test]
    fn a_saved_piece_comes_with_the_command_that_puts_it_there() {
        let piece = piece(Fate::Saved("/data/s".into()));
        let mut text = String::new();
        describe(&mut text, Path::new("/l"), &[piece]);
        let expected =
            r"dd if='/data/s' of='/data/it'\''s' seek=4096 oflag=seek_bytes conv=notrunc";
        assert!(text.contains(expected), "{text}");
        assert!(text.starts_with("/l\n  /data/it's: 200 bytes at 4096 of process 7: "), "{text}");
    }
}
