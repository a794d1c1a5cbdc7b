//! Puts files into the page cache and out of it, and says whether that worked.
//!
//! Without privileges a file leaves the cache only when it is clean and nobody has it mapped, so
//! what is left is asked for afterwards (cachestat, or mincore before Linux 6.5), and a run that
//! would only be called cold is refused ([`bring`]). In a virtual machine the host still has the
//! file in its own cache: call such a run guest-cold.

use crate::{Error, sys};
use rustix::fs::{Advice, fadvise};
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    thread::sleep,
    time::Duration,
};

/// What the page cache is to hold of the inputs when a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nothing of them.
    Cold,
    /// All of them.
    Warm,
}

/// Brings the files `inputs` into `state` and looks whether they are.
///
/// # Errors
/// Where a file is not in that state afterwards: then no run may be called cold, or warm.
pub fn bring(state: State, inputs: &[PathBuf]) -> Result<(), Error> {
    for path in inputs {
        let bytes = path.metadata().map_err(Error::system("look at", path))?.len();
        let cached = match state {
            State::Cold => evict(path)?,
            State::Warm => warm(path, bytes)?,
        };
        let reason = match state {
            State::Cold if cached > 0 => format!(
                "{cached} bytes of it stay in the page cache (mapped, or in use, by someone), so \
                 no run is a cold one"
            ),
            State::Warm if cached < bytes => format!(
                "only {cached} of its {bytes} bytes stay in the page cache, so no run is a warm \
                 one; is there memory enough?"
            ),
            _ => continue,
        };
        return Err(Error::Failed { program: path.display().to_string(), reason });
    }
    Ok(())
}

/// A kernel that frees memory on its own account (DAMON) can take the beginning of a large file while
/// the end of it is read. After that many tries it is said that it does not stay.
const READS_MAX: u32 = 5;

/// Reads `path` until all of its `bytes` are in the page cache, if they can be; tells how many are.
fn warm(path: &Path, bytes: u64) -> Result<u64, Error> {
    let mut cached = cached_bytes(path)?;
    for _ in 0..READS_MAX {
        if cached >= bytes {
            break;
        }
        read_all(path)?;
        cached = cached_bytes(path)?;
    }
    Ok(cached)
}

/// Reads `path` to its end, so that it is in the page cache as far as there is room.
fn read_all(path: &Path) -> Result<(), Error> {
    let mut file = File::open(path).map_err(Error::system("open", path))?;
    io::copy(&mut file, &mut io::sink()).map_err(Error::system("read", path))?;
    Ok(())
}

/// Pages that a process just ended with may still be on their way to the lists from which they can be
/// dropped, on another processor. So often it is tried, with a pause between.
const EVICTIONS_MAX: u32 = 10;
const EVICTION_PAUSE: Duration = Duration::from_millis(20);

/// Writes `path` out and drops it from the page cache; tells how many bytes are in there still.
fn evict(path: &Path) -> Result<u64, Error> {
    let file = File::open(path).map_err(Error::system("open", path))?;
    file.sync_all().map_err(Error::system("write out", path))?;
    let mut tries = 0;
    loop {
        fadvise(&file, 0, None, Advice::DontNeed)
            .map_err(io::Error::from)
            .map_err(Error::system("drop from the cache", path))?;
        let asking = Error::system("ask for the cached pages of", path);
        let cached = residency(&file).map_err(asking)?;
        tries += 1;
        if cached == 0 || tries == EVICTIONS_MAX {
            return Ok(cached);
        }
        sleep(EVICTION_PAUSE);
    }
}

/// How many bytes of `path`, in whole pages, are in the page cache.
pub fn cached_bytes(path: &Path) -> Result<u64, Error> {
    let file = File::open(path).map_err(Error::system("open", path))?;
    residency(&file).map_err(Error::system("ask for the cached pages of", path))
}

/// Whether the kernel says what is in the page cache without a mapping (cachestat, Linux 6.5).
pub fn has_cachestat() -> bool {
    File::open("/").is_ok_and(|folder| {
        !sys::cached_pages(&folder).is_err_and(|error| error.kind() == io::ErrorKind::Unsupported)
    })
}

fn residency(file: &File) -> io::Result<u64> {
    let pages = match sys::cached_pages(file) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => sys::mapped_pages(file)?,
        other => other?,
    };
    Ok(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_goes_in_and_out() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("data");
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        let inputs = [path.clone()];
        assert_eq!(cached_bytes(&path).unwrap(), 1 << 20, "just written");
        if bring(State::Cold, &inputs).is_err() {
            eprintln!("skipped: {} is on a file system without eviction", path.display());
            return;
        }
        assert_eq!(cached_bytes(&path).unwrap(), 0, "evicted");
        bring(State::Warm, &inputs).unwrap();
        assert_eq!(cached_bytes(&path).unwrap(), 1 << 20, "read again");
    }

    #[test]
    fn both_ways_to_ask_the_kernel_agree() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("data");
        for len in [0, 1, 4096, 100_000] {
            std::fs::write(&path, vec![7; len]).unwrap();
            let file = File::open(&path).unwrap();
            let pages = len.div_ceil(rustix::param::page_size()) as u64;
            assert_eq!(sys::mapped_pages(&file).unwrap(), pages, "{len} bytes by mincore");
            match sys::cached_pages(&file) {
                Ok(found) => assert_eq!(found, pages, "{len} bytes by cachestat"),
                Err(_) => eprintln!("skipped: this kernel has no cachestat (Linux 6.5 has)"),
            }
        }
    }

    #[test]
    fn a_file_that_stays_cached_is_not_called_cold() {
        // Nothing leaves a memory file system's cache: there is nowhere else.
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = folder.path().join("data");
        std::fs::write(&path, vec![7; 1 << 16]).unwrap();
        let message = bring(State::Cold, std::slice::from_ref(&path)).unwrap_err().to_string();
        assert!(message.contains("65536 bytes of it stay in the page cache"), "{message}");
        bring(State::Warm, &[path]).unwrap();
    }

    #[test]
    fn a_missing_file_is_named() {
        let missing = Path::new("/no/file");
        for (result, operation) in
            [(bring(State::Warm, &[missing.into()]), "look at"), (evict(missing).map(drop), "open")]
        {
            assert_eq!(
                result.unwrap_err().to_string(),
                format!("cannot {operation} /no/file: No such file or directory (os error 2)")
            );
        }
    }
}
