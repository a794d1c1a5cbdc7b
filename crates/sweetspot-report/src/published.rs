//! Figures that others have published, to be shown beside the measured ones. Nothing is ever asserted
//! about them.

use std::fmt;
use std::io::Read;
use sweetspot_lab::plan::{Cell, PROGRAM, PROGRAM_BEFORE, Plan, Published as Source};

/// Why a table is not understood.
#[derive(Debug)]
pub enum Unread {
    NotCsv(csv::Error),
    /// It has no column of this name; these are its own.
    NoColumn(String, Vec<String>),
}

impl fmt::Display for Unread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unread::NotCsv(error) => error.fmt(formatter),
            Unread::NoColumn(name, _) => write!(formatter, "there is no column '{name}'"),
        }
    }
}

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
    /// Reads what `source`, of this plan, is about.
    ///
    /// # Errors
    /// Where it is no CSV file, or has no such column.
    pub fn parse(plan: &Plan, source: &Source, content: impl Read) -> Result<Published, Unread> {
        let mut reader = csv::Reader::from_reader(content);
        let header = reader.headers().map_err(Unread::NotCsv)?.clone();
        let column = |name: &str| header.iter().position(|found| found == name);
        let mut columns = Vec::new();
        for name in &source.figures {
            columns.push(column(name).ok_or_else(|| {
                Unread::NoColumn(name.clone(), header.iter().map(str::to_owned).collect())
            })?);
        }
        let factors: Vec<(usize, usize)> = (plan.factors.iter().enumerate())
            .filter_map(|(number, factor)| {
                let before = || column(PROGRAM_BEFORE).filter(|_| factor.name == PROGRAM);
                Some((number, column(&factor.name).or_else(before)?))
            })
            .collect();
        let mut lines = Vec::new();
        for record in reader.records() {
            let record = record.map_err(Unread::NotCsv)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_belong_to_programs_that_were_called_subjects() {
        let plan = "title = 't'\n[programs.a]\ncommand = ['a']\n[programs.b]\ncommand = ['b']\n\
                    [baseline]\nprogram = 'a'\n[published]\nfile = 'x'\nfigures = ['s']\n";
        let plan = Plan::read(plan, None).unwrap();
        for name in ["program", "subject"] {
            let content = format!("{name},s\nb,7\n");
            let source = plan.published.as_ref().unwrap();
            let read = Published::parse(&plan, source, content.as_bytes()).unwrap();
            let found: Vec<_> = plan.cells.iter().map(|cell| read.of(&plan, cell)).collect();
            assert_eq!(found, [[""], ["7"]], "{name}");
        }
    }
}
