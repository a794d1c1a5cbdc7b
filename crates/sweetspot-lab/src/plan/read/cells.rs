//! Which cells there are: the product of all levels, without what a factor's `only` and the
//! exclusions leave out.

use super::Reader;
use super::factors::{position, programs};
use crate::plan::document::{Table, Value};
use crate::plan::{ABSENT, CELLS_MAX, Cell, Plan, PlanError, Template};

/// In an exclusion: the cells that stay.
const EXCEPT: &str = "except";
/// So many can be looked at for those that are not excluded.
const COMBINATIONS_MAX: usize = 100_000;

impl Reader {
    /// Notes which cells have a factor, where only some do.
    pub(super) fn limit_factors(&mut self, document: &Table) -> Result<(), PlanError> {
        let Some(factors) = document.optional("factors", Value::table)? else { return Ok(()) };
        for (name, _, value) in factors.entries().filter(|(.., value)| value.is_table()) {
            let Some(only) = value.table()?.get("only") else { continue };
            let (factor, table) =
                (position(&self.factors, name).unwrap_or_default(), only.table()?);
            let selection = self.selection(&table, &[])?;
            if let Some((later, _)) = selection.0.iter().find(|(named, _)| *named >= factor) {
                let before: Vec<&str> =
                    self.factors[..factor].iter().map(|factor| factor.name.as_str()).collect();
                let what =
                    format!("'{}' does not stand before '{name}'", self.factors[*later].name);
                return Err(only.error(what, format!("before it: {}", before.join(", "))));
            }
            self.factors[factor].only = selection;
        }
        Ok(())
    }

    /// The product of all levels, without what is excluded.
    pub(super) fn cells(&self, document: &Table) -> Result<Vec<Cell>, PlanError> {
        let mut excluded = Vec::new();
        for exclusion in document.optional("exclude", Value::list)?.unwrap_or_default() {
            let table = exclusion.table()?;
            if table.entries().all(|(name, ..)| name == EXCEPT) {
                return Err(table.error("it excludes every cell", "name levels: how = \"run\""));
            }
            let except = table.optional(EXCEPT, |value| self.selection(&value.table()?, &[]))?;
            excluded.push((self.selection(&table, &[EXCEPT])?, except));
        }
        let is_excluded = |cell: &Cell| {
            excluded.iter().any(|(selection, except)| {
                selection.has(cell) && !except.as_ref().is_some_and(|except| except.has(cell))
            })
        };
        let levels = self.factors.iter().map(|factor| factor.levels.len());
        let product = levels.fold(1, usize::saturating_mul);
        let too_many = |number: usize, what: &str, limit: usize| {
            let what = format!("{number} {what} are too many");
            document.error(what, format!("at most {limit}; drop some levels"))
        };
        if product > COMBINATIONS_MAX {
            return Err(too_many(product, "combinations of levels", COMBINATIONS_MAX));
        }
        let mut cells = vec![Cell(Vec::new())];
        for factor in &self.factors {
            let grown = |cell: &Cell| {
                let levels: Vec<usize> = match factor.only.has(cell) {
                    true => (0..factor.levels.len()).collect(),
                    false => vec![ABSENT],
                };
                let with = |level| Cell(cell.0.iter().copied().chain([level]).collect());
                levels.into_iter().map(with).collect::<Vec<_>>()
            };
            cells = cells.iter().flat_map(grown).collect();
        }
        cells.retain(|cell| !is_excluded(cell));
        match cells.len() {
            0 => Err(document.error("no cell is left", "exclude less")),
            1..=CELLS_MAX => Ok(cells),
            number => Err(too_many(number, "cells", CELLS_MAX)),
        }
    }

    /// Refuses placeholders of factors that a cell does not have.
    pub(super) fn check_placeholders(
        &self,
        document: &Table,
        plan: &Plan,
    ) -> Result<(), PlanError> {
        for (number, cell) in plan.cells.iter().enumerate() {
            let data = plan.data.iter().filter(|data| plan.reads(number, &data.name));
            let texts = plan.templates(cell).chain(data.flat_map(|data| data.made_by.words()));
            let is_absent = |name: &&str| {
                let factor = position(&self.factors, name);
                factor.is_some_and(|factor| cell.level(factor) == ABSENT)
            };
            if let Some(name) = texts.flat_map(Template::names).find(is_absent) {
                let program = &plan.program(cell).name;
                let table = programs(document)?.into_iter().find(|(found, _)| found == program);
                let what = format!("'{}' has no {{{name}}}", plan.called(number));
                let next =
                    format!("leave it out, or let 'only' of the factor '{name}' name the cell");
                return Err(table.map_or_else(
                    || document.error(&what, &next),
                    |(_, table)| table.error(&what, &next),
                ));
            }
        }
        Ok(())
    }
}
