//! File systems of other kinds than that of temporary files, made and mounted for one fuzzer. Needs root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::commands::call;
use tempfile::TempDir;

/// Their names. `seconds` is ext4 that keeps times in whole seconds; `fuse` shows another folder.
pub const KINDS: &[&str] = &["seconds", "xfs", "btrfs", "tmpfs", "overlay", "fuse"];

/// The smallest that xfs and btrfs can both be made on is some 300 MB.
const IMAGE_BYTES: u64 = 512 << 20;

/// One that is mounted; it is gone when dropped.
pub struct FileSystem {
    folder: TempDir,
    /// What is mounted below the folder, in that order.
    mounted: Vec<PathBuf>,
}

impl FileSystem {
    /// Makes and mounts one of [`KINDS`].
    ///
    /// # Errors
    /// What a command said.
    pub fn mount(kind: &str) -> Result<FileSystem, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut this = FileSystem { folder, mounted: Vec::new() };
        match kind {
            "seconds" => this.image(&["mkfs.ext4", "-q", "-I", "128"])?,
            "xfs" => this.image(&["mkfs.xfs", "-q"])?,
            "btrfs" => this.image(&["mkfs.btrfs", "-q"])?,
            "tmpfs" => this.add("whole", &["mount", "-t", "tmpfs", "sweetspot-test"])?,
            "overlay" => {
                // Not upon another overlay, as in a container.
                this.add("below", &["mount", "-t", "tmpfs", "sweetspot-test"])?;
                let [lower, upper, work] =
                    ["lower", "upper", "work"].map(|name| this.at("below").join(name));
                for folder in [&lower, &upper, &work] {
                    fs::create_dir(folder).map_err(|error| error.to_string())?;
                }
                let shown = [lower, upper, work].map(|folder| folder.display().to_string());
                let [lower, upper, work] = shown;
                let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
                this.add("whole", &["mount", "-t", "overlay", "-o", &options, "sweetspot-test"])?;
            }
            "fuse" => this.serve()?,
            _ => return Err(format!("{kind} is none of {}", KINDS.join(" "))),
        }
        Ok(this)
    }

    /// Its root.
    pub fn root(&self) -> PathBuf {
        self.at("whole")
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Mounts one in a file, made by a command.
    fn image(&mut self, make: &[&str]) -> Result<(), String> {
        let image = self.at("image");
        let made = fs::File::create(&image).and_then(|file| file.set_len(IMAGE_BYTES));
        made.map_err(|error| format!("{}: {error}", image.display()))?;
        done(make, &image)?;
        self.add("whole", &["mount", "-o", "loop", &image.display().to_string()])
    }

    /// Mounts one whose server is a program in user space.
    fn serve(&mut self) -> Result<(), String> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../classics/auto/slow.c");
        let (server, shown) = (self.at("server"), self.at("shown"));
        let include = ["-I/usr/include/fuse3", "-D_FILE_OFFSET_BITS=64"];
        let [source, made] = [&source, &server].map(|path| path.display().to_string());
        let libraries = Path::new("-lfuse3");
        done(&["gcc", "-O1", include[0], include[1], "-o", &made, &source], libraries)?;
        fs::create_dir(&shown).map_err(|error| error.to_string())?;
        self.add("whole", &[&made, "0", &shown.display().to_string()])
    }

    /// Mounts one on a new folder, which is the last word of the command.
    fn add(&mut self, name: &str, command: &[&str]) -> Result<(), String> {
        let mountpoint = self.at(name);
        fs::create_dir(&mountpoint).map_err(|error| error.to_string())?;
        done(command, &mountpoint)?;
        self.mounted.push(mountpoint);
        Ok(())
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        for mountpoint in self.mounted.iter().rev() {
            let _ = done(&["umount", "-l"], mountpoint);
        }
    }
}

fn done(words: &[&str], last: &Path) -> Result<(), String> {
    call(Command::new(words[0]).args(&words[1..]).arg(last)).map(drop)
}
