//! What is measured: a plan, read from a short TOML file and checked before anything runs.
//!
//! The *cells* are the product of the levels of all factors, the program being the first factor,
//! without those that an `[[exclude]]` names. A factor may belong to some cells only, such as the size
//! of a transfer to one of the programs. Whatever a plan says about cells (exclusions, the baseline,
//! claims) it says by naming levels.
//!
//! Invariants: a [`Plan`] that exists is valid. Every name in it was found, each placeholder means
//! something where it stands, and each comparison that it asks for has both its cells.
//!
//! Deliberately not here: anything that touches a file or runs a program. `docs/bench.md` has the
//! format for those who write plans.

mod document;
mod read;
mod template;
#[cfg(test)]
mod tests;

use crate::cache;
use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};
pub use template::Template;

/// The factor that every plan has: who does the work.
pub const PROGRAM: &str = "program";
/// What older plans call it. This release is the last that understands them.
pub const PROGRAM_BEFORE: &str = "subject";
/// The factor whose levels are states of the page cache, where there is one of that name.
pub const CACHE: &str = "cache";
/// The level of a cell that does not have the factor.
const ABSENT: usize = usize::MAX;
/// More cells would take days for one round.
pub const CELLS_MAX: usize = 1000;

/// A plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What it is called, and what it wants to know.
    pub title: String,
    pub question: Option<String>,
    /// The order of all runs follows from it; drawn by lot where the plan names none.
    pub seed: Option<u64>,
    /// When enough has been seen.
    pub stop: Stop,
    /// The difference that does not matter: 0.02 is 2 %.
    pub margin: f64,
    /// What is compared.
    pub figure: Figure,
    /// What the page cache holds of the data when a run begins, unless a factor says so.
    pub cache: Cache,
    /// No run may take longer.
    pub limit: Duration,
    /// The program first, then as they stand in the file.
    pub factors: Vec<Factor>,
    /// In the order of their levels, the last factor's changing fastest.
    pub cells: Vec<Cell>,
    pub data: Vec<Data>,
    /// In the order of the first factor's levels.
    pub programs: Vec<Program>,
    /// What others are held against: the levels that its cells have.
    pub baseline: Assignment,
    pub oracle: Oracle,
    pub claims: Vec<Claim>,
    pub published: Option<Published>,
    /// A cell that is the same as another one, to see how far equals seem to differ: the numbers of
    /// both.
    pub twin: Option<(usize, usize)>,
}

/// When a plan has seen enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stop {
    /// After this many rounds.
    Rounds(usize),
    /// When every ratio has a verdict or is known this well, or the time is up.
    Precision { within: f64, budget: Option<Duration> },
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Figure {
    /// The time from the start of the process to its end.
    Wall,
    /// The median of what the program itself reports.
    Samples,
}

/// What is done to the page cache before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// The data is brought into this state, and that is verified.
    Brought(cache::State),
    /// Nothing.
    AsItIs,
}

impl Cache {
    /// The word for it, as plans have it.
    pub fn name(self) -> &'static str {
        match self {
            Cache::Brought(cache::State::Warm) => "warm",
            Cache::Brought(cache::State::Cold) => "cold",
            Cache::AsItIs => "none",
        }
    }

    /// What a word means.
    pub fn named(word: &str) -> Option<Cache> {
        let all =
            [Cache::Brought(cache::State::Warm), Cache::Brought(cache::State::Cold), Cache::AsItIs];
        all.into_iter().find(|state| state.name() == word)
    }
}

/// Something that differs between cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factor {
    pub name: String,
    pub levels: Vec<String>,
    /// The cells that have it, by levels of factors before it.
    pub only: Selection,
}

/// One combination: for each factor the number of its level.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cell(Vec<usize>);

impl Cell {
    /// The number of its program.
    pub fn program(&self) -> usize {
        self.0[0]
    }

    /// The number of its level of a factor.
    pub fn level(&self, factor: usize) -> usize {
        self.0[factor]
    }

    /// The cell that differs from this one where `assignment` says so.
    fn with(&self, assignment: &Assignment) -> Cell {
        let mut cell = self.clone();
        assignment.0.iter().for_each(|&(factor, level)| cell.0[factor] = level);
        cell
    }

    /// Whether it has all levels of `assignment`, as far as it has the factors.
    fn has(&self, assignment: &Assignment) -> bool {
        assignment.0.iter().all(|&(factor, level)| [level, ABSENT].contains(&self.0[factor]))
    }
}

/// Factors, each with one of its levels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment(Vec<(usize, usize)>);

/// Factors, each with some of its levels: which cells are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection(Vec<(usize, Vec<usize>)>);

impl Selection {
    /// Whether the cell is meant.
    pub fn has(&self, cell: &Cell) -> bool {
        self.0.iter().all(|(factor, levels)| levels.contains(&cell.0[*factor]))
    }
}

/// A data set.
#[derive(Clone, Debug)]
pub struct Data {
    pub name: String,
    pub made_by: MadeBy,
}

/// How a data set comes to be.
#[derive(Clone, Debug)]
pub enum MadeBy {
    /// By `sweetspot work generate` with these arguments.
    Generate(Vec<Template>),
    /// By a command that writes `{path}`.
    Command(Vec<Template>),
}

impl MadeBy {
    /// Its words.
    pub fn words(&self) -> &[Template] {
        match self {
            MadeBy::Generate(words) | MadeBy::Command(words) => words,
        }
    }

    /// Whether one of its words has this placeholder.
    pub fn names(&self, name: &str) -> bool {
        self.words().iter().flat_map(Template::names).any(|found| found == name)
    }
}

/// Who does the work.
#[derive(Clone, Debug)]
pub struct Program {
    pub name: String,
    /// Commands without which it is skipped, and how they are installed.
    pub needs: Vec<String>,
    pub install: Option<String>,
    /// Commands that make it.
    pub build: Vec<Vec<Template>>,
    pub output: Output,
    /// What holds for all its cells, and what levels change.
    pub always: Change,
    pub when: Vec<When>,
}

/// What a level changes: the numbers of the factor and of its level.
#[derive(Clone, Debug)]
pub struct When {
    pub factor: usize,
    pub level: usize,
    pub change: Change,
}

impl Program {
    /// All texts of its runs, whatever cell they are of.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let changes =
            std::iter::once(&self.always).chain(self.when.iter().map(|when| &when.change));
        changes.flat_map(|change| change.command.iter().flatten().chain(change.templates()))
    }
}

/// How a command is started.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// The command, instead of what it was.
    pub command: Option<Vec<Template>>,
    /// Words before the command.
    pub before: Vec<Template>,
    /// Words after it.
    pub arguments: Vec<Template>,
    pub environment: Vec<(String, Template)>,
    /// The file that is its standard input.
    pub stdin: Option<Template>,
}

impl Change {
    /// All its texts but the command.
    fn templates(&self) -> impl Iterator<Item = &Template> {
        let words = self.before.iter().chain(&self.arguments);
        words.chain(self.environment.iter().map(|(_, value)| value)).chain(&self.stdin)
    }
}

/// How a cell is started: everything that applies to it, put together.
#[derive(Clone, Debug, Default)]
pub struct Started {
    pub words: Vec<Template>,
    pub environment: BTreeMap<String, Template>,
    pub stdin: Option<Template>,
}

/// What of a program is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Output {
    /// The file or folder `{output}`.
    File,
    /// What it prints.
    Stdout,
    /// Nothing.
    None,
}

/// How outputs are judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oracle {
    /// Cells with equal levels of these factors must give equal outputs.
    pub same_within: Vec<usize>,
    /// Hashes that are known beforehand.
    pub known: Vec<(Selection, String)>,
}

/// Something that is said in words, and checked.
#[derive(Clone, Debug)]
pub struct Claim {
    pub name: String,
    /// It is about each of these.
    pub cells: Selection,
    /// Each is held against the cell that differs from it like that.
    pub against: Vec<Assignment>,
    pub checks: Vec<Check>,
}

/// What is claimed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Check {
    /// At least so many times as fast.
    AtLeast(f64),
    /// Slower by this share at most: 0.02 is 2 %.
    NotSlowerWithin(f64),
    /// At most so many times the peak memory.
    MemoryAtMost(f64),
}

/// Figures of others, shown beside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// A CSV file; a relative path begins at the plan's folder.
    pub file: PathBuf,
    /// Its columns that are shown.
    pub figures: Vec<String>,
}

/// What is wrong with a plan, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// Counted from 1.
    pub line: usize,
    pub what: String,
    /// What to type instead.
    pub next: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}; {}", self.line, self.what, self.next)
    }
}

impl std::error::Error for PlanError {}

impl Plan {
    /// Reads the text of a plan, with the levels of one of its scales where that is named.
    ///
    /// # Errors
    /// Where anything in it is not understood.
    pub fn read(text: &str, scale: Option<&str>) -> Result<Plan, PlanError> {
        read::plan(text, scale)
    }

    /// The level of `cell` in words: of the factor with this number. Nothing, if it has no such factor.
    pub fn level(&self, cell: &Cell, factor: usize) -> &str {
        self.factors[factor].levels.get(cell.level(factor)).map_or("", String::as_str)
    }

    /// All factors with their levels in this cell.
    pub fn levels(&self, cell: usize) -> Vec<(String, String)> {
        let level = |factor: usize| self.level(&self.cells[cell], factor).to_owned();
        let factors = self.factors.iter().enumerate();
        factors.map(|(number, factor)| (factor.name.clone(), level(number))).collect()
    }

    /// Whether the cell uses the data set of this name.
    pub fn reads(&self, cell: usize, data: &str) -> bool {
        self.templates(&self.cells[cell]).flat_map(Template::names).any(|name| name == data)
    }

    /// The program of `cell`.
    pub fn program(&self, cell: &Cell) -> &Program {
        &self.programs[cell.program()]
    }

    /// The cell in words: its program, then what else distinguishes it from other cells.
    pub fn called(&self, cell: usize) -> String {
        let twin = self.twin.filter(|(twin, _)| *twin == cell).map_or("", |_| ", again");
        let cell = &self.cells[cell];
        let mut words = self.level(cell, 0).to_owned();
        let has = |factor: &usize| cell.level(*factor) != ABSENT;
        for factor in self.varying().filter(|factor| *factor != 0).filter(has) {
            words.push_str(&format!(
                ", {} {}",
                self.factors[factor].name,
                self.level(cell, factor)
            ));
        }
        words + twin
    }

    /// The factors with more than one level, as far as cells have them.
    pub fn varying(&self) -> impl Iterator<Item = usize> {
        let is_there = |factor: usize| self.cells.iter().any(|cell| cell.level(factor) != ABSENT);
        let levels = |factor: usize| self.factors[factor].levels.len();
        (0..self.factors.len()).filter(move |factor| levels(*factor) > 1 && is_there(*factor))
    }

    /// The state of the page cache that `cell` begins in.
    pub fn cache(&self, cell: &Cell) -> Cache {
        let factor = self.factors.iter().position(|factor| factor.name == CACHE);
        factor.and_then(|factor| Cache::named(self.level(cell, factor))).unwrap_or(self.cache)
    }

    /// The number of the cell that this one is held against; none for a baseline itself.
    pub fn reference(&self, cell: usize) -> Option<usize> {
        let reference = self.counterpart(cell, &self.baseline)?;
        (reference != cell).then_some(reference)
    }

    /// Whether others are held against this cell.
    pub fn is_baseline(&self, cell: usize) -> bool {
        self.cells[cell].has(&self.baseline)
    }

    /// The number of the cell that differs from this one as `assignment` says, if it is one.
    pub fn counterpart(&self, cell: usize, assignment: &Assignment) -> Option<usize> {
        let mut wanted = self.cells[cell].with(assignment);
        for (number, factor) in self.factors.iter().enumerate() {
            if !factor.only.has(&wanted) {
                wanted.0[number] = ABSENT;
            }
        }
        self.cells.iter().position(|cell| *cell == wanted)
    }

    /// Whether the two cells must give equal outputs.
    pub fn must_agree(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.cells[one], &self.cells[other]);
        self.oracle.same_within.iter().all(|factor| one.level(*factor) == other.level(*factor))
    }

    /// The cells that a claim is about.
    pub fn meant(&self, claim: &Claim) -> impl Iterator<Item = usize> {
        let twin = self.twin.map(|(twin, _)| twin);
        let cells = (0..self.cells.len()).filter(move |cell| Some(*cell) != twin);
        cells.filter(|cell| claim.cells.has(&self.cells[*cell]))
    }

    /// Adds a twin of the first baseline to the cells.
    pub fn add_twin(&mut self) {
        let original = (0..self.cells.len()).find(|cell| self.is_baseline(*cell));
        if let Some(original) = original {
            self.twin = Some((self.cells.len(), original));
            self.cells.push(self.cells[original].clone());
        }
    }

    /// The hash that the output of this cell is known to have.
    pub fn known_hash(&self, cell: usize) -> Option<&str> {
        let known = self.oracle.known.iter().find(|(cells, _)| cells.has(&self.cells[cell]));
        known.map(|(_, hash)| hash.as_str())
    }

    /// The command of `cell`, without what stands before and after it.
    pub fn command<'a>(&'a self, cell: &'a Cell) -> &'a [Template] {
        self.changes(cell).filter_map(|change| change.command.as_deref()).last().unwrap_or_default()
    }

    /// How `cell` is started.
    pub fn started(&self, cell: &Cell) -> Started {
        let mut started = Started::default();
        let mut after = Vec::new();
        for change in self.changes(cell) {
            started.words.extend(change.before.iter().cloned());
            after.extend(change.arguments.iter().cloned());
            started.environment.extend(change.environment.iter().cloned());
            started.stdin = change.stdin.clone().or(started.stdin);
        }
        started.words.extend(self.command(cell).iter().cloned().chain(after));
        started
    }

    /// All texts of its runs.
    fn templates<'a>(&'a self, cell: &'a Cell) -> impl Iterator<Item = &'a Template> {
        self.changes(cell).flat_map(Change::templates).chain(self.command(cell))
    }

    /// How `cell` is started, in the order in which the parts apply.
    pub fn changes<'a>(&'a self, cell: &'a Cell) -> impl Iterator<Item = &'a Change> {
        let program = self.program(cell);
        let when = program.when.iter().filter(|when| cell.level(when.factor) == when.level);
        std::iter::once(&program.always).chain(when.map(|when| &when.change))
    }
}
