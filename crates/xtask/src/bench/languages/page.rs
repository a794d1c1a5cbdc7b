//! The table of docs/reach.md, from a record.

use super::table::{LANGUAGES, TOOLS};
use crate::bench::figures::{named, ratio, time};
use crate::project::{failed, marked, root};
use serde_json::Value;
use std::{fmt::Write, fs, path::Path};
use sweetspot_lab::Error;
use sweetspot_report::numbers::count;

/// The page whose table is made from a record.
const PAGE: &str = "docs/reach.md";
/// Of the marks around it.
const NAME: &str = "languages";

/// Writes the table of the page from a record.
pub fn write_table(record: &Path) -> Result<(), Error> {
    let page = root().join(PAGE);
    let text = fs::read_to_string(&page).map_err(Error::system("read", &page))?;
    let path = record.join("run.json");
    let json = fs::read_to_string(&path).map_err(Error::system("read", &path))?;
    let json = serde_json::from_str(&json).map_err(|error| failed(PAGE, &error.to_string()))?;
    let folder = record.file_name().unwrap_or_default().to_string_lossy();
    let (before, _, after) =
        marked(&text, NAME).ok_or_else(|| failed(PAGE, "its marks are missing"))?;
    let table = table(&json, &format!("measurements/{folder}"));
    let text = format!("{before}{table}{after}");
    fs::write(&page, text).map_err(Error::system("write", &page))
}

/// The answer that `profile` begins with. In older records what was counted stands before it.
fn conclusion(sentence: &str) -> &str {
    let (first, _) = sentence.split_once(". Hint").unwrap_or((sentence, ""));
    match first.starts_with(|letter: char| letter.is_ascii_digit() || letter == 'l') {
        true => first.split_once("; ").map_or(first, |(_, answer)| answer),
        false => first.split_once(". ").map_or(first, |(answer, _)| answer),
    }
}

/// The table, from a record.
fn table(record: &Value, folder: &str) -> String {
    let environment = &record["environment"];
    let said = |name: &str| environment[name].as_str().unwrap_or_default();
    let load: Vec<String> = record["load"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|load| format!("{:.1}", load.as_f64().unwrap_or(0.0)))
        .collect();
    let mut text = format!(
        "One session on {} with {} cores ({}), {}, Linux {}, load\n{} at the beginning and at the end. \
         Medians, and the ratio from alternating pairs with its\n95 % interval; outputs equal in every \
         round; of `profile` its answer\n\
         (`{folder}`).\n\n\
         | program, unchanged | Debian package | plain | under `run` | ratio | calls made | `profile` says |\n\
         |---|---|---|---|---|---|---|\n",
        if environment["virtual_machine"] == true { "a virtual machine" } else { "a machine" },
        environment["processors"],
        said("processor"),
        said("distribution"),
        said("kernel").split('-').next().unwrap_or_default(),
        load.join(" and "),
    );
    for language in LANGUAGES {
        let package = TOOLS.iter().find(|tool| tool.name == language.tool);
        let package = package.map_or("", |tool| tool.package);
        let findings = record["findings"].as_array().map_or(&[][..], Vec::as_slice);
        if !findings.iter().any(|finding| finding["name"] == language.name) {
            continue;
        }
        let finding = named(&record["findings"], "name", language.name);
        let [plain, run] =
            [0, 1].map(|cell| finding["cells"][cell]["median"].as_f64().unwrap_or(0.0));
        let with = match language.options {
            [] => String::new(),
            options => format!(", `{}`", options.join(" ")),
        };
        let said = &finding["said"];
        let calls = match (said["calls"][0].as_u64(), said["calls"][1].as_u64()) {
            (Some(requested), Some(made)) => format!("{} of {}", count(made), count(requested)),
            _ => "all".to_owned(),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {package} | {} | {}{with} | {} | {calls} | {} |",
            finding["what"].as_str().unwrap_or_default(),
            time(plain),
            time(run),
            ratio(finding, "plain"),
            conclusion(said["profile"].as_str().unwrap_or_default()).replace('|', "\\|"),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_what_its_record_says() {
        let page = fs::read_to_string(root().join(PAGE)).unwrap();
        let (_, said, _) = marked(&page, NAME).expect("the page has its marks");
        let at = said.find("`measurements/").expect("the page names its record");
        let folder = said[at + 1..].split('`').next().unwrap();
        if std::env::var_os("UPDATE_README").is_some() {
            return write_table(&root().join(folder)).unwrap();
        }
        let record = fs::read_to_string(root().join(folder).join("run.json")).unwrap();
        let expected = table(&serde_json::from_str(&record).unwrap(), folder);
        assert!(
            said == expected,
            "UPDATE_README=1 cargo test -p xtask the_page_says; it should say:\n{expected}"
        );
    }

    #[test]
    fn of_what_profile_says_the_answer_matters() {
        for (said, expected) in [
            (
                "9 % of 1 s went into x; it has nothing to gain: y; try: z",
                "it has nothing to gain: y; try: z",
            ),
            (
                "it cannot be seen: it is a Go program. Hint: it reads; in pieces",
                "it cannot be seen: it is a Go program",
            ),
            ("no system calls", "no system calls"),
            ("Use it: 2 times as fast. 9 % of 1 s went into x. Try: z", "Use it: 2 times as fast"),
        ] {
            assert_eq!(conclusion(said), expected);
        }
    }
}
