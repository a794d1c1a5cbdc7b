//! Puts files into the page cache and out of it, and says whether that worked.
//!
//! Without privileges a file leaves the cache only when it is clean and nobody has it mapped, so
//! what is left is asked for afterwards ([`evict`]). In a virtual machine the host still has the
//! file in its own cache: call such a run guest-cold.

use crate::{Error, sys};
use rustix::fs::{Advice, fadvise};
use std::{fs::File, io, path::Path};

/// How much of a file is left in the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residency {
    /// That many bytes, in whole pages.
    Bytes(u64),
    /// This kernel cannot say (before Linux 6.5).
    Unknown,
}

/// Reads `path` to its end, so that it is in the page cache as far as there is room.
pub fn warm(path: &Path) -> Result<(), Error> {
    let mut file = File::open(path).map_err(Error::system("open", path))?;
    io::copy(&mut file, &mut io::sink()).map_err(Error::system("read", path))?;
    Ok(())
}

/// Writes `path` out and drops it from the page cache; tells how much is in there still.
pub fn evict(path: &Path) -> Result<Residency, Error> {
    let file = File::open(path).map_err(Error::system("open", path))?;
    file.sync_all().map_err(Error::system("write out", path))?;
    fadvise(&file, 0, None, Advice::DontNeed)
        .map_err(io::Error::from)
        .map_err(Error::system("drop from the cache", path))?;
    residency(&file).map_err(Error::system("ask for the cached pages of", path))
}

/// Drops all clean pages, folders and inodes of the whole machine. Only root may.
pub fn drop_all() -> Result<(), Error> {
    const SWITCH: &str = "/proc/sys/vm/drop_caches";
    rustix::fs::sync();
    std::fs::write(SWITCH, "3").map_err(Error::system("write", SWITCH))
}

fn residency(file: &File) -> io::Result<Residency> {
    match sys::cached_pages(file) {
        Ok(pages) => Ok(Residency::Bytes(pages * rustix::param::page_size() as u64)),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(Residency::Unknown),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_goes_in_and_out() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("data");
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        let file = File::open(&path).unwrap();
        if residency(&file).unwrap() == Residency::Unknown {
            eprintln!("skipped: this kernel has no cachestat (Linux 6.5 has)");
            return;
        }
        assert_eq!(residency(&file).unwrap(), Residency::Bytes(1 << 20), "just written");
        if evict(&path).unwrap() == Residency::Bytes(1 << 20) {
            eprintln!("skipped: {} is on a file system without eviction", path.display());
            return;
        }
        assert_eq!(residency(&file).unwrap(), Residency::Bytes(0), "evicted");
        warm(&path).unwrap();
        assert_eq!(residency(&file).unwrap(), Residency::Bytes(1 << 20), "read again");
    }

    #[test]
    fn a_missing_file_is_named() {
        for result in [warm(Path::new("/no/file")), evict(Path::new("/no/file")).map(drop)] {
            assert_eq!(
                result.unwrap_err().to_string(),
                "cannot open /no/file: No such file or directory (os error 2)"
            );
        }
    }
}
