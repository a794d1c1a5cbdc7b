//! Reads a plan, section by section, and checks everything that can be checked without running.

mod cells;
mod factors;
mod programs;
mod values;

use super::{
    Assignment, CACHE, Cache, Cell, Check, Claim, Data, Factor, Figure, MadeBy, Oracle, Plan,
    PlanError, Published, Selection,
    document::{Source, Table, Value},
};
use crate::grammar;
use factors::{data_names, factors, levels_of_scales, position};
use std::{ops::Range, path::PathBuf, time::Duration};
use toml::de::DeTable;
use values::{cache, command, figure, hash, stop, words};

/// Keys at the top of a plan.
const KEYS: &[&str] = &[
    "title",
    "question",
    "seed",
    "rounds",
    "precision",
    "budget",
    "margin",
    "figure",
    "cache",
    "limit",
    "factors",
    "scale",
    "data",
    "programs",
    "when",
    "exclude",
    "baseline",
    "oracle",
    "claim",
    "published",
    "subjects",
];
/// What a scale may say otherwise.
const SCALE_KEYS: &[&str] = &["rounds", "precision", "budget", "factors"];
/// Placeholders that mean something besides factors and data sets.
const PATHS: [&str; 5] = ["plan", "build", "sweetspot", "output", "path"];
const MARGIN_DEFAULT: f64 = 0.02;
const LIMIT_DEFAULT: Duration = Duration::from_secs(3600);
/// Fewer rounds give no interval, but may be all that somebody has the time for.
const ROUNDS_MIN: u64 = 1;

/// Reads a plan.
pub fn plan(text: &str, scale: Option<&str>) -> Result<Plan, PlanError> {
    let source = Source(text);
    let (document, mistakes) = DeTable::parse_recoverable(text);
    let start = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
    // Where the text is no TOML, the parser goes on and reports what follows from it, too.
    if let Some(first) = mistakes.into_iter().min_by_key(start) {
        let at = first.span().unwrap_or_default();
        let what = first.message().replace('\n', ", ");
        return Err(source.error(&at, what, "the file is to be TOML: https://toml.io"));
    }
    let document = Table::new(source, "a plan", 0..0, document.get_ref());
    document.only(KEYS)?;
    let scale = chosen_scale(&document, scale)?;
    let factors = factors(&document, scale.as_ref())?;
    let mut reader = Reader {
        elsewhere: levels_of_scales(&document, &factors)?,
        data: data_names(&document, &factors)?,
        factors,
    };
    reader.limit_factors(&document)?;
    let data = reader.data_sets(&document)?;
    let programs = reader.programs(&document)?;
    let cells = reader.cells(&document)?;
    let baseline = reader.baseline(&document, &cells)?;
    let oracle = reader.oracle(&document, &baseline)?;
    let either = |key: &str| {
        let scaled = scale.as_ref().and_then(|scale| scale.get(key));
        scaled.or_else(|| document.get(key))
    };
    let mut plan = Plan {
        title: document.required("title", "title = \"...\"", Value::text)?.to_owned(),
        question: document.optional("question", Value::text)?.map(str::to_owned),
        seed: document.optional("seed", Value::whole)?,
        stop: stop(either("rounds"), either("precision"), either("budget"))?,
        margin: document
            .optional("margin", |value| value.parsed(grammar::share))?
            .unwrap_or(MARGIN_DEFAULT),
        figure: document.optional("figure", |value| value.parsed(figure))?.unwrap_or(Figure::Wall),
        cache: document
            .optional("cache", |value| value.parsed(cache))?
            .unwrap_or(Cache::Brought(crate::cache::State::Warm)),
        limit: document
            .optional("limit", |value| value.parsed(grammar::duration))?
            .unwrap_or(LIMIT_DEFAULT),
        factors: reader.factors.clone(),
        cells,
        data,
        programs,
        baseline,
        oracle,
        claims: Vec::new(),
        published: published(&document)?,
        twin: None,
    };
    reader.check_placeholders(&document, &plan)?;
    plan.claims = reader.claims(&document, &plan)?;
    Ok(plan)
}

fn chosen_scale<'a>(
    document: &Table<'a>,
    scale: Option<&str>,
) -> Result<Option<Table<'a>>, PlanError> {
    let scales = document.tables("scale")?;
    for (_, scale) in &scales {
        scale.only(SCALE_KEYS)?;
    }
    let Some(wanted) = scale else { return Ok(None) };
    let names: Vec<&str> = scales.iter().map(|(name, _)| *name).collect();
    match scales.iter().find(|(name, _)| *name == wanted) {
        Some((_, scale)) => Ok(Some(scale.clone())),
        None if names.is_empty() => Err(document.error(
            format!("there is no scale '{wanted}'"),
            format!("leave out --scale, or add [scale.{wanted}.factors]"),
        )),
        None => Err(document.error(
            format!("there is no scale '{wanted}'"),
            format!("try: --scale {}", names.join(", or --scale ")),
        )),
    }
}

fn published(document: &Table) -> Result<Option<Published>, PlanError> {
    let Some(table) = document.optional("published", Value::table)? else { return Ok(None) };
    table.only(&["file", "figures"])?;
    let example = "figures = [\"seconds\"], the columns to show";
    let figures = table.required("figures", example, |value| {
        value.one_or_more()?.into_iter().map(|word| Ok(word.text()?.to_owned())).collect()
    })?;
    let file = table.required("file", "file = \"published.csv\"", Value::text)?;
    Ok(Some(Published { file: PathBuf::from(file), figures }))
}

/// What is known when sections are read that name factors and data sets.
struct Reader {
    factors: Vec<Factor>,
    /// For each factor its levels in all scales.
    elsewhere: Vec<Vec<String>>,
    data: Vec<String>,
}

/// Where a command may put things, and what it is about.
const PATHS_OF_DATA: [&str; 4] = ["plan", "build", "sweetspot", "path"];
const PATHS_OF_RUNS: [&str; 4] = ["plan", "build", "sweetspot", "output"];

impl Reader {
    fn factor(&self, table: &Table, at: &Range<usize>, name: &str) -> Result<usize, PlanError> {
        position(&self.factors, name).ok_or_else(|| {
            let names: Vec<&str> = self.factors.iter().map(|factor| &*factor.name).collect();
            let next = format!("factors of this plan: {}", names.join(", "));
            table.source.error(at, format!("there is no factor '{name}'"), next)
        })
    }

    /// The number of a level; none for one that only other scales have.
    fn level(
        &self,
        factor: usize,
        level: &str,
        wrong: impl Fn(String, String) -> PlanError,
    ) -> Result<Option<usize>, PlanError> {
        let Factor { name, levels, .. } = &self.factors[factor];
        let found = levels.iter().position(|known| known == level);
        if found.is_some() || self.elsewhere[factor].iter().any(|known| known == level) {
            return Ok(found);
        }
        let next = format!("its levels: {}", levels.join(", "));
        Err(wrong(format!("'{name}' has no level '{level}'"), next))
    }

    /// Factors with one level each, all of this scale.
    fn assignment(&self, table: &Table) -> Result<Assignment, PlanError> {
        let one = |(name, at, value): (&str, Range<usize>, Value)| {
            let factor = self.factor(table, &at, name)?;
            let word = value.word()?;
            let level = self.level(factor, &word, |what, next| value.error(what, next))?;
            let of_another = || {
                let next = "name one that all scales have, or leave the factor out";
                value.error(format!("'{name}' has no level '{word}' in this scale"), next)
            };
            Ok((factor, level.ok_or_else(of_another)?))
        };
        Ok(Assignment(table.entries().map(one).collect::<Result<_, _>>()?))
    }

    /// Factors with one level or several, but for the keys `besides`.
    fn selection(&self, table: &Table, besides: &[&str]) -> Result<Selection, PlanError> {
        let mut chosen = Vec::new();
        for (name, at, value) in table.entries().filter(|(name, ..)| !besides.contains(name)) {
            let factor = self.factor(table, &at, name)?;
            let mut levels = Vec::new();
            for level in value.one_or_more()? {
                let word = level.word()?;
                levels.extend(self.level(factor, &word, |what, next| level.error(what, next))?);
            }
            chosen.push((factor, levels));
        }
        Ok(Selection(chosen))
    }

    /// The placeholders that mean something in the commands of data sets, and of runs.
    fn known_to_data(&self) -> Vec<&str> {
        let factors = self.factors.iter().map(|factor| factor.name.as_str());
        PATHS_OF_DATA.into_iter().chain(factors).collect()
    }

    fn known_to_runs(&self) -> Vec<&str> {
        let factors = self.factors.iter().map(|factor| factor.name.as_str());
        let data = self.data.iter().map(String::as_str);
        PATHS_OF_RUNS.into_iter().chain(data).chain(factors).collect()
    }

    fn data_sets(&self, document: &Table) -> Result<Vec<Data>, PlanError> {
        let known = self.known_to_data();
        let mut sets = Vec::new();
        for (name, table) in document.tables("data")? {
            table.only(&["generate", "command"])?;
            let (value, made_by) = match (table.get("generate"), table.get("command")) {
                (Some(value), None) => (value, MadeBy::Generate(words(value, &known)?)),
                (None, Some(value)) => (value, MadeBy::Command(command(value, &known)?)),
                _ => {
                    let what = format!("the data set '{name}' needs either generate or command");
                    let next =
                        "add generate = [\"--lines\", \"1000\"], or command = [..., \"{path}\"]";
                    return Err(table.error(what, next));
                }
            };
            let names_path = made_by.names("path");
            match made_by {
                MadeBy::Generate(_) if names_path => {
                    let what = "generate adds the path itself";
                    return Err(value.error(what, "leave {path} out"));
                }
                MadeBy::Command(_) if !names_path => {
                    let what = "the command is not told where to write";
                    return Err(value.error(what, "add \"{path}\" to it"));
                }
                made_by => sets.push(Data { name: name.to_owned(), made_by }),
            }
        }
        Ok(sets)
    }

    fn baseline(&self, document: &Table, cells: &[Cell]) -> Result<Assignment, PlanError> {
        let example = "[baseline] with the levels of the cells that others are held against";
        let table = document.required("baseline", example, Value::table)?;
        let baseline = self.assignment(&table)?;
        match cells.iter().any(|cell| cell.has(&baseline)) {
            true => Ok(baseline),
            false => {
                Err(table.error("there is no such cell", "exclude less, or name other levels"))
            }
        }
    }

    fn oracle(&self, document: &Table, baseline: &Assignment) -> Result<Oracle, PlanError> {
        let left_out = |factor: &usize| baseline.0.iter().all(|(named, _)| named != factor);
        // The state of the cache changes no output.
        let tells = |factor: &usize| self.factors[*factor].name != CACHE;
        let default: Vec<usize> = (0..self.factors.len()).filter(left_out).filter(tells).collect();
        let Some(table) = document.optional("oracle", Value::table)? else {
            return Ok(Oracle { same_within: default, known: Vec::new() });
        };
        table.only(&["same-within", "known"])?;
        let same_within = table.optional("same-within", |value| {
            let factor = |value: Value| {
                let name = value.text()?;
                let found = position(&self.factors, name);
                let wrong = || value.error(format!("there is no factor '{name}'"), "leave it out");
                found.ok_or_else(wrong)
            };
            value.list()?.into_iter().map(factor).collect()
        })?;
        let mut known = Vec::new();
        for value in table.optional("known", Value::list)?.unwrap_or_default() {
            let entry = value.table()?;
            let hash = entry.required("sha256", "sha256 = \"...\"", |value| value.parsed(hash))?;
            known.push((self.selection(&entry, &["sha256"])?, hash));
        }
        Ok(Oracle { same_within: same_within.unwrap_or(default), known })
    }

    fn claims(&self, document: &Table, plan: &Plan) -> Result<Vec<Claim>, PlanError> {
        let claims = document.optional("claim", Value::list)?.unwrap_or_default();
        claims.into_iter().map(|claim| self.claim(&claim.table()?, plan)).collect()
    }

    fn claim(&self, table: &Table, plan: &Plan) -> Result<Claim, PlanError> {
        let conditions = ["at-least", "not-slower-within", "memory-at-most"];
        table.only(&["name", "cell", "against", conditions[0], conditions[1], conditions[2]])?;
        let name = table.required("name", "name = \"...\"", Value::text)?.to_owned();
        let cell = table.required("cell", "cell = { program = \"...\" }", Value::table)?;
        let cells = self.selection(&cell, &[])?;
        let against = table.optional("against", |value| {
            let assigned = |value: Value| self.assignment(&value.table()?);
            value.one_or_more()?.into_iter().map(assigned).collect::<Result<Vec<_>, _>>()
        })?;
        let against = against.unwrap_or_else(|| vec![plan.baseline.clone()]);
        let positive = |value: Value| match value.number()? {
            number if number > 0.0 && number.is_finite() => Ok(number),
            _ => Err(value.error("that is no factor", "a number above 0 is wanted")),
        };
        let checks: Vec<Check> = [
            table.optional(conditions[0], positive)?.map(Check::AtLeast),
            table
                .optional(conditions[1], |value| value.parsed(grammar::share))?
                .map(Check::NotSlowerWithin),
            table.optional(conditions[2], positive)?.map(Check::MemoryAtMost),
        ]
        .into_iter()
        .flatten()
        .collect();
        if checks.is_empty() {
            let next = format!("add one of: {}", conditions.join(", "));
            return Err(table.error(format!("'{name}' claims nothing"), next));
        }
        let claim = Claim { name: name.clone(), cells, against, checks };
        let meant: Vec<usize> = plan.meant(&claim).collect();
        let is_of_this_scale = claim.cells.0.iter().all(|(_, levels)| !levels.is_empty());
        if meant.is_empty() && is_of_this_scale {
            let next = "exclude less, or name other levels";
            return Err(cell.error(format!("'{name}' is about no cell"), next));
        }
        for (of, other) in meant.iter().flat_map(|of| claim.against.iter().map(move |to| (*of, to)))
        {
            let called = plan.called(of);
            match plan.counterpart(of, other) {
                Some(found) if found != of => {}
                Some(_) => {
                    let what = format!("'{name}' holds a cell against itself: {called}");
                    return Err(cell.error(what, "name other levels in cell, or in against"));
                }
                None => {
                    let what = format!("there is no cell to hold '{called}' against");
                    return Err(cell.error(what, "exclude less, or name other levels in against"));
                }
            }
        }
        Ok(claim)
    }
}
