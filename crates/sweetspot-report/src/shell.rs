//! How a word is typed so that the shell reads it as one.
//!
//! Not by the crate `shlex`: it hands on bytes that are no text, and those that control a terminal, as
//! they are, and quotes words that need it nowhere (`if=in.dat`).

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use sweetspot_core::shown::is_command;

/// The word, in quotes where it needs them. What would control a terminal, and what is no text, stands
/// there as an escape, which bash, zsh and ksh read: `$'...'`.
pub fn quoted(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref();
    match word.to_str() {
        Some(text) if !text.contains(is_command) => quoted_text(text),
        _ => escaped(word.as_bytes()),
    }
}

fn quoted_text(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,+@%".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn escaped(word: &[u8]) -> String {
    let mut typed = "$'".to_owned();
    for &byte in word {
        match byte {
            b'\n' => typed.push_str("\\n"),
            b'\'' | b'\\' => typed.extend(['\\', char::from(byte)]),
            b' '..=b'~' => typed.push(char::from(byte)),
            _ => {
                let _ = write!(typed, "\\x{byte:02x}");
            }
        }
    }
    typed + "'"
}

/// A command and its arguments, as a shell would take them.
pub fn words<S: AsRef<OsStr>>(command: &[S]) -> String {
    command.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_were() {
        let check = |word: &[u8], expected: &str| {
            assert_eq!(quoted(OsStr::from_bytes(word)), expected);
            let read = std::process::Command::new("bash")
                .args(["-c", &format!("printf %s {expected}")])
                .output()
                .unwrap();
            assert_eq!(read.stdout, word, "{expected}");
        };
        check(b"in.dat", "in.dat");
        check(b"", "''");
        check(b"a b", "'a b'");
        check(b"it's", r"'it'\''s'");
        check("größe".as_bytes(), "'größe'");
        check(b"a\nb", r"$'a\nb'");
        check(b"\x1b[2Jit's \\n", r"$'\x1b[2Jit\'s \\n'");
        check(b"\xff1", r"$'\xff1'");
        check("\u{202e}a".as_bytes(), r"$'\xe2\x80\xaea'");
    }
}
