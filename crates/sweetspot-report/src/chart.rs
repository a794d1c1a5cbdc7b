//! Charts as SVG: points and lines over two axes, rows of figures, a map of squares.
//!
//! Colours are those of Okabe and Ito, which people tell apart who see few colours; lines differ in
//! their dashes, too. Light and dark, sizes of text: all of that is in [`STYLE`], as the same
//! drawing stands in a page and in a file of its own.
//!
//! Invariants: what comes from users is escaped; a chart has at most [`DOTS_MAX`] dots and
//! [`ROWS_MAX`] rows; all text is within the drawing at the larger of the two sizes of text.
//!
//! Deliberately not here: what is drawn, and what is said beside it (`figures`).

pub(crate) mod map;
mod plot;
mod rows;
mod ruler;

use crate::numbers::{axis_count, axis_size, axis_time, digits};
use std::fmt::Write as _;

/// Dots that are drawn; of more, each second or third ...
pub const DOTS_MAX: usize = 1500;
/// Rows that are drawn; of more, the first.
pub const ROWS_MAX: usize = 24;
/// A line of more points is a smooth one.
const POINTS_MAX: usize = 40;
/// Lines that can be told apart.
pub const SERIES_MAX: usize = 8;

const WIDTH: f64 = 480.0;
/// Of the plot itself.
const LEFT: f64 = 76.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 34.0;
const HEIGHT: f64 = 230.0;
/// A letter is so wide at most, at the larger size of text.
const LETTER: f64 = 9.2;

/// Colours and sizes, for a page or a file.
pub const STYLE: &str = "\
:root{--ink:#1b1f24;--soft:#57606a;--paper:#fff;--line:#d0d7de;--c0:#0072b2;--c1:#d55e00;\
--c2:#009e73;--c3:#b4568c;--c4:#8a6d00;--c5:#2f8fc4;--c6:#5b5b5b;--c7:#a3123f}\
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9da7b1;--paper:#0f1419;--line:#3a434d;\
--c0:#56b4e9;--c1:#ff8a3d;--c2:#2bc99a;--c3:#e39cc4;--c4:#f0d64b;--c5:#8fd0f5;--c6:#b8bec4;--c7:#ff8095}}\
svg text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:var(--ink)}\
svg .soft{fill:var(--soft)}svg .end{text-anchor:end}svg .mid{text-anchor:middle}\
svg .strong{font-weight:600}svg .grid{stroke:var(--line);stroke-width:1;fill:none}\
svg .axis{stroke:var(--soft);stroke-width:1;fill:none}\
svg .mark{stroke:var(--ink);stroke-width:1.5;fill:none}\
svg .ref{stroke:var(--soft);stroke-width:1.5;stroke-dasharray:5 4;fill:none}\
svg .zone{fill:var(--soft);opacity:.14;stroke:none}\
svg .halo{paint-order:stroke;stroke:var(--paper);stroke-width:4px;stroke-linejoin:round}\
svg .line{fill:none;stroke-width:2;stroke-linejoin:round}\
svg .dots{fill:none;stroke-width:4.5;stroke-linecap:round;stroke-opacity:.45}\
svg .points{fill:none;stroke-width:8;stroke-linecap:round}\
svg .band{stroke:none;fill-opacity:.2}svg .bar{stroke:none}\
svg .s0{stroke:var(--c0)}svg .s1{stroke:var(--c1)}svg .s2{stroke:var(--c2)}svg .s3{stroke:var(--c3)}\
svg .s4{stroke:var(--c4)}svg .s5{stroke:var(--c5)}svg .s6{stroke:var(--c6)}svg .s7{stroke:var(--c7)}\
svg .f0{fill:var(--c0)}svg .f1{fill:var(--c1)}svg .f2{fill:var(--c2)}svg .f3{fill:var(--c3)}\
svg .f4{fill:var(--c4)}svg .f5{fill:var(--c5)}svg .f6{fill:var(--c6)}svg .f7{fill:var(--c7)}\
svg .line.s1{stroke-dasharray:7 3}svg .line.s2{stroke-dasharray:2 3}svg .line.s3{stroke-dasharray:9 3 2 3}\
svg .line.s4{stroke-dasharray:4 3}svg .line.s5{stroke-dasharray:12 4}svg .line.s6{stroke-dasharray:1 4}\
svg .line.s7{stroke-dasharray:6 2 1 2}";

/// What a chart is called, and what it shows in a sentence: for readers who cannot see it.
#[derive(Clone, Debug)]
pub struct Said {
    pub title: String,
    pub description: String,
}

/// A drawing.
#[derive(Clone, Debug)]
pub struct Chart {
    pub said: Said,
    pub drawn: Drawn,
}

#[derive(Clone, Debug)]
pub enum Drawn {
    Plot(Plot),
    Rows(Rows),
    Map(Map),
}

/// Points and lines over two axes.
#[derive(Clone, Debug)]
pub struct Plot {
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    /// Lines across, with their names.
    pub levels: Vec<(f64, String)>,
    /// A point with a word on it.
    pub mark: Option<(f64, f64, String)>,
    /// What lies between these two is as good as each other.
    pub zone: Option<(f64, f64)>,
}

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    pub name: String,
    pub scale: Scale,
    pub unit: Unit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// From zero.
    Linear,
    /// The same, with ticks that are round as sizes.
    Sizes,
    /// From the least to the most.
    Log,
    /// The same, with ticks at powers of two.
    Log2,
}

/// What figures are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Bytes,
    Count,
    Percent,
    Other(String),
}

impl Unit {
    /// A figure in words.
    pub fn text(&self, value: f64) -> String {
        match self {
            Unit::Seconds => axis_time(value),
            Unit::Bytes => axis_size(value),
            Unit::Count => axis_count(value),
            Unit::Percent => format!("{} %", digits(value * 100.0)),
            Unit::Other(unit) => format!("{} {unit}", digits(value)).trim_end().to_owned(),
        }
    }
}

/// What belongs together.
#[derive(Clone, Debug, Default)]
pub struct Series {
    pub name: String,
    pub line: Vec<(f64, f64)>,
    /// Parts of a band around the line: x, low, high.
    pub band: Vec<(f64, f64, f64)>,
    pub dots: Vec<(f64, f64)>,
}

/// Rows of figures over one axis.
#[derive(Clone, Debug)]
pub struct Rows {
    pub axis: Axis,
    pub rows: Vec<Row>,
    /// A line down, and how far around it is as good as on it (as a factor).
    pub at: Option<(f64, f64)>,
}

/// One row.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub name: String,
    pub dots: Vec<f64>,
    pub bar: Option<f64>,
    pub value: Option<f64>,
    pub interval: Option<(f64, f64)>,
    pub text: String,
}

/// Squares by two factors.
#[derive(Clone, Debug)]
pub struct Map {
    pub across: (String, Vec<String>),
    pub down: (String, Vec<String>),
    pub unit: Unit,
    /// Row by row.
    pub values: Vec<Option<f64>>,
}

/// Each so-manyth dot is drawn.
pub fn thinned(dots: usize) -> usize {
    dots.div_ceil(DOTS_MAX).max(1)
}

/// What must not be read as a tag.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Not allowed in a page, and nothing to see.
            '\n' | '\t' => safe.push(letter),
            letter if letter.is_control() => safe.push('\u{fffd}'),
            letter => safe.push(letter),
        }
    }
    safe
}

/// The first letters of a text that is too long.
fn cut(text: &str, letters: usize) -> String {
    match text.chars().count() > letters {
        true => text.chars().take(letters.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

impl Chart {
    /// The drawing; `number` is its own among those of the page.
    pub fn svg(&self, number: usize) -> String {
        let (height, body) = match &self.drawn {
            Drawn::Plot(plot) => plot.draw(),
            Drawn::Rows(rows) => rows.draw(),
            Drawn::Map(map) => map.turned().draw(),
        };
        let (title, description) = (escaped(&self.said.title), escaped(&self.said.description));
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-labelledby=\"t{number} \
             d{number}\"><title id=\"t{number}\">{title}</title><desc id=\"d{number}\">\
             {description}</desc>{body}</svg>"
        )
    }

    /// The same as a file of its own, which reads in light and dark.
    pub fn file(&self) -> String {
        let inner = self.svg(0);
        let inner = inner.strip_prefix("<svg ").unwrap_or(&inner);
        let head = inner.find('>').map_or(0, |at| at + 1);
        let (head, body) = inner.split_at(head);
        format!(
            "{FILE_START}width=\"{FILE_WIDTH}\" {head}<style>{STYLE}</style><rect width=\"100%\" height=\"100%\" \
             style=\"fill:var(--paper)\"/>{body}\n"
        )
    }
}

/// How wide it is where nobody says otherwise; the height follows.
const FILE_WIDTH: u32 = 720;
/// How each such file begins, by which an older one is recognised.
pub const FILE_START: &str =
    "<svg xmlns=\"http://www.w3.org/2000/svg\" data-made-by=\"sweetspot report\" ";

fn text(body: &mut String, x: f64, y: f64, class: &str, words: &str) {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let _ = write!(body, "<text x=\"{x:.1}\" y=\"{y:.1}\"{class}>{}</text>", escaped(words));
}

fn line(body: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let ((x, y), (to_x, to_y)) = (from, to);
    let _ = write!(body, "<path class=\"{class}\" d=\"M{x:.1} {y:.1}L{to_x:.1} {to_y:.1}\"/>");
}

/// Dots, as lines without length: one element for all.
fn dots(body: &mut String, class: &str, places: impl Iterator<Item = (f64, f64)>) {
    let mut path = String::new();
    places.for_each(|(x, y)| {
        let _ = write!(path, "M{x:.1} {y:.1}h0");
    });
    if !path.is_empty() {
        let _ = write!(body, "<path class=\"{class}\" d=\"{path}\"/>");
    }
}

fn width(words: &str) -> f64 {
    words.chars().count() as f64 * LETTER
}

#[cfg(test)]
mod tests {
    use super::ruler::Ruler;
    use super::*;

    #[test]
    fn ticks_are_few_and_inside() {
        for scale in [Scale::Linear, Scale::Sizes, Scale::Log, Scale::Log2] {
            for (low, high) in [(1e-9, 3e-9), (0.17, 1.9), (4096.0, 16_777_216.0), (5.0, 5.0)] {
                for wanted in [2, 5, 7] {
                    let ruler = Ruler::new(scale, [low, high].into_iter(), 0.0, 100.0);
                    let ticks = ruler.ticks(wanted);
                    let range = (1..=wanted + 2).contains(&ticks.len());
                    assert!(range, "{scale:?} {low} {high}: {ticks:?}");
                    assert!(ticks.iter().all(|tick| (-2.0..=102.0).contains(&ruler.at(*tick))));
                }
            }
        }
    }

    #[test]
    fn what_users_wrote_is_text() {
        let said = Said { title: "<script>".into(), description: "\"&'\u{1b}".into() };
        let rows = vec![Row { name: "</svg>".into(), value: Some(1.0), ..Row::default() }];
        let axis = Axis { name: "<b>".into(), scale: Scale::Linear, unit: Unit::Seconds };
        let chart = Chart { said, drawn: Drawn::Rows(Rows { axis, rows, at: None }) };
        for text in [chart.svg(1), chart.file()] {
            assert!(!text.contains("<script>") && !text.contains("<b>"), "{text}");
            assert_eq!(text.matches("</svg>").count(), 1);
            assert!(text.contains("&quot;&amp;&#39;\u{fffd}"));
        }
    }

    #[test]
    fn a_map_is_turned_where_its_names_need_room() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let map = Map {
            across: ("access".into(), names(&["a long name", "another long name", "third"])),
            down: ("records".into(), names(&["1", "2"])),
            unit: Unit::Count,
            values: [1.0, 2.0, 3.0, 4.0, 5.0, 6.0].map(Some).to_vec(),
        };
        let turned = map.turned();
        assert_eq!((turned.across, turned.down), (map.down, map.across));
        assert_eq!(turned.values, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0].map(Some));
    }

    #[test]
    fn dots_are_bounded() {
        let many: Vec<(f64, f64)> = (1..=100_000).map(|at| (f64::from(at), 1.0)).collect();
        let axis = || Axis { name: String::new(), scale: Scale::Log, unit: Unit::Count };
        let series = vec![Series { dots: many, ..Series::default() }];
        let plot = Plot { x: axis(), y: axis(), series, levels: vec![], mark: None, zone: None };
        let (_, body) = plot.draw();
        assert!(body.matches("h0").count() <= DOTS_MAX, "{}", body.len());
    }
}
