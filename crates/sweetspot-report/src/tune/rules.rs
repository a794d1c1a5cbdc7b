//! The rules that follow, as `sweetspot.toml` has them.
//!
//! Invariant: only rules that carry `tuned` and name this program (or, without a program, this file)
//! are changed or removed; every other byte of the text stays.

use crate::numbers::typed;
use sweetspot_core::size::BufferSize;
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, value};

/// A rule for the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// For which file; `None`: all others.
    pub file: Option<String>,
    pub buffer: BufferSize,
}

/// What belongs to all rules of one session.
pub struct Tuned<'a> {
    /// The program's file name; `None`: for every program.
    pub program: Option<&'a str>,
    /// The day: `2026-11-21`.
    pub date: &'a str,
    /// Those for single files first, as the first that matches wins.
    pub rules: &'a [Rule],
}

/// Whether a file with this text has rules of `tune` about this program. What cannot be understood has none.
pub fn has_own(text: &str, program: &str) -> bool {
    let document: DocumentMut = text.parse().unwrap_or_default();
    let is_own = |table: &Table| {
        table.contains_key("tuned") && table.get("program").and_then(Item::as_str) == Some(program)
    };
    document
        .get("rule")
        .and_then(Item::as_array_of_tables)
        .is_some_and(|all| all.iter().any(is_own))
}

/// The text of a file of rules with these in it, otherwise as an editor of the user's has written it: with
/// its mark at the start and its ends of lines.
///
/// # Errors
/// Where it cannot be understood, or takes no rules.
pub fn update(text: &str, tuned: &Tuned) -> Result<String, String> {
    const MARK: char = '\u{feff}';
    let changed = updated(text, tuned)?;
    let mark = if text.starts_with(MARK) { MARK.to_string() } else { String::new() };
    let is_of_windows =
        text.contains('\n') && text.split_inclusive('\n').all(|line| line.ends_with("\r\n"));
    let changed = changed.trim_start_matches(MARK);
    Ok(match is_of_windows {
        true => mark + &changed.replace("\r\n", "\n").replace('\n', "\r\n"),
        false => mark + changed,
    })
}

fn updated(text: &str, tuned: &Tuned) -> Result<String, String> {
    let mut document: DocumentMut =
        text.parse().map_err(|error: toml_edit::TomlError| error.message().replace('\n', ", "))?;
    let item = document.entry("rule").or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    let all = item
        .as_array_of_tables_mut()
        .ok_or("its rules are not written as [[rule]], so none can be added")?;
    let file_of = |table: &Table| table.get("file").and_then(Item::as_str).map(str::to_owned);
    let is_own = |table: &Table| {
        let program = table.get("program").and_then(Item::as_str);
        let names_file = || tuned.rules.iter().any(|rule| rule.file == file_of(table));
        table.contains_key("tuned")
            && program == tuned.program
            && (program.is_some() || names_file())
    };
    let have: Vec<Option<String>> = all.iter().filter(|table| is_own(table)).map(file_of).collect();
    let want: Vec<Option<String>> = tuned.rules.iter().map(|rule| rule.file.clone()).collect();
    if have == want {
        // In their places, with whatever was written around them.
        let own = all.iter_mut().filter(|table| is_own(table));
        for (table, rule) in own.zip(tuned.rules) {
            change(table, "buffer", &typed(rule.buffer));
            change(table, "tuned", tuned.date);
        }
        return Ok(document.to_string());
    }
    all.retain(|table| !is_own(table));
    for rule in tuned.rules {
        let mut table = Table::new();
        if let Some(program) = tuned.program {
            table["program"] = value(program);
        }
        if let Some(file) = &rule.file {
            table["file"] = value(file);
        }
        table["buffer"] = value(typed(rule.buffer));
        table["tuned"] = value(tuned.date);
        if !text.is_empty() || !all.is_empty() {
            table.decor_mut().set_prefix("\n");
        }
        all.push(table);
    }
    Ok(document.to_string())
}

/// Puts a text in the place of another one; what is written behind it stays.
fn change(table: &mut Table, key: &str, text: &str) {
    let decor = table.get(key).and_then(Item::as_value).map(|old| old.decor().clone());
    table[key] = value(text);
    if let (Some(decor), Some(new)) = (decor, table[key].as_value_mut()) {
        *new.decor_mut() = decor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHERS: &str = "# mine\n[[rule]]   # first\nprogram = \"a*\"\nbuffer = \"4K\"\n\n\
                          [[rule]]\nprogram = \"job\" # by hand\nfile = \"*.log\"\nbuffer = 'off'\n";

    fn rule(file: Option<&str>, bytes: u32) -> Rule {
        Rule { file: file.map(String::from), buffer: BufferSize::Bytes(bytes) }
    }

    fn changed(text: &str, rules: &[Rule]) -> String {
        update(text, &Tuned { program: Some("job"), date: "2026-11-21", rules }).unwrap()
    }

    #[test]
    fn every_other_line_stays() {
        let once = changed(OTHERS, &[rule(None, 65536)]);
        let own = "\n[[rule]]\nprogram = \"job\"\nbuffer = \"64K\"\ntuned = \"2026-11-21\"\n";
        assert_eq!(once, format!("{OTHERS}{own}"));
        let again = changed(&once, &[rule(None, 4096)]);
        assert_eq!(again, format!("{OTHERS}{}", own.replace("64K", "4K")), "replaced in its place");
        let noted = once.replace("\"64K\"\n", "\"64K\" # for the NAS\n");
        assert_eq!(changed(&noted, &[rule(None, 4096)]), noted.replace("64K", "4K"));
        let with_note = format!("{OTHERS}\n# found in November{own}# the end\n");
        let kept = changed(&with_note, &[rule(None, 4096)]);
        assert_eq!(kept, with_note.replace("64K", "4K"));
    }

    #[test]
    fn a_file_of_windows_stays_one() {
        let theirs = format!("\u{feff}{}", OTHERS.replace('\n', "\r\n"));
        let own =
            "\r\n[[rule]]\r\nprogram = \"job\"\r\nbuffer = \"64K\"\r\ntuned = \"2026-11-21\"\r\n";
        assert_eq!(changed(&theirs, &[rule(None, 65536)]), format!("{theirs}{own}"));
    }

    #[test]
    fn rules_for_files_stand_before_the_rule_for_all() {
        let once = changed(OTHERS, &[rule(None, 65536)]);
        let both = [rule(Some("*.idx"), 4096), rule(None, 65536)];
        let found = changed(&once, &both);
        let file_at = found.find("*.idx").unwrap();
        assert!(found.starts_with(OTHERS) && file_at < found.find("64K").unwrap(), "{found}");
        assert_eq!(found.matches("tuned").count(), 2);
        assert_eq!(changed(&found, &[rule(None, 65536)]), once, "and go again");
        assert_eq!(changed(&found, &[]), OTHERS, "as do all where none is wanted");
    }
}
