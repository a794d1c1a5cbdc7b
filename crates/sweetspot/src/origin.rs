//! Which of many runs it was: the machine, the process, its place in a parallel job; and the name of a
//! file of its own in a folder that all of them share.

use crate::environment::{Environment, value};
use std::ffi::OsStr;
use std::fs::{Permissions, create_dir_all};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use sweetspot_report::failure::Failure;
use sweetspot_report::origin::Origin;
use sweetspot_report::shown::shown;
use tempfile::NamedTempFile;

/// Where variables say rank, number of ranks and job. MPI's come first: its ranks are often started by
/// one process of Slurm's on each machine, whose numbers they inherit.
const LAUNCHERS: [[&str; 3]; 4] = [
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE"],
    ["PMIX_RANK", "", "PMIX_NAMESPACE"],
    ["PMI_RANK", "PMI_SIZE", "PMI_JOBID"],
    ["SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_JOB_ID"],
];
/// Only set for what `srun` starts. A batch script itself has a SLURM_PROCID too, which is always 0.
const SLURM_STEP: &str = "SLURM_STEP_ID";

/// Of this process.
pub fn here(environment: &Environment) -> Origin {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let origin = in_job(environment);
    Origin { host, pid: std::process::id(), started: now.as_secs_f64(), ..origin }
}

/// What the launcher said.
fn in_job(environment: &Environment) -> Origin {
    let text = |name: &str| value(environment, name).and_then(OsStr::to_str);
    let number = |name: &str| text(name).and_then(|text| text.parse().ok());
    for [rank, ranks, job] in LAUNCHERS {
        let Some(rank_number) = number(rank) else { continue };
        let is_slurm = rank.starts_with("SLURM");
        let step = text(SLURM_STEP);
        if is_slurm && step.is_none() {
            continue;
        }
        let job = text(job).map(|job| match step.filter(|_| is_slurm) {
            Some(step) => format!("{job}.{step}"),
            None => job.to_owned(),
        });
        return Origin { rank: Some(rank_number), ranks: number(ranks), job, ..Origin::default() };
    }
    Origin::default()
}

/// Whether a path names a folder in which each run makes a file of its own: one that is there, or one
/// that is to be made, with a slash at its end.
pub fn is_folder(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/") || path.is_dir()
}

/// Makes a file for one run in a folder, and the folder if it is not there. Its name is unique among all
/// machines that share it: host, process, and letters at random; it goes away again unless it is kept.
///
/// # Errors
/// Where that is not possible; `option` is what was typed before the name.
pub fn file_in(
    folder: &Path,
    kind: &str,
    origin: &Origin,
    option: &str,
) -> Result<NamedTempFile, Failure> {
    let plain = |c: char| if c.is_alphanumeric() || c == '-' { c } else { '_' };
    let host: String = origin.host.chars().map(plain).collect();
    let make = || {
        create_dir_all(folder)?;
        tempfile::Builder::new()
            .prefix(&format!("{kind}-{host}-{}-", origin.pid))
            .suffix(".json")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)
    };
    make().map_err(|error| {
        Failure::own(format!("{option}{}: {error}", shown(folder)))
            .next("name a folder of yours, with a slash at its end")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::set;

    #[test]
    fn ranks_are_what_the_launcher_says() {
        let check = |variables: &[(&str, &str)], rank, ranks, job: Option<&str>| {
            let mut environment = Environment::default();
            variables.iter().for_each(|(name, text)| set(&mut environment, name, text));
            let origin = in_job(&environment);
            let found = (origin.rank, origin.ranks, origin.job.as_deref());
            assert_eq!(found, (rank, ranks, job), "{variables:?}");
        };
        check(&[], None, None, None);
        let open_mpi = [("OMPI_COMM_WORLD_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "4")];
        check(&open_mpi, Some(3), Some(4), None);
        let batch = [("SLURM_PROCID", "0"), ("SLURM_JOB_ID", "7"), ("SLURM_NTASKS", "2")];
        check(&batch, None, None, None);
        let step = [("SLURM_STEP_ID", "1"), ("SLURM_STEP_NUM_TASKS", "2")];
        check(&[&batch[..], &step].concat(), Some(0), Some(2), Some("7.1"));
        check(&[&batch[..], &step, &open_mpi].concat(), Some(3), Some(4), None);
        check(&[("PMI_RANK", "1"), ("PMI_SIZE", "2")], Some(1), Some(2), None);
        check(&[("PMIX_RANK", "1"), ("PMIX_NAMESPACE", "n")], Some(1), None, Some("n"));
        check(&[("PMI_RANK", "x"), ("SLURM_PROCID", "-1")], None, None, None);
    }

    #[test]
    fn two_runs_never_have_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b/");
        assert!(
            is_folder(&inner) && is_folder(folder.path()) && !is_folder(&folder.path().join("a"))
        );
        let origin = Origin { host: "a.b/c".to_owned(), pid: 7, started: 1.5, ..Origin::default() };
        let make = || file_in(&inner, "summary", &origin, "--summary=").unwrap();
        let (one, other) = (make(), make());
        assert_ne!(one.path(), other.path());
        let name = one.path().file_name().unwrap().to_str().unwrap().to_owned();
        assert!(name.starts_with("summary-a_b_c-7-") && name.ends_with(".json"), "{name}");
        let kept = one.keep().unwrap().1;
        let gone = other.path().to_owned();
        drop(other);
        assert!(kept.exists() && !gone.exists());
        let failure =
            file_in(Path::new("/proc/no/"), "summary", &origin, "--summary=").unwrap_err();
        assert!(failure.to_string().contains("--summary=/proc/no/: "), "{failure}");
    }
}
