//! The figures of a session: what is drawn, what is said below it, and the table for readers who cannot see
//! it. Each caption has the number of runs, their order and the cache.

mod costs;
mod maps;
pub mod places;

use crate::chart::{
    self, Axis, Chart, Drawn, Plot, ROWS_MAX, Row, Rows, SERIES_MAX, Said, Scale, Series, Unit,
};
use crate::data::{Cell, Kind, Ratio, Session};
use crate::numbers::{self, percent};
use crate::parts::{Figure, Table, how, is_twin, unit, worded};
pub(crate) use costs::light;
use costs::{drift, model};
use maps::maps;
use std::collections::BTreeMap;
use sweetspot_core::size::{BufferSize, Parsed, parse};

/// From this ratio on figures are drawn on a logarithmic axis.
const FAR_APART: f64 = 3.0;
/// Levels that make a curve.
const CURVE_MIN: usize = 3;
/// Maps, and models, that are drawn.
const SEVERAL_MAX: usize = 4;

/// The one that answers the question, which stands on top.
pub fn answering(session: &Session) -> Option<Figure> {
    curve(session).or_else(|| ratios(session)).or_else(|| times(session))
}

/// Time against the size of the buffer, or against what else has sizes.
fn curve(session: &Session) -> Option<Figure> {
    match session.kind {
        Kind::Tune => tuned(session),
        Kind::Bench => by_level(session),
    }
}

/// The others, in the order in which one asks for them.
pub fn further(session: &Session) -> Vec<Figure> {
    let mut all = maps(session);
    if session.kind == Kind::Bench {
        all.extend(times(session));
    }
    all.extend(ratios(session));
    all.extend(memory(session));
    let models = session.costs.iter().take(SEVERAL_MAX);
    all.extend(models.filter_map(|cost| model(session, cost)));
    all.extend(drift(session));
    all
}

fn scale(values: impl Iterator<Item = f64>) -> Scale {
    let (mut least, mut most) = (f64::MAX, f64::MIN);
    values.for_each(|value| (least, most) = (least.min(value), most.max(value)));
    if most > FAR_APART * least { Scale::Log } else { Scale::Linear }
}

fn said(title: &str, description: String) -> Said {
    Said { title: title.to_owned(), description }
}

/// What is added to a caption where not all dots are drawn.
fn thinned(dots: usize) -> String {
    match chart::thinned(dots) {
        1 => String::new(),
        step => format!(" One dot in {step} of {dots} is drawn; --csv has all."),
    }
}

fn axis_name(session: &Session) -> &'static str {
    match session.unit.as_str() {
        "s" => "time of a run",
        "ms" | "us" | "µs" | "ns" => "time that runs report",
        _ => "figure of a run",
    }
}

/// The curve of `tune`.
fn tuned(session: &Session) -> Option<Figure> {
    let base = session.base.and_then(|base| Some((base, session.cells[base].median?)));
    let Curve { series, levels, rows } = Curve::of(session, base);
    if series.line.len() < 2 {
        return None;
    }
    let mark = session.sweet_spot.or(session.advised).and_then(|spot| {
        let (bytes, at) = *series
            .line
            .iter()
            .find(|(bytes, _)| session.cells[spot].buffer_bytes == Some(*bytes as u64))?;
        let word = match (session.sweet_spot, session.confirmed) {
            (None, _) => "use this",
            (_, true) => "sweet spot",
            (_, false) => "perhaps",
        };
        Some((bytes, at, format!("{word}: {}", session.cells[spot].name)))
    });
    let factor = 1.0 + session.margin;
    let zone = base.map(|(_, median)| (median / factor, median * factor));
    let equals = session.base.filter(|_| zone.is_some()).map_or_else(String::new, |base| {
        let margin = percent(session.margin);
        format!(" Grey: within {margin} of {}, which is as good.", session.cells[base].name)
    });
    let dots = series.dots.len();
    let all = series.dots.iter().map(|dot| dot.1).chain(levels.iter().map(|level| level.0));
    let y = Axis { name: "time".to_owned(), scale: scale(all), unit: Unit::Seconds };
    let x = Axis { name: "buffer size".to_owned(), scale: Scale::Log2, unit: Unit::Bytes };
    let log = if y.scale == Scale::Log { ", logarithmic" } else { "" };
    let caption = format!(
        "Time (median or paired estimate{log}) against buffer size. Bars and band: 95 % interval of \
         the ratio to the setting that most ran beside, from six pairs on. Dots: runs.{equals} {}.{}",
        how(session),
        thinned(dots)
    );
    let description = session.sentences.join(" ");
    let plot = Plot { x, y, series: vec![series], levels, mark, zone };
    let title = "Time against buffer size";
    Some(Figure {
        chart: Chart { said: said(title, description), drawn: Drawn::Plot(plot) },
        caption,
        table: Table {
            caption: title.to_owned(),
            header: ["buffer", "runs", "time", "95 % interval"].map(str::to_owned).to_vec(),
            rows,
            words: 1,
            marked: None,
        },
    })
}

/// What a search has measured: a curve over the sizes, a level for each setting that is no size, and both as
/// rows of a table.
struct Curve {
    series: Series,
    levels: Vec<(f64, String)>,
    rows: Vec<Vec<String>>,
}

impl Curve {
    /// `base`: the cell that the others are relative to, and its median in seconds.
    fn of(session: &Session, base: Option<(usize, f64)>) -> Curve {
        // Where both ran, the paired ratio knows more than the median.
        let seconds = |number: usize, cell: &Cell| match (cell.ratio_to_base, base) {
            (Some(ratio), Some((base, median))) if number != base => Some(ratio.value * median),
            _ => cell.median,
        };
        let series = Series { name: "fixed buffer".to_owned(), ..Series::default() };
        let mut curve = Curve { series, levels: Vec::new(), rows: Vec::new() };
        for (number, cell) in session.cells.iter().enumerate().filter(|(_, cell)| cell.runs > 0) {
            let Some(at) = seconds(number, cell) else { continue };
            let ratio = cell.ratio_to_base;
            let ends = ratio.and_then(|ratio| ratio.low.zip(ratio.high)).zip(base);
            let ends = ends.map(|((low, high), (_, median))| (low * median, high * median));
            curve.rows.push(vec![
                cell.name.clone(),
                cell.runs.to_string(),
                numbers::axis_time(at),
                ends.map_or_else(String::new, |(low, high)| {
                    format!("{} to {}", numbers::axis_time(low), numbers::axis_time(high))
                }),
            ]);
            match cell.buffer_bytes {
                Some(bytes) => {
                    let bytes = bytes as f64;
                    // What the others are relative to is where it is.
                    let is_base = session.base == Some(number);
                    let drawn = ends.or(is_base.then_some((at, at)));
                    let series = &mut curve.series;
                    series.line.push((bytes, at));
                    let figures = session.figures(number);
                    series.dots.extend(figures.into_iter().map(|figure| (bytes, figure)));
                    series.band.extend(drawn.map(|(low, high)| (bytes, low, high)));
                }
                None => {
                    let name = if number == 0 { "unbuffered" } else { "auto" };
                    let advice = if session.advised == Some(number) { ", use this" } else { "" };
                    let level = format!("{name}: {}{advice}", numbers::axis_time(at));
                    curve.levels.push((at, level));
                }
            }
        }
        curve
    }
}

/// What a level is as a number.
fn number(level: &str) -> Option<f64> {
    match parse(level.as_bytes()) {
        Parsed::Size(BufferSize::Bytes(bytes)) => Some(f64::from(bytes)),
        _ => level.parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0),
    }
}

/// The levels of a factor as numbers, if all are and they differ.
fn numbers(session: &Session, factor: usize) -> Option<Vec<f64>> {
    session.factors[factor].levels.iter().map(|level| number(level)).collect()
}

fn unit_of(factor: &str) -> Unit {
    let words = ["byte", "size", "buffer"];
    if words.iter().any(|word| factor.contains(word)) { Unit::Bytes } else { Unit::Count }
}

/// Cells with figures, but for the one that is measured twice.
fn shown(session: &Session) -> impl Iterator<Item = (usize, &Cell)> {
    let all = session.cells.iter().enumerate();
    all.filter(move |(_, cell)| cell.median.is_some() && !is_twin(session, cell))
}

/// A curve for each combination of the other factors.
fn by_level(session: &Session) -> Option<Figure> {
    let factors = 0..session.factors.len();
    let levels = |factor: &usize| session.factors[*factor].levels.len();
    let curved = factors.filter(|factor| levels(factor) >= CURVE_MIN);
    let factor = curved.filter(|factor| numbers(session, *factor).is_some()).max_by_key(levels)?;
    let (unit, scale_of) = unit(&session.unit);
    let mut all: BTreeMap<String, Series> = BTreeMap::new();
    let mut order = Vec::new();
    let mut rows = Vec::new();
    for (place, cell) in shown(session) {
        let name = others(session, cell, &[factor]);
        if !order.contains(&name) {
            order.push(name.clone());
        }
        let Some(x) = number(&cell.levels[factor]) else { continue };
        let entry = all.entry(name.clone()).or_default();
        entry.name.clone_from(&name);
        entry.line.extend(cell.median.map(|median| (x, median * scale_of)));
        entry.dots.extend(session.figures(place).iter().map(|figure| (x, figure * scale_of)));
        rows.push(vec![name, cell.levels[factor].clone(), worded(session, cell.median)]);
    }
    let series: Vec<Series> =
        order.iter().filter_map(|name| all.remove(name)).take(SERIES_MAX).collect();
    let more = order.len().saturating_sub(SERIES_MAX);
    let more =
        if more > 0 { format!(" {more} more lines are in the table.") } else { String::new() };
    let dots: usize = series.iter().map(|series| series.dots.len()).sum();
    let name = session.factors[factor].name.clone();
    let title = format!("{} against {name}", capital(axis_name(session)));
    let values = series.iter().flat_map(|series| series.line.iter().map(|point| point.1));
    let y = Axis { name: axis_name(session).to_owned(), scale: scale(values), unit };
    let x = Axis { unit: unit_of(&name), name: name.clone(), scale: Scale::Log2 };
    let description =
        format!("{} lines over {name}. {}", series.len(), session.sentences.join(" "));
    let plot = Plot { x, y, series, levels: Vec::new(), mark: None, zone: None };
    Some(Figure {
        chart: Chart { said: said(&title, description), drawn: Drawn::Plot(plot) },
        caption: format!("Medians, and runs as dots. {}.{more}{}", how(session), thinned(dots)),
        table: Table {
            caption: title,
            header: vec!["line".to_owned(), name, "median".to_owned()],
            rows,
            words: 1,
            marked: None,
        },
    })
}

/// A cell's name in a chart: its levels alone, as there is little room.
fn short_name(session: &Session, cell: &Cell) -> String {
    let again = if is_twin(session, cell) { ", again" } else { "" };
    match session.kind {
        Kind::Tune => cell.name.clone(),
        Kind::Bench if session.factors.is_empty() => cell.name.clone(),
        Kind::Bench => others(session, cell, &[]) + again,
    }
}

/// What the names of rows are made of.
fn row_names(session: &Session) -> String {
    let names: Vec<&str> = session.factors.iter().map(|factor| factor.name.as_str()).collect();
    match (session.kind, names.as_slice()) {
        (Kind::Bench, [_, ..]) => format!(" Rows: {}.", names.join(", ")),
        _ => String::new(),
    }
}

fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The levels of a cell in all factors but these.
fn others(session: &Session, cell: &Cell, without: &[usize]) -> String {
    let kept = (0..session.factors.len()).filter(|factor| !without.contains(factor));
    let words = kept.map(|factor| cell.levels[factor].as_str());
    // A cell that does not have a factor has no level of it.
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ")
}

/// What is added to a caption where not all rows are drawn.
fn first_rows(rows: usize) -> String {
    match rows > ROWS_MAX {
        true => format!(" The first {ROWS_MAX} of {rows} are drawn; the table has all."),
        false => String::new(),
    }
}

/// All figures of all cells.
fn times(session: &Session) -> Option<Figure> {
    let (unit, factor) = unit(&session.unit);
    let row = |(place, cell): (usize, &Cell)| Row {
        name: short_name(session, cell),
        dots: session.figures(place).iter().map(|figure| figure * factor).collect(),
        value: cell.median.map(|median| median * factor),
        text: worded(session, cell.median),
        ..Row::default()
    };
    let rows: Vec<Row> = shown(session).map(row).collect();
    let dots: usize = rows.iter().take(ROWS_MAX).map(|row| row.dots.len()).sum();
    let all = rows.iter().flat_map(|row| row.dots.iter().copied());
    let axis = Axis { name: axis_name(session).to_owned(), scale: scale(all), unit };
    let table: Vec<Vec<String>> = shown(session)
        .map(|(_, cell)| {
            vec![cell.name.clone(), cell.runs.to_string(), worded(session, cell.median)]
        })
        .collect();
    let title = format!("{} of each cell", capital(axis_name(session)));
    (!rows.is_empty()).then(|| Figure {
        caption: format!(
            "Dots: runs; the bar is their median.{} {}.{}{}",
            row_names(session),
            how(session),
            first_rows(rows.len()),
            thinned(dots)
        ),
        chart: Chart {
            said: said(&title, format!("{} rows of dots.", rows.len())),
            drawn: Drawn::Rows(Rows { axis, rows, at: None }),
        },
        table: Table {
            caption: title.clone(),
            header: ["cell", "runs", "median"].map(str::to_owned).to_vec(),
            rows: table,
            words: 1,
            marked: None,
        },
    })
}

/// Each cell by its baseline.
fn ratios(session: &Session) -> Option<Figure> {
    let rows: Vec<Row> = compared(session)
        .map(|(cell, ratio)| Row {
            name: short_name(session, cell),
            value: Some(ratio.value),
            interval: ratio.low.zip(ratio.high),
            text: Unit::Percent.text(ratio.value),
            ..Row::default()
        })
        .collect();
    let margin = percent(session.margin);
    let title = "Time as a share of the baseline's";
    let least = rows.len();
    (least > 0).then(|| Figure {
        caption: format!(
            "The bar is the estimate, the line its 95 % interval; the grey zone is within {margin} of \
             the baseline (100 %).{} {}.{}",
            row_names(session),
            how(session),
            first_rows(least)
        ),
        chart: Chart {
            said: said(title, format!("{least} rows. {}", session.sentences.join(" "))),
            drawn: Drawn::Rows(Rows {
                axis: Axis {
                    name: "by the baseline, logarithmic".to_owned(),
                    scale: Scale::Log,
                    unit: Unit::Percent,
                },
                rows,
                at: Some((1.0, 1.0 + session.margin)),
            }),
        },
        table: Table {
            caption: title.to_owned(),
            header: ["cell", "of the baseline", "95 % interval", "rounds"]
                .map(str::to_owned)
                .to_vec(),
            rows: ratios_in_words(session),
            words: 1,
            marked: None,
        },
    })
}

/// The cells that ran and have a ratio to their baseline.
fn compared(session: &Session) -> impl Iterator<Item = (&Cell, Ratio)> {
    let all = session.cells.iter().filter_map(|cell| Some((cell, cell.ratio?)));
    all.filter(|(cell, _)| cell.runs > 0)
}

fn ratios_in_words(session: &Session) -> Vec<Vec<String>> {
    let ends = |(low, high): (f64, f64)| {
        format!("{} to {}", numbers::digits(low * 100.0), Unit::Percent.text(high))
    };
    let row = |(cell, ratio): (&Cell, Ratio)| {
        let verdict = cell.verdict.as_deref().unwrap_or_default();
        let value = format!("{} {verdict}", Unit::Percent.text(ratio.value));
        let interval = ratio.low.zip(ratio.high).map_or_else(String::new, ends);
        vec![cell.name.clone(), value.trim_end().to_owned(), interval, ratio.rounds.to_string()]
    };
    compared(session).map(row).collect()
}

fn memory(session: &Session) -> Option<Figure> {
    let with = || session.cells.iter().filter(|cell| cell.runs > 0);
    let known = || with().filter_map(|cell| Some((cell, cell.peak_memory_bytes? as f64)));
    let rows: Vec<Row> = known()
        .map(|(cell, bytes)| Row {
            name: short_name(session, cell),
            bar: Some(bytes),
            text: numbers::axis_size(bytes),
            ..Row::default()
        })
        .collect();
    let table = known()
        .map(|(cell, bytes)| {
            vec![cell.name.clone(), worded(session, cell.median), numbers::axis_size(bytes)]
        })
        .collect();
    let title = "Memory beside time";
    let count = rows.len();
    (count > 0).then(|| Figure {
        caption: format!(
            "The largest resident set of one process, median; times are in the table.{} {}.{}",
            row_names(session),
            how(session),
            first_rows(count)
        ),
        chart: Chart {
            said: said(title, format!("{count} bars.")),
            drawn: Drawn::Rows(Rows {
                axis: Axis {
                    name: "peak memory".to_owned(),
                    scale: Scale::Sizes,
                    unit: Unit::Bytes,
                },
                rows,
                at: None,
            }),
        },
        table: Table {
            caption: title.to_owned(),
            header: ["cell", "median", "peak memory"].map(str::to_owned).to_vec(),
            rows: table,
            words: 1,
            marked: None,
        },
    })
}
