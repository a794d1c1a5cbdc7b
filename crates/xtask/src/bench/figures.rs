//! Figures of a record as a table shows them.

use serde_json::Value;
use sweetspot_report::numbers;

/// The entry of a list that is called so.
pub fn named<'a>(list: &'a Value, key: &str, name: &str) -> &'a Value {
    let all = list.as_array().map_or(&[][..], Vec::as_slice);
    all.iter().find(|entry| entry[key] == name).unwrap_or_else(|| panic!("there is no '{name}'"))
}

/// How many times as fast, with its interval.
pub fn ratio(finding: &Value, against: &str) -> String {
    let effect = &named(&finding["effects"], "against", against)["effect"];
    let faster = |ratio: &Value| 1.0 / ratio.as_f64().unwrap();
    let interval = &effect["interval"];
    let interval =
        (!interval.is_null()).then(|| (faster(&interval["high"]), faster(&interval["low"])));
    speed(faster(&effect["ratio"]), interval)
}

/// `5.3x (3.9 to 7.2)`.
pub fn speed(estimate: f64, interval: Option<(f64, f64)>) -> String {
    let value = numbers::ratio(estimate);
    match interval {
        None => format!("{value}x"),
        Some((low, high)) => {
            format!("{value}x ({} to {})", numbers::ratio(low), numbers::ratio(high))
        }
    }
}

/// Three digits that count, in the unit that suits.
pub fn time(seconds: f64) -> String {
    let units = [(1.0, "s", 0.0995), (1e-3, "ms", 0.9995), (1e-6, "us", 0.9995)];
    let found = units.into_iter().find(|(unit, _, least)| seconds >= unit * least);
    let (unit, name, _) = found.unwrap_or((1e-9, "ns", 0.0));
    format!("{} {name}", numbers::three_digits(seconds / unit))
}

#[test]
fn times_have_three_digits() {
    for (seconds, expected) in [
        (10.16, "10.2 s"),
        (0.17361, "0.174 s"),
        (0.0602, "60.2 ms"),
        (0.00102, "1.02 ms"),
        (5.1e-7, "510 ns"),
        (1.05e-8, "10.5 ns"),
    ] {
        assert_eq!(time(seconds), expected);
    }
}
