//! What to type next when something cannot be done.

use crate::failure::Failure;
use std::io;
use sweetspot_io::{Error, ErrorKind};

/// Exit status of `compare` where the files differ, as `cmp` has it.
pub const STATUS_DIFFERENT: u8 = 1;
/// Exit status of `compare` where it cannot say, as `cmp` has it.
pub const STATUS_TROUBLE: u8 = 2;
/// Exit status of everything else that fails, as `cp` and `wc` have it.
pub const STATUS_FAILED: u8 = 1;

/// The failure with the next thing to type.
pub fn explain(error: &Error) -> Failure {
    let target = &error.target;
    let next = match &error.kind {
        ErrorKind::Exists => "to replace it: --force".to_string(),
        ErrorKind::SameFile => "name another output".to_string(),
        ErrorKind::LineTooLong { limit_bytes, .. } => {
            format!("to allow it: --line-bytes-max {}", limit_bytes.saturating_mul(16))
        }
        ErrorKind::NotUtf8 { .. } => {
            "try: --encoding utf8-replace, or --encoding latin1".to_string()
        }
        ErrorKind::RecordTruncated { record_bytes, .. } => {
            format!("is the length right? Try another: --record-bytes {}", record_bytes / 2)
        }
        ErrorKind::NoRoom { .. } => "make less, or in another place; see: df -h .".to_string(),
        ErrorKind::System(cause) => after(cause, target),
        _ => "see: sweetspot work --help".to_string(),
    };
    Failure::own(error.to_string()).next(next)
}

fn after(cause: &io::Error, target: &str) -> String {
    match cause.kind() {
        io::ErrorKind::NotFound => format!("is it there? ls -ld {target:?}"),
        io::ErrorKind::PermissionDenied => format!("who may? ls -ld {target:?}"),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room, or name another place; see: df -h .".to_string()
        }
        io::ErrorKind::IsADirectory => format!("name a file in it: ls {target:?}"),
        _ => format!("look at it: stat {target:?}"),
    }
}
