//! Numbers in words: counts, sizes, times, ratios and shares. Nobody else formats them.
//!
//! Sentences and tables say `3.90 KiB` ([`bytes`], [`seconds`]), with as many digits whatever the
//! value; axes say `4 KiB` ([`axis_size`], [`axis_time`]), without zeros at the end. A buffer size that
//! was asked for is said exactly ([`spoken`], [`typed`]), and so is a size of what is compared
//! ([`exact_bytes`]).

use sweetspot_core::size::BufferSize;

/// A number with separators.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What [`count`] writes, as a number again.
pub fn counted(text: &str) -> Option<u64> {
    text.replace(',', "").parse().ok()
}

/// A size to the last byte, where two are compared: `75,008 bytes`.
pub fn exact_bytes(bytes: u64) -> String {
    let noun = if bytes == 1 { "byte" } else { "bytes" };
    format!("{} {noun}", count(bytes))
}

/// A size, in the unit that suits.
pub fn bytes(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return exact_bytes(bytes);
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit < units.len() - 1 {
        size /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three(size), units[unit])
}

/// Bytes of each of `calls`, to the nearest.
pub fn mean(moved: u64, calls: u64) -> u64 {
    (moved + calls / 2) / calls.max(1)
}

/// A time, in the unit that suits.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        s if s >= 0.1 => format!("{} s", three(s)),
        s if s >= 0.000_1 => format!("{} ms", three(s * 1e3)),
        s if s >= 0.000_000_1 => format!("{} us", three(s * 1e6)),
        s if s > 0.0 => format!("{} ns", three(s * 1e9)),
        _ => "0 s".to_string(),
    }
}

/// Three digits that count, at most two behind the point: for sentences, where 0.16 s is enough.
pub fn three(value: f64) -> String {
    match value {
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// A ratio.
pub fn ratio(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 29.95 => format!("{ratio:.0}"),
        ratio if ratio >= 1.995 => format!("{ratio:.1}"),
        ratio => format!("{ratio:.2}"),
    }
}

/// `1 file`, `2 files`.
pub fn files(number: u64) -> String {
    if number == 1 { "1 file".to_string() } else { format!("{} files", count(number)) }
}

/// A share, with two digits behind the point where it has them: `2.5 %`.
pub fn percent(share: f64) -> String {
    format!("{} %", (share * 10_000.0).round() / 100.0)
}

/// At least that share, in whole percents. What a ratio is off by for its last digit does not count.
pub fn percent_at_least(share: f64) -> String {
    format!("{:.0} %", (share * 100.0 - 1e-6).ceil())
}

/// The file's name, without its folder.
pub fn short(path: &str) -> &str {
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}

/// A time that people wait for.
pub fn duration(seconds: f64) -> String {
    match seconds {
        short if short < 120.0 => format!("{short:.1} s"),
        longer if longer < 7200.0 => format!("{:.0} min", longer / 60.0),
        long => format!("{:.1} h", long / 3600.0),
    }
}

/// A size as people say it: `64 KiB`.
pub fn spoken(buffer: BufferSize) -> String {
    match buffer {
        BufferSize::Off => "no buffering".to_string(),
        BufferSize::Auto => "auto".to_string(),
        BufferSize::Bytes(bytes) => {
            let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")];
            let whole = units.iter().find(|(unit, _)| bytes.is_multiple_of(*unit));
            whole.map_or_else(String::new, |(unit, name)| format!("{} {name}", bytes / unit))
        }
    }
}

/// A size as it is typed and stands in rules: `64K`.
pub fn typed(buffer: BufferSize) -> String {
    let BufferSize::Bytes(bytes) = buffer else { return size(buffer) };
    for (unit, name) in [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")] {
        if bytes.is_multiple_of(unit) {
            return format!("{}{name}", bytes / unit);
        }
    }
    bytes.to_string()
}

/// The size in its own grammar, for the library.
pub fn size(size: BufferSize) -> String {
    match size {
        BufferSize::Off => "off".to_string(),
        BufferSize::Auto => "auto".to_string(),
        BufferSize::Bytes(bytes) => bytes.to_string(),
    }
}

/// Three digits that count, however small: for tables of what was measured, and axes.
pub fn three_digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let before_point = value.abs().log10().floor() as i32 + 1;
    format!("{value:.*}", usize::try_from(3 - before_point).unwrap_or(0).min(12))
}

/// Three digits that count, no zeros after them.
pub fn digits(value: f64) -> String {
    let text = three_digits(value);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A time in the unit that suits.
pub fn axis_time(seconds: f64) -> String {
    match seconds {
        s if s >= 0.9995 || s == 0.0 => format!("{} s", digits(s)),
        s if s >= 0.999_5e-3 => format!("{} ms", digits(s * 1e3)),
        s if s >= 0.999_5e-6 => format!("{} µs", digits(s * 1e6)),
        s => format!("{} ns", digits(s * 1e9)),
    }
}

/// A size in the unit that suits.
pub fn axis_size(bytes: f64) -> String {
    let mut value = bytes;
    for unit in ["B", "KiB", "MiB"] {
        if value < 1024.0 {
            return format!("{} {unit}", digits(value));
        }
        value /= 1024.0;
    }
    format!("{} GiB", digits(value))
}

/// A number, with thousands where there are many.
pub fn axis_count(value: f64) -> String {
    for (unit, name) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if value >= unit {
            return format!("{}{name}", digits(value / unit));
        }
    }
    digits(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let check = |found: String, expected: &str| assert_eq!(found, expected);
        check(count(0), "0");
        check(count(999), "999");
        check(count(4_000_000), "4,000,000");
        check(bytes(1), "1 byte");
        check(bytes(200), "200 bytes");
        check(bytes(3993), "3.90 KiB");
        check(bytes(200_000_000), "191 MiB");
        check(seconds(1.7), "1.70 s");
        check(seconds(0.0123), "12.3 ms");
        check(seconds(123.4), "123 s");
        check(ratio(5.16), "5.2");
        check(ratio(1.07), "1.07");
        check(ratio(31.4), "31");
        check(seconds(1.1e-10), "0.11 ns");
        check(exact_bytes(75_008), "75,008 bytes");
        assert_eq!((counted("4,000,000"), counted("many")), (Some(4_000_000), None));
        check(files(1), "1 file");
        assert_eq!((mean(20_971_520, 40_966), mean(7, 0)), (512, 7));
    }

    #[test]
    fn numbers_have_three_digits() {
        for (number, expected) in [
            (0.0, "0"),
            (0.001234, "0.00123"),
            (0.1, "0.100"),
            (1.0, "1.00"),
            (12.345, "12.3"),
            (123.4, "123"),
            (123_456.0, "123456"),
        ] {
            assert_eq!(three_digits(number), expected);
        }
    }

    #[test]
    fn numbers_are_grouped() {
        for (number, expected) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_000_000, "1,000,000"),
            (12_345_678, "12,345,678"),
        ] {
            assert_eq!(count(number), expected);
        }
    }

    #[test]
    fn figures_in_words() {
        for (value, expected) in [
            (0.0, "0 s"),
            (1.9, "1.9 s"),
            (0.1234, "123 ms"),
            (0.9999, "1 s"),
            (1.5e-7, "150 ns"),
            (12e-6, "12 µs"),
        ] {
            assert_eq!(axis_time(value), expected);
        }
        for (value, expected) in [(1.0, "1 B"), (65536.0, "64 KiB"), (1.5e9, "1.4 GiB")] {
            assert_eq!(axis_size(value), expected);
        }
        assert_eq!(axis_count(12_000.0), "12k");
    }

    #[test]
    fn sizes_as_people_say_them() {
        for (bytes, expected) in
            [(1, "1 B"), (65536, "64 KiB"), (100_000, "100000 B"), (1 << 20, "1 MiB")]
        {
            assert_eq!(spoken(BufferSize::Bytes(bytes)), expected);
        }
        for (size, expected) in [(65536, "64K"), (1 << 30, "1G"), (1000, "1000")] {
            assert_eq!(typed(BufferSize::Bytes(size)), expected);
        }
    }
}
