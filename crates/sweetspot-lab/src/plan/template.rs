//! Text with placeholders: `{plan}/copy`, `--size={buffer}`; `{{` and `}}` stand for braces.

use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};

/// Text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Piece {
    Text(String),
    Placeholder(String),
}

impl Template {
    /// Reads a text.
    ///
    /// # Errors
    /// Where a brace is alone; the message says which.
    pub fn read(text: &str) -> Result<Template, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let (brace, after) = (&rest[at..=at], &rest[at + 1..]);
            if let Some(after) = after.strip_prefix(brace) {
                plain.push_str(brace);
                rest = after;
                continue;
            }
            let end = (brace == "{").then(|| after.find('}')).flatten();
            let Some(end) = end else {
                return Err(format!("the brace '{brace}' in '{text}' has no other half"));
            };
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(Piece::Placeholder(after[..end].to_owned()));
            rest = &after[end + 1..];
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Template(pieces))
    }

    /// The same with a placeholder called otherwise.
    pub fn renamed(mut self, from: &str, to: &str) -> Template {
        for piece in &mut self.0 {
            if matches!(piece, Piece::Placeholder(name) if name == from) {
                *piece = Piece::Placeholder(to.to_owned());
            }
        }
        self
    }

    /// The names of its placeholders.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Placeholder(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// The text, with what `value` says in the place of each placeholder.
    pub fn fill<T: AsRef<OsStr>>(&self, value: impl Fn(&str) -> T) -> OsString {
        let mut text = OsString::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(plain) => text.push(plain),
                Piece::Placeholder(name) => text.push(value(name)),
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_and_braces() {
        let check = |text: &str, expected: &str| {
            let template = Template::read(text).unwrap();
            assert_eq!(template.fill(str::to_uppercase), expected, "{text}");
        };
        check("", "");
        check("plain", "plain");
        check("{a}", "A");
        check("x{a}y{bc}z", "xAyBCz");
        check("{{a}}", "{a}");
        check("{{{a}}}", "{A}");
        check("{a}{a}", "AA");
        let names: Vec<String> =
            Template::read("{a}-{{b}}-{c}").unwrap().names().map(str::to_owned).collect();
        assert_eq!(names, ["a", "c"]);
    }

    #[test]
    fn braces_come_in_pairs() {
        for text in ["{", "}", "a{b", "a}b", "{a}}", "{{}"] {
            let message = Template::read(text).unwrap_err();
            assert!(message.contains("has no other half"), "{text}: {message}");
        }
    }
}
