//! Runs of the cells of a plan.

use super::{Store, StoredSession, failed, json};
use crate::{Error, measure::Measurement};
use rusqlite::params;
use serde::{Deserialize, Serialize};
use std::{io, time::Duration};

/// What version 2 of the layout adds.
pub(super) const LAYOUT: &str = "
CREATE TABLE cell_run (
    session INTEGER NOT NULL REFERENCES session,
    round INTEGER NOT NULL,
    place INTEGER NOT NULL,
    runs_of_round INTEGER NOT NULL,
    cell INTEGER NOT NULL,
    name TEXT NOT NULL,
    node TEXT NOT NULL,
    figure REAL,
    output TEXT,
    fault TEXT,
    details TEXT,
    PRIMARY KEY (session, round, place)
) STRICT, WITHOUT ROWID;
CREATE TABLE node (
    session INTEGER NOT NULL REFERENCES session,
    name TEXT NOT NULL,
    environment TEXT NOT NULL,
    PRIMARY KEY (session, name)
) STRICT, WITHOUT ROWID;
";

/// One run of a cell, and where it stands in its round.
#[derive(Clone, Debug)]
pub struct CellRun {
    /// The round; round 0 warms up and counts for nothing.
    pub round: usize,
    /// The place in the round, and how many runs that has.
    pub place: usize,
    pub runs_of_round: usize,
    /// Its number in the plan.
    pub cell: usize,
    /// The machine it ran on; empty for this one.
    pub node: String,
    pub ended: Ended,
}

/// How a run ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Ended {
    /// Well.
    Measured(Box<Observed>),
    /// In a way for which the cell is given up: why.
    GivenUp(String),
}

/// What one run showed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Observed {
    /// The figure that is compared.
    pub figure: f64,
    /// The hash of what came out, and how much that was; none where nothing is compared.
    pub output: Option<String>,
    pub output_bytes: u64,
    /// How long writing the output to the device took afterwards.
    pub sync: Duration,
    /// How many ran it at once, of which this is the slowest.
    pub ranks: usize,
    pub measurement: Measurement,
    /// What the program reported itself.
    pub samples: Option<Distribution>,
}

/// A distribution that a program reported.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    pub unit: String,
    pub samples: Vec<f64>,
}

impl CellRun {
    /// What it showed, if it ended well.
    pub fn observed(&self) -> Option<&Observed> {
        match &self.ended {
            Ended::Measured(observed) => Some(observed),
            Ended::GivenUp(_) => None,
        }
    }
}

impl Store {
    /// Adds a run; `name` says for other readers of the file which cell it is.
    ///
    /// # Errors
    /// Where it cannot be written, or is there already.
    pub fn add_cell_run(
        &self,
        session: &StoredSession,
        run: &CellRun,
        name: &str,
    ) -> Result<(), Error> {
        let details = run.observed().map(json).transpose();
        let details = details.map_err(Error::system("write", &self.path))?;
        let fault = match &run.ended {
            Ended::Measured(_) => None,
            Ended::GivenUp(reason) => Some(reason),
        };
        let insert = "INSERT INTO cell_run VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let values = params![
            session.id,
            run.round,
            run.place,
            run.runs_of_round,
            run.cell,
            name,
            run.node,
            run.observed().map(|observed| observed.figure),
            run.observed().and_then(|observed| observed.output.as_ref()),
            fault,
            details
        ];
        self.connection.execute(insert, values).map_err(failed("write", &self.path))?;
        Ok(())
    }

    /// All runs of a session, in their order.
    ///
    /// # Errors
    /// Where they cannot be read.
    pub fn cell_runs(&self, session: &StoredSession) -> Result<Vec<CellRun>, Error> {
        let read = || -> rusqlite::Result<Vec<(CellRun, Option<String>)>> {
            let all = "SELECT round, place, runs_of_round, cell, node, fault, details FROM cell_run
                       WHERE session = ? ORDER BY round, place";
            let mut statement = self.connection.prepare(all)?;
            let rows = statement.query_map([session.id], |row| {
                let run = CellRun {
                    round: row.get(0)?,
                    place: row.get(1)?,
                    runs_of_round: row.get(2)?,
                    cell: row.get(3)?,
                    node: row.get(4)?,
                    ended: Ended::GivenUp(row.get::<_, Option<String>>(5)?.unwrap_or_default()),
                };
                Ok((run, row.get(6)?))
            })?;
            rows.collect()
        };
        let parse = |(mut run, details): (CellRun, Option<String>)| {
            if let Some(details) = details {
                let observed = serde_json::from_str(&details).map_err(io::Error::from);
                run.ended = Ended::Measured(observed.map_err(Error::system("read", &self.path))?);
            }
            Ok(run)
        };
        read().map_err(failed("read", &self.path))?.into_iter().map(parse).collect()
    }

    /// Removes what there is of rounds that are not whole.
    ///
    /// # Errors
    /// Where that cannot be written.
    pub fn drop_partial_cell_rounds(&self, session: &StoredSession) -> Result<(), Error> {
        self.drop_partial_rounds("cell_run", session)
    }

    /// Removes a round: it is to be repeated.
    ///
    /// # Errors
    /// Where that cannot be written.
    pub fn drop_cell_round(&self, session: &StoredSession, round: usize) -> Result<(), Error> {
        let delete = "DELETE FROM cell_run WHERE session = ? AND round = ?";
        self.connection
            .execute(delete, params![session.id, round])
            .map_err(failed("write", &self.path))?;
        Ok(())
    }

    /// Notes what is known of a machine that runs cells.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn note_node(
        &self,
        session: &StoredSession,
        name: &str,
        environment: &str,
    ) -> Result<(), Error> {
        let insert = "INSERT OR REPLACE INTO node VALUES (?, ?, ?)";
        self.connection
            .execute(insert, params![session.id, name, environment])
            .map_err(failed("write", &self.path))?;
        Ok(())
    }

    /// All sessions in this file, from the last to the first.
    ///
    /// # Errors
    /// Where they cannot be read.
    pub fn sessions(&self) -> Result<Vec<StoredSession>, Error> {
        let read = || -> rusqlite::Result<Vec<StoredSession>> {
            let all = "SELECT id, subject, circumstances FROM session ORDER BY id DESC";
            let mut statement = self.connection.prepare(all)?;
            let rows = statement.query_map([], |row| {
                let (id, subject, circumstances) = (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok(StoredSession { id, subject, circumstances })
            })?;
            rows.collect()
        };
        read().map_err(failed("read", &self.path))
    }
}
