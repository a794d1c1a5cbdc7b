//! A TOML document as plans need it: every value knows its line, so each mistake can name it.

use super::PlanError;
use std::{fmt::Display, ops::Range};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// The text, to find lines in.
#[derive(Clone, Copy)]
pub struct Source<'a>(pub &'a str);

impl Source<'_> {
    /// A mistake at this place.
    pub fn error(self, at: &Range<usize>, what: impl Display, next: impl Display) -> PlanError {
        let before = &self.0.as_bytes()[..at.start.min(self.0.len())];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        PlanError { line, what: what.to_string(), next: next.to_string() }
    }
}

/// A value and where it stands.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    source: Source<'a>,
    /// What it is called in messages.
    key: &'a str,
    value: &'a Spanned<DeValue<'a>>,
}

/// A table, and what it is called in messages.
#[derive(Clone)]
pub struct Table<'a> {
    pub source: Source<'a>,
    pub at: Range<usize>,
    name: &'a str,
    /// Each key with its place, in the order of the file.
    entries: Vec<(&'a str, Range<usize>, &'a Spanned<DeValue<'a>>)>,
}

impl<'a> Table<'a> {
    /// A table at `at`.
    pub fn new(source: Source<'a>, name: &'a str, at: Range<usize>, table: &'a DeTable) -> Self {
        let mut entries: Vec<_> =
            table.iter().map(|(key, value)| (&**key.get_ref(), key.span(), value)).collect();
        entries.sort_by_key(|(_, at, _)| at.start);
        Table { source, at, name, entries }
    }

    /// A mistake that concerns the whole table.
    pub fn error(&self, what: impl Display, next: impl Display) -> PlanError {
        self.source.error(&self.at, what, next)
    }

    /// Refuses every key but these.
    pub fn only(&self, known: &[&str]) -> Result<(), PlanError> {
        match self.entries.iter().find(|(key, ..)| !known.contains(key)) {
            None => Ok(()),
            Some((key, at, _)) => {
                let what = format!("'{key}' is not known in {}", self.name);
                Err(self.source.error(at, what, format!("known here: {}", known.join(", "))))
            }
        }
    }

    /// All entries, in the order of the file.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, Range<usize>, Value<'a>)> {
        let source = self.source;
        self.entries
            .iter()
            .map(move |&(key, ref at, value)| (key, at.clone(), Value { source, key, value }))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<Value<'a>> {
        self.entries().find(|(found, ..)| *found == key).map(|(.., value)| value)
    }

    /// What a reading of the value of a key gives, where there is one.
    pub fn optional<T>(
        &self,
        key: &str,
        read: impl FnOnce(Value<'a>) -> Result<T, PlanError>,
    ) -> Result<Option<T>, PlanError> {
        self.get(key).map(read).transpose()
    }

    /// The same where there must be one; `example` is a line that has it.
    pub fn required<T>(
        &self,
        key: &str,
        example: &str,
        read: impl FnOnce(Value<'a>) -> Result<T, PlanError>,
    ) -> Result<T, PlanError> {
        let missing =
            || self.error(format!("{} has no '{key}'", self.name), format!("add {example}"));
        self.get(key).ok_or_else(missing).and_then(read)
    }

    /// The tables below a key, by name, in the order of the file.
    pub fn tables(&self, key: &str) -> Result<Vec<(&'a str, Table<'a>)>, PlanError> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let named = |(name, at, value): (&'a str, Range<usize>, Value<'a>)| {
            Ok((name, Table { at, ..value.table()? }))
        };
        value.table()?.entries().map(named).collect()
    }
}

impl<'a> Value<'a> {
    /// A mistake in this value.
    pub fn error(&self, what: impl Display, next: impl Display) -> PlanError {
        self.source.error(&self.value.span(), what, next)
    }

    fn wrong(&self, wanted: &str) -> PlanError {
        let found = self.value.get_ref().type_str();
        self.error(format!("'{}' is of type {found}", self.key), format!("{wanted} is wanted"))
    }

    /// A text.
    pub fn text(self) -> Result<&'a str, PlanError> {
        self.value.get_ref().as_str().ok_or_else(|| self.wrong("a text, such as \"name\","))
    }

    /// A text or a number, as it stands there.
    pub fn word(self) -> Result<String, PlanError> {
        match self.value.get_ref() {
            DeValue::String(text) => Ok(text.clone().into_owned()),
            DeValue::Integer(number) => Ok(number.to_string()),
            DeValue::Float(number) => Ok(number.to_string()),
            _ => Err(self.wrong("a text or a number")),
        }
    }

    /// A number.
    pub fn number(self) -> Result<f64, PlanError> {
        let text = match self.value.get_ref() {
            DeValue::Integer(number) => number.as_str(),
            DeValue::Float(number) => number.as_str(),
            _ => return Err(self.wrong("a number")),
        };
        text.parse().map_err(|_| self.wrong("a decimal number"))
    }

    /// A whole number from 0 on.
    pub fn whole(self) -> Result<u64, PlanError> {
        const WANTED: &str = "a whole number from 0 on, in decimal digits,";
        let number = self.value.get_ref().as_integer().ok_or_else(|| self.wrong(WANTED))?;
        let decimal = Some(number.as_str()).filter(|_| number.radix() == 10);
        decimal.and_then(|digits| digits.parse().ok()).ok_or_else(|| {
            let what = format!("'{}' cannot be {}", self.key, number.as_str());
            self.error(what, format!("{WANTED} is wanted"))
        })
    }

    /// What `read` makes of a text, or its complaint.
    pub fn parsed<T>(self, read: impl FnOnce(&str) -> Result<T, String>) -> Result<T, PlanError> {
        let text = self.text()?;
        read(text)
            .map_err(|next| self.error(format!("{} = \"{text}\" is not known", self.key), next))
    }

    /// Whether it is a table.
    pub fn is_table(&self) -> bool {
        self.value.get_ref().is_table()
    }

    /// The members of a list.
    pub fn list(self) -> Result<Vec<Value<'a>>, PlanError> {
        let Some(members) = self.value.get_ref().as_array() else {
            return Err(self.wrong("a list, such as [\"a\", \"b\"],"));
        };
        Ok(members.iter().map(|value| Value { value, ..self }).collect())
    }

    /// The members of a list, or the one value that stands in its place.
    pub fn one_or_more(self) -> Result<Vec<Value<'a>>, PlanError> {
        if self.value.get_ref().is_array() { self.list() } else { Ok(vec![self]) }
    }

    /// A table.
    pub fn table(self) -> Result<Table<'a>, PlanError> {
        let Some(table) = self.value.get_ref().as_table() else {
            return Err(self.wrong("a table, such as { name = \"value\" },"));
        };
        Ok(Table::new(self.source, self.key, self.value.span(), table))
    }
}
