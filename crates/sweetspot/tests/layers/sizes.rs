//! How long files and functions may be.

use std::fs;
use std::path::{Path, PathBuf};

use super::imports::{crates, files_in};

/// What does not fit into so many lines is more than one thing. The table of programs is data.
const LINES_MAX: usize = 500;

#[test]
fn no_file_is_longer_than_one_thing() {
    let is_table = |path: &Path| path.ends_with("programs/table/c.rs");
    let all = files_in(&crates());
    let lines = |path: &Path| fs::read_to_string(path).unwrap().lines().count();
    let long = all.iter().filter(|path| !is_table(path) && lines(path) > LINES_MAX);
    assert_eq!(long.collect::<Vec<_>>(), Vec::<&PathBuf>::new());
}

/// What does not fit on a screen is not read as a whole. A function that is one table, or one routine of the
/// assembler, is data.
const FUNCTION_LINES_MAX: usize = 60;
const TABLES: &[&str] = &["conformance/table.rs", "x86_64/copy.rs", "aarch64/copy.rs"];

#[test]
fn no_function_is_longer_than_a_screen() {
    let is_code = |path: &PathBuf| {
        let is_table = TABLES.iter().any(|table| path.ends_with(table));
        !is_table && !path.components().any(|part| part.as_os_str() == "tests")
    };
    let mut count = 0;
    for path in files_in(&crates()).iter().filter(|path| is_code(path)) {
        let text = fs::read_to_string(path).unwrap();
        for (name, lines) in functions(text.split("#[cfg(test)]\nmod ").next().unwrap_or_default())
        {
            count += 1;
            assert!(lines <= FUNCTION_LINES_MAX, "{name} in {}: {lines} lines", path.display());
        }
    }
    assert!(count > 3000, "only {count} functions were found");
}

#[test]
fn functions_are_found_and_measured() {
    let found = functions(
        "fn a() {\n}\n\nimpl X {\n    pub fn b(\n    ) {\n        {\n        }\n    }\n}\n",
    );
    assert_eq!(found, [("a".to_owned(), 2), ("b".to_owned(), 5)]);
}

/// The functions of a formatted text, and of how many lines each is.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let of = |(number, line): (usize, &&str)| {
        let before = line.split("fn ").next()?;
        let name = line.split_once("fn ")?.1.split(['(', '<']).next()?;
        if name.starts_with('$') {
            // Of a macro, which may end in many ways.
            return None;
        }
        let is_word =
            |word: &str| word.starts_with("pub") || word.starts_with('"') || KINDS.contains(&word);
        if !before.replace("(in ", "(").split_whitespace().all(is_word) {
            return None;
        }
        let end = lines[number..].iter().position(|end| {
            indent(end) == indent(line) && (end.trim() == "}" || end.ends_with([';', '}']))
        })?;
        Some((name.to_owned(), end + 1))
    };
    const KINDS: &[&str] = &["const", "async", "unsafe", "extern"];
    lines.iter().enumerate().filter_map(of).collect()
}
