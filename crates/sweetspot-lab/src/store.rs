//! Keeps every run of every session in one SQLite file, so that nothing is measured twice and a
//! session that was killed goes on where it was.
//!
//! Invariant: a run is one transaction, written out before the next run begins. Killed at any
//! instant, no run is lost and none counts twice. A round of which runs are missing is repeated as
//! a whole when a session goes on, because its runs are only comparable with each other.
//!
//! Deliberately not here: what runs next (`search`, `matrix`), and what a session is about: its
//! `subject` and its `circumstances` are texts of the caller's.

mod cells;
mod read;

pub use cells::{CellRun, Distribution, Ended, Observed};
pub use read::{Kept, whole_rounds};

use crate::{
    Error,
    measure::Measurement,
    search::{Phase, Round},
};
use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;
use std::{io, path::Path, time::Duration};

/// What each version of the layout adds to the one before; an older file is brought up to date.
const LAYOUTS: [&str; 2] = [SEARCHES, cells::LAYOUT];
const VERSION_FIRST: i64 = 1;
/// Nobody holds a store longer.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// By this SQLite (and `file`) tells whose a database is: "swst". Files of the first versions have none.
const APPLICATION_ID: i64 = 0x7377_7374;
/// The version that this program writes.
const VERSION: i64 = LAYOUTS.len() as i64;

const SEARCHES: &str = "
CREATE TABLE session (
    id INTEGER PRIMARY KEY,
    begun TEXT NOT NULL,
    subject TEXT NOT NULL,
    circumstances TEXT NOT NULL,
    result TEXT
) STRICT;
CREATE INDEX session_of_subject ON session (subject, id);
CREATE TABLE run (
    session INTEGER NOT NULL REFERENCES session,
    round INTEGER NOT NULL,
    place INTEGER NOT NULL,
    runs_of_round INTEGER NOT NULL,
    phase TEXT NOT NULL,
    setting INTEGER NOT NULL,
    figure REAL NOT NULL,
    measurement TEXT NOT NULL,
    PRIMARY KEY (session, round, place)
) STRICT, WITHOUT ROWID;
";

/// The file.
pub struct Store {
    connection: Connection,
    path: String,
}

/// A session that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSession {
    id: i64,
    /// What it is about; equal for two sessions only if one could go on with the other's runs.
    pub subject: String,
    /// In what surroundings it began.
    pub circumstances: String,
}

/// One run of a search, and where it stands in its round.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The round, counted from 0.
    pub round: usize,
    /// The place in the round, and how many runs that has.
    pub place: usize,
    pub runs_of_round: usize,
    pub phase: Phase,
    pub setting: usize,
    /// The figure that decides.
    pub figure: f64,
    /// Everything else.
    pub measurement: Measurement,
}

impl Store {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// Where that fails, or the file is from a later version, or is no store: then nothing in it was
    /// changed.
    pub fn open(path: &Path) -> Result<Store, Error> {
        is_file_or_new(path).map_err(Error::system("use", path))?;
        let mut store = Store {
            connection: Connection::open(path).map_err(failed("open", &path.to_string_lossy()))?,
            path: path.to_string_lossy().into_owned(),
        };
        // Even how a file keeps its log is its owner's: it is looked at before anything is set.
        if !store.is_ours_or_new().map_err(failed("use", &store.path))? {
            let other = "it is another program's database, and nothing in it was changed; \
                         name another file: --store FILE";
            return Err(Error::system("use", &store.path)(io::Error::other(other)));
        }
        store.prepare().map_err(failed("use", &store.path))?;
        match store.version().map_err(failed("use", &store.path))? {
            VERSION => Ok(store),
            version => Err(Error::system("use", &store.path)(unknown(version))),
        }
    }

    fn version(&self) -> rusqlite::Result<i64> {
        self.connection.query_row("PRAGMA user_version", [], |row| row.get(0))
    }

    /// Whether the file is a store, of this or another version, or one in which there is nothing yet.
    fn is_ours_or_new(&self) -> rusqlite::Result<bool> {
        self.connection.busy_timeout(BUSY_TIMEOUT)?;
        let number = |query: &str| self.connection.query_row(query, [], |row| row.get::<_, i64>(0));
        // All of one instant: another process may be making the store.
        let reading = self.connection.unchecked_transaction()?;
        let tables = number("SELECT count(*) FROM sqlite_schema")?;
        let of_ours = number(
            "SELECT count(*) FROM pragma_table_info('session') AS s
             WHERE s.name IN ('id', 'begun', 'subject', 'circumstances', 'result')",
        )?;
        let found = (number("PRAGMA application_id")?, self.version()?);
        reading.finish()?;
        Ok(match found {
            (APPLICATION_ID, _) => true,
            (0, 0) => tables == 0,
            (0, VERSION_FIRST..) => of_ours == 5,
            _ => false,
        })
    }

    fn prepare(&mut self) -> rusqlite::Result<()> {
        self.connection.pragma_update(None, "journal_mode", "WAL")?;
        self.connection.pragma_update(None, "synchronous", "FULL")?;
        let transaction =
            self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let version: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        // A negative or a later version is none of ours: it is refused by the caller.
        for layout in LAYOUTS.iter().skip(usize::try_from(version).unwrap_or(usize::MAX)) {
            transaction.execute_batch(layout)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
        }
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.commit()
    }

    /// Begins a session.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn begin(&self, subject: &str, circumstances: &str) -> Result<StoredSession, Error> {
        let begun = jiff::Timestamp::now().to_string();
        let insert = "INSERT INTO session (begun, subject, circumstances) VALUES (?, ?, ?)";
        self.connection
            .execute(insert, params![begun, subject, circumstances])
            .map_err(failed("write", &self.path))?;
        Ok(StoredSession {
            id: self.connection.last_insert_rowid(),
            subject: subject.to_owned(),
            circumstances: circumstances.to_owned(),
        })
    }

    /// The last session about `subject`, if it has no result yet, with its whole rounds. What there
    /// is of a round that is not whole is removed.
    ///
    /// # Errors
    /// Where it cannot be read or written.
    pub fn unfinished(&self, subject: &str) -> Result<Option<(StoredSession, Vec<Round>)>, Error> {
        let Some(session) = self.last_unfinished(subject)? else { return Ok(None) };
        self.drop_partial_rounds("run", &session)?;
        let rounds = whole_rounds(&self.ran(&session)?);
        Ok(Some((session, rounds)))
    }

    /// The last session about `subject`, if it has no result yet.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn last_unfinished(&self, subject: &str) -> Result<Option<StoredSession>, Error> {
        let last = "SELECT id, circumstances, result IS NOT NULL FROM session
                    WHERE subject = ? ORDER BY id DESC LIMIT 1";
        let found = self
            .connection
            .query_row(last, [subject], |row| {
                let session = StoredSession {
                    id: row.get(0)?,
                    subject: subject.to_owned(),
                    circumstances: row.get(1)?,
                };
                Ok((session, row.get::<_, bool>(2)?))
            })
            .optional()
            .map_err(failed("read", &self.path))?;
        Ok(found.and_then(|(session, is_finished)| (!is_finished).then_some(session)))
    }

    /// Removes from `table` what there is of rounds that are not whole.
    fn drop_partial_rounds(
        &self,
        table: &'static str,
        session: &StoredSession,
    ) -> Result<(), Error> {
        let partial = format!(
            "DELETE FROM {table} WHERE session = ?1 AND round IN (
                 SELECT round FROM {table} WHERE session = ?1
                 GROUP BY round HAVING count(*) < max(runs_of_round))"
        );
        self.connection.execute(&partial, [session.id]).map_err(failed("write", &self.path))?;
        Ok(())
    }

    /// Adds a run.
    ///
    /// # Errors
    /// Where it cannot be written, or is there already.
    pub fn add(&self, session: &StoredSession, run: &Run) -> Result<(), Error> {
        let insert = "INSERT INTO run VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
        let phase = json(&run.phase).map(|text| text.trim_matches('"').to_owned());
        let (phase, measurement) = phase
            .and_then(|phase| Ok((phase, json(&run.measurement)?)))
            .map_err(Error::system("write", &self.path))?;
        let values = params![
            session.id,
            run.round,
            run.place,
            run.runs_of_round,
            phase,
            run.setting,
            run.figure,
            measurement
        ];
        self.connection.execute(insert, values).map_err(failed("write", &self.path))?;
        Ok(())
    }

    /// Ends a session.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn finish(&self, session: &StoredSession, result: &str) -> Result<(), Error> {
        let update = "UPDATE session SET result = ? WHERE id = ?";
        self.connection
            .execute(update, params![result, session.id])
            .map_err(failed("write", &self.path))?;
        Ok(())
    }
}

fn json(value: &impl Serialize) -> io::Result<String> {
    serde_json::to_string(value).map_err(io::Error::from)
}

/// A device would get a journal beside it, and a FIFO would be waited for.
fn is_file_or_new(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(found) if !found.is_file() => Err(io::Error::other("not a regular file")),
        _ => Ok(()),
    }
}

/// Why a store whose layout is not known is not used.
fn unknown(version: i64) -> io::Error {
    io::Error::other(match version > VERSION {
        true => "a later version of sweetspot wrote it".to_owned(),
        false => format!("its layout has the number {version}, which sweetspot never gave"),
    })
}

fn failed(operation: &'static str, path: &str) -> impl FnOnce(rusqlite::Error) -> Error {
    move |error| Error::system(operation, path)(io::Error::other(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(
        store: &Store,
        session: &StoredSession,
        round: usize,
        place: usize,
    ) -> Result<(), Error> {
        let measurement = Measurement::of_nothing();
        let run = Run {
            round,
            place,
            runs_of_round: 2,
            phase: Phase::Scout,
            setting: place + 1,
            figure: round as f64 + 0.5,
            measurement,
        };
        store.add(session, &run)
    }

    #[test]
    fn an_unfinished_session_goes_on_with_its_whole_rounds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.sqlite");
        let store = Store::open(&path).unwrap();
        let other = store.begin("other", "").unwrap();
        add(&store, &other, 0, 0).unwrap();
        let session = store.begin("job", "here").unwrap();
        for (round, place) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)] {
            add(&store, &session, round, place).unwrap();
        }
        assert!(add(&store, &session, 1, 1).is_err(), "a run counts once");
        drop(store);

        let store = Store::open(&path).unwrap();
        let (found, rounds) = store.unfinished("job").unwrap().unwrap();
        assert_eq!(found, session);
        let round = |figure| {
            let nothing = Measurement::of_nothing();
            let measured = Round::measured(Phase::Scout, &[(1, nothing), (2, nothing)]);
            Round { figures: vec![figure, figure], ..measured }
        };
        assert_eq!(rounds, [round(0.5), round(1.5)]);
        add(&store, &session, 2, 0).unwrap();
        store.finish(&session, "{}").unwrap();
        assert_eq!(store.unfinished("job").unwrap(), None, "finished");
        assert_eq!(store.unfinished("unknown").unwrap(), None);
    }

    #[test]
    fn rounds_of_cells_are_whole_or_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.sqlite");
        let store = Store::open(&path).unwrap();
        let session = store.begin("plan", "here").unwrap();
        let run = |round, place, ended| CellRun {
            round,
            place,
            runs_of_round: 2,
            cell: 1 - place,
            node: String::new(),
            ended,
        };
        let measured = Ended::Measured(Box::new(Observed {
            figure: 0.5,
            output: Some("hash".to_owned()),
            output_bytes: 7,
            sync: Duration::ZERO,
            ranks: 1,
            measurement: Measurement::of_nothing(),
            samples: Some(Distribution { unit: "ms".to_owned(), samples: vec![1.0, 2.0] }),
        }));
        let given_up = Ended::GivenUp("wrong".to_owned());
        for (round, place, ended) in [
            (0, 0, &measured),
            (0, 1, &given_up),
            (1, 0, &measured),
            (1, 1, &measured),
            (2, 0, &given_up),
        ] {
            store.add_cell_run(&session, &run(round, place, ended.clone()), "cell").unwrap();
        }
        let again = store.add_cell_run(&session, &run(1, 1, measured.clone()), "cell");
        assert!(again.is_err(), "a run counts once");
        drop(store);

        let store = Store::open(&path).unwrap();
        let session = store.last_unfinished("plan").unwrap().unwrap();
        let found = |store: &Store| {
            let runs = store.cell_runs(&session).unwrap().into_iter();
            runs.map(|run| (run.round, run.place, run.cell, run.observed().is_some()))
                .collect::<Vec<_>>()
        };
        assert_eq!(found(&store).len(), 5);
        store.drop_partial_cell_rounds(&session).unwrap();
        let whole = [(0, 0, 1, true), (0, 1, 0, false), (1, 0, 1, true), (1, 1, 0, true)];
        assert_eq!(found(&store), whole, "what was given up makes a round whole, too");
        let first = &store.cell_runs(&session).unwrap()[0];
        assert_eq!(first.observed().unwrap().samples.as_ref().unwrap().samples, [1.0, 2.0]);
        store.drop_cell_round(&session, 1).unwrap();
        assert_eq!(found(&store), whole[..2]);
        store.finish(&session, "{}").unwrap();
        assert_eq!(store.last_unfinished("plan").unwrap(), None);
        assert_eq!(store.sessions().unwrap()[0], session);
    }

    #[test]
    fn a_file_of_the_first_version_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.sqlite");
        let old = Connection::open(&path).unwrap();
        old.execute_batch(SEARCHES).unwrap();
        old.pragma_update(None, "user_version", 1).unwrap();
        let insert = "INSERT INTO session VALUES (1, 'then', 'job', 'here', NULL)";
        old.execute(insert, []).unwrap();
        drop(old);

        let store = Store::open(&path).unwrap();
        let (session, rounds) = store.unfinished("job").unwrap().unwrap();
        assert!(rounds.is_empty());
        add(&store, &session, 0, 0).unwrap();
        assert!(store.cell_runs(&session).unwrap().is_empty(), "the new table is there");
        assert_eq!(store.version().unwrap(), VERSION);
    }

    #[test]
    fn the_database_of_another_program_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("tables", "CREATE TABLE photos (id)"),
            ("versioned", "CREATE TABLE photos (id); PRAGMA user_version = 1"),
            ("alike", "CREATE TABLE session (id, name); PRAGMA user_version = 2"),
            ("marked", "PRAGMA application_id = 7; PRAGMA user_version = 2"),
            ("marked empty", "PRAGMA application_id = 7"),
            ("counting", "PRAGMA user_version = 1"),
            ("a view", "CREATE VIEW all_ones AS SELECT 1"),
        ] {
            let path = folder.path().join(name);
            Connection::open(&path).unwrap().execute_batch(text).unwrap();
            let before = std::fs::read(&path).unwrap();
            let message = Store::open(&path).err().map(|error| error.to_string());
            assert_eq!(std::fs::read(&path).unwrap(), before, "{name}");
            let message = message.unwrap_or_else(|| panic!("{name} was taken"));
            assert!(message.contains(path.to_str().unwrap()), "{message}");
            assert!(message.contains("--store FILE"), "{message}");
        }
        let empty = folder.path().join("empty");
        std::fs::write(&empty, "").unwrap();
        drop(Store::open(&empty).unwrap());
        Store::open(&empty).unwrap();
    }

    #[test]
    fn nothing_is_made_beside_a_device() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/full", &link).unwrap();
        for path in [Path::new("/dev/full"), &link, folder.path()] {
            for opened in [Store::open(path), Store::open_to_read(path)] {
                let message = opened.err().unwrap().to_string();
                assert!(message.contains("not a regular file"), "{message}");
            }
        }
        assert!(!Path::new("/dev/full-journal").exists());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text");
        std::fs::write(&text, "this is no database, but long enough to look like one ".repeat(90))
            .unwrap();
        let numbered = |name: &str, number: i64| {
            let path = folder.path().join(name);
            let store = Store::open(&path).unwrap();
            store.connection.pragma_update(None, "user_version", number).unwrap();
            path
        };
        for (path, expected) in [
            (text, "file is not a database"),
            (numbered("later", 99), "a later version"),
            (numbered("negative", -3), "the number -3"),
            (folder.path().join("no/file"), "cannot open"),
        ] {
            let message = Store::open(&path).err().unwrap().to_string();
            assert!(message.contains(expected), "{message}");
            assert!(message.contains(path.to_str().unwrap()), "{message}");
        }
    }
}
