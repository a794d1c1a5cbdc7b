//! The answers of all systems, as a table for the terminal and as the record.

use super::{State, Step, System};
use crate::project;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;
use sweetspot_lab::environment::Environment;

/// The version of matrix.json: a field that changes its meaning raises it.
const SCHEMA: u32 = 2;
const HEAD: [&str; 4] = ["system", "what works", "calls made", "differences"];

/// One session.
#[derive(Serialize)]
struct Record<'a> {
    schema: u32,
    /// The machine on which all systems ran.
    environment: Environment,
    systems: &'a [System],
}

/// The table of all systems.
pub fn text(systems: &[System]) -> String {
    let rows: Vec<[String; 4]> = systems.iter().map(row).collect();
    let mut text = format!("| {} |\n|---|---|---|---|\n", HEAD.join(" | "));
    for row in rows {
        let _ = writeln!(text, "| {} |", row.map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
    text
}

fn row(system: &System) -> [String; 4] {
    let named = |state: State| -> Vec<&Step> {
        system.steps.iter().filter(|step| step.state == state).collect()
    };
    let works = named(State::Works).iter().map(|step| step.name.clone()).collect();
    let calls = system.steps.iter().find(|step| step.name == "calls");
    let mut differences = Vec::new();
    for state in [State::Fails, State::Less, State::Skipped] {
        for step in named(state) {
            let first = step.says.lines().next().unwrap_or_default();
            let word = step.word();
            differences.push(match state {
                State::Less => format!("{}: {first}", step.name),
                _ => format!("{} {word}: {first}", step.name),
            });
        }
    }
    let or_none = |items: Vec<String>, between: &str| match items.is_empty() {
        true => "none".to_owned(),
        false => items.join(between),
    };
    [
        format!("{} ({})", system.name, system.what),
        or_none(works, ", "),
        calls.map_or("-".to_owned(), |step| step.says.clone()),
        or_none(differences, "; "),
    ]
}

/// Writes matrix.json and matrix.md into a new folder of `measurements`. Returns it.
///
/// # Errors
/// It cannot be written.
pub fn record(systems: &[System]) -> Result<PathBuf, String> {
    let here = std::env::temp_dir();
    let environment = Environment::of(&here, &[]).map_err(|error| error.to_string())?;
    let mut text = format!(
        "# The product on other C libraries, kernels and machines\n\n{}: on {} \
         processors ({}), kernel {}. Made by `cargo xtask matrix --record`: roots in namespaces \
         of this machine, with its kernel; machines by qemu's emulation.\n\n{}",
        environment.date,
        environment.processors,
        environment.processor,
        environment.kernel,
        self::text(systems)
    );
    for system in systems {
        let source = system.source.as_deref().unwrap_or("unknown");
        let _ = writeln!(text, "\n## {} ({})\n\nSource {source}.\n", system.name, system.what);
        text.push_str("| step | | seconds | |\n|---|---|---:|---|\n");
        for step in &system.steps {
            let details: String =
                step.details.iter().map(|detail| format!("<br>{detail}")).collect();
            let cell = format!("{}{details}", step.says).replace('|', "\\|").replace('\n', " ");
            let (name, word) = (&step.name, step.word());
            let _ = writeln!(text, "| {name} | {word} | {:.0} | {cell} |", step.seconds);
        }
    }
    let record = Record { schema: SCHEMA, environment, systems };
    let written = project::record(&record.environment, "matrix", "matrix", &record, &text);
    written.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_a_difference_and_less_says_why() {
        let step = |name: &str, state, says: &str| Step {
            name: name.to_owned(),
            state,
            says: says.to_owned(),
            details: Vec::new(),
            seconds: 1.0,
        };
        let steps = vec![
            step("doctor", State::Works, "all"),
            step("calls", State::Works, "dd 10000 -> 137"),
            step("verify", State::Less, "no overlay"),
            step("kills", State::Fails, "1 lost\nat seed 7"),
        ];
        let (name, what) = ("sid".to_owned(), "glibc 2.43".to_owned());
        let system = System { name, what, source: None, steps };
        let row = row(&system);
        let expected = [
            "sid (glibc 2.43)",
            "doctor, calls",
            "dd 10000 -> 137",
            "kills FAILS: 1 lost; verify: no overlay",
        ];
        assert_eq!(row, expected);
        assert!(text(&[system]).contains("| sid (glibc 2.43) | doctor, calls |"));
    }
}
