//! What `verify` says in the end: the verdict in one word, what it rests on, and what to type next.

use crate::numbers::{self, count, exact_bytes};
use crate::shell::quoted;
use crate::shown::shown;
use crate::summary::Figures;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;

/// How many items are listed where there are many.
const LISTED_MAX: usize = 20;

/// What differs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    End,
    Stdout,
    Stderr,
    File(PathBuf),
}

/// In what it differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aspect {
    Presence,
    Kind,
    Content,
    Mode,
    Owner,
    Links,
    Attributes,
    /// The time of modification, where it is the same in every run because the program sets it.
    Modified,
    /// Which of two files was modified last.
    Order,
    End,
}

/// One difference, with both sides in words, or the place in the content.
#[derive(Clone, Debug)]
pub struct Difference {
    pub item: Item,
    pub aspect: Aspect,
    pub sides: [String; 2],
    pub place: Option<FirstDifference>,
}

/// Where two contents differ first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstDifference {
    /// The byte, counted from 0; where only hashes are left, the first of a block that holds it.
    pub at: u64,
    /// The line, counted from 1.
    pub line: Option<u64>,
    /// What both have there, where it was kept; empty: it ends there.
    pub sides: Option<[Vec<u8>; 2]>,
}

/// What differs from run to run by itself.
#[derive(Default)]
pub struct Noise {
    /// Cannot be compared.
    pub known: BTreeSet<(Item, Aspect)>,
    /// Lines that differ in times and process numbers only.
    pub times: BTreeMap<Item, BTreeSet<usize>>,
    /// Folders in which names are made up anew each time.
    pub temporary: BTreeSet<PathBuf>,
}

impl Noise {
    /// What keeps a verdict from being told: everything but times.
    pub fn unexplained(&self) -> impl Iterator<Item = &(Item, Aspect)> {
        self.known.iter().filter(|(_, aspect)| *aspect != Aspect::Modified)
    }
}

/// A plain run, with which the others were compared.
pub struct Compared {
    /// How many files it wrote, and how much.
    pub files: u64,
    pub bytes: u64,
    pub removed: usize,
    /// In bytes.
    pub stdout: u64,
    pub stderr: u64,
    /// How it ended, in words.
    pub end: String,
    pub seconds: f64,
}

/// The verdict.
pub enum Word {
    Identical,
    /// At this size.
    Differs(Vec<Difference>, Option<OsString>),
    /// With the reason, where it is not that the program differs from itself.
    CannotTell(Option<String>),
}

/// A run under `run`.
pub struct Buffered {
    pub size: Option<OsString>,
    pub figures: Figures,
    pub seconds: f64,
}

/// The verdict, and what it rests on.
pub struct Verdict {
    pub word: Word,
    compared: String,
    buffered: Vec<String>,
    /// What differs by itself: all of it, and no more than times.
    unexplained: Vec<String>,
    times: Vec<String>,
    notes: Vec<String>,
}

impl Verdict {
    /// Nothing was run, because nothing would be buffered.
    pub fn never_run(why: String) -> Verdict {
        Verdict {
            word: Word::CannotTell(Some(why)),
            compared: "nothing: it was not run".to_owned(),
            buffered: Vec::new(),
            unexplained: Vec::new(),
            times: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// After all runs.
    pub fn new(
        word: Word,
        plain: &Compared,
        noise: &Noise,
        buffered: Vec<Buffered>,
        notes: Vec<String>,
    ) -> Verdict {
        let unexplained =
            noise.unexplained().map(|(item, aspect)| format!("{}: {}", name(item), of(*aspect)));
        let temporary = noise
            .temporary
            .iter()
            .map(|folder| format!("{}: temporary names in it", shown(folder)));
        let lines = |(item, lines): (&Item, &BTreeSet<usize>)| {
            let count = lines.len();
            let lines = if count == 1 { "line" } else { "lines" };
            format!("{}: times or process numbers in {count} {lines}", name(item))
        };
        Verdict {
            word,
            compared: plain.text(),
            buffered: buffered.iter().map(Buffered::text).collect(),
            unexplained: unexplained.collect(),
            times: noise.times.iter().map(lines).chain(temporary).collect(),
            notes,
        }
    }

    /// All of it. `command` was run, with `--stdio` or without.
    pub fn text(&self, command: &[OsString], stdio: bool) -> String {
        let mut text = String::new();
        match &self.word {
            Word::Identical => text.push_str("identical\n"),
            Word::Differs(..) => text.push_str("differs\n"),
            Word::CannotTell(Some(why)) => {
                let _ = writeln!(text, "cannot tell: {why}");
            }
            Word::CannotTell(None) => {
                text.push_str("cannot tell: the program's own results differ from run to run\n");
            }
        }
        if let Word::Differs(differences, size) = &self.word {
            show(&mut text, differences);
            row(&mut text, "again", &again(command, stdio, size.as_ref()));
        }
        row(&mut text, "compared", &self.compared);
        self.buffered.iter().for_each(|line| row(&mut text, "buffered", line));
        list(&mut text, "differ between plain runs too; not compared", &self.unexplained);
        list(&mut text, "differ between plain runs too; the rest was compared", &self.times);
        self.notes.iter().for_each(|note| row(&mut text, "note", note));
        text
    }
}

fn row(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "  {name:<10} {value}");
}

fn list(text: &mut String, title: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    let _ = writeln!(text, "  {title}:");
    for item in items.iter().take(LISTED_MAX) {
        let _ = writeln!(text, "    {item}");
    }
    if items.len() > LISTED_MAX {
        let _ = writeln!(text, "    and {} more", items.len() - LISTED_MAX);
    }
}

/// The first difference in full, the others by name.
fn show(text: &mut String, differences: &[Difference]) {
    let Some((first, others)) = differences.split_first() else { return };
    let mut place = format!("{}: {}", name(&first.item), of(first.aspect));
    if let Some(found) = &first.place {
        let _ = match found.line {
            Some(line) => write!(place, " from byte {} (line {line}) on", found.at),
            None => write!(place, " after byte {}; it was too large to be kept", found.at),
        };
    }
    row(text, "first", &place);
    let shown = first.place.as_ref().and_then(|place| place.sides.as_ref());
    for (number, way) in ["as it is", "under run"].iter().enumerate() {
        let bytes = match shown {
            Some(sides) if sides[number].is_empty() => ", ends there".to_owned(),
            Some(sides) => format!(": \"{}\"", sides[number].escape_ascii()),
            None => String::new(),
        };
        row(text, way, &format!("{}{bytes}", first.sides[number]));
    }
    let others: Vec<_> = others
        .iter()
        .map(|other| {
            let [left, right] = &other.sides;
            format!("{}: {} ({left} | {right})", name(&other.item), of(other.aspect))
        })
        .collect();
    list(text, "and", &others);
}

fn name(item: &Item) -> String {
    match item {
        Item::End => "the end".to_owned(),
        Item::Stdout => "stdout".to_owned(),
        Item::Stderr => "stderr".to_owned(),
        Item::File(path) => shown(path),
    }
}

fn of(aspect: Aspect) -> &'static str {
    match aspect {
        Aspect::Presence => "whether it is there",
        Aspect::Kind => "what it is",
        Aspect::Content => "its content",
        Aspect::Mode => "its mode",
        Aspect::Owner => "its owner",
        Aspect::Links => "its names",
        Aspect::Attributes => "its attributes",
        Aspect::Modified => "its time of modification",
        Aspect::Order => "the order of modification",
        Aspect::End => "how it ends",
    }
}

/// The command that shows it again.
fn again(command: &[OsString], stdio: bool, size: Option<&OsString>) -> String {
    let mut words = "sweetspot verify ".to_owned();
    if let Some(size) = size {
        let _ = write!(words, "--sizes {} ", quoted(size));
    }
    if stdio {
        words.push_str("--stdio ");
    }
    words.push_str("--");
    for word in command {
        words.push(' ');
        words.push_str(&quoted(word));
    }
    words
}

impl Compared {
    fn text(&self) -> String {
        let removed = match self.removed {
            0 => String::new(),
            removed => format!(", {removed} removed"),
        };
        format!(
            "{} of {}{removed}, stdout {}, stderr {}, {}; took {}",
            numbers::files(self.files),
            exact_bytes(self.bytes),
            exact_bytes(self.stdout),
            exact_bytes(self.stderr),
            self.end,
            numbers::seconds(self.seconds)
        )
    }
}

impl Buffered {
    fn text(&self) -> String {
        let size = self.size.as_ref().map_or("default size".into(), shown);
        let what = match (&self.figures.inactive, self.figures.calls) {
            (Some(why), _) => return format!("no: {why}"),
            (None, Some((requested, made))) => {
                format!("{} calls requested, {} made", count(requested), count(made))
            }
            (None, None) => "it is not known what".to_owned(),
        };
        format!("{size}: {what}; took {}", numbers::seconds(self.seconds))
    }
}

/// An order of modification that a byte which waits can bring about.
pub fn note_of_order(difference: &Difference) -> String {
    format!(
        "{} was {} under run, and {} without; less than a second, which is how long a byte may wait",
        name(&difference.item),
        difference.sides[1],
        difference.sides[0].split(' ').nth(1).unwrap_or_default()
    )
}
