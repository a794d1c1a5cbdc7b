//! Factors and their levels, in the plan and in its scales, and the names of data sets.

use super::PATHS;
use crate::plan::document::{Table, Value};
use crate::plan::{CACHE, Cache, Factor, PROGRAM, PROGRAM_BEFORE, PlanError, Selection};

/// The tables of the programs. Older plans call them `subjects`.
pub(super) fn programs<'a>(document: &Table<'a>) -> Result<Vec<(&'a str, Table<'a>)>, PlanError> {
    match (document.get("programs"), document.get("subjects")) {
        (Some(_), Some(before)) => {
            let next = "name them below [programs.NAME] alone, as 'subjects' means the same";
            Err(before.error("programs are named in two places", next))
        }
        (None, Some(_)) => document.tables("subjects"),
        _ => document.tables("programs"),
    }
}

/// The number of the factor of this name.
pub(super) fn position(factors: &[Factor], name: &str) -> Option<usize> {
    let name = if name == PROGRAM_BEFORE { PROGRAM } else { name };
    factors.iter().position(|factor| factor.name == name)
}

/// All factors: the program first, then those of the file, with the levels of the scale.
pub(super) fn factors(document: &Table, scale: Option<&Table>) -> Result<Vec<Factor>, PlanError> {
    let programs = programs(document)?;
    if programs.is_empty() {
        return Err(
            document.error("the plan names no program", "add [programs.NAME] with a command")
        );
    }
    let levels = programs.iter().map(|(name, _)| (*name).to_owned()).collect();
    let factor =
        |name: &str, levels| Factor { name: name.to_owned(), levels, only: Selection::default() };
    let mut factors = vec![factor(PROGRAM, levels)];
    if let Some(table) = document.optional("factors", Value::table)? {
        for (name, at, value) in table.entries() {
            if [PROGRAM, PROGRAM_BEFORE].contains(&name) || PATHS.contains(&name) {
                let what = format!("a factor cannot be called '{name}'");
                return Err(table.source.error(&at, what, "choose another name for it"));
            }
            factors.push(factor(name, levels_of(name, list_of(value)?)?));
        }
    }
    let scaled = scale.map(|scale| scale.optional("factors", Value::table)).transpose()?.flatten();
    for factor in &mut factors {
        let Some(value) = scaled.as_ref().and_then(|table| table.get(&factor.name)) else {
            continue;
        };
        let levels = levels_of(&factor.name, value)?;
        if factor.name != PROGRAM {
            factor.levels = levels;
            continue;
        }
        if let Some(unknown) = levels.iter().find(|level| !factor.levels.contains(level)) {
            let next = format!("programs of this plan: {}", factor.levels.join(", "));
            return Err(value.error(format!("there is no program '{unknown}'"), next));
        }
        factor.levels.retain(|level| levels.contains(level));
    }
    Ok(factors)
}

/// The levels of a factor: the value itself, or what it holds beside `only`.
fn list_of(value: Value) -> Result<Value, PlanError> {
    if !value.is_table() {
        return Ok(value);
    }
    let table = value.table()?;
    table.only(&["levels", "only"])?;
    table.required("levels", "levels = [1, 2]", Ok)
}

/// For each factor all levels of any scale, which sections may name though they do not count now.
pub(super) fn levels_of_scales(
    document: &Table,
    factors: &[Factor],
) -> Result<Vec<Vec<String>>, PlanError> {
    let own = document.optional("factors", Value::table)?;
    let mut scaled: Vec<Table> = Vec::new();
    for (_, scale) in document.tables("scale")? {
        let Some(table) = scale.optional("factors", Value::table)? else { continue };
        let is_unknown = |name: &str| factors.iter().all(|factor| factor.name != name);
        if let Some((name, at, _)) = table.entries().find(|(name, ..)| is_unknown(name)) {
            let what = format!("there is no factor '{name}' that a scale could change");
            let next = format!("add it below [factors]: {name} = [...]");
            return Err(document.source.error(&at, what, next));
        }
        scaled.push(table);
    }
    let of_factor = |factor: &Factor| {
        if factor.name == PROGRAM {
            return Ok(programs(document)?.iter().map(|(name, _)| (*name).to_owned()).collect());
        }
        let own =
            own.as_ref().and_then(|table| table.get(&factor.name)).map(list_of).transpose()?;
        let found = scaled.iter().filter_map(|table| table.get(&factor.name)).chain(own);
        let levels: Result<Vec<_>, _> = found.map(|value| levels_of(&factor.name, value)).collect();
        Ok(levels?.concat())
    };
    factors.iter().map(of_factor).collect()
}

pub(super) fn levels_of(factor: &str, value: Value) -> Result<Vec<String>, PlanError> {
    let mut levels: Vec<String> = Vec::new();
    for level in value.list()? {
        let word = level.word()?;
        if levels.contains(&word) {
            return Err(level.error(format!("'{word}' is there twice"), "leave one of them out"));
        }
        if factor == CACHE && Cache::named(&word).is_none() {
            let what = format!("'{word}' is no state of the page cache");
            return Err(level.error(what, "try: \"warm\", \"cold\" or \"none\""));
        }
        levels.push(word);
    }
    match levels.is_empty() {
        true => Err(value.error(format!("'{factor}' has no level"), "name one at least: [1]")),
        false => Ok(levels),
    }
}

pub(super) fn data_names(document: &Table, factors: &[Factor]) -> Result<Vec<String>, PlanError> {
    let mut names = Vec::new();
    for (name, table) in document.tables("data")? {
        if PATHS.contains(&name) || factors.iter().any(|factor| factor.name == name) {
            let what = format!("'{name}' means something else already");
            return Err(table.error(what, "choose another name for this data set"));
        }
        names.push(name.to_owned());
    }
    Ok(names)
}
