//! What reports are made of: sections of sentences, tables and figures; and how a session's own figures
//! and conditions are said.

use crate::chart::{Chart, Unit};
use crate::data::{Cell, Session};

/// Where cells differ in their cache.
pub const AS_EACH: &str = "as each cell has it";

/// A part of a report.
pub struct Section {
    pub heading: String,
    /// A line above it that says what kind of thing it is.
    pub kind: String,
    pub blocks: Vec<Block>,
}

pub enum Block {
    /// The plain sentence.
    Answer(String),
    Text(String),
    List(Vec<String>),
    Table(Table),
    /// Drawn in a page only; boxed, as each has a chart and a table.
    Figure(Box<Figure>),
    /// A text that is to stay as it is.
    Verbatim(String),
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub caption: String,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// So many columns at the left are words, the others figures.
    pub words: usize,
    /// A row that stands out.
    pub marked: Option<usize>,
}

/// A chart, what is said below it, and its table.
pub struct Figure {
    pub chart: Chart,
    pub caption: String,
    pub table: Table,
}

/// A figure of a session in words.
pub fn worded(session: &Session, value: Option<f64>) -> String {
    in_words(&session.unit, value)
}

pub(crate) fn in_words(named: &str, value: Option<f64>) -> String {
    let (unit, factor) = unit(named);
    value.map_or_else(String::new, |value| unit.text(value * factor))
}

/// What figures of a unit are, and how they become that.
pub fn unit(named: &str) -> (Unit, f64) {
    match named {
        "s" => (Unit::Seconds, 1.0),
        "ms" => (Unit::Seconds, 1e-3),
        "us" | "µs" => (Unit::Seconds, 1e-6),
        "ns" => (Unit::Seconds, 1e-9),
        other => (Unit::Other(other.to_owned()), 1.0),
    }
}

/// Whether it is measured a second time, to see how far equals differ.
pub fn is_twin(session: &Session, cell: &Cell) -> bool {
    session.null_control.is_some() && cell.name.ends_with(", again")
}

pub(crate) fn levels(session: &Session, cell: &Cell) -> Vec<String> {
    if session.factors.is_empty() { vec![cell.name.clone()] } else { cell.levels.clone() }
}

/// The runs in one sentence, as it belongs to each caption.
pub fn how(session: &Session) -> String {
    let (runs, rounds) = (session.runs.len(), session.rounds);
    let cache = cache_in_words(&session.cache);
    format!("{runs} runs in {rounds} rounds, in random order from seed {}, {cache}", session.seed)
}

/// The state of the cache, as it ends a sentence.
pub fn cache_in_words(cache: &str) -> String {
    match cache {
        "none" => "the cache left as it was".to_owned(),
        AS_EACH => format!("the cache {AS_EACH}"),
        cache => format!("{cache} cache"),
    }
}
