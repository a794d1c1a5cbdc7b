//! Which of many runs it was: the machine, the process, its place in a parallel job.

use serde::{Deserialize, Serialize};

/// Which run it was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Origin {
    pub host: String,
    /// Of sweetspot, which waited for the program.
    pub pid: u32,
    /// When it began, in seconds since 1970.
    pub started: f64,
    /// Its number in a parallel job, from 0, and how many there are, as the launcher (MPI, Slurm) said.
    pub rank: Option<u64>,
    pub ranks: Option<u64>,
    pub job: Option<String>,
}

impl Origin {
    /// `rank 3 on node1, pid 42`, or without a rank `node1, pid 42`.
    pub fn name(&self) -> String {
        let Origin { host, pid, rank, .. } = self;
        match rank {
            Some(rank) => format!("rank {rank} on {host}, pid {pid}"),
            None => format!("{host}, pid {pid}"),
        }
    }
}
