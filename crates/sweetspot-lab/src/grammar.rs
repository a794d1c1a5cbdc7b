//! How times and shares are typed: `90s`, `5m`, `2%`; in options and in plans alike.

use std::time::Duration;

/// Reads `90s`, `5m`, `1h`.
///
/// # Errors
/// Where it is something else.
pub fn duration(text: &str) -> Result<Duration, String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let seconds = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => 0,
    };
    let number: Option<u64> = text[..text.len() - unit.len()].parse().ok();
    match number.and_then(|number| number.checked_mul(seconds)) {
        Some(0) | None => Err("expected a time such as 90s, 5m or 1h".to_string()),
        Some(seconds) => Ok(Duration::from_secs(seconds)),
    }
}

/// Reads `5%` or `5` as 0.05.
///
/// # Errors
/// Where it is no share of more than nothing, and of all at most.
pub fn share(text: &str) -> Result<f64, String> {
    match text.strip_suffix('%').unwrap_or(text).trim_end().parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err("expected a share such as 2%, above 0 and up to 100%".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, expected) in [
            ("90", Some(90)),
            ("90s", Some(90)),
            ("5m", Some(300)),
            ("2h", Some(7200)),
            ("0s", None),
            ("m", None),
            ("5d", None),
            ("-5m", None),
            ("99999999999999999999s", None),
        ] {
            assert_eq!(duration(text).ok(), expected.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn shares() {
        for (text, expected) in [
            ("5%", Some(0.05)),
            ("10", Some(0.1)),
            ("0.5 %", Some(0.005)),
            ("100%", Some(1.0)),
            ("0%", None),
            ("101%", None),
            ("-2%", None),
            ("nan", None),
            ("x", None),
        ] {
            assert_eq!(share(text).ok(), expected, "{text}");
        }
    }
}
