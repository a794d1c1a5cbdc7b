//! The programs, and what levels change about them.

use super::Reader;
use super::factors::programs;
use super::values::{command, output, template, words};
use crate::plan::document::{Table, Value};
use crate::plan::{Change, Output, PlanError, Program, Template, When};

const CHANGE_KEYS: &[&str] = &["command", "before", "arguments", "env", "stdin"];
const PROGRAM_KEYS: &[&str] = &[
    "needs",
    "install",
    "build",
    "command",
    "output",
    "when",
    "before",
    "arguments",
    "env",
    "stdin",
];
/// Placeholders in the commands that build something.
const PATHS_OF_BUILDS: [&str; 3] = ["plan", "build", "sweetspot"];

impl Reader {
    pub(super) fn programs(&self, document: &Table) -> Result<Vec<Program>, PlanError> {
        let of_all = self.when(document)?;
        let read = programs(document)?
            .into_iter()
            .map(|(name, table)| self.program(name, &table, &of_all));
        let mut all = read.collect::<Result<Vec<_>, _>>()?;
        // A scale may have fewer.
        all.retain(|program| self.factors[0].levels.contains(&program.name));
        Ok(all)
    }

    /// A program; `of_all` is what levels change for every one.
    fn program(&self, name: &str, table: &Table, of_all: &[When]) -> Result<Program, PlanError> {
        table.only(PROGRAM_KEYS)?;
        let known = self.known_to_runs();
        let text = |value: Value| value.text().map(str::to_owned);
        let texts = |value: Value| value.one_or_more()?.into_iter().map(text).collect();
        let build = |value: Value| {
            value.list()?.into_iter().map(|one| command(one, &PATHS_OF_BUILDS)).collect()
        };
        let example = "command = [\"PROGRAM\", \"{output}\"]";
        table.required("command", example, |value| command(value, &known))?;
        let mut when = [of_all, &self.when(table)?].concat();
        when.sort_by_key(|when| when.factor);
        let mut program = Program {
            name: name.to_owned(),
            needs: table.optional("needs", texts)?.unwrap_or_default(),
            install: table.optional("install", text)?,
            build: table.optional("build", build)?.unwrap_or_default(),
            output: Output::Stdout,
            always: self.change(table)?,
            when,
        };
        let writes = program.templates().flat_map(Template::names).any(|name| name == "output");
        program.output = match table.get("output") {
            None if writes => Output::File,
            None => Output::Stdout,
            Some(value) => match value.parsed(output)? {
                Output::File if !writes => {
                    let next = "add \"{output}\" to the command";
                    return Err(value.error("no word of the program names {output}", next));
                }
                found => found,
            },
        };
        Ok(program)
    }

    /// What levels change, for one program or for all.
    fn when(&self, table: &Table) -> Result<Vec<When>, PlanError> {
        let mut when = Vec::new();
        let Some(factors) = table.optional("when", Value::table)? else { return Ok(when) };
        for (name, at, value) in factors.entries() {
            let factor = self.factor(&factors, &at, name)?;
            for (level, at, value) in value.table()?.entries() {
                let change = value.table()?;
                change.only(CHANGE_KEYS)?;
                let change = self.change(&change)?;
                let wrong = |what, next| factors.source.error(&at, what, next);
                let level = self.level(factor, level, wrong)?;
                when.extend(level.map(|level| When { factor, level, change }));
            }
        }
        Ok(when)
    }

    fn change(&self, table: &Table) -> Result<Change, PlanError> {
        let known = self.known_to_runs();
        let mut environment = Vec::new();
        for (name, _, value) in table.optional("env", Value::table)?.iter().flat_map(Table::entries)
        {
            environment.push((name.to_owned(), template(value, &known)?));
        }
        Ok(Change {
            command: table.optional("command", |value| command(value, &known))?,
            before: table.optional("before", |value| words(value, &known))?.unwrap_or_default(),
            arguments: table
                .optional("arguments", |value| words(value, &known))?
                .unwrap_or_default(),
            environment,
            stdin: table.optional("stdin", |value| template(value, &known))?,
        })
    }
}
