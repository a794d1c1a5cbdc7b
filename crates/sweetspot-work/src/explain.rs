//! What to type next when something cannot be done.

use std::io;
use sweetspot_io::{Error, ErrorKind};
use sweetspot_report::failure::Failure;
use sweetspot_report::shell::quoted;

/// Exit status of `compare` where the files differ, as `cmp` has it.
pub const STATUS_DIFFERENT: u8 = 1;
/// Exit status of `compare` where it cannot say, as `cmp` has it.
pub const STATUS_TROUBLE: u8 = 2;
/// Exit status of everything else that fails, as `cp` and `wc` have it.
pub const STATUS_FAILED: u8 = 1;

/// The failure with the next thing to type.
pub fn explain(error: Error) -> Failure {
    cannot(error.operation, &error.target, &error.kind)
}

/// The same for what came through a trait of std, which wraps the library's errors.
pub fn explain_wrapped(error: io::Error) -> Failure {
    match error.downcast() {
        Ok(error) => explain(error),
        Err(error) => Failure::own(error.to_string()).status(STATUS_FAILED),
    }
}

/// For `map_err(system("list", name))`.
pub fn system(operation: &str, target: &str) -> impl Fn(io::Error) -> Failure {
    move |error| cannot(operation, target, &ErrorKind::System(error))
}

/// The failure of what this program tried itself, in the library's words.
pub fn cannot(operation: &str, target: &str, kind: &ErrorKind) -> Failure {
    let next = match kind {
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
        ErrorKind::System(cause) => after(cause, target),
        _ => "see: sweetspot work --help".to_string(),
    };
    Failure::own(format!("cannot {operation} {target}: {kind}")).status(STATUS_FAILED).next(next)
}

fn after(cause: &io::Error, target: &str) -> String {
    let typed = quoted(target);
    match cause.kind() {
        io::ErrorKind::NotFound => format!("check the path: ls -ld {typed}"),
        io::ErrorKind::PermissionDenied => format!("check the permissions: ls -ld {typed}"),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room, or name another place; see: df -h .".to_string()
        }
        io::ErrorKind::IsADirectory => format!("name a file in it: ls {typed}"),
        _ => format!("details: stat {typed}"),
    }
}
