//! Figures that others have published, to be shown beside the measured ones. Nothing is ever asserted
//! about them.

use super::place::Place;
use crate::failure::Failure;
use crate::shown::shown;
use std::io::Read;
use sweetspot_lab::plan::{Cell, Plan, Published as Source};

const NEXT: &str = "it is to be a CSV file with a header; the plan names it under [published]";

/// A table of others' figures.
#[derive(Default)]
pub struct Published {
    /// The names of the columns that are shown.
    pub figures: Vec<String>,
    lines: Vec<Line>,
}

/// A line of the table.
struct Line {
    /// The levels of the cells that it belongs to, by factor.
    levels: Vec<(usize, String)>,
    figures: Vec<String>,
}

impl Published {
    /// Reads the file that the plan names, if it names one.
    ///
    /// # Errors
    /// Where it is not there, is no CSV file, or has no such column.
    pub fn read(plan: &Plan, place: &Place) -> Result<Published, Failure> {
        let Some(source) = &plan.published else { return Ok(Published::default()) };
        let path = place.folder.join(&source.file);
        let shown = shown(&path);
        let file = std::fs::File::open(&path)
            .map_err(|error| Failure::own(format!("{shown}: {error}")).next(NEXT))?;
        Published::from(plan, source, file, &shown)
    }

    /// The content of that file, if there is one.
    pub fn text(plan: &Plan, place: &Place) -> Option<String> {
        let source = plan.published.as_ref()?;
        std::fs::read_to_string(place.folder.join(&source.file)).ok()
    }

    /// The same from what was kept of it.
    ///
    /// # Errors
    /// As [`Published::read`].
    pub fn kept(plan: &Plan, text: Option<&str>) -> Result<Published, Failure> {
        match plan.published.as_ref().zip(text) {
            Some((source, text)) => {
                let shown = shown(&source.file);
                Published::from(plan, source, text.as_bytes(), &shown)
            }
            None => Ok(Published::default()),
        }
    }

    fn from(
        plan: &Plan,
        source: &Source,
        content: impl Read,
        shown: &str,
    ) -> Result<Published, Failure> {
        let failure = |error: csv::Error| Failure::own(format!("{shown}: {error}")).next(NEXT);
        let mut reader = csv::Reader::from_reader(content);
        let header = reader.headers().map_err(failure)?.clone();
        let column = |name: &str| header.iter().position(|found| found == name);
        let mut columns = Vec::new();
        for name in &source.figures {
            columns.push(column(name).ok_or_else(|| {
                let names: Vec<&str> = header.iter().collect();
                Failure::own(format!("{shown}: there is no column '{name}'"))
                    .next(format!("its columns: {}", names.join(", ")))
            })?);
        }
        let factors: Vec<(usize, usize)> = (plan.factors.iter().enumerate())
            .filter_map(|(number, factor)| Some((number, column(&factor.name)?)))
            .collect();
        let mut lines = Vec::new();
        for record in reader.records() {
            let record = record.map_err(failure)?;
            let text = |column: usize| record.get(column).unwrap_or_default().to_owned();
            lines.push(Line {
                levels: factors.iter().map(|&(factor, column)| (factor, text(column))).collect(),
                figures: columns.iter().map(|column| text(*column)).collect(),
            });
        }
        Ok(Published { figures: source.figures.clone(), lines })
    }

    /// What is known of a cell: for each figure what all its lines say.
    pub fn of(&self, plan: &Plan, cell: &Cell) -> Vec<String> {
        let is_about = |line: &&Line| {
            line.levels.iter().all(|(factor, level)| plan.level(cell, *factor) == level)
        };
        let lines: Vec<&Line> = self.lines.iter().filter(is_about).collect();
        let all = |figure: usize| {
            let said: Vec<&str> = lines.iter().map(|line| line.figures[figure].as_str()).collect();
            said.join(" / ")
        };
        (0..self.figures.len()).map(all).collect()
    }
}
