//! Names that others chose, as they may be shown: the names of files and of others' processes.
//!
//! A name may hold any byte. What controls a terminal is written as an escape, so that no name can
//! move the cursor, hide what stands beside it, or answer in the user's place.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::ffi::OsStr;
use std::fmt::Write as _;

/// A name or path for people to read: on one line, without anything that controls a terminal.
pub fn shown(name: impl AsRef<OsStr>) -> String {
    escaped(&name.as_ref().to_string_lossy(), |_| false)
}

/// A text of our own in which names stand: as [`shown`], but lines and tabs stay.
pub fn lines(text: &str) -> String {
    escaped(text, |letter| matches!(letter, '\n' | '\t'))
}

/// The same data with all its texts as [`shown`]; as they are, where that cannot be told.
pub fn plain<T: Serialize + DeserializeOwned + Clone>(data: &T) -> T {
    let Ok(mut value) = serde_json::to_value(data) else { return data.clone() };
    make_plain(&mut value);
    serde_json::from_value(value).unwrap_or_else(|_| data.clone())
}

fn make_plain(value: &mut Value) {
    match value {
        Value::String(text) => *text = shown(&*text),
        Value::Array(all) => all.iter_mut().for_each(make_plain),
        Value::Object(fields) => fields.values_mut().for_each(make_plain),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn escaped(text: &str, stays: impl Fn(char) -> bool) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        match is_command(letter) && !stays(letter) {
            true if letter.is_ascii() => {
                let _ = write!(plain, "\\x{:02x}", letter as u32);
            }
            true => {
                let _ = write!(plain, "\\u{{{:x}}}", letter as u32);
            }
            false => plain.push(letter),
        }
    }
    plain
}

/// Control characters, and those that change the direction of what follows or are not seen.
fn is_command(letter: char) -> bool {
    let hides = matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}');
    letter.is_control() || hides || matches!(letter, '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_shown_controls_a_terminal() {
        let check = |name: &str, expected: &str| assert_eq!(shown(name), expected);
        check("plain name.txt", "plain name.txt");
        check("größe 大小", "größe 大小");
        check("\x1b]0;title\x07", "\\x1b]0;title\\x07");
        check("a\nb\rc\td\x7f", "a\\x0ab\\x0dc\\x09d\\x7f");
        check("\u{9b}31m", "\\u{9b}31m");
        check("\u{202e}gpj.exe", "\\u{202e}gpj.exe");
        assert_eq!(lines("a\n\tb\x1b[2J"), "a\n\tb\\x1b[2J");
        for byte in 0..=255u8 {
            use std::os::unix::ffi::OsStrExt;
            let name = shown(OsStr::from_bytes(&[byte]));
            assert!(!name.contains(char::is_control), "{byte}");
        }
    }
}
