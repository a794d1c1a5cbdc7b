//! What is said: sections of sentences, tables and figures, the same for every form of a report.
//!
//! Deliberately not here: how it looks (`page`, `text`), and the drawings of sessions (`figures`).

mod profiles;

use crate::bench::QUANTILES;
use crate::chart::{Row, Unit};
use crate::data::{Cell, Judgement, Kind, NamedSummary, Part, Ratio, Report, Session};
use crate::figures;
use crate::numbers::{self, percent};
pub use crate::parts::{Block, Figure, Section, Table, how, unit, worded};
use crate::parts::{in_words, is_twin, levels};
use crate::summary;
use profiles::{before_and_after, profile};

/// Claims that are said one by one.
const CLAIMS_MAX: usize = 100;

/// Everything that is said.
pub fn sections(report: &Report) -> Vec<Section> {
    let plans = figures::places::plans(&report.sessions);
    let mut all: Vec<Section> = plans.iter().filter_map(|plan| places(plan)).collect();
    all.extend(report.sessions.iter().map(session));
    if let [before, .., after] = report.profiles.as_slice() {
        all.push(before_and_after(before, after));
    }
    all.extend(report.profiles.iter().map(profile));
    all.extend(report.summaries.iter().map(summary_of_a_run));
    all
}

/// What several sessions of one plan have shown, before the sessions themselves.
fn places(plan: &[&Session]) -> Option<Section> {
    let (sentence, drawn, table) = figures::places::compared(plan)?;
    let blocks = vec![Block::Answer(sentence), figure(drawn), Block::Table(table)];
    let kind = format!("sweetspot bench, {} sessions of one plan", plan.len());
    Some(Section { heading: plan[0].title.clone(), kind, blocks })
}

fn summary_of_a_run(named: &NamedSummary) -> Section {
    let found = summary::Figures::read(&named.text);
    let mut blocks = vec![Block::Answer(summed_up(&found))];
    if let (None, Some((requested, made))) = (&found.inactive, found.calls) {
        let rows = [("requested by the program", requested), ("made", made)];
        let rows = rows.map(|(name, calls)| Row {
            name: name.to_owned(),
            bar: Some(calls as f64),
            text: numbers::count(calls),
            ..Row::default()
        });
        let bars =
            profiles::bars("System calls requested and made", "calls", Unit::Count, rows.into());
        blocks.extend(bars.map(figure));
    }
    blocks.push(Block::Verbatim(named.text.clone()));
    Section { heading: named.file.clone(), kind: "Summary of a run".to_owned(), blocks }
}

fn session(session: &Session) -> Section {
    let mut blocks: Vec<Block> = session.question.iter().cloned().map(Block::Text).collect();
    // Of `tune` what follows the answer says how it was found.
    let answers = if session.kind == Kind::Tune { 1 } else { session.sentences.len() };
    for (number, sentence) in session.sentences.iter().enumerate() {
        let block = if number < answers { Block::Answer } else { Block::Text };
        blocks.push(block(sentence.clone()));
    }
    blocks.extend(claims(session));
    if !session.finished {
        blocks.push(Block::Text(
            "This session is not finished: it is still running, or it was interrupted (--resume \
             continues it). This is what is known so far."
                .to_owned(),
        ));
    }
    let answering = figures::answering(session);
    let shown = answering.as_ref().map(|figure| figure.chart.said.title.clone());
    blocks.extend(answering.map(figure));
    blocks.push(Block::Table(results(session)));
    blocks.extend(published(session).map(Block::Table));
    let further = figures::further(session).into_iter();
    blocks.extend(
        further.filter(|other| Some(&other.chart.said.title) != shown.as_ref()).map(figure),
    );
    blocks.extend(percentiles(session).map(Block::Table));
    blocks.extend(costs(session).map(Block::Table));
    if let Some(control) = &session.null_control {
        blocks.push(Block::Text(control.text.clone()));
    }
    blocks.extend(session.notes.iter().map(|note| Block::Text(format!("Note: {note}."))));
    blocks.push(Block::Table(environment(session)));
    let kind = match session.kind {
        Kind::Tune => "sweetspot tune",
        Kind::Bench => "sweetspot bench",
    };
    let kind = format!("{kind}, session {}, begun {}", session.number, moment(&session.begun));
    Section { heading: session.title.clone(), kind, blocks }
}

/// All claims, those that were shown first.
fn claims(session: &Session) -> Option<Block> {
    let mut claims: Vec<_> = session.claims.iter().collect();
    claims.sort_by_key(|claim| claim.judgement);
    let measured = claims.iter().filter(|claim| claim.judgement != Judgement::NotMeasured);
    let mut texts: Vec<String> = measured.map(|claim| claim.text.clone()).collect();
    let more = texts.len().saturating_sub(CLAIMS_MAX);
    if more > 0 {
        texts.truncate(CLAIMS_MAX);
        texts.push(format!("and {more} more: --json has all"));
    }
    (!texts.is_empty()).then_some(Block::List(texts))
}

fn figure(figure: Figure) -> Block {
    Block::Figure(Box::new(figure))
}

/// To the minute.
fn moment(begun: &str) -> String {
    match begun.split_once('T') {
        Some((day, time)) => format!("{day} {} UTC", time.get(..5).unwrap_or(time)),
        None => begun.to_owned(),
    }
}

/// `17.2 %`
fn share(ratio: Option<Ratio>) -> String {
    ratio.map_or_else(String::new, |ratio| Unit::Percent.text(ratio.value))
}

/// `16 to 18 %`
fn interval(ratio: Option<Ratio>) -> String {
    match ratio.and_then(|ratio| ratio.low.zip(ratio.high)) {
        Some((low, high)) => {
            format!("{} to {}", numbers::digits(low * 100.0), Unit::Percent.text(high))
        }
        None => String::new(),
    }
}

/// Whether it counts as a baseline.
fn is_baseline(session: &Session, cell: usize) -> bool {
    let others = session.cells.iter().any(|other| other.baseline == Some(cell));
    session.cells[cell].baseline.is_none() && others
}

/// The names of the columns that say which cell a row is about.
fn names(session: &Session) -> Vec<String> {
    match session.factors.is_empty() {
        true => vec!["cell".to_owned()],
        false => session.factors.iter().map(|factor| factor.name.clone()).collect(),
    }
}

/// The cells, normalised: the baseline is 100 %.
fn results(session: &Session) -> Table {
    let mut header = names(session);
    let words = header.len();
    header.extend(
        ["runs", "median", "of the baseline", "95 % interval", "memory", ""].map(str::to_owned),
    );
    let row = |(number, cell): (usize, &Cell)| {
        let mut row = levels(session, cell);
        let is_baseline = is_baseline(session, number);
        let memory = cell.peak_memory_bytes.filter(|_| cell.runs > 0);
        row.extend([
            cell.runs.to_string(),
            worded(session, cell.median),
            if is_baseline { "100 %".to_owned() } else { share(cell.ratio) },
            interval(cell.ratio),
            memory.map_or_else(String::new, |bytes| numbers::axis_size(bytes as f64)),
            mark(session, number),
        ]);
        row
    };
    let shown = || session.cells.iter().enumerate().filter(|(_, cell)| is_shown(session, cell));
    let against = match session.kind {
        Kind::Tune => "no buffering",
        Kind::Bench => "the baseline",
    };
    Table {
        caption: format!(
            "Results. Times relative to {against} (100 %) in rounds where both ran; interval shown \
             for six rounds or more. {}.",
            session.how
        ),
        header,
        rows: shown().map(row).collect(),
        words,
        marked: shown()
            .position(|(number, _)| Some(number) == session.sweet_spot.or(session.advised)),
    }
}

/// Settings that the search never tried say nothing.
fn is_shown(session: &Session, cell: &Cell) -> bool {
    session.kind == Kind::Bench || cell.runs > 0
}

fn mark(session: &Session, number: usize) -> String {
    let cell = &session.cells[number];
    let margin = percent(session.margin);
    if let Some(reason) = &cell.given_up {
        return format!("given up: {reason}");
    }
    if session.kind == Kind::Bench {
        return cell.verdict.clone().unwrap_or_default();
    }
    if session.sweet_spot.is_none() && session.advised == Some(number) {
        return "use this".to_owned();
    }
    match (session.sweet_spot == Some(number), session.confirmed) {
        (true, true) => format!("the smallest within {margin} of the best"),
        (true, false) => "perhaps the smallest as good".to_owned(),
        (false, _) if is_baseline(session, number) => "the baseline".to_owned(),
        (false, _) => String::new(),
    }
}

/// Others' figures beside those of here, without and with sweetspot.
fn published(session: &Session) -> Option<Table> {
    let has_any = |cell: &Cell| cell.published.iter().any(|text| !text.is_empty());
    if !session.cells.iter().any(has_any) {
        return None;
    }
    let mut header = names(session);
    let words = header.len();
    header.extend(session.published.iter().map(|name| format!("published {name}")));
    header.extend(["here", "with sweetspot", "of it", "95 % interval"].map(str::to_owned));
    let mut rows = Vec::new();
    for (number, plain) in session.cells.iter().enumerate() {
        if plain.without.is_some() || plain.runs == 0 || is_twin(session, plain) {
            continue;
        }
        let with: Vec<&Cell> =
            session.cells.iter().filter(|cell| cell.without == Some(number)).collect();
        let published = std::iter::once(&plain).chain(&with).find(|cell| has_any(cell));
        let Some(published) = published.map(|cell| &cell.published) else { continue };
        let line = |cell: Option<&Cell>| {
            let mut row = levels(session, cell.unwrap_or(plain));
            row.extend(published.iter().cloned());
            row.push(worded(session, plain.median));
            let ratio = cell.and_then(|cell| cell.ratio.filter(|_| cell.baseline == Some(number)));
            row.push(cell.map_or_else(String::new, |cell| worded(session, cell.median)));
            row.extend([share(ratio), interval(ratio)]);
            row
        };
        match with.as_slice() {
            [] => rows.push(line(None)),
            with => rows.extend(with.iter().map(|cell| line(Some(cell)))),
        }
    }
    let caption = format!(
        "Published, here, and with sweetspot: figures of others, on their machines, beside medians \
         of this one. {}.",
        how(session)
    );
    Some(Table { caption, header, rows, words, marked: None })
}

fn percentiles(session: &Session) -> Option<Table> {
    let shown = || session.cells.iter().filter(|cell| !cell.samples.is_empty());
    shown().next()?;
    let mut header = names(session);
    let words = header.len();
    header.push("mean".to_owned());
    header.extend(QUANTILES.map(|(name, _)| name.to_owned()));
    let row = |cell: &Cell| {
        let mut row = levels(session, cell);
        let unit = cell.samples_unit.as_deref().unwrap_or_default();
        row.extend(cell.samples.iter().map(|value| in_words(unit, Some(*value))));
        row
    };
    let caption = format!(
        "Percentiles of what the programs report themselves, each as the median over the runs. {}.",
        how(session)
    );
    Some(Table { caption, header, rows: shown().map(row).collect(), words, marked: None })
}

fn costs(session: &Session) -> Option<Table> {
    let part = |part: Part| {
        let range =
            format!("({} to {})", numbers::axis_time(part.low), numbers::axis_time(part.high));
        format!("{} {range}", numbers::axis_time(part.value))
    };
    let row = |cost: &super::data::Cost| {
        vec![
            cost.name.clone(),
            cost.runs.to_string(),
            part(cost.fixed_seconds),
            part(cost.call_seconds),
            cost.byte_seconds.map_or_else(|| "within the fixed part".to_owned(), part),
            percent(cost.error),
        ]
    };
    (!session.costs.is_empty()).then(|| Table {
        caption: format!(
            "What runs cost. Time = fixed + calls x a call + bytes x a byte, such that half of the runs \
             lie above and half below; 95 % intervals by bootstrap. Calls and bytes are the \
             kernel's own counts. {}.",
            how(session)
        ),
        header: ["runs of", "runs", "fixed", "a call", "a byte", "median error"]
            .map(str::to_owned)
            .to_vec(),
        rows: session.costs.iter().map(row).collect(),
        words: 1,
        marked: None,
    })
}

fn environment(session: &Session) -> Table {
    let mut rows: Vec<Vec<String>> = session
        .environment
        .iter()
        .map(|fact| vec![fact.name.clone(), fact.value.clone()])
        .collect();
    rows.push(vec!["seed".to_owned(), session.seed.to_string()]);
    Table {
        caption: "Where it was measured.".to_owned(),
        header: vec!["what".to_owned(), "here".to_owned()],
        rows,
        words: 2,
        marked: None,
    }
}

fn summed_up(found: &summary::Figures) -> String {
    match found {
        summary::Figures { inactive: Some(why), .. } => format!("Nothing was buffered: {why}."),
        summary::Figures { calls: Some((requested, made)), .. } => format!(
            "{} reads, writes and seeks were requested, {} system calls were made.",
            numbers::count(*requested),
            numbers::count(*made)
        ),
        _ => "No file had a buffer.".to_owned(),
    }
}
