//! The one grammar for a buffer size, used by the command line, the environment variable
//! `IO_BUFFER_SIZE`, `sweetspot.toml` and the preload library.
//!
//! | text | meaning |
//! |---|---|
//! | `4096`, `64K`, `64KiB`, `1M`, `1g` | that many bytes (binary suffixes, any case) |
//! | `0`, `auto` | sweetspot chooses |
//! | `off`, a negative number | no buffering |
//! | anything else | no buffering, and a warning that names the text |
//! | more than 1 GiB | an error |

/// The largest buffer that can be asked for, in bytes.
pub const BUFFER_BYTES_MAX: u64 = 1 << 30;

/// How much buffering is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BufferSize {
    /// No buffering.
    Off,
    /// sweetspot chooses for each file.
    Auto,
    /// A fixed size in bytes, 1 to [`BUFFER_BYTES_MAX`].
    Bytes(u32),
}

/// What a text says about the buffer size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The text is in the grammar.
    Size(BufferSize),
    /// The text is no size: buffering is off and the user is to be told, once.
    NotANumber,
    /// The text is a number beyond [`BUFFER_BYTES_MAX`]: an error.
    TooLarge,
}

/// Reads a buffer size. Surrounding ASCII white space is ignored.
#[inline(always)]
pub fn parse(text: &[u8]) -> Parsed {
    let text = text.trim_ascii();
    if text.eq_ignore_ascii_case(b"auto") {
        return Parsed::Size(BufferSize::Auto);
    }
    if text.eq_ignore_ascii_case(b"off") {
        return Parsed::Size(BufferSize::Off);
    }
    if let Some(rest) = text.strip_prefix(b"-") {
        return match split_number(rest) {
            Some((_, suffix)) if multiplier(suffix).is_some() => Parsed::Size(BufferSize::Off),
            _ => Parsed::NotANumber,
        };
    }
    let Some((number, suffix)) = split_number(text) else { return Parsed::NotANumber };
    let Some(multiplier) = multiplier(suffix) else { return Parsed::NotANumber };
    match number.saturating_mul(multiplier) {
        0 => Parsed::Size(BufferSize::Auto),
        bytes if bytes <= BUFFER_BYTES_MAX => Parsed::Size(BufferSize::Bytes(bytes as u32)),
        _ => Parsed::TooLarge,
    }
}

/// Splits the leading digits from what follows; the number saturates.
fn split_number(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return None;
    }
    let (number, suffix) = text.split_at(digits);
    let number = number
        .iter()
        .fold(0u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    Some((number, suffix))
}

/// The bytes that a suffix stands for: none, `B`, or `K`, `M`, `G`, `T`, `P`, `E`, each also with `B` or `iB`.
fn multiplier(suffix: &[u8]) -> Option<u64> {
    let (unit, rest) = match suffix.split_first() {
        None => return Some(1),
        Some((unit, rest)) => (unit.to_ascii_lowercase(), rest),
    };
    let bytes = match unit {
        b'b' if rest.is_empty() => return Some(1),
        b'k' => 1 << 10,
        b'm' => 1 << 20,
        b'g' => 1 << 30,
        b't' => 1 << 40,
        b'p' => 1 << 50,
        b'e' => 1 << 60,
        _ => return None,
    };
    let known =
        rest.is_empty() || rest.eq_ignore_ascii_case(b"b") || rest.eq_ignore_ascii_case(b"ib");
    known.then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grammar() {
        let check = |text: &str, expected: Parsed| {
            assert_eq!(parse(text.as_bytes()), expected, "{text:?}");
        };
        let bytes = |bytes| Parsed::Size(BufferSize::Bytes(bytes));
        let (auto, off) = (Parsed::Size(BufferSize::Auto), Parsed::Size(BufferSize::Off));
        for text in ["0", "auto", "AUTO", " 0 ", "00", "0K"] {
            check(text, auto);
        }
        for text in ["off", "Off", "-1", "-64K", "-0", "-99999999999999999999999"] {
            check(text, off);
        }
        for (text, expected) in [
            ("1", 1),
            ("4096", 4096),
            ("4096B", 4096),
            ("64K", 65536),
            ("64k", 65536),
            ("64KB", 65536),
            ("64KiB", 65536),
            ("1M", 1 << 20),
            ("1MiB", 1 << 20),
            ("1G", 1 << 30),
            ("1073741824", 1 << 30),
            ("10000000", 10_000_000),
        ] {
            check(text, bytes(expected));
        }
        for text in [
            "1073741825",
            "2G",
            "1048577K",
            "1T",
            "1PiB",
            "16E",
            "99999999999999999999999",
            "18446744073709551615K",
        ] {
            check(text, Parsed::TooLarge);
        }
        for text in
            ["", "x", "64X", "1.5M", "+1", "K", "64 K", "0x1000", "-", "-x", "1KK", "64Kilo", "é"]
        {
            check(text, Parsed::NotANumber);
        }
    }
}
