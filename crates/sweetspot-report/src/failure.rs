//! What goes wrong before or around the program, in words for anyone who typed the command.
//!
//! Not here: the program's own failures, which are its own exit status.

use std::fmt;

/// Exit status of `run` where sweetspot itself failed, as in env, nice and timeout.
pub const STATUS_OWN: u8 = 125;
/// Exit status where the program was found but cannot be executed.
pub const STATUS_CANNOT_EXECUTE: u8 = 126;
/// Exit status where the program was not found.
pub const STATUS_NOT_FOUND: u8 = 127;

/// A failure to be shown to the user, and the exit status that goes with it.
#[derive(Debug)]
pub struct Failure {
    /// The exit status.
    pub status: u8,
    what: String,
    next: Option<String>,
}

impl Failure {
    /// A failure of sweetspot's own; `what` names the target and the cause.
    pub fn own(what: impl Into<String>) -> Failure {
        Failure { status: STATUS_OWN, what: what.into(), next: None }
    }

    /// What failed, without what to do next.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// What to do next.
    pub fn next_step(&self) -> Option<&str> {
        self.next.as_deref()
    }

    /// The same failure with another exit status.
    pub fn status(self, status: u8) -> Failure {
        Failure { status, ..self }
    }

    /// The same failure with the next thing to type.
    pub fn next(self, next: impl Into<String>) -> Failure {
        Failure { next: Some(next.into()), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "sweetspot: {}", self.what)?;
        match &self.next {
            Some(next) => write!(formatter, "\n  {next}"),
            None => Ok(()),
        }
    }
}
