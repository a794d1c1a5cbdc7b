//! Charts of what runs cost and took: their model, and their drift.

use crate::chart::{Axis, Chart, Drawn, Plot, Scale, Series, Unit};
use crate::data::{Cost, Part, Run, Session};
use crate::figures::{CURVE_MIN, said, scale, thinned};
use crate::numbers::{self, percent};
use crate::parts::{Figure, Table, how};
use sweetspot_lab::cost::Light;
use sweetspot_lab::statistics;

/// Steps of a line that is computed.
const STEPS: usize = 60;

/// Parts of a session, for the table of its drift.
const PARTS: usize = 10;

/// What runs cost: the model over the runs.
pub(super) fn model(session: &Session, cost: &Cost) -> Option<Figure> {
    let meant = |run: &&Run| run.counts && cost.cells.contains(&run.cell);
    let lights: Vec<_> = session.runs.iter().filter(meant).map(light).collect();
    let byte = cost.byte_seconds.map_or(0.0, |byte| byte.value);
    let seconds = |calls: f64, bytes: f64| {
        cost.fixed_seconds.value + cost.call_seconds.value * calls + byte * bytes
    };
    let mut dots = Vec::new();
    for light in &lights {
        let x = match cost.byte_seconds {
            None => light.calls,
            Some(_) => seconds(light.calls, light.bytes),
        };
        dots.push((x, light.seconds));
    }
    let least = dots.iter().map(|dot| dot.0).fold(f64::MAX, f64::min);
    let most = dots.iter().map(|dot| dot.0).fold(0.0, f64::max);
    if least <= 0.0 || most <= least {
        return None;
    }
    let step = |at: usize| least * (most / least).powf(at as f64 / STEPS as f64);
    let on_line = |x: f64| if cost.byte_seconds.is_none() { seconds(x, 0.0) } else { x };
    let line = (0..=STEPS).map(step).map(|x| (x, on_line(x))).collect();
    let (name, unit, what) = terms(cost);
    let title = format!("What a run costs: {}", cost.name);
    let description = format!(
        "{} a call, {} fixed, from {} runs.",
        numbers::axis_time(cost.call_seconds.value),
        numbers::axis_time(cost.fixed_seconds.value),
        cost.runs
    );
    let all = || dots.iter().map(|dot| dot.1);
    let y = Axis { name: "time".to_owned(), scale: scale(all()), unit: Unit::Seconds };
    let x = Axis { name: name.to_owned(), scale: scale(dots.iter().map(|dot| dot.0)), unit };
    let caption = format!(
        "{what} Dots: {} runs; half of them lie within {} of the line. {}.{}",
        cost.runs,
        percent(cost.error),
        how(session),
        thinned(dots.len())
    );
    let series = vec![Series { name: cost.name.clone(), line, dots, ..Series::default() }];
    let plot = Plot { x, y, series, levels: Vec::new(), mark: None, zone: None };
    Some(Figure {
        chart: Chart { said: said(&title, description), drawn: Drawn::Plot(plot) },
        caption,
        table: Table {
            caption: title,
            header: ["part", "cost", "95 % interval"].map(str::to_owned).to_vec(),
            rows: rows(cost),
            words: 1,
            marked: None,
        },
    })
}

/// What runs are drawn by, its unit, and what the line is.
fn terms(cost: &Cost) -> (&'static str, Unit, &'static str) {
    match cost.byte_seconds {
        None => (
            "system calls that read or write",
            Unit::Count,
            "Line: fixed + calls x a call (what bytes cost is within the fixed part).",
        ),
        Some(_) => (
            "time by the model",
            Unit::Seconds,
            "Line: where a run is as the model says, fixed + calls x a call + bytes x a byte.",
        ),
    }
}

/// The parts of a cost model, each with its interval.
fn rows(cost: &Cost) -> Vec<Vec<String>> {
    let row = |name: &str, part: Part| {
        vec![
            name.to_owned(),
            numbers::axis_time(part.value),
            format!("{} to {}", numbers::axis_time(part.low), numbers::axis_time(part.high)),
        ]
    };
    let parts = [("fixed", Some(cost.fixed_seconds)), ("a call", Some(cost.call_seconds))];
    let parts = parts.into_iter().chain([("a byte", cost.byte_seconds)]);
    parts.filter_map(|(name, part)| Some(row(name, part?))).collect()
}

/// Every run in order of time, by the median of its cell.
pub(super) fn drift(session: &Session) -> Option<Figure> {
    let medians: Vec<Option<f64>> = (0..session.cells.len())
        .map(|cell| statistics::median(&session.figures(cell)).ok())
        .collect();
    let mut dots = Vec::new();
    for (number, run) in session.runs.iter().enumerate().filter(|(_, run)| run.counts) {
        if let Some((figure, median)) = run.figure.zip(medians[run.cell]) {
            dots.push(((number + 1) as f64, figure / median));
        }
    }
    if dots.len() < CURVE_MIN {
        return None;
    }
    let parts = dots.chunks(dots.len().div_ceil(PARTS));
    let part = |part: &[(f64, f64)]| {
        let values: Vec<f64> = part.iter().map(|dot| dot.1).collect();
        let (first, last) = (part[0].0, part[part.len() - 1].0);
        let median = statistics::median(&values).ok().unwrap_or(1.0);
        (first, last, median)
    };
    let medians: Vec<(f64, f64, f64)> = parts.map(part).collect();
    let rows = medians
        .iter()
        .map(|(first, last, median)| {
            vec![format!("{first} to {last}"), Unit::Percent.text(*median)]
        })
        .collect();
    let line =
        medians.iter().map(|(first, last, median)| ((first + last) / 2.0, *median)).collect();
    let title = "Every run, in order of time";
    let count = dots.len();
    let y = Axis {
        name: "time by the median of its cell".to_owned(),
        scale: Scale::Log,
        unit: Unit::Percent,
    };
    let x = Axis { name: "run".to_owned(), scale: Scale::Linear, unit: Unit::Count };
    let disturbed = session.runs.iter().filter(|run| run.disturbed).count();
    let series = vec![Series { name: "runs".to_owned(), line, dots, band: Vec::new() }];
    let plot = Plot { x, y, series, levels: vec![(1.0, String::new())], mark: None, zone: None };
    Some(Figure {
        chart: Chart {
            said: said(title, format!("{count} dots; a drift would be a slope of the line.")),
            drawn: Drawn::Plot(plot),
        },
        caption: format!(
            "Each dot is a run; the line is the median of each tenth of them. A slope is drift, a step \
             is something that happened. {disturbed} were disturbed by others. {}.{}",
            how(session),
            thinned(count)
        ),
        table: Table {
            caption: title.to_owned(),
            header: vec!["runs".to_owned(), "median by that of the cell".to_owned()],
            rows,
            words: 1,
            marked: None,
        },
    })
}

/// A run as the cost model sees it.
pub fn light(run: &Run) -> Light {
    Light {
        calls: (run.read_calls + run.write_calls) as f64,
        bytes: (run.read_bytes + run.written_bytes) as f64,
        seconds: run.wall_seconds,
    }
}
