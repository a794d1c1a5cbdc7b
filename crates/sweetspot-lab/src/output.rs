//! What came out of a run, as hashes that anyone can check with sha256sum.

use crate::Error;
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

/// The hash of what was put into it.
#[derive(Clone, Default)]
pub struct Hash(Sha256);

impl Hash {
    /// The hash of bytes, in hexadecimal digits.
    pub fn of(bytes: &[u8]) -> String {
        let mut hash = Hash::default();
        hash.add(bytes);
        hash.text()
    }

    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds the bytes of a file.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn add_file(&mut self, path: &Path) -> Result<(), Error> {
        self.add_open_file(File::open(path).map_err(Error::system("open", path))?, path)
    }

    /// Adds what is left to read of an open file; `path` is for the message.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn add_open_file(&mut self, mut file: File, path: &Path) -> Result<(), Error> {
        io::copy(&mut file, &mut self.0).map_err(Error::system("read", path))?;
        Ok(())
    }

    /// Adds a file, or all files below a folder with their names, in the order of these; what is
    /// not there adds nothing.
    ///
    /// # Errors
    /// Where one of them cannot be read.
    pub fn add_tree(&mut self, path: &Path) -> Result<(), Error> {
        match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Error::system("look at", path)(error)),
            Ok(metadata) if !metadata.is_dir() => self.add_file(path),
            Ok(_) => {
                let mut below: Vec<PathBuf> = fs::read_dir(path)
                    .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
                    .map_err(Error::system("list", path))?;
                below.sort_unstable();
                below.iter().try_for_each(|path| {
                    self.add(path.file_name().unwrap_or_default().as_encoded_bytes());
                    self.add_tree(path)
                })
            }
        }
    }

    /// The hash, in hexadecimal digits.
    pub fn text(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_sees_names_and_bytes() {
        let hash = |files: &[(&str, &str)]| {
            let folder = tempfile::tempdir().unwrap();
            for (name, text) in files {
                fs::write(folder.path().join(name), text).unwrap();
            }
            let mut hash = Hash::default();
            hash.add_tree(folder.path()).unwrap();
            hash.text()
        };
        let one = hash(&[("a", "x"), ("b", "y")]);
        assert_eq!(one, hash(&[("b", "y"), ("a", "x")]), "the order of making does not matter");
        assert_ne!(one, hash(&[("a", "x"), ("b", "z")]));
        assert_ne!(one, hash(&[("a", "x"), ("c", "y")]));
        assert_ne!(one, hash(&[("a", "x")]));
        let mut empty = Hash::default();
        empty.add_tree(Path::new("/no/such/file")).unwrap();
        assert!(empty.text().starts_with("e3b0c442"), "as sha256sum says of nothing");
    }
}
