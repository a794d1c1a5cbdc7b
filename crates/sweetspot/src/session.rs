//! The seam to the ledger and the guard: what one `run` asks of them, and what it learns.
//!
//! Everything else in this crate sees only these types.

use crate::config::Rule;
use crate::failure::Failure;
use std::path::Path;
use sweetspot_core::size::BufferSize;

/// Name of the variable that tells the library where the ledger is.
pub const VARIABLE: &str = "SWEETSPOT_LEDGER";

/// What is in force for the whole tree of processes.
#[derive(Debug)]
#[expect(dead_code, reason = "read by the ledger, which is not connected yet")]
pub struct Settings {
    /// The size where no rule says otherwise.
    pub buffer: BufferSize,
    /// In order; the first that matches wins. They say no size where one was asked for explicitly.
    pub rules: Vec<Rule>,
    /// A summary is wanted, so names of files are recorded.
    pub summary: bool,
    /// `--max-age`, in milliseconds; `None`: the default of where it runs.
    pub max_age_ms: Option<u32>,
    /// `--stdio`.
    pub stdio: bool,
}

/// One file in the summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSummary {
    pub path: String,
    /// The buffer in force, in the size grammar.
    pub buffer: String,
    /// Calls that the program made, and system calls that were left of them.
    pub calls_before: u64,
    pub calls_after: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Calls that went straight on, and each reason.
    pub straight_calls: u64,
    pub reasons: Vec<&'static str>,
}

/// What was learned while the program ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Processes that loaded the library: the handshake that says whether it was active.
    pub processes: u32,
    pub files: Vec<FileSummary>,
}

/// One `run`, from before the program starts until after it has ended.
pub struct Session {}

impl Session {
    /// Prepares a session.
    ///
    /// # Errors
    /// Where the ledger cannot be made.
    pub fn create(_settings: &Settings) -> Result<Session, Failure> {
        Ok(Session {})
    }

    /// The ledger's path, for the library; `None`: there is no ledger, so only reads are buffered.
    pub fn path(&self) -> Option<&Path> {
        None
    }

    /// Starts the guard beside the program.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start_guard(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// Waits until everything that the ended program `pid` left is written.
    pub fn finish(&mut self, _pid: u32) {}

    /// What was learned; `None`: there was no ledger to learn it from.
    pub fn summary(&self) -> Option<Summary> {
        None
    }
}
