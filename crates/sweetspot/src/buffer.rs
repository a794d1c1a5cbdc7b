//! Which buffer size is in force: what was typed, else the environment, else `sweetspot.toml`,
//! else auto.
//!
//! The grammar itself is `sweetspot_core::size`; here is who is asked first, and what is said about
//! a text that is no size.

use crate::environment::{Environment, value};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use sweetspot_core::environment::BUFFER;
use sweetspot_core::size::{BufferSize, Parsed, parse};
use sweetspot_report::failure::Failure;
use sweetspot_report::numbers;
use sweetspot_report::shown::shown;

/// Names after `-D`: the form that COBOL users know, and the variable's own.
const DEFINED: [&[u8]; 2] = [b"IO-BUFFER-SIZE", b"IO_BUFFER_SIZE"];

/// What is said of a text that is no size.
pub const NO_SIZE: &str = "is not a size (such as 64K, auto or off)";

/// A size and who asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// By an option or the environment: rules do not change it.
    Explicitly(BufferSize),
    /// By a rule for this program, or by nobody (auto): rules decide file by file.
    ByRules(BufferSize),
}

/// What the environment says, if it was not a `run` around this one that set it, without having been asked for a
/// size.
pub fn from_environment(environment: &Environment) -> Option<&OsStr> {
    let is_asked = |text: &&OsStr| match parse(text.as_bytes()) {
        Parsed::Size(size) => *text != unasked(size),
        _ => true,
    };
    value(environment, BUFFER).filter(is_asked)
}

/// A size for which nobody has asked, as `run` says it: in a form that nobody types. (Another variable would take time
/// at the start of each process.)
fn unasked(size: BufferSize) -> OsString {
    match size {
        BufferSize::Auto => "Auto".into(),
        BufferSize::Off => "Off".into(),
        BufferSize::Bytes(_) => format!("0{}", numbers::size(size)).into(),
    }
}

impl Asked {
    /// The size.
    pub fn size(self) -> BufferSize {
        match self {
            Asked::Explicitly(size) | Asked::ByRules(size) => size,
        }
    }

    /// How [`BUFFER`] says it to the library, and to a `run` inside.
    pub fn said(self) -> OsString {
        match self {
            Asked::Explicitly(size) => numbers::size(size).into(),
            Asked::ByRules(size) => unasked(size),
        }
    }
}

/// The text after `-D`, without its name.
///
/// # Errors
/// Where it is not `IO-BUFFER-SIZE=N`.
pub fn defined(text: &OsStr) -> Result<OsString, Failure> {
    let bytes = text.as_bytes();
    let equals = bytes.iter().position(|&byte| byte == b'=').unwrap_or(bytes.len());
    let (name, value) = bytes.split_at(equals);
    if !DEFINED.iter().any(|known| name.eq_ignore_ascii_case(known)) || value.is_empty() {
        let shown = shown(text);
        return Err(Failure::own(format!("-D{shown}: only IO-BUFFER-SIZE=N can be set this way"))
            .next("try: -DIO-BUFFER-SIZE=64K"));
    }
    Ok(OsStr::from_bytes(&value[1..]).to_os_string())
}

/// Reads one text. `origin` says where it stands, for messages. A text that is no size means no
/// buffering, and adds a warning.
///
/// # Errors
/// Where the number is beyond the largest buffer.
pub fn read(text: &OsStr, origin: &str, warnings: &mut Vec<String>) -> Result<BufferSize, Failure> {
    match parse(text.as_bytes()) {
        Parsed::Size(size) => Ok(size),
        Parsed::NotANumber => {
            let shown = shown(text);
            warnings.push(format!("{origin}: '{shown}' {NO_SIZE}"));
            Ok(BufferSize::Off)
        }
        Parsed::TooLarge => Err(Failure::own(format!(
            "{origin}: '{}' is more than the largest buffer, 1 GiB",
            shown(text)
        ))
        .next("try: 64K, or auto to let sweetspot choose")),
    }
}

/// The size in force for a program; `ruled` is what a rule says for all its files.
///
/// # Errors
/// As [`read`].
pub fn resolve(
    typed: Option<(&OsStr, &str)>,
    environment: Option<&OsStr>,
    ruled: Option<BufferSize>,
    warnings: &mut Vec<String>,
) -> Result<Asked, Failure> {
    if let Some((text, option)) = typed {
        return read(text, option, warnings).map(Asked::Explicitly);
    }
    if let Some(text) = environment {
        return read(text, BUFFER, warnings).map(Asked::Explicitly);
    }
    Ok(Asked::ByRules(ruled.unwrap_or(BufferSize::Auto)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defines() {
        let check = |text: &str, expected: Option<&str>| {
            let found = defined(OsStr::new(text)).ok();
            assert_eq!(found.as_deref(), expected.map(OsStr::new), "{text}");
        };
        check("IO-BUFFER-SIZE=64K", Some("64K"));
        check("io_buffer_size=off", Some("off"));
        check("IO-BUFFER-SIZE=", Some(""));
        check("IO-BUFFER-SIZE=a=b", Some("a=b"));
        for text in ["", "=", "IO-BUFFER-SIZE", "BUFFER=1", "64K"] {
            check(text, None);
        }
    }

    #[test]
    fn the_first_who_says_decides() {
        let check = |typed: Option<&str>, environment: Option<&str>, ruled, expected| {
            let mut warnings = Vec::new();
            let typed = typed.map(|text| (OsStr::new(text), "--buffer-size"));
            let environment = environment.map(OsStr::new);
            let asked = resolve(typed, environment, ruled, &mut warnings).unwrap();
            assert_eq!((asked, warnings.len()), expected);
        };
        use Asked::{ByRules, Explicitly};
        use BufferSize::{Auto, Bytes, Off};
        check(Some("4K"), Some("8K"), Some(Bytes(5)), (Explicitly(Bytes(4096)), 0));
        check(Some("0"), Some("8K"), Some(Bytes(5)), (Explicitly(Auto), 0));
        check(Some("many"), Some("8K"), Some(Bytes(5)), (Explicitly(Off), 1));
        check(None, Some("8K"), Some(Bytes(5)), (Explicitly(Bytes(8192)), 0));
        check(None, Some(""), Some(Bytes(5)), (Explicitly(Off), 1));
        check(None, None, Some(Bytes(5)), (ByRules(Bytes(5)), 0));
        check(None, None, None, (ByRules(Auto), 0));
    }
}
