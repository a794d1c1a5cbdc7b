//! Names that others chose, in what is said: all that is shown of them goes through
//! [`sweetspot_core::shown`].

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use sweetspot_core::shown::Shown;

/// A name or path for people to read: on one line, without anything that controls a terminal.
pub fn shown(name: impl AsRef<OsStr>) -> String {
    Shown(name.as_ref().as_bytes()).to_string()
}

/// A text of our own in which names stand: as [`shown`], but lines and tabs stay.
pub fn lines(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for piece in text.split_inclusive(['\n', '\t']) {
        let words = piece.trim_end_matches(['\n', '\t']);
        plain += &shown(words);
        plain += &piece[words.len()..];
    }
    plain
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_our_own_keeps_its_lines() {
        assert_eq!(lines("a\n\tb\x1b[2J\n"), "a\n\tb\\x1b[2J\n");
        assert_eq!(shown("a\nb\t"), "a\\x0ab\\x09");
    }
}
