//! Names that others chose, as they may be shown: the names of files and of others' processes.
//!
//! A name may hold any byte. What controls a terminal is written as an escape, so that no name can
//! move the cursor, begin a line of its own, hide what stands beside it, or answer in the user's place.

use core::fmt::{Display, Formatter, Result};

/// A name or path for people to read: on one line, without anything that controls a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a>(pub &'a [u8]);

impl Display for Shown<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        let mut result = Ok(());
        each_part(self.0, |part| result = result.and_then(|()| formatter.write_str(part)));
        result
    }
}

/// Such a name, part by part, where nothing can be formatted.
pub fn each_part(name: &[u8], mut put: impl FnMut(&str)) {
    for chunk in name.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match is_command(letter) {
                true => escaped(letter, &mut put),
                false => put(letter.encode_utf8(&mut [0; 4])),
            }
        }
        if !chunk.invalid().is_empty() {
            put("\u{fffd}");
        }
    }
}

fn escaped(letter: char, put: &mut impl FnMut(&str)) {
    // No table of texts, which each start of a process would have to put in place.
    const DIGITS: &str = "0123456789abcdef";
    let (begin, digits, end) = match letter.is_ascii() {
        true => ("\\x", 2, ""),
        false => ("\\u{", (32 - (letter as u32).leading_zeros()).div_ceil(4), "}"),
    };
    put(begin);
    for place in (0..digits).rev() {
        let digit = letter as usize >> (4 * place) & 0xf;
        put(DIGITS.get(digit..=digit).unwrap_or_default());
    }
    put(end);
}

/// Control characters, and those that change the direction of what follows or are not seen.
pub fn is_command(letter: char) -> bool {
    let hides = matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}');
    letter.is_control() || hides || matches!(letter, '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_shown_controls_a_terminal() {
        let shown = |name: &[u8]| Shown(name).to_string();
        let check = |name: &str, expected: &str| assert_eq!(shown(name.as_bytes()), expected);
        check("plain name.txt", "plain name.txt");
        check("größe 大小", "größe 大小");
        check("\x1b]0;title\x07", "\\x1b]0;title\\x07");
        check("a\nb\rc\td\x7f", "a\\x0ab\\x0dc\\x09d\\x7f");
        check("\u{9b}31m", "\\u{9b}31m");
        check("\u{202e}gpj.exe", "\\u{202e}gpj.exe");
        for byte in 0..=255u8 {
            let name = [b'a', byte, b'z'];
            let said = shown(&name);
            assert!(!said.contains(char::is_control), "{byte}");
            let is_plain = !name.iter().any(u8::is_ascii_control);
            assert!(!is_plain || said == String::from_utf8_lossy(&name), "{byte}");
        }
    }
}
