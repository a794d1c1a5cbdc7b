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

use std::fmt::Write as _;

/// Dots that are drawn; of more, each second or third ...
pub const DOTS_MAX: usize = 1500;
/// Rows that are drawn; of more, the first.
pub const ROWS_MAX: usize = 24;
/// A line of more points is a smooth one.
const POINTS_MAX: usize = 40;
/// Lines that can be told apart.
pub const SERIES_MAX: usize = 7;

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
--c2:#009e73;--c3:#b4568c;--c4:#8a6d00;--c5:#2f8fc4;--c6:#5b5b5b}\
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9da7b1;--paper:#0f1419;--line:#3a434d;\
--c0:#56b4e9;--c1:#ff8a3d;--c2:#2bc99a;--c3:#e39cc4;--c4:#f0d64b;--c5:#8fd0f5;--c6:#b8bec4}}\
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
svg .s4{stroke:var(--c4)}svg .s5{stroke:var(--c5)}svg .s6{stroke:var(--c6)}\
svg .f0{fill:var(--c0)}svg .f1{fill:var(--c1)}svg .f2{fill:var(--c2)}svg .f3{fill:var(--c3)}\
svg .f4{fill:var(--c4)}svg .f5{fill:var(--c5)}svg .f6{fill:var(--c6)}\
svg .line.s1{stroke-dasharray:7 3}svg .line.s2{stroke-dasharray:2 3}svg .line.s3{stroke-dasharray:9 3 2 3}\
svg .line.s4{stroke-dasharray:4 3}svg .line.s5{stroke-dasharray:12 4}svg .line.s6{stroke-dasharray:1 4}";

/// What a chart is called, and what it shows in a sentence: for who cannot see it.
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
            Unit::Seconds => time(value),
            Unit::Bytes => size(value),
            Unit::Count => count(value),
            Unit::Percent => format!("{} %", short(value * 100.0)),
            Unit::Other(unit) => format!("{} {unit}", short(value)).trim_end().to_owned(),
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

/// From figures to places.
struct Ruler {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Ruler {
    fn new(scale: Scale, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Ruler {
        let usable = |value: &f64| {
            value.is_finite() && (matches!(scale, Scale::Linear | Scale::Sizes) || *value > 0.0)
        };
        let (mut low, mut high) = (f64::MAX, f64::MIN);
        for value in values.filter(usable) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (1.0, 2.0);
        }
        match scale {
            Scale::Linear | Scale::Sizes => {
                low = 0.0;
                high = if high > 0.0 { high * 1.05 } else { 1.0 };
            }
            Scale::Log => (low, high) = (low / 1.12, high * 1.12),
            Scale::Log2 => (low, high) = (low / 1.3, high * 1.3),
        }
        Ruler { scale, low, high, from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear | Scale::Sizes => (value - self.low) / (self.high - self.low),
            _ => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
        };
        self.from + share.clamp(-0.01, 1.01) * (self.to - self.from)
    }

    /// Where labels may stand, about so many.
    fn ticks(&self, wanted: usize) -> Vec<f64> {
        let inside = |value: &f64| (self.low..=self.high).contains(value);
        match self.scale {
            Scale::Sizes => {
                let step = 2_f64.powf((self.high / wanted.max(1) as f64).log2().ceil());
                (0..=wanted + 1).map(|tick| tick as f64 * step).filter(inside).collect()
            }
            Scale::Linear => {
                let raw = self.high / wanted.max(1) as f64;
                let power = 10_f64.powf(raw.log10().floor());
                let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * power);
                let step = step.into_iter().find(|step| *step >= raw).unwrap_or(raw);
                (0..=wanted + 1).map(|tick| tick as f64 * step).filter(inside).collect()
            }
            Scale::Log => {
                let decades = (self.low.log10().floor() as i32)..=(self.high.log10().ceil() as i32);
                let all = |steps: &[f64]| -> Vec<f64> {
                    let decade =
                        |power: i32| steps.iter().map(move |step| step * 10_f64.powi(power));
                    decades.clone().flat_map(decade).filter(inside).collect()
                };
                let few: [&[f64]; 4] = [
                    &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
                    &[1.0, 2.0, 3.0, 5.0],
                    &[1.0, 3.0],
                    &[1.0],
                ];
                let fits = few.iter().map(|steps| all(steps)).find(|ticks| ticks.len() <= wanted);
                let ticks = fits.unwrap_or_else(|| sparse(all(&[1.0]), wanted));
                if ticks.len() >= 2 { ticks } else { vec![self.low * 1.12, self.high / 1.12] }
            }
            Scale::Log2 => {
                let powers = (self.low.log2().ceil() as i32)..=(self.high.log2().floor() as i32);
                sparse(powers.map(|power| 2_f64.powi(power)).collect(), wanted)
            }
        }
    }
}

/// Each second, third ... so that few enough are left.
fn sparse(ticks: Vec<f64>, wanted: usize) -> Vec<f64> {
    let step = ticks.len().div_ceil(wanted.max(1)).max(1);
    ticks.into_iter().step_by(step).collect()
}

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

impl Plot {
    fn rulers(&self) -> (Ruler, Ruler) {
        let xs = self
            .series
            .iter()
            .flat_map(|series| series.line.iter().chain(&series.dots).map(|point| point.0));
        let ys = self.series.iter().flat_map(|series| {
            let band = series.band.iter().flat_map(|part| [part.1, part.2]);
            series.line.iter().chain(&series.dots).map(|point| point.1).chain(band)
        });
        let ys = ys.chain(self.levels.iter().map(|level| level.0));
        let x = Ruler::new(self.x.scale, xs, LEFT, WIDTH - RIGHT);
        (x, Ruler::new(self.y.scale, ys, TOP + HEIGHT, TOP))
    }

    fn draw(&self) -> (f64, String) {
        let (x, y) = self.rulers();
        let mut body = String::new();
        self.draw_axes(&mut body, &x, &y);
        let all: usize = self.series.iter().map(|series| series.dots.len()).sum();
        let step = thinned(all);
        for (number, series) in self.series.iter().enumerate() {
            let color = number % SERIES_MAX;
            draw_band(&mut body, (&x, &y), series, color);
            let some = series.dots.iter().step_by(step);
            dots(&mut body, &format!("dots s{color}"), some.map(|d| (x.at(d.0), y.at(d.1))));
        }
        self.draw_levels(&mut body, &y);
        for (number, series) in self.series.iter().enumerate() {
            let color = number % SERIES_MAX;
            let points: Vec<(f64, f64)> =
                series.line.iter().map(|point| (x.at(point.0), y.at(point.1))).collect();
            if points.len() > 1 {
                let steps: Vec<String> =
                    points.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
                let path = steps.join("L");
                let _ = write!(body, "<path class=\"line s{color}\" d=\"M{path}\"/>");
            }
            // A smooth line of many steps has no points of its own.
            if points.len() <= POINTS_MAX {
                dots(&mut body, &format!("points s{color}"), points.into_iter());
            }
        }
        self.draw_mark(&mut body, &x, &y);
        let height = self.draw_legend(&mut body, TOP + HEIGHT + 46.0);
        (height, body)
    }

    fn draw_axes(&self, body: &mut String, x: &Ruler, y: &Ruler) {
        let (bottom, right) = (TOP + HEIGHT, WIDTH - RIGHT);
        for tick in y.ticks(7) {
            line(body, "grid", (LEFT, y.at(tick)), (right, y.at(tick)));
            text(body, LEFT - 7.0, y.at(tick) + 4.5, "end soft", &self.y.unit.text(tick));
        }
        line(body, "axis", (LEFT, bottom), (right, bottom));
        let widest = |ticks: &[f64]| {
            ticks.iter().map(|tick| width(&self.x.unit.text(*tick))).fold(0.0, f64::max)
        };
        let mut wanted = 9;
        let ticks = loop {
            let ticks = x.ticks(wanted);
            if wanted <= 2 || (widest(&ticks) + 8.0) * ticks.len() as f64 <= right - LEFT + 40.0 {
                break ticks;
            }
            wanted -= 1;
        };
        for tick in ticks {
            let words = self.x.unit.text(tick);
            let half = width(&words) / 2.0;
            let at = x.at(tick).clamp(half, WIDTH - half);
            line(body, "axis", (x.at(tick), bottom), (x.at(tick), bottom + 4.0));
            text(body, at, bottom + 19.0, "mid soft", &words);
        }
        text(body, 2.0, 15.0, "soft", &self.y.name);
        text(body, right, bottom + 38.0, "end soft", &self.x.name);
    }

    fn draw_levels(&self, body: &mut String, y: &Ruler) {
        const LINE: f64 = 17.0;
        let mut levels: Vec<(f64, &str)> =
            self.levels.iter().map(|(value, name)| (y.at(*value), name.as_str())).collect();
        levels.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut free = TOP; // down from here
        for (at, name) in levels {
            line(body, "ref", (LEFT, at), (WIDTH - RIGHT, at));
            // Above its line; below, where there is no room.
            let down =
                if at - 6.0 - LINE >= free { at - 6.0 } else { (at + LINE).max(free + LINE) };
            if !name.is_empty() {
                text(body, WIDTH - RIGHT - 2.0, down, "end soft halo", &cut(name, 44));
                free = down + 4.0;
            }
        }
    }

    fn draw_mark(&self, body: &mut String, x: &Ruler, y: &Ruler) {
        let Some((at, value, words)) = &self.mark else { return };
        let (x, y) = (x.at(*at), y.at(*value));
        let _ = write!(body, "<circle class=\"mark\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"8\"/>");
        let half = width(words) / 2.0;
        let middle = x.clamp(LEFT + half, WIDTH - RIGHT - half);
        let above = if y > TOP + HEIGHT / 2.0 { y - 16.0 } else { y + 26.0 };
        text(body, middle, above, "mid strong halo", words);
    }

    /// Names of the series below the plot; returns where the drawing ends.
    fn draw_legend(&self, body: &mut String, top: f64) -> f64 {
        const LINE: f64 = 21.0;
        let (mut at, mut down) = (LEFT.min(8.0), top + 14.0);
        if self.series.len() < 2 {
            return top;
        }
        for (number, series) in self.series.iter().enumerate() {
            let name = cut(&series.name, 48);
            let wide = 38.0 + width(&name);
            if at + wide > WIDTH && at > 8.0 {
                (at, down) = (8.0, down + LINE);
            }
            let color = number % SERIES_MAX;
            line(body, &format!("line s{color}"), (at, down - 4.5), (at + 24.0, down - 4.5));
            dots(body, &format!("points s{color}"), std::iter::once((at + 12.0, down - 4.5)));
            text(body, at + 31.0, down, "", &name);
            at += wide;
        }
        down + 10.0
    }
}

/// The band, in pieces where parts of it are not known.
fn draw_band(body: &mut String, (x, y): (&Ruler, &Ruler), series: &Series, color: usize) {
    let place = |at: f64, value: f64| format!("{:.1} {:.1}", x.at(at), y.at(value));
    let mut piece: Vec<(f64, f64, f64)> = Vec::new();
    let part = |at: f64| series.band.iter().find(|part| part.0 == at).copied();
    let parts = series.line.iter().map(|point| part(point.0)).chain([None]);
    for part in parts {
        if let Some(part) = part {
            piece.push(part);
            continue;
        }
        let high = piece.iter().map(|(at, _, high)| place(*at, *high));
        let low = piece.iter().rev().map(|(at, low, _)| place(*at, *low));
        let around: Vec<String> = high.chain(low).collect();
        if piece.len() > 1 {
            let path = around.join("L");
            let _ = write!(body, "<path class=\"band f{color}\" d=\"M{path}Z\"/>");
        }
        piece.clear();
    }
    for (at, low, high) in series.band.iter().take(POINTS_MAX).filter(|part| part.1 < part.2) {
        line(body, &format!("line s{color}"), (x.at(*at), y.at(*low)), (x.at(*at), y.at(*high)));
    }
}

impl Rows {
    fn draw(&self) -> (f64, String) {
        const ROW: f64 = 42.0;
        const TOP: f64 = 6.0;
        let shown = &self.rows[..self.rows.len().min(ROWS_MAX)];
        let bottom = TOP + ROW * shown.len() as f64;
        let values = shown.iter().flat_map(|row| {
            let ends = row.interval.into_iter().flat_map(|(low, high)| [low, high]);
            row.dots.iter().copied().chain(row.bar).chain(row.value).chain(ends)
        });
        let values = values.chain(self.at.map(|at| at.0));
        let ruler = Ruler::new(self.axis.scale, values, 8.0, WIDTH - RIGHT);
        let mut body = String::new();
        self.draw_axis(&mut body, &ruler, (TOP, bottom));
        let all: usize = shown.iter().map(|row| row.dots.len()).sum();
        for (number, row) in shown.iter().enumerate() {
            let top = TOP + ROW * number as f64;
            draw_row(&mut body, row, &ruler, (top, thinned(all)));
        }
        (bottom + 46.0, body)
    }

    fn draw_axis(&self, body: &mut String, ruler: &Ruler, (top, bottom): (f64, f64)) {
        if let Some((at, factor)) = self.at {
            let (from, to) = (ruler.at(at / factor), ruler.at(at * factor));
            let (width, height) = (to - from, bottom - top);
            let _ = write!(
                body,
                "<rect class=\"zone\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
                 height=\"{height:.1}\"/>"
            );
            line(body, "ref", (ruler.at(at), top), (ruler.at(at), bottom));
        }
        line(body, "axis", (8.0, bottom), (WIDTH - RIGHT, bottom));
        let mut right = f64::MIN;
        for tick in ruler.ticks(6) {
            let words = self.axis.unit.text(tick);
            let half = width(&words) / 2.0;
            let at = ruler.at(tick).clamp(half, WIDTH - half);
            line(body, "axis", (ruler.at(tick), bottom), (ruler.at(tick), bottom + 4.0));
            if at - half > right {
                text(body, at, bottom + 19.0, "mid soft", &words);
                right = at + half + 4.0;
            }
        }
        text(body, WIDTH - RIGHT, bottom + 38.0, "end soft", &self.axis.name);
    }
}

fn draw_row(body: &mut String, row: &Row, ruler: &Ruler, (top, step): (f64, usize)) {
    let middle = top + 29.0;
    line(body, "grid", (8.0, middle), (WIDTH - RIGHT, middle));
    if let Some(bar) = row.bar {
        let wide = (ruler.at(bar) - 8.0).max(1.0);
        let _ = write!(
            body,
            "<rect class=\"bar f0\" x=\"8\" y=\"{:.1}\" width=\"{wide:.1}\" height=\"12\" rx=\"2\"/>",
            middle - 6.0
        );
    }
    let some = row.dots.iter().step_by(step);
    dots(body, "dots s0", some.map(|value| (ruler.at(*value), middle)));
    if let Some((low, high)) = row.interval {
        line(body, "line s0", (ruler.at(low), middle), (ruler.at(high), middle));
    }
    if let Some(value) = row.value {
        let at = ruler.at(value);
        line(body, "mark", (at, middle - 7.0), (at, middle + 7.0));
    }
    let room = WIDTH - RIGHT - 8.0 - width(&row.text) - 12.0;
    text(body, 8.0, top + 15.0, "halo", &cut(&row.name, (room / LETTER).max(4.0) as usize));
    text(body, WIDTH - RIGHT, top + 15.0, "end soft halo", &row.text);
}

impl Map {
    /// The way round in which more of the names fit: those above the columns have less room.
    fn turned(&self) -> Map {
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

    fn draw(&self) -> (f64, String) {
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
                    0.08 + 0.84 * share
                );
                let words = self.unit.text(value);
                let words = if width(&words) > wide { short(value) } else { words };
                if width(&words) <= wide + 6.0 {
                    let style = if share > 0.55 { "fill:var(--paper)" } else { "" };
                    let _ = write!(
                        body,
                        "<text class=\"mid\" x=\"{:.1}\" y=\"{:.1}\" style=\"{style}\">{}</text>",
                        x + wide / 2.0,
                        at + 22.0,
                        escaped(&words)
                    );
                }
            }
        }
        (top + down.len() as f64 * SQUARE + 8.0, body)
    }
}

/// Three digits that count, no zeros after them.
pub fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let before_point = value.abs().log10().floor() as i32 + 1;
    let digits = usize::try_from(3 - before_point).unwrap_or(0).min(12);
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A time in the unit that suits.
pub fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 0.9995 || s == 0.0 => format!("{} s", short(s)),
        s if s >= 0.999_5e-3 => format!("{} ms", short(s * 1e3)),
        s if s >= 0.999_5e-6 => format!("{} µs", short(s * 1e6)),
        s => format!("{} ns", short(s * 1e9)),
    }
}

/// A size in the unit that suits.
pub fn size(bytes: f64) -> String {
    let mut value = bytes;
    for unit in ["B", "KiB", "MiB"] {
        if value < 1024.0 {
            return format!("{} {unit}", short(value));
        }
        value /= 1024.0;
    }
    format!("{} GiB", short(value))
}

/// A number, with thousands where there are many.
fn count(value: f64) -> String {
    for (unit, name) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if value >= unit {
            return format!("{}{name}", short(value / unit));
        }
    }
    short(value)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(time(value), expected);
        }
        for (value, expected) in [(1.0, "1 B"), (65536.0, "64 KiB"), (1.5e9, "1.4 GiB")] {
            assert_eq!(size(value), expected);
        }
        assert_eq!(count(12_000.0), "12k");
    }

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
        let plot = Plot { x: axis(), y: axis(), series, levels: vec![], mark: None };
        let (_, body) = plot.draw();
        assert!(body.matches("h0").count() <= DOTS_MAX, "{}", body.len());
    }
}
