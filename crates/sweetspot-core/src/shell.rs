//! How a word is typed so that the shell reads it as one.
//!
//! Not by the crate `shlex`: it hands on bytes that are no text, and those that control a terminal, as
//! they are, and quotes words that need it nowhere (`if=in.dat`).

use core::fmt::{Display, Formatter, Result, Write};

use crate::shown::is_command;

/// The word, in quotes where it needs them. What would control a terminal, and what is no text, stands
/// there as an escape, which bash, zsh and ksh read: `$'...'`.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a [u8]);

impl Display for Quoted<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        let is_plain =
            |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,+@%".contains(letter);
        match core::str::from_utf8(self.0) {
            Ok(text) if !text.is_empty() && text.chars().all(is_plain) => formatter.write_str(text),
            Ok(text) if !text.contains(is_command) => {
                formatter.write_char('\'')?;
                for (number, piece) in text.split('\'').enumerate() {
                    formatter.write_str(if number > 0 { r"'\''" } else { "" })?;
                    formatter.write_str(piece)?;
                }
                formatter.write_char('\'')
            }
            _ => escaped(self.0, formatter),
        }
    }
}

fn escaped(word: &[u8], formatter: &mut Formatter<'_>) -> Result {
    formatter.write_str("$'")?;
    for &byte in word {
        match byte {
            b'\n' => formatter.write_str("\\n")?,
            b'\'' | b'\\' => write!(formatter, "\\{}", char::from(byte))?,
            b' '..=b'~' => formatter.write_char(char::from(byte))?,
            _ => write!(formatter, "\\x{byte:02x}")?,
        }
    }
    formatter.write_char('\'')
}
