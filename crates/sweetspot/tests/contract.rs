//! docs/rules.md names a test for each of its rules: they must be there.

use test_start as _;

use std::fs;
use std::path::Path;

/// All sources below a folder in which tests may be.
fn sources(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

/// The tests that a rule names, between backquotes.
fn named(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Whether a test is there: a row of a group (`group: "row"`, or `"row"` after another one), a whole
/// group, a function, or a row of a macro that makes functions.
fn is_there(name: &str, tests: &str) -> bool {
    match name.split_once('"') {
        Some((_, row)) => tests.contains(&format!("\"{row}")),
        None => [format!("group: \"{name}\""), format!("fn {name}("), format!("    {name}: \"")]
            .iter()
            .any(|form| tests.contains(form)),
    }
}

#[test]
fn every_rule_has_a_test_and_every_test_named_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("docs/rules.md")).unwrap();
    let mut tests = String::new();
    sources(&root.join("crates"), &mut tests);
    let mut rules = Vec::new();
    for section in text.split("\n### ").skip(1) {
        let rule = section.split(' ').next().unwrap();
        let is_rule = rule.starts_with(['R', 'L', 'D']) && rule[1..].parse::<u32>().is_ok();
        if !is_rule {
            continue;
        }
        let (_, named_tests) = section
            .split_once("\nTests: ")
            .unwrap_or_else(|| panic!("{rule} has no line with its tests"));
        let named_tests = named_tests.split("\n\n").next().unwrap();
        let (there, missing): (Vec<_>, Vec<_>) =
            named(named_tests).partition(|name| is_there(name, &tests));
        assert!(!there.is_empty(), "{rule} names no test: {named_tests}");
        // Commands, files and variables are named there, too.
        let is_test = |name: &&str| !name.contains(['/', '=', '.']) && !name.contains("xtask");
        let missing: Vec<_> = missing.into_iter().filter(is_test).collect();
        assert!(missing.is_empty(), "{rule} names tests that are not there: {missing:?}");
        rules.push(rule.to_owned());
    }
    let expected = [("R", 6), ("L", 8), ("D", 22)];
    let expected =
        expected.iter().flat_map(|(kind, last)| (1..=*last).map(move |n| format!("{kind}{n}")));
    assert_eq!(rules, expected.collect::<Vec<_>>());
}
