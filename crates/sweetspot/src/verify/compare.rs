//! Compares two runs in all that can be seen, and learns what differs by itself.
//!
//! A difference has an item (a file, stdout, stderr, the end) and an aspect of it. What two runs
//! without buffering differ in is *noise*: that aspect of that item says nothing about buffering.
//! Noise that is only times, process numbers or temporary names still leaves the rest of the item to
//! be compared; any other noise makes the item useless for a verdict, and is said.

use super::content;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use sweetspot_lab::alike::Span;
use sweetspot_report::numbers;
use sweetspot_report::shown::shown;
use sweetspot_report::verify::{Aspect, Difference, Item, Noise};
use sweetspot_sandbox::{Changes, Content, End, Entry, Kind};

/// All that can be seen of one run.
pub struct Outcome {
    pub end: End,
    pub stdout: Content,
    pub stderr: Content,
    pub changes: Changes,
    /// What the run did not change is still as it was.
    pub elsewhere: Elsewhere,
    pub span: Span,
    /// From the start of the program to its end, without what the sandbox costs.
    pub seconds: f64,
    /// Names of processes that it left running.
    pub left_running: Vec<String>,
}

/// How a file looks that a run did not change.
pub enum Elsewhere {
    /// As it lies there now: no run touches it.
    AsItIs,
    /// As it was seen before the run.
    Before(BTreeMap<PathBuf, Entry>),
}

impl Outcome {
    fn seen(&self, changes: &Changes, path: &Path) -> Option<Entry> {
        match (changes.get(path), &self.elsewhere) {
            (Some(change), _) => change.clone(),
            (None, Elsewhere::AsItIs) => Entry::at(path).ok(),
            (None, Elsewhere::Before(before)) => before.get(path).cloned(),
        }
    }

    /// Whether the time of what is seen at a path is of this run.
    fn saw_time(&self, changes: &Changes, path: &Path) -> bool {
        matches!(self.elsewhere, Elsewhere::Before(_)) || changes.contains_key(path)
    }
}

/// Learns from two runs that should be alike. Says whether there was anything to learn.
///
/// # Errors
/// Where a content cannot be read.
pub fn learn(noise: &mut Noise, left: &Outcome, right: &Outcome) -> io::Result<bool> {
    learn_names(noise, left, right);
    learn_times(noise, left, right);
    let found = differences(left, right, noise)?;
    for difference in &found {
        if difference.aspect == Aspect::Content
            && let Some(lines) = only_times(&difference.item, left, right, noise)?
        {
            noise.times.entry(difference.item.clone()).or_default().extend(lines);
            continue;
        }
        noise.known.insert((difference.item.clone(), difference.aspect));
    }
    Ok(!found.is_empty())
}

/// A folder that only one of them touched may be touched by others.
fn learn_times(noise: &mut Noise, left: &Outcome, right: &Outcome) {
    let entries = left.changes.iter().chain(&right.changes);
    let is_folder = |change: &Option<Entry>| {
        change.as_ref().is_some_and(|entry| matches!(entry.kind, Kind::Folder))
    };
    for (path, _) in entries.filter(|(_, change)| is_folder(change)) {
        let both = [left, right].map(|run| run.saw_time(&run.changes, path));
        if both.contains(&false) {
            noise.known.insert((Item::File(path.clone()), Aspect::Modified));
        }
    }
}

/// A folder in which both have as many new names that the other lacks has temporary names.
fn learn_names(noise: &mut Noise, left: &Outcome, right: &Outcome) {
    let made = |one: &Changes, other: &Changes| -> BTreeMap<PathBuf, usize> {
        let mut folders = BTreeMap::new();
        for path in only_in(one, other) {
            *folders.entry(path.parent().unwrap_or(path).to_owned()).or_default() += 1;
        }
        folders
    };
    let right_made = made(&right.changes, &left.changes);
    let both = made(&left.changes, &right.changes)
        .into_iter()
        .filter(|(folder, count)| right_made.get(folder) == Some(count));
    noise.temporary.extend(both.map(|(folder, _)| folder));
}

/// Names that are there in one and not in the other, without those below such names.
fn only_in<'a>(one: &'a Changes, other: &Changes) -> Vec<&'a Path> {
    let is_there = |changes: &Changes, path: &Path| matches!(changes.get(path), Some(Some(_)));
    let mut found: Vec<&Path> = Vec::new();
    for path in one.keys().filter(|path| is_there(one, path) && !is_there(other, path)) {
        // Sorted: what is below a name follows it.
        if !found.last().is_some_and(|above| path.starts_with(above)) {
            found.push(path);
        }
    }
    found
}

/// Gives the temporary names of `right` the names that `left` has for them.
pub(super) fn aligned(left: &Changes, right: &Changes, temporary: &BTreeSet<PathBuf>) -> Changes {
    let mut names = BTreeMap::new();
    for folder in temporary {
        let sorted = |one: &Changes, other: &Changes| -> Vec<PathBuf> {
            let mut paths = only_in(one, other);
            paths.retain(|path| path.parent() == Some(folder));
            paths.sort_by_cached_key(|path| likeness(one, path));
            paths.into_iter().map(Path::to_owned).collect()
        };
        names.extend(sorted(right, left).into_iter().zip(sorted(left, right)));
    }
    if names.is_empty() {
        return right.clone();
    }
    let renamed = |path: &Path| {
        let above = path.ancestors().find_map(|above| Some((above, names.get(above)?)));
        match above.and_then(|(above, name)| Some((name, path.strip_prefix(above).ok()?))) {
            Some((name, rest)) if rest.as_os_str().is_empty() => name.clone(),
            Some((name, rest)) => name.join(rest),
            None => path.to_owned(),
        }
    };
    right.iter().map(|(path, change)| (renamed(path), change.clone())).collect()
}

/// By this temporary names of two runs find each other: what they are, how large, what is inside.
fn likeness(changes: &Changes, path: &Path) -> Vec<(String, u64, Vec<[u8; 32]>)> {
    let below = changes.range(path.to_owned()..).take_while(|(other, _)| other.starts_with(path));
    below
        .filter_map(|(other, change)| {
            let entry = change.as_ref()?;
            let name = other.strip_prefix(path).ok()?.display().to_string();
            let mut content = entry.content().cloned();
            let _ = content.as_mut().map(Content::keep_hashes_only);
            let hashes = match content.as_ref().map(|content| &content.kept) {
                Some(sweetspot_sandbox::Kept::Hashes(hashes)) => hashes.clone(),
                _ => Vec::new(),
            };
            Some((name, content.map_or(0, |content| content.len), hashes))
        })
        .collect()
}

/// Everything in which two runs differ, beyond what is known to differ.
///
/// # Errors
/// Where a content cannot be read.
pub fn differences(left: &Outcome, right: &Outcome, noise: &Noise) -> io::Result<Vec<Difference>> {
    let mut found = Vec::new();
    if left.end != right.end {
        let sides = [left.end, right.end].map(words_of_end);
        found.push(Difference { item: Item::End, aspect: Aspect::End, sides, place: None });
    }
    for (item, left, right) in
        [(Item::Stdout, &left.stdout, &right.stdout), (Item::Stderr, &left.stderr, &right.stderr)]
    {
        found.extend(content_difference(item, left, right)?);
    }
    let changes = aligned(&left.changes, &right.changes, &noise.temporary);
    let paths: BTreeSet<&PathBuf> = left.changes.keys().chain(changes.keys()).collect();
    for path in paths {
        let sides = [left.seen(&left.changes, path), right.seen(&changes, path)];
        match sides {
            [Some(one), Some(other)] => {
                let partners = [partner(&left.changes, &one), partner(&changes, &other)];
                let mut here = entry_differences(path, [&one, &other], partners)?;
                // A folder that a run left alone has the time at which others last made a name in it.
                if matches!(one.kind, Kind::Folder)
                    && !(left.saw_time(&left.changes, path) && right.saw_time(&changes, path))
                {
                    here.retain(|difference| difference.aspect != Aspect::Modified);
                }
                found.extend(here);
            }
            [None, None] => {}
            [one, _] => {
                let words = if one.is_some() { ["there", "missing"] } else { ["missing", "there"] };
                found.push(Difference {
                    item: Item::File(path.clone()),
                    aspect: Aspect::Presence,
                    sides: words.map(str::to_owned),
                    place: None,
                });
            }
        }
    }
    let mut left_over = Vec::new();
    for difference in found {
        if !is_noise(&difference, left, right, noise)? {
            left_over.push(difference);
        }
    }
    Ok(left_over)
}

fn is_noise(
    difference: &Difference,
    left: &Outcome,
    right: &Outcome,
    noise: &Noise,
) -> io::Result<bool> {
    if noise.known.contains(&(difference.item.clone(), difference.aspect)) {
        return Ok(true);
    }
    match noise.times.get(&difference.item) {
        Some(known) if difference.aspect == Aspect::Content => {
            let lines = only_times(&difference.item, left, right, noise)?;
            Ok(lines.is_some_and(|lines| lines.is_subset(known)))
        }
        _ => Ok(false),
    }
}

fn only_times(
    item: &Item,
    left: &Outcome,
    right: &Outcome,
    noise: &Noise,
) -> io::Result<Option<BTreeSet<usize>>> {
    let aligned = aligned(&left.changes, &right.changes, &noise.temporary);
    let content_of = |outcome: &Outcome, changes: &Changes| match item {
        Item::Stdout => Some(outcome.stdout.clone()),
        Item::Stderr => Some(outcome.stderr.clone()),
        Item::File(path) => outcome.seen(changes, path).and_then(|entry| entry.content().cloned()),
        Item::End => None,
    };
    let (Some(one), Some(other)) = (content_of(left, &left.changes), content_of(right, &aligned))
    else {
        return Ok(None);
    };
    let with_names = |run: &Outcome, other: &Outcome| {
        let new = only_in(&run.changes, &other.changes).into_iter();
        let temporary =
            new.filter(|path| path.parent().is_some_and(|folder| noise.temporary.contains(folder)));
        let names = temporary.filter_map(|path| Some(path.file_name()?.as_bytes().to_vec()));
        Span { names: names.collect(), ..run.span.clone() }
    };
    let (one_span, other_span) = (with_names(left, right), with_names(right, left));
    content::only_times((&one, &one_span), (&other, &other_span))
}

fn content_difference(
    item: Item,
    left: &Content,
    right: &Content,
) -> io::Result<Option<Difference>> {
    let place = content::first_difference(left, right)?;
    let sides = [left, right].map(|content| numbers::exact_bytes(content.len));
    Ok(place.map(|place| Difference { item, aspect: Aspect::Content, sides, place: Some(place) }))
}

/// The first other name of the same file.
fn partner(changes: &Changes, entry: &Entry) -> Option<PathBuf> {
    if entry.links < 2 || matches!(entry.kind, Kind::Folder) {
        return None;
    }
    let is_same = |other: &Entry| other.inode == entry.inode && other.links == entry.links;
    changes
        .iter()
        .find(|(_, other)| other.as_ref().is_some_and(is_same))
        .map(|(path, _)| path.clone())
}

fn entry_differences(
    path: &Path,
    [left, right]: [&Entry; 2],
    [left_partner, right_partner]: [Option<PathBuf>; 2],
) -> io::Result<Vec<Difference>> {
    let mut found = Vec::new();
    let mut differ = |aspect, sides: [String; 2]| {
        if sides[0] != sides[1] {
            found.push(Difference {
                item: Item::File(path.to_owned()),
                aspect,
                sides,
                place: None,
            });
        }
    };
    let both = [left, right];
    differ(Aspect::Kind, both.map(words_of_kind));
    differ(Aspect::Mode, both.map(|entry| format!("mode {:o}", entry.mode)));
    differ(
        Aspect::Owner,
        both.map(|entry| format!("owner {}, group {}", entry.owner.0, entry.owner.1)),
    );
    let links = |entry: &Entry, partner: Option<PathBuf>| match partner {
        Some(partner) => format!("{} names, one of them {}", entry.links, shown(&partner)),
        None => format!("{} names", entry.links),
    };
    differ(Aspect::Links, [links(left, left_partner), links(right, right_partner)]);
    differ(Aspect::Attributes, both.map(words_of_attributes));
    let item = Item::File(path.to_owned());
    let content = match (left.content(), right.content()) {
        (Some(left), Some(right)) => content_difference(item, left, right)?,
        _ => None,
    };
    // With another content another time goes without saying.
    if content.is_none() {
        differ(Aspect::Modified, both.map(|entry| words_of_time(entry.modified)));
    }
    found.extend(content);
    Ok(found)
}

/// How a run ended, in words.
pub fn words_of_end(end: End) -> String {
    match end {
        End::Exited(status) => format!("exit status {status}"),
        End::Killed(signal) => format!("ended by signal {signal}"),
    }
}

fn words_of_kind(entry: &Entry) -> String {
    match &entry.kind {
        Kind::File(_) => "a file".to_owned(),
        Kind::Folder => "a folder".to_owned(),
        Kind::Link(target) => format!("a link to {}", shown(target)),
        Kind::Other(kind, number) => format!("of type {kind:o}, number {number}"),
    }
}

fn words_of_attributes(entry: &Entry) -> String {
    let words = |(name, value): (&Vec<u8>, &Vec<u8>)| {
        format!("{}={}", name.escape_ascii(), value.escape_ascii())
    };
    let all: Vec<String> = entry.attributes.iter().map(words).collect();
    if all.is_empty() { "no attributes".to_owned() } else { all.join(", ") }
}

fn words_of_time(nanoseconds: i128) -> String {
    let (seconds, rest) =
        (nanoseconds.div_euclid(1_000_000_000), nanoseconds.rem_euclid(1_000_000_000));
    format!("modified {seconds}.{rest:09} s after 1970")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweetspot_lab::alike::Pids;

    /// Whether a folder is among the changes depends on where the overlay is laid, and so on what
    /// others have mounted below it meanwhile.
    #[test]
    fn times_of_folders_that_a_run_left_alone_are_those_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let look = |modified| Entry { modified, ..Entry::at(&path).unwrap() };
        let run = |changes: &[Entry], elsewhere| Outcome {
            end: End::Exited(0),
            stdout: Content { len: 0, kept: sweetspot_sandbox::Kept::Hashes(Vec::new()) },
            stderr: Content { len: 0, kept: sweetspot_sandbox::Kept::Hashes(Vec::new()) },
            changes: changes.iter().map(|entry| (path.clone(), Some(entry.clone()))).collect(),
            elsewhere,
            span: Span {
                seconds: 0..=0,
                pids: Pids { first: 0, last: 0, max: 0 },
                names: Vec::new(),
            },
            seconds: 0.0,
            left_running: Vec::new(),
        };
        let check = |left: &Outcome, right: &Outcome, expected: &[Aspect]| {
            let found = differences(left, right, &Noise::default()).unwrap();
            let found: Vec<_> = found.iter().map(|difference| difference.aspect).collect();
            assert_eq!(found, expected);
        };
        let (alone, made) = (run(&[], Elsewhere::AsItIs), run(&[look(7)], Elsewhere::AsItIs));
        check(&alone, &made, &[]);
        check(&made, &alone, &[]);
        check(&made, &run(&[look(8)], Elsewhere::AsItIs), &[Aspect::Modified]);
        check(&alone, &run(&[Entry { mode: 0, ..look(7) }], Elsewhere::AsItIs), &[Aspect::Mode]);
        let mut noise = Noise::default();
        learn(&mut noise, &made, &alone).unwrap();
        let again = differences(&made, &run(&[look(8)], Elsewhere::AsItIs), &noise).unwrap();
        assert!(again.is_empty(), "what once only one of two runs touched says nothing later");
        let before = Elsewhere::Before([(path.clone(), look(6))].into());
        check(&run(&[], before), &run(&[look(7)], Elsewhere::AsItIs), &[Aspect::Modified]);
    }
}
