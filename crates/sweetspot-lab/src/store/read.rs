//! Reading the file while others may be writing it.
//!
//! Invariant: everything that is read through one such store is of one instant, and nothing of the
//! file is changed: not even one of an older layout is brought up to date.

use super::{Run, Store, StoredSession, VERSION, failed, is_file_or_new, unknown};
use crate::{Error, search::Round};
use rusqlite::{Connection, OpenFlags};
use std::{io, path::Path, time::Duration};

/// A session, and what became of it.
#[derive(Clone, Debug)]
pub struct Kept {
    pub session: StoredSession,
    /// Its number in the file, from 1.
    pub number: i64,
    /// When it began, in UTC.
    pub begun: String,
    /// What was said at its end; none where it is not finished.
    pub result: Option<String>,
    /// Its runs so far.
    pub runs: usize,
}

impl Store {
    /// Opens a file that is there, to read it as it is now.
    ///
    /// # Errors
    /// Where it cannot be read, or is of a later version or none of ours.
    pub fn open_to_read(path: &Path) -> Result<Store, Error> {
        let shown = path.to_string_lossy().into_owned();
        is_file_or_new(path).map_err(Error::system("read", path))?;
        // Anyone who has it open keeps a log beside it, and the last one removes that. Without a log the
        // file is whole by itself; to read it as others do would make one, and leave it there.
        let how = if beside(path, "-wal").exists() { "" } else { "?immutable=1" };
        let store = Store::opened(path, how).map_err(failed("read", &shown))?;
        match store.version().map_err(failed("read", &shown))? {
            1..=VERSION => Ok(store),
            0 => Err(Error::system("read", &shown)(io::Error::other("it holds no runs of ours"))),
            version => Err(Error::system("read", &shown)(unknown(version))),
        }
    }

    fn opened(path: &Path, how: &str) -> rusqlite::Result<Store> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        let address = format!("file:{}{how}", escaped(path));
        let connection = Connection::open_with_flags(address, flags)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        let store = Store { connection, path: path.to_string_lossy().into_owned() };
        store.connection.execute_batch("BEGIN")?; // one instant for all that follows
        store.version()?;
        Ok(store)
    }

    /// All sessions, from the last to the first.
    ///
    /// # Errors
    /// Where they cannot be read.
    pub fn kept(&self) -> Result<Vec<Kept>, Error> {
        self.read_kept().map_err(failed("read", &self.path))
    }

    fn read_kept(&self) -> rusqlite::Result<Vec<Kept>> {
        let of_cells = match self.has_cells()? {
            true => "(SELECT count(*) FROM cell_run WHERE session = id)",
            false => "0",
        };
        let all = format!(
            "SELECT id, subject, circumstances, begun, result,
                 (SELECT count(*) FROM run WHERE session = id) + {of_cells}
             FROM session ORDER BY id DESC"
        );
        let mut statement = self.connection.prepare(&all)?;
        let rows = statement.query_map([], |row| {
            let number = row.get(0)?;
            let session =
                StoredSession { id: number, subject: row.get(1)?, circumstances: row.get(2)? };
            let (begun, result, runs) = (row.get(3)?, row.get(4)?, row.get(5)?);
            Ok(Kept { session, number, begun, result, runs })
        })?;
        rows.collect()
    }

    /// Whether the file is of a layout that has runs of cells.
    fn has_cells(&self) -> rusqlite::Result<bool> {
        Ok(self.version()? >= 2)
    }

    /// All runs of a search, in their order.
    ///
    /// # Errors
    /// Where they cannot be read.
    pub fn ran(&self, session: &StoredSession) -> Result<Vec<Run>, Error> {
        let read = || -> rusqlite::Result<Vec<Result<Run, serde_json::Error>>> {
            let all = "SELECT round, place, runs_of_round, phase, setting, figure, measurement
                       FROM run WHERE session = ? ORDER BY round, place";
            let mut statement = self.connection.prepare(all)?;
            let rows = statement.query_map([session.id], |row| {
                let (phase, measurement): (String, String) = (row.get(3)?, row.get(6)?);
                let (round, place, runs_of_round) = (row.get(0)?, row.get(1)?, row.get(2)?);
                let (setting, figure) = (row.get(4)?, row.get(5)?);
                Ok(serde_json::from_value(phase.into()).and_then(|phase| {
                    let measurement = serde_json::from_str(&measurement)?;
                    Ok(Run { round, place, runs_of_round, phase, setting, figure, measurement })
                }))
            })?;
            rows.collect()
        };
        let all = read().map_err(failed("read", &self.path))?;
        let whole: Result<Vec<Run>, serde_json::Error> = all.into_iter().collect();
        whole.map_err(|error| Error::system("read", &self.path)(error.into()))
    }
}

/// The rounds of which all runs are there: the only ones that a search may be asked about.
pub fn whole_rounds(runs: &[Run]) -> Vec<Round> {
    let rounds = runs.chunk_by(|one, next| one.round == next.round);
    let whole = rounds.filter(|round| round.len() == round[0].runs_of_round);
    let round = |runs: &[Run]| {
        let measured: Vec<_> = runs.iter().map(|run| (run.setting, run.measurement)).collect();
        let figures = runs.iter().map(|run| run.figure).collect();
        Round { figures, ..Round::measured(runs[0].phase, &measured) }
    };
    whole.map(round).collect()
}

fn beside(path: &Path, end: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// A path as it stands in an address.
fn escaped(path: &Path) -> String {
    let mut text = String::new();
    for &byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'%' | b'?' | b'#' | 0x80.. => text.push_str(&format!("%{byte:02x}")),
            byte => text.push(char::from(byte)),
        }
    }
    // What begins with two slashes would be the name of a host.
    if text.starts_with("//") { format!("//{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::whole_rounds;

    fn add(store: &Store, session: &StoredSession, round: usize, place: usize) {
        let measurement = Measurement::of_nothing();
        let (phase, figure) = (Phase::Scout, 0.5);
        let (runs_of_round, setting) = (2, place);
        let run = Run { round, place, runs_of_round, phase, setting, figure, measurement };
        store.add(session, &run).unwrap();
    }

    #[test]
    fn is_read_while_it_is_written_and_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a 100%?#ä.sqlite");
        let store = Store::open(&path).unwrap();
        let session = store.begin("job", "here").unwrap();
        add(&store, &session, 0, 0);
        add(&store, &session, 0, 1);
        add(&store, &session, 1, 0);

        let reader = Store::open_to_read(&path).unwrap();
        assert_eq!(reader.kept().unwrap()[0].runs, 3);
        add(&store, &session, 1, 1);
        assert_eq!(reader.kept().unwrap()[0].runs, 3, "one instant");
        assert_eq!(reader.ran(&session).unwrap().len(), 3);
        assert!(reader.begin("another", "").is_err(), "nothing is written");
        assert_eq!(whole_rounds(&reader.ran(&session).unwrap()).len(), 1);
        drop(reader);
        drop(store);
        let reader = Store::open_to_read(&path).unwrap();
        assert_eq!(whole_rounds(&reader.ran(&session).unwrap()).len(), 2);
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            1,
            "nothing is left beside it"
        );
    }

    #[test]
    fn an_older_file_is_read_and_another_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old.sqlite");
        let old = Connection::open(&path).unwrap();
        old.execute_batch(SEARCHES).unwrap();
        assert!(Store::open_to_read(&path).is_err(), "no version: somebody else's");
        old.pragma_update(None, "user_version", 1).unwrap();
        old.execute_batch("INSERT INTO session VALUES (1, '', 'job', 'here', NULL)").unwrap();
        drop(old);
        let store = Store::open_to_read(&path).unwrap();
        assert_eq!(store.kept().unwrap()[0].session.subject, "job");
        assert!(Store::open_to_read(&folder.path().join("none")).is_err());
    }
}
