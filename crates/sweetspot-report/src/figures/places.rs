//! One plan in several sessions, as on several file systems: a curve for each, of times as shares of the
//! baseline's.

use super::{CURVE_MIN, SERIES_MAX, capital, number, said, scale, thinned, unit_of};
use crate::chart::{Axis, Chart, Drawn, Plot, Scale, Series, Unit};
use crate::data::{Cell, Factor, Kind, Session};
use crate::numbers::percent;
use crate::parts::{Figure, Table};

/// The sessions of each plan that was measured more than once.
pub fn plans(sessions: &[Session]) -> Vec<Vec<&Session>> {
    let mut plans: Vec<Vec<&Session>> = Vec::new();
    for session in sessions.iter().filter(|session| session.kind == Kind::Bench) {
        match plans.iter_mut().find(|plan| plan[0].title == session.title) {
            Some(plan) => plan.push(session),
            None => plans.push(vec![session]),
        }
    }
    plans.retain(|plan| {
        let mut names = names(plan);
        names.sort();
        names.dedup();
        plan.len() > 1 && names.len() == plan.len()
    });
    plans
}

/// What the sessions are called: by the kind of their file system, and by their file where that is not enough.
fn names(plan: &[&Session]) -> Vec<String> {
    let kind = |session: &Session| {
        let fact = session.environment.iter().find(|fact| fact.name == "file system");
        fact.and_then(|fact| fact.value.split(' ').next()).unwrap_or_default().to_owned()
    };
    let kinds: Vec<String> = plan.iter().map(|session| kind(session)).collect();
    let is_alone = |name: &String| kinds.iter().filter(|other| *other == name).count() == 1;
    let named = plan.iter().zip(&kinds).map(|(session, kind)| match is_alone(kind) {
        true => kind.clone(),
        false => format!("{kind} ({})", session.file),
    });
    named.collect()
}

/// What a session has at one level: the shares of the baseline's time, of one job each.
struct Level {
    name: String,
    /// As a number, if it is one.
    at: Option<f64>,
    shares: Vec<f64>,
}

impl Level {
    /// The geometric mean.
    fn share(&self) -> f64 {
        let logs: f64 = self.shares.iter().map(|share| share.ln()).sum();
        (logs / self.shares.len() as f64).exp()
    }
}

/// A session: its levels in the order of the plan, but for that of the baseline.
struct Place {
    name: String,
    levels: Vec<Level>,
}

impl Place {
    fn of(name: String, session: &Session, factor: usize) -> Place {
        let share = |cell: &Cell| cell.ratio.map(|ratio| ratio.value).filter(|share| *share > 0.0);
        let level = |name: &String| Level {
            name: name.clone(),
            at: number(name),
            shares: session
                .cells
                .iter()
                .filter(|cell| cell.levels[factor] == *name)
                .filter_map(share)
                .collect(),
        };
        let levels = session.factors[factor].levels.iter().map(level);
        Place { name, levels: levels.filter(|level| !level.shares.is_empty()).collect() }
    }

    fn numbered(&self) -> impl Iterator<Item = (f64, &Level)> {
        self.levels.iter().filter_map(|level| Some((level.at?, level)))
    }

    /// The level that took least, and its share.
    fn best(&self) -> Option<(&str, f64)> {
        let shares = self.numbered().map(|(_, level)| (level.name.as_str(), level.share()));
        shares.min_by(|one, other| one.1.total_cmp(&other.1))
    }
}

/// The factor over which the curves go, and the level of it that all baselines have.
fn factor_and_baseline(session: &Session) -> Option<(usize, &str)> {
    let numbers = |factor: &usize| {
        session.factors[*factor].levels.iter().filter(|level| number(level).is_some()).count()
    };
    let factor = (0..session.factors.len()).max_by_key(numbers)?;
    let baselines = session.cells.iter().filter_map(|cell| cell.baseline);
    let mut levels: Vec<&str> =
        baselines.map(|cell| session.cells[cell].levels[factor].as_str()).collect();
    levels.dedup();
    match levels.as_slice() {
        [baseline] if numbers(&factor) >= CURVE_MIN => Some((factor, *baseline)),
        _ => None,
    }
}

/// The sentence, the figure and the table of a plan's sessions.
pub fn compared(plan: &[&Session]) -> Option<(String, Figure, Table)> {
    let first = plan[0];
    let (factor, baseline) = factor_and_baseline(first)?;
    // Where a scale of the plan leaves one level of a factor, that factor is not told; and a plan may have been
    // changed between two sessions.
    let factor_of = |session: &Session| {
        session.factors.iter().position(|other| other.name == first.factors[factor].name)
    };
    let places: Vec<Place> = std::iter::zip(names(plan), plan)
        .filter_map(|(name, session)| Some(Place::of(name, session, factor_of(session)?)))
        .collect();
    let best = places.iter().filter_map(|place| {
        let (level, share) = place.best()?;
        Some(format!("{} on {} ({level})", Unit::Percent.text(share), place.name))
    });
    let Factor { name: factor, levels } = &first.factors[factor];
    let sentence = format!(
        "Of the time with {factor} {baseline} the best other {factor} takes {}: the geometric mean over all \
         jobs.",
        best.collect::<Vec<_>>().join(", ")
    );
    let series: Vec<Series> = places.iter().take(SERIES_MAX).map(series).collect();
    if places.len() < 2 || series.iter().all(|series| series.line.len() < CURVE_MIN) {
        return None;
    }
    let dots: usize = series.iter().map(|series| series.dots.len()).sum();
    let shares = series.iter().flat_map(|series| series.line.iter().map(|point| point.1));
    let y = Axis {
        name: format!("time; {baseline} is 100 %"),
        scale: scale(shares),
        unit: Unit::Percent,
    };
    let x = Axis { name: factor.clone(), scale: Scale::Log2, unit: unit_of(factor) };
    let side_by_side = side_by_side(factor, levels, baseline, &places);
    let levels = vec![(1.0, baseline.to_owned())];
    let zone = Some((1.0 / (1.0 + first.margin), 1.0 + first.margin));
    let title = format!("{} in {} sessions", capital(factor), places.len());
    let plot = Plot { x, y, series, levels, mark: None, zone };
    let caption = format!(
        "Each line is a session, named by its file system: the time with each {factor} as a share of that \
         with {baseline}, the geometric mean over all jobs of the plan. Dots: single jobs. Grey: within {} of {baseline}.{}{}",
        percent(first.margin),
        more(places.len()),
        thinned(dots)
    );
    let table = Table {
        caption: title.clone(),
        header: ["session", factor, "jobs", "mean", "least", "most"].map(str::to_owned).to_vec(),
        rows: places.iter().flat_map(rows).collect(),
        words: 2,
        marked: None,
    };
    let chart = Chart { said: said(&title, sentence.clone()), drawn: Drawn::Plot(plot) };
    Some((sentence, Figure { chart, caption, table }, side_by_side))
}

/// A row for each level, a column for each session.
fn side_by_side(factor: &str, levels: &[String], baseline: &str, places: &[Place]) -> Table {
    let share = |level: &str, place: &Place| match level == baseline {
        true => Unit::Percent.text(1.0),
        false => {
            let level = place.levels.iter().find(|other| other.name == level);
            level.map_or_else(String::new, |level| Unit::Percent.text(level.share()))
        }
    };
    let row = |level: &String| {
        let shares = places.iter().map(|place| share(level, place));
        std::iter::once(level.clone()).chain(shares).collect()
    };
    let names = places.iter().map(|place| place.name.clone());
    Table {
        caption: format!(
            "Times as shares of those with {factor} {baseline}, in each session: geometric means over all jobs."
        ),
        header: std::iter::once(factor.to_owned()).chain(names).collect(),
        rows: levels.iter().map(row).collect(),
        words: 1,
        marked: None,
    }
}

fn series(place: &Place) -> Series {
    let dots =
        place.numbered().flat_map(|(at, level)| level.shares.iter().map(move |dot| (at, *dot)));
    Series {
        name: place.name.clone(),
        line: place.numbered().map(|(at, level)| (at, level.share())).collect(),
        dots: dots.collect(),
        ..Series::default()
    }
}

fn rows(place: &Place) -> impl Iterator<Item = Vec<String>> {
    place.levels.iter().map(|level| {
        let (least, most) = level
            .shares
            .iter()
            .fold((f64::MAX, f64::MIN), |(least, most), share| (share.min(least), share.max(most)));
        let mut row = vec![place.name.clone(), level.name.clone(), level.shares.len().to_string()];
        row.extend([level.share(), least, most].map(|share| Unit::Percent.text(share)));
        row
    })
}

/// What is added to a caption where not all lines are drawn.
fn more(places: usize) -> String {
    match places.saturating_sub(SERIES_MAX) {
        0 => String::new(),
        more => format!(" {more} more are in the table."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Fact, Ratio};

    /// A plan of two jobs under `auto`, without buffering and with three sizes; shares of the first job's time
    /// with each but `auto`, and the second job takes four times them.
    fn measured(file: &str, file_system: &str, shares: [f64; 4]) -> Session {
        let factor = |name: &str, levels: &[&str]| Factor {
            name: name.to_owned(),
            levels: levels.iter().map(|level| (*level).to_owned()).collect(),
        };
        let factors = vec![
            factor("bytes", &["8", "200"]),
            factor("size", &["auto", "off", "4K", "64K", "1M"]),
        ];
        let cell = |at: usize| {
            let (job, size) = (at / 5, at % 5);
            let ratio = |share: f64| Ratio {
                value: if job == 0 { share } else { share * 4.0 },
                low: None,
                high: None,
                rounds: 3,
            };
            Cell {
                levels: vec![factors[0].levels[job].clone(), factors[1].levels[size].clone()],
                baseline: (size > 0).then_some(job * 5),
                ratio: (size > 0).then(|| ratio(shares[size - 1])),
                ..Cell::default()
            }
        };
        let value = format!("{file_system} (rw)");
        Session {
            file: file.to_owned(),
            title: "Sizes".to_owned(),
            margin: 0.05,
            cells: (0..10).map(cell).collect(),
            environment: vec![Fact { name: "file system".to_owned(), value }],
            factors,
            ..Session::default()
        }
    }

    #[test]
    fn each_file_system_has_a_line() {
        let near = measured("near", "ext4", [1.0, 0.75, 0.5, 0.6]);
        let far = measured("far", "fuse.far", [9.0, 3.0, 2.0, 0.55]);
        let other = Session { title: "Another plan".to_owned(), ..near.clone() };
        let sessions = [near, other, far];
        let plans = plans(&sessions);
        assert_eq!(plans.len(), 1);
        let (sentence, figure, table) = compared(&plans[0]).unwrap();
        let expected = "Of the time with size auto the best other size takes 100 % on ext4 (64K), 110 % on fuse.far \
                        (1M): the geometric mean over all jobs.";
        assert_eq!(sentence, expected);
        let Drawn::Plot(plot) = figure.chart.drawn else { panic!("no lines") };
        let names: Vec<&str> = plot.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["ext4", "fuse.far"]);
        let sizes: Vec<f64> = plot.series[0].line.iter().map(|point| point.0).collect();
        assert_eq!(sizes, [4096.0, 65536.0, 1048576.0]);
        assert_eq!(plot.series[0].dots.len(), 6, "each job");
        assert_eq!(figure.table.rows[0], ["ext4", "off", "2", "200 %", "100 %", "400 %"]);
        assert_eq!(figure.table.rows.len(), 8);
        assert_eq!(table.header, ["size", "ext4", "fuse.far"]);
        assert_eq!(table.rows[0], ["auto", "100 %", "100 %"]);
        assert_eq!(table.rows[4], ["1M", "120 %", "110 %"]);
    }

    #[test]
    fn a_session_with_fewer_factors_has_a_line_too() {
        let near = measured("near", "ext4", [1.0, 0.75, 0.5, 0.6]);
        let mut far = measured("far", "nfs4", [9.0, 3.0, 2.0, 0.55]);
        far.factors.remove(0);
        far.cells.truncate(5);
        far.cells.iter_mut().for_each(|cell| drop(cell.levels.remove(0)));
        let (sentence, ..) = compared(&[&near, &far]).unwrap();
        assert!(sentence.contains("100 % on ext4 (64K), 55 % on nfs4 (1M)"), "{sentence}");
    }

    #[test]
    fn file_systems_of_one_kind_are_told_by_their_files() {
        let shares = [1.0; 4];
        let two = [measured("near", "fuse.x", shares), measured("far", "fuse.x", shares)];
        let names: Vec<String> = names(&two.iter().collect::<Vec<_>>());
        assert_eq!(names, ["fuse.x (near)", "fuse.x (far)"]);
        let same = [measured("near", "ext4", shares), measured("near", "ext4", shares)];
        assert!(plans(&same).is_empty(), "one file system, measured twice");
    }
}
