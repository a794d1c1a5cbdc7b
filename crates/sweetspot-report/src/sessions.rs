//! Sessions of `tune` and `bench` in one form. Every figure is one that they, or the lab, computed.

use crate::bench::BenchReport;
use crate::data::{
    Cell, Claim, Cost, Fact, Factor, Judgement, Kind, NullControl, Part, Ratio, Run, Session,
};
use crate::figures::light;
use crate::numbers::{self, spoken, typed};
use crate::parts::{AS_EACH, cache_in_words};
use crate::shell::words as shell_words;
use crate::tune::TuneReport;
use sweetspot_core::size::BufferSize;
use sweetspot_lab::cost::{self, FittedCost, Light};
use sweetspot_lab::environment::Environment;
use sweetspot_lab::ladder::Ladder;
use sweetspot_lab::matrix;
use sweetspot_lab::measure::Measurement;
use sweetspot_lab::paired::{CONFIDENCE_FIXED, Effect};
use sweetspot_lab::plan::{Figure, Plan};
use sweetspot_lab::search::{self, OFF, Phase, Round};
use sweetspot_lab::statistics::{Estimate, Interval};
use sweetspot_lab::store::{self, CellRun, Ended, Kept};

/// More sentences are a list, below one that counts them.
const SENTENCES_MAX: usize = 3;

/// A session of `tune`, understood.
pub struct StoredTune {
    pub command: Vec<String>,
    pub sizes: Ladder,
    pub plan: search::Plan,
    /// All runs, also those of a round that is not whole.
    pub runs: Vec<store::Run>,
    /// The whole rounds.
    pub rounds: Vec<Round>,
    pub report: TuneReport,
    pub environment: Option<Environment>,
}

/// A session of `bench`, understood.
pub struct StoredBench {
    pub plan: Plan,
    pub runs: Vec<CellRun>,
    pub report: BenchReport,
    pub environment: Option<Environment>,
}

/// A search.
///
/// # Errors
/// Where figures are no positive numbers.
pub fn tuned(kept: &Kept, stored: &StoredTune) -> Result<Session, sweetspot_lab::Error> {
    let StoredTune { plan, report, rounds, .. } = stored;
    let cells = settings(stored)?;
    let place = |name: &Option<String>| {
        cells.iter().position(|cell| Some(&cell.levels[0]) == name.as_ref())
    };
    let (sweet_spot, base) = (place(&report.smallest), place(&report.base));
    let advised = place(&report.buffer);
    let runs: Vec<Run> = (stored.runs.iter())
        .map(|ran| Run {
            phase: Some(format!("{:?}", ran.phase).to_lowercase()),
            counts: true,
            figure: Some(ran.figure),
            ..run(&ran.measurement, (ran.round, ran.place, ran.setting))
        })
        .collect();
    let busy = report.disturbed_runs;
    let how = format!(
        "{} runs, each a fresh process, {} cache, in random rounds from seed {}; {busy} of \
         them were disturbed by other load, and none was dropped",
        runs.len(),
        report.cache,
        plan.seed
    );
    let mut notes = report.notes.clone();
    if !report.checked.is_empty() {
        notes.push(format!("the same in every run: {}", report.checked.join(", ")));
    }
    let mut session = Session {
        kind: Kind::Tune,
        title: shell_words(&stored.command),
        sentences: std::iter::once(&report.sentence).chain(&report.compared).cloned().collect(),
        how,
        rounds: rounds.len(),
        seed: plan.seed,
        cache: report.cache.clone(),
        unit: "s".to_owned(),
        margin: plan.within,
        factors: vec![Factor {
            name: "buffer".to_owned(),
            levels: cells.iter().map(|cell| cell.levels[0].clone()).collect(),
        }],
        sweet_spot,
        confirmed: report.confirmed,
        advised,
        base,
        notes,
        environment: facts(stored.environment.as_ref()),
        runs,
        cells,
        ..begun(kept)
    };
    let all = (0..session.cells.len()).collect();
    session.costs.extend(costs(&session, "all settings", all));
    Ok(session)
}

/// The settings of a search: a size each, no buffering, and `auto`.
fn settings(stored: &StoredTune) -> Result<Vec<Cell>, sweetspot_lab::Error> {
    let StoredTune { sizes, report, rounds, .. } = stored;
    let mut cells = Vec::new();
    for setting in sizes.settings() {
        let row = report.settings.iter().find(|row| row.setting == setting);
        let buffer = sizes.buffer(setting);
        let ratio = search::ratio(rounds, Phase::Pilot, setting, OFF, CONFIDENCE_FIXED)?;
        cells.push(Cell {
            name: spoken(buffer),
            levels: vec![typed(buffer)],
            buffer_bytes: match buffer {
                BufferSize::Bytes(bytes) => Some(u64::from(bytes)),
                _ => None,
            },
            cache: report.cache.clone(),
            runs: row.map_or(0, |row| row.runs),
            median: row.map(|row| row.median_seconds),
            baseline: (setting != OFF).then_some(OFF),
            ratio: ratio.filter(|_| setting != OFF).map(of_estimate),
            ratio_to_base: row.and_then(|row| {
                let (low, high, rounds) = (row.low, row.high, row.pairs);
                Some(Ratio { value: row.ratio?, low, high, rounds })
            }),
            peak_memory_bytes: row.map(|row| row.peak_memory_bytes),
            without: (setting != OFF).then_some(OFF),
            ..Cell::default()
        });
    }
    Ok(cells)
}

/// Runs of a plan.
pub fn measured(kept: &Kept, stored: &StoredBench) -> Session {
    let StoredBench { plan, report, .. } = stored;
    let claims: Vec<Claim> = std::iter::zip(&report.claims, &report.sentences)
        .map(|(claim, text)| Claim { text: text.clone(), judgement: judgement(claim.judgement) })
        .collect();
    let sentences = match report.sentences.as_slice() {
        [] => vec!["No result yet: no cell was compared with another.".to_owned()],
        some if some.len() <= SENTENCES_MAX => some.to_vec(),
        _ => vec![tally(&claims)],
    };
    let unit = report.cells.iter().find(|row| row.runs > 0).map_or("s", |row| row.unit.as_str());
    let mut session = Session {
        kind: Kind::Bench,
        title: report.title.clone(),
        question: report.question.clone(),
        claims: if sentences.len() == claims.len() { Vec::new() } else { claims },
        sentences,
        how: format!(
            "{} runs, each a fresh process, {} rounds after one to warm up, in random order from \
             seed {}, {}",
            report.runs,
            report.rounds,
            report.seed,
            cache_in_words(&same(report.cells.iter().map(|row| row.cache)))
        ),
        rounds: report.rounds,
        seed: report.seed,
        cache: same(report.cells.iter().map(|row| row.cache)),
        unit: unit.to_owned(),
        margin: report.margin,
        factors: (plan.varying())
            .map(|factor| &plan.factors[factor])
            .map(|factor| Factor { name: factor.name.clone(), levels: factor.levels.clone() })
            .collect(),
        null_control: report.null_control.as_ref().map(|found| null_control(report, found)),
        published: report.published.clone(),
        notes: notes(report),
        environment: facts(stored.environment.as_ref()),
        runs: stored.runs.iter().map(cell_run).collect(),
        cells: cells_of_plan(stored),
        ..begun(kept)
    };
    if plan.figure == Figure::Wall {
        session.costs = costs_of_programs(plan, &session);
    }
    session
}

/// The cells of a plan.
fn cells_of_plan(stored: &StoredBench) -> Vec<Cell> {
    let StoredBench { plan, report, .. } = stored;
    let called = |name: &Option<String>| {
        name.as_ref()
            .and_then(|name| (0..plan.cells.len()).find(|cell| plan.called(*cell) == *name))
    };
    (report.cells.iter().enumerate())
        .map(|(number, row)| Cell {
            name: row.name.clone(),
            levels: row.levels.clone(),
            cache: row.cache.to_owned(),
            runs: row.runs,
            median: row.median,
            baseline: called(&row.reference),
            ratio: row.effect.map(of_effect),
            verdict: Some(report.mark(row)).filter(|mark| !mark.is_empty()),
            peak_memory_bytes: row.peak_memory_bytes,
            samples: row.samples.clone(),
            samples_unit: samples_unit(&stored.runs, number),
            published: row.published.clone(),
            without: without(plan, number),
            given_up: row.given_up.clone(),
            ..Cell::default()
        })
        .collect()
}

/// What else is to be known of the runs of a plan.
fn notes(report: &BenchReport) -> Vec<String> {
    let mut notes: Vec<String> =
        report.skipped.iter().map(|why| format!("skipped: {why}")).collect();
    notes.extend(report.shift_words());
    notes.extend(report.notes.iter().cloned());
    if !report.nodes.is_empty() {
        notes.push(format!(
            "run on {}; cells are compared over the rounds in which both ran on the same node",
            report.nodes.join(", ")
        ));
    }
    notes
}

/// A cost model for each program, and one for it under sweetspot: starts differ. Only of times of whole
/// processes; what a program reports itself is none.
fn costs_of_programs(plan: &Plan, session: &Session) -> Vec<Cost> {
    let programs = plan.programs.iter().enumerate();
    let kinds =
        programs.flat_map(|program| [(program, false, ""), (program, true, " under sweetspot")]);
    let found = kinds.filter_map(|((number, program), is_under, words)| {
        let is_meant = |cell: &usize| {
            plan.cells[*cell].program() == number && is_under_sweetspot(plan, *cell) == is_under
        };
        let cells = (0..plan.cells.len()).filter(is_meant).collect();
        costs(session, &format!("{}{words}", program.name), cells)
    });
    found.collect()
}

fn judgement(judgement: matrix::Judgement) -> Judgement {
    match judgement {
        matrix::Judgement::Holds => Judgement::Holds,
        matrix::Judgement::DoesNotHold => Judgement::DoesNotHold,
        matrix::Judgement::Open => Judgement::Open,
        matrix::Judgement::NotMeasured => Judgement::NotMeasured,
    }
}

/// Many claims in one sentence.
fn tally(claims: &[Claim]) -> String {
    let words = [
        (Judgement::Holds, "hold"),
        (Judgement::DoesNotHold, "do not hold"),
        (Judgement::Open, "are open"),
        (Judgement::NotMeasured, "were not measured"),
    ];
    let count = |wanted| claims.iter().filter(|claim| claim.judgement == wanted).count();
    let parts = words.iter().map(|(wanted, words)| (count(*wanted), words));
    let parts: Vec<String> = parts
        .filter(|(count, _)| *count > 0)
        .map(|(count, words)| format!("{count} {words}"))
        .collect();
    format!("Of {} claims {}.", claims.len(), parts.join(", "))
}

/// What is known of every one.
fn begun(kept: &Kept) -> Session {
    Session {
        number: kept.number,
        begun: kept.begun.clone(),
        finished: kept.result.is_some(),
        ..Session::default()
    }
}

fn same<'a>(mut words: impl Iterator<Item = &'a str>) -> String {
    let first = words.next().unwrap_or_default();
    if words.all(|word| word == first) { first.to_owned() } else { AS_EACH.to_owned() }
}

fn of_estimate(estimate: Estimate) -> Ratio {
    ratio(estimate.value, estimate.interval, estimate.samples)
}

fn of_effect(effect: Effect) -> Ratio {
    ratio(effect.ratio, effect.interval, effect.rounds)
}

fn ratio(value: f64, interval: Option<Interval>, rounds: usize) -> Ratio {
    let (low, high) = interval.map(|interval| (interval.low, interval.high)).unzip();
    Ratio { value, low, high, rounds }
}

/// Whether something of sweetspot's stands before its command.
fn is_under_sweetspot(plan: &Plan, cell: usize) -> bool {
    let mut words = plan.changes(&plan.cells[cell]).flat_map(|change| &change.before);
    words.any(|word| word.names().any(|name| name == "sweetspot"))
}

fn samples_unit(runs: &[CellRun], cell: usize) -> Option<String> {
    let mut observed = runs.iter().filter(|run| run.cell == cell).filter_map(CellRun::observed);
    observed.find_map(|observed| Some(observed.samples.as_ref()?.unit.clone()))
}

/// The cell that differs from this one in that nothing of sweetspot's stands before its command.
fn without(plan: &Plan, cell: usize) -> Option<usize> {
    let is_under = |cell: usize| is_under_sweetspot(plan, cell);
    let factors = |one: usize, other: usize| {
        let (one, other) = (&plan.cells[one], &plan.cells[other]);
        (0..plan.factors.len()).filter(|at| one.level(*at) != other.level(*at)).count()
    };
    let mut others = 0..plan.cells.len();
    let is_twin = |other: usize| plan.twin.is_some_and(|(twin, _)| twin == other);
    (is_under(cell)).then(|| {
        others.find(|other| !is_twin(*other) && !is_under(*other) && factors(cell, *other) == 1)
    })?
}

fn null_control(report: &BenchReport, found: &matrix::NullControl) -> NullControl {
    NullControl {
        text: report.control(found).replace('\n', " ").trim().to_owned(),
        ratio: of_effect(found.effect),
        noise_floor: found.noise_floor(),
        autocorrelation: found.autocorrelation,
        smallest_effect: found.smallest_effect(report.margin),
    }
}

fn run(measurement: &Measurement, (round, place, cell): (usize, usize, usize)) -> Run {
    let Measurement { usage, transfers, .. } = measurement;
    Run {
        round,
        place,
        cell,
        wall_seconds: measurement.wall.as_secs_f64(),
        user_seconds: usage.user.as_secs_f64(),
        system_seconds: usage.system.as_secs_f64(),
        peak_memory_bytes: usage.peak_memory_bytes,
        read_calls: transfers.read_calls,
        write_calls: transfers.write_calls,
        read_bytes: transfers.read_bytes,
        written_bytes: transfers.written_bytes,
        minor_faults: usage.minor_faults,
        major_faults: usage.major_faults,
        voluntary_switches: usage.voluntary_switches,
        involuntary_switches: usage.involuntary_switches,
        disturbed: measurement.is_disturbed(),
        ..Run::default()
    }
}

fn cell_run(ran: &CellRun) -> Run {
    let at = (ran.round, ran.place, ran.cell);
    let base = match &ran.ended {
        Ended::Measured(observed) => Run {
            figure: Some(observed.figure),
            output: observed.output.clone(),
            counts: ran.round > 0,
            ..run(&observed.measurement, at)
        },
        Ended::GivenUp(reason) => {
            let (round, place, cell) = at;
            Run { round, place, cell, given_up: Some(reason.clone()), ..Run::default() }
        }
    };
    Run { node: Some(ran.node.clone()).filter(|node| !node.is_empty()), ..base }
}

/// What the runs of these cells cost.
fn costs(session: &Session, name: &str, cells: Vec<usize>) -> Option<Cost> {
    let is_meant = |run: &&Run| run.counts && cells.contains(&run.cell);
    let lights: Vec<Light> = session.runs.iter().filter(is_meant).map(light).collect();
    let FittedCost { fixed, call, byte, runs, error } = cost::fit(&lights, session.seed)?;
    let part = |part: cost::Part| Part {
        value: part.value,
        low: part.interval.low,
        high: part.interval.high,
    };
    Some(Cost {
        name: name.to_owned(),
        fixed_seconds: part(fixed),
        call_seconds: part(call),
        byte_seconds: byte.map(part),
        runs,
        error,
        cells,
    })
}

fn facts(environment: Option<&Environment>) -> Vec<Fact> {
    let Some(found) = environment else { return Vec::new() };
    let mut facts = Vec::new();
    let mut add = |name: &str, value: String| {
        facts.push(Fact { name: name.to_owned(), value });
    };
    add("date", found.date.clone());
    let machine = if found.virtual_machine { " (a virtual machine)" } else { "" };
    add("processor", format!("{}, {} of them{machine}", found.processor, found.processors));
    add("memory", numbers::axis_size(found.memory_bytes as f64));
    add("kernel", format!("{}, {}", found.kernel, found.architecture));
    found.distribution.iter().for_each(|name| add("distribution", name.clone()));
    let options = found.file_system.options.join(",");
    add("file system", format!("{} ({options})", found.file_system.kind));
    found.governor.iter().for_each(|governor| add("governor", governor.clone()));
    found.huge_pages.iter().for_each(|pages| add("huge pages", pages.clone()));
    found.versions.iter().for_each(|(name, version)| add(name, version.clone()));
    facts
}
