//! A map of squares.

use super::{LETTER, Map, WIDTH, cut, text, width};
use crate::numbers::digits;
use std::fmt::Write as _;

/// How much of the colour a square has at least and at most: its text reads on each, in light and
/// dark.
pub(crate) const FAINTEST: f64 = 0.06;
pub(crate) const STRONGEST: f64 = 0.56;

impl Map {
    /// The way round in which more of the names fit: those above the columns have less room.
    pub fn turned(&self) -> Map {
        let fits = |names: &[String]| {
            let longest = names.iter().map(|name| width(name)).fold(0.0, f64::max);
            longest * names.len() as f64 <= WIDTH * 2.0 / 3.0
        };
        if fits(&self.across.1) || !fits(&self.down.1) {
            return self.clone();
        }
        let (rows, columns) = (self.down.1.len(), self.across.1.len());
        let places = (0..columns).flat_map(|row| (0..rows).map(move |column| (row, column)));
        Map {
            across: self.down.clone(),
            down: self.across.clone(),
            unit: self.unit.clone(),
            values: places.map(|(row, column)| self.values[column * columns + row]).collect(),
        }
    }

    pub fn draw(&self) -> (f64, String) {
        const SQUARE: f64 = 34.0;
        let (across, down) = (&self.across.1, &self.down.1);
        let longest = down.iter().map(|name| width(name)).fold(0.0, f64::max);
        let left = (longest + 12.0).clamp(30.0, WIDTH / 3.0);
        let (wide, top) = ((WIDTH - left - 4.0) / across.len().max(1) as f64, 46.0);
        let known = || self.values.iter().flatten().copied();
        let (least, most) = (known().fold(f64::MAX, f64::min), known().fold(f64::MIN, f64::max));
        let span = (most / least).ln().max(1e-9);
        let mut body = String::new();
        text(&mut body, WIDTH - 4.0, 15.0, "end soft", &format!("{} →", self.across.0));
        text(&mut body, 2.0, 15.0, "soft", &format!("↓ {}", self.down.0));
        for (column, name) in across.iter().enumerate() {
            let at = left + (column as f64 + 0.5) * wide;
            text(&mut body, at, top - 9.0, "mid soft", &cut(name, (wide / LETTER) as usize));
        }
        for (row, name) in down.iter().enumerate() {
            let at = top + row as f64 * SQUARE;
            let room = ((left - 8.0) / LETTER) as usize;
            text(&mut body, left - 8.0, at + 22.0, "end", &cut(name, room));
            for column in 0..across.len() {
                let Some(value) = self.values[row * across.len() + column] else { continue };
                let share = (value / least).ln() / span;
                let x = left + column as f64 * wide;
                let _ = write!(
                    body,
                    "<rect class=\"bar f0\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                     rx=\"3\" fill-opacity=\"{:.2}\"/>",
                    x + 1.0,
                    at + 1.0,
                    wide - 2.0,
                    SQUARE - 2.0,
                    FAINTEST + (STRONGEST - FAINTEST) * share
                );
                let words = self.unit.text(value);
                let words = if width(&words) > wide { digits(value) } else { words };
                if width(&words) <= wide + 6.0 {
                    text(&mut body, x + wide / 2.0, at + 22.0, "mid", &words);
                }
            }
        }
        (top + down.len() as f64 * SQUARE + 8.0, body)
    }
}
