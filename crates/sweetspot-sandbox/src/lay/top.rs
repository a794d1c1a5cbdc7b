//! A folder that something is laid over, as it looks from outside.

use crate::access::may;
use rustix::fs::{Access, Gid, Uid};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// How a top comes about.
#[derive(Clone, Copy)]
pub(super) enum TopKind {
    Overlay,
    Substitute,
}

/// A folder that is the top of an overlay, or substituted, as it looks from outside.
#[derive(Clone)]
pub(super) struct Top {
    pub(super) folder: PathBuf,
    pub(super) kind: TopKind,
    owner: (u32, u32),
    is_ours: bool,
    mode: u32,
    /// The bits of an owner who may do what this user may do.
    allowed: u32,
}

impl Top {
    pub(super) fn look(folder: &Path) -> std::io::Result<Top> {
        let data = fs::metadata(folder)?;
        let rights =
            [(Access::READ_OK, 0o400), (Access::WRITE_OK, 0o200), (Access::EXEC_OK, 0o100)];
        let allowed = rights.iter().filter(|(right, _)| may(folder, *right)).map(|(_, bit)| bit);
        Ok(Top {
            folder: folder.to_owned(),
            kind: TopKind::Overlay,
            owner: (data.uid(), data.gid()),
            is_ours: data.uid() == rustix::process::geteuid().as_raw(),
            mode: data.mode() & 0o7777,
            allowed: allowed.sum(),
        })
    }

    pub(super) fn with_kind(self, kind: TopKind) -> Top {
        Top { kind, ..self }
    }

    /// Gives another folder its mode and owner. Where the owner cannot be given, the mode leaves
    /// this user what they may do in the real one, and no more.
    pub(super) fn give_looks_to(&self, upper: &Path) -> std::io::Result<()> {
        let (uid, gid) = (Uid::from_raw(self.owner.0), Gid::from_raw(self.owner.1));
        let is_given = self.is_ours || rustix::fs::chown(upper, Some(uid), Some(gid)).is_ok();
        let mode = if is_given { self.mode } else { self.mode & !0o700 | self.allowed };
        fs::set_permissions(upper, fs::Permissions::from_mode(mode))
    }
}
