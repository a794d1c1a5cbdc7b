//! Reads what was named: stores of `tune` and `bench`, profiles, summaries, and reports that were
//! written as JSON. What a file is follows from how it begins, not from its name.

use crate::arguments;
use crate::experiment::lab;
use crate::named;
use crate::profile::compare;
use crate::{bench, tune};
use std::io::Read;
use std::path::Path;
use sweetspot_lab::store::{Kept, Store};
use sweetspot_report::data::{NamedProfile, NamedSummary, Report, SCHEMA, Session};
use sweetspot_report::failure::Failure;
use sweetspot_report::sessions;
use sweetspot_report::shown::shown;
use sweetspot_report::summary;

/// How every database begins.
const DATABASE: &[u8] = b"SQLite format 3\0";
/// No profile or report is larger; `report big.dat` ends quickly.
const TEXT_MEBIBYTES_MAX: u64 = 256;
/// Sessions that are named one by one.
const LISTED_MAX: usize = 8;

/// Reads all files that were named.
///
/// # Errors
/// Where one cannot be read, or is nothing that can be reported.
pub fn report(arguments: &arguments::Report) -> Result<Report, Failure> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let mut report = Report { sweetspot_report: SCHEMA, version, ..Report::default() };
    for path in &arguments.files {
        let file = named::open(path).map_err(|error| unread(path, &error))?;
        let mut start = Vec::new();
        let read = (&file).take(DATABASE.len() as u64).read_to_end(&mut start);
        read.map_err(|error| unread(path, &error))?;
        if start == DATABASE {
            add_store(&mut report, path, arguments.session)?;
        } else {
            add_text(&mut report, path, start.chain(file))?;
        }
        // A report of several files has said where each session came from.
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        for session in report.sessions.iter_mut().filter(|session| session.file.is_empty()) {
            session.file = stem.to_string();
        }
    }
    Ok(report)
}

const WANTED: &str = "what it takes: the file that tune or bench keeps its runs in (--store), or what \
                      profile --json or run --summary wrote";

fn unread(path: &Path, error: &std::io::Error) -> Failure {
    Failure::own(format!("{}: {error}", shown(path))).next(WANTED)
}

fn add_text(report: &mut Report, path: &Path, content: impl Read) -> Result<(), Failure> {
    let shown = shown(path);
    let failure = |what: &str| Failure::own(format!("{shown}: {what}")).next(WANTED);
    let bytes = named::rest(content, TEXT_MEBIBYTES_MAX).map_err(|error| unread(path, &error))?;
    let Ok(text) = String::from_utf8(bytes) else {
        return Err(failure("report cannot read this kind of file"));
    };
    // What a JSON document is about is said by its first field.
    let first = text.trim_start().strip_prefix('{').map(str::trim_start);
    if text.starts_with(summary::TITLE) {
        report.summaries.push(NamedSummary { file: shown, text });
    } else if first.is_some_and(|first| first.starts_with("\"sweetspot_profile\"")) {
        let profile = compare::understood(&text, &shown)?;
        report.profiles.push(NamedProfile { file: shown, profile });
    } else if first.is_some_and(|first| first.starts_with("\"sweetspot_report\"")) {
        let again = "make it with: sweetspot report RESULTS --json";
        let older: Report = serde_json::from_str(&text)
            .map_err(|error| Failure::own(format!("{shown}: {error}")).next(again))?;
        if older.sweetspot_report != SCHEMA {
            let version = older.sweetspot_report;
            let what = format!("{shown}: schema {version}, and this sweetspot reads {SCHEMA}");
            return Err(Failure::own(what).next(again));
        }
        if !older.sessions.iter().all(Session::is_whole) {
            let what = format!("{shown}: it names cells that it does not have");
            return Err(Failure::own(what).next(again));
        }
        report.sessions.extend(older.sessions);
        report.profiles.extend(older.profiles);
        report.summaries.extend(older.summaries);
        report.notes.extend(older.notes);
    } else {
        return Err(failure("report cannot read this kind of file"));
    }
    Ok(())
}

fn add_store(report: &mut Report, path: &Path, wanted: Option<i64>) -> Result<(), Failure> {
    let shown = shown(path);
    let store = Store::open_to_read(path).map_err(|error| lab(error).next(WANTED))?;
    let kept = store.kept().map_err(|error| lab(error).next(WANTED))?;
    let with_runs: Vec<&Kept> = kept.iter().filter(|kept| kept.runs > 0).collect();
    let numbers = |all: &[&Kept]| {
        let first = all.iter().take(LISTED_MAX).map(|kept| kept.number.to_string());
        let more = if all.len() > LISTED_MAX { ", ..." } else { "" };
        first.collect::<Vec<_>>().join(", ") + more
    };
    let found = match wanted {
        None => with_runs.first(),
        Some(number) => with_runs.iter().find(|kept| kept.number == number),
    };
    let Some(found) = found else {
        return Err(match (wanted, with_runs.is_empty()) {
            (Some(number), false) => {
                Failure::own(format!("{shown}: it has no runs of a session {number}"))
                    .next(format!("its sessions: {}", numbers(&with_runs)))
            }
            _ => Failure::own(format!("{shown}: no run is finished yet")).next(
                "try again when there is one; a session begins with: sweetspot tune --store FILE \
                 -- CMD, or sweetspot bench PLAN",
            ),
        });
    };
    let damaged = |failure: Failure| match failure.next_step() {
        Some(_) => failure,
        None => failure.next("show another session (--session NUMBER), or measure again"),
    };
    if tune::stored::is_one(found) {
        let stored = tune::stored::read(&store, found, path).map_err(damaged)?;
        report.sessions.push(sessions::tuned(found, &stored).map_err(lab)?);
    } else if bench::stored::is_one(found) {
        let stored = bench::stored::read(&store, found, path).map_err(damaged)?;
        report.sessions.push(sessions::measured(found, &stored));
    } else {
        return Err(
            Failure::own(format!("{shown}: session {} is unknown", found.number)).next(WANTED)
        );
    }
    let others: Vec<&Kept> =
        with_runs.iter().copied().filter(|kept| kept.number != found.number).collect();
    if !others.is_empty() && wanted.is_none() {
        let what = if others.len() == 1 { "session" } else { "sessions" };
        report.notes.push(format!(
            "{shown} has {} {what} more; to see one: --session NUMBER, of {}",
            others.len(),
            numbers(&others)
        ));
    }
    Ok(())
}
