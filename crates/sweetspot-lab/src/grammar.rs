//! How times and shares are typed: `90s`, `5m`, `2%`; in options and in plans alike.

use std::time::Duration;

/// Reads `500ms`, `1.5s`, `90`, `5m`, `1h`.
///
/// # Errors
/// Where it is something else, or nothing.
pub fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.trim_end_matches(char::is_alphabetic).len());
    let unit_seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => 0.0,
    };
    let seconds = number.trim_end().parse().map(|number: f64| number * unit_seconds);
    match seconds.map(Duration::try_from_secs_f64) {
        Ok(Ok(duration)) if !duration.is_zero() => Ok(duration),
        _ => Err("expected a time such as 90s, 5m or 1h".to_string()),
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
            ("90", Some(90_000)),
            ("90s", Some(90_000)),
            ("500ms", Some(500)),
            ("1.5s", Some(1_500)),
            ("2 min", Some(120_000)),
            ("5m", Some(300_000)),
            ("2h", Some(7_200_000)),
            ("0s", None),
            ("infs", None),
            ("nan", None),
            ("m", None),
            ("5d", None),
            ("-5m", None),
            ("99999999999999999999s", None),
            ("1e400s", None),
        ] {
            assert_eq!(duration(text).ok(), expected.map(Duration::from_millis), "{text}");
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
