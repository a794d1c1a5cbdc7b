//! The ways in which a command is tried, and the texts that choose among them.

use crate::grammar::share;
use crate::search::{OFF, Setting};
use sweetspot_core::size::{BufferSize, Parsed, parse};

/// Sizes in a row, each twice the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder(Vec<u32>);

impl Ladder {
    /// How many sizes there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// What a setting of the search means.
    pub fn buffer(&self, setting: Setting) -> BufferSize {
        match setting.checked_sub(1).map(|place| self.0.get(place)) {
            None => BufferSize::Off,
            Some(Some(bytes)) => BufferSize::Bytes(*bytes),
            Some(None) => BufferSize::Auto,
        }
    }

    /// All settings of the search, from no buffering to automatic.
    pub fn settings(&self) -> impl Iterator<Item = Setting> + use<> {
        OFF..=self.0.len() + 1
    }
}

/// Reads `4K..16M`.
///
/// # Errors
/// Where it is something else; the message says what.
pub fn ladder(text: &str) -> Result<Ladder, String> {
    let (first, last) = text.split_once("..").ok_or("expected two sizes, such as 4K..16M")?;
    let size = |text: &str| match parse(text.as_bytes()) {
        Parsed::Size(BufferSize::Bytes(bytes)) => Ok(bytes),
        _ => Err(format!("'{text}' is not a size such as 64K, of at most 1G")),
    };
    let (first, last) = (size(first)?, size(last)?);
    let doubled = |bytes: &u32| bytes.checked_mul(2).filter(|next| *next <= last);
    let sizes: Vec<u32> = std::iter::successors(Some(first), doubled).collect();
    if first > last || sizes.len() < 2 {
        return Err("the last size must be at least twice the first".to_string());
    }
    Ok(Ladder(sizes))
}

/// Reads `5%` or `5`.
///
/// # Errors
/// Where it is no number from 1 to 100.
pub fn percent(text: &str) -> Result<f64, String> {
    match share(text) {
        Ok(share) if share >= 0.01 => Ok(share),
        _ => Err(WITHIN.to_string()),
    }
}

const WITHIN: &str = "expected a number from 1% to 100%";

#[cfg(test)]
mod tests {
    use super::*;
    use BufferSize::{Auto, Bytes, Off};

    #[test]
    fn ladders() {
        let check = |text: &str, expected: Option<&[u32]>| {
            assert_eq!(ladder(text).ok(), expected.map(|sizes| Ladder(sizes.to_vec())), "{text}");
        };
        check("4K..16K", Some(&[4096, 8192, 16384]));
        check("1000..4001", Some(&[1000, 2000, 4000]));
        check("512M..1G", Some(&[512 << 20, 1 << 30]));
        for text in ["", "4K", "4K..", "..4K", "4K..4K", "4K..7K", "8K..4K", "auto..1M", "1M..2G"] {
            check(text, None);
        }
        let ladder = ladder("4K..16K").unwrap();
        let found: Vec<_> = ladder.settings().map(|setting| ladder.buffer(setting)).collect();
        assert_eq!(found, [Off, Bytes(4096), Bytes(8192), Bytes(16384), Auto]);
    }

    #[test]
    fn percentages() {
        for (text, expected) in [("5%", Some(0.05)), ("10", Some(0.1)), ("0.5%", None), ("x", None)]
        {
            assert_eq!(percent(text).ok(), expected, "{text}");
        }
    }
}
