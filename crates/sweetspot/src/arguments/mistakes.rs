//! Answers to mistyping: what was wrong, and what to type instead.

use crate::say::say;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::io::{self, Write};
use std::num::ParseIntError;
use sweetspot_report::failure::STATUS_OWN;
use sweetspot_report::print::printed;

/// Exit status for what was mistyped, other than after `run`.
const STATUS_USAGE: u8 = 2;

/// What a verb cannot do without: what is missing, and what to type.
const WANTED: [(&str, &str, &str); 7] = [
    ("run", "no program to run", "sweetspot run -- ./program"),
    ("profile", "no program to run", "sweetspot profile -- ./program"),
    ("verify", "no command to run", "sweetspot verify -- ./program its arguments"),
    ("tune", "no command to measure", "sweetspot tune -- ./program its arguments"),
    ("bench", "no plan", "sweetspot bench plan.toml"),
    ("report", "nothing to show", "sweetspot report plan.sqlite"),
    ("summary", "no folder of summaries", "sweetspot summary job/"),
];

/// Answers to what was typed: help on stdout, mistakes on stderr. Returns the exit status.
pub fn answer(error: &clap::Error) -> u8 {
    if let ErrorKind::DisplayHelp | ErrorKind::DisplayVersion = error.kind() {
        let ended = error.print().and_then(|()| io::stdout().flush());
        return printed(ended).map_or_else(
            |failure| {
                say(&failure);
                failure.status
            },
            |()| 0,
        );
    }
    let verb = std::env::args_os().nth(1).unwrap_or_default();
    let verb = verb.to_string_lossy();
    match mistake(error, &verb) {
        Some((what, next)) => say(format_args!("sweetspot{what}\n  {next}")),
        None => {
            let _ = error.print();
        }
    }
    if verb == "run" || verb == "profile" { STATUS_OWN } else { STATUS_USAGE }
}

fn no_verb(typed: &str, meant: Option<String>) -> (String, String) {
    let next = match meant {
        Some(verb) => format!("did you mean: sweetspot {verb}"),
        None => format!("to run a program: sweetspot run -- {typed}; all verbs: sweetspot --help"),
    };
    (format!(": no verb '{typed}'"), next)
}

fn nothing_to_do(at: &str, help: String) -> (String, String) {
    match at {
        "" => (
            ": no command".to_owned(),
            "try: sweetspot run -- ./program, or: sweetspot --help".to_owned(),
        ),
        at => (format!("{at}: nothing says what to do"), help),
    }
}

fn missing(verb: &str, at: &str, missing: &str, help: String) -> (String, String) {
    match WANTED.iter().find(|(name, ..)| *name == verb) {
        // An option that wants another one is no missing command.
        Some((_, missing_command, example)) if missing.starts_with('<') => {
            (format!("{at}: {missing_command}"), format!("try: {example}"))
        }
        _ => (format!("{at}: {missing} is missing"), help),
    }
}

/// What a word is that is expected nowhere.
fn unknown(typed: &str) -> &'static str {
    let mut letters = typed.chars();
    match (letters.next(), letters.next()) {
        (Some('-'), Some('0'..='9')) => "nothing here may be below 0:",
        (Some('-'), _) => "no option",
        _ => "unexpected argument",
    }
}

/// The limits in what clap says of a number beyond them: `50 is not in 1..=20`.
fn limits(why: &str) -> Option<(&str, &str)> {
    why.rsplit_once(" is not in ")?.1.split_once("..=")
}

/// What is wrong with the value of an option; `why` is what clap says of it.
fn invalid_value(option: &str, value: &str, why: Option<String>) -> String {
    let limits = why.as_deref().and_then(limits);
    match (value, limits) {
        ("", _) => format!("{option} needs a value"),
        (_, Some((least, most))) => {
            let unit = if option == "--max-age" { " milliseconds" } else { "" };
            format!("{option} must be between {least} and {most}{unit}")
        }
        (value, None) => format!("{option} cannot be '{value}'{}", why.unwrap_or_default()),
    }
}

/// What was wrong with what was typed, and what to type next. `None`: clap says it best.
fn mistake(error: &clap::Error, verb: &str) -> Option<(String, String)> {
    let context = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => texts.first().cloned(),
        _ => None,
    };
    // Where an option comes first there is no verb.
    let at = if verb.is_empty() || verb.starts_with('-') { "" } else { &format!(" {verb}") };
    let help = format!("all options: sweetspot{at} --help");
    // `--budget <TIME>`: people type the name. What is none is a word by its place: `[LEDGER]`.
    let named = |option: Option<String>| {
        option.map(|option| match option.starts_with('-') {
            true => option.split([' ', '=', '[']).next().unwrap_or_default().to_owned(),
            false => option,
        })
    };
    let invalid = named(context(ContextKind::InvalidArg));
    Some(match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            nothing_to_do(at, help)
        }
        ErrorKind::MissingRequiredArgument => missing(verb, at, &invalid?, help),
        ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
            (format!("{at}: {} needs more than that", invalid?), help)
        }
        ErrorKind::InvalidSubcommand => {
            let typed = context(ContextKind::InvalidSubcommand).unwrap_or_default();
            no_verb(&typed, context(ContextKind::SuggestedSubcommand))
        }
        ErrorKind::UnknownArgument => {
            let next = match context(ContextKind::SuggestedArg) {
                Some(option) => format!("did you mean: {option}; {help}"),
                None => help,
            };
            let typed = invalid?;
            (format!("{at}: {} '{typed}'", unknown(&typed)), next)
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let (option, value) =
                (invalid?, context(ContextKind::InvalidValue).unwrap_or_default());
            let why = std::error::Error::source(error).map(|why| match why.is::<ParseIntError>() {
                true => ": a whole number is wanted, such as 1000".to_owned(),
                false => format!(": {why}"),
            });
            let what = invalid_value(&option, &value, why);
            (format!("{at}: {what}"), help)
        }
        ErrorKind::ArgumentConflict => {
            let other = named(context(ContextKind::PriorArg))?;
            let both = format!("{} and {other} cannot be used together", invalid?);
            (format!("{at}: {both}"), format!("leave one of them out; {help}"))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Arguments;
    use clap::Parser;

    #[test]
    fn mistakes_are_said_with_what_to_type_next() {
        let check = |typed: &str, what: &str, next: &str| {
            let words = std::iter::once("sweetspot").chain(typed.split_whitespace());
            let Err(error) = Arguments::try_parse_from(words) else { panic!("{typed} is fine") };
            let verb = typed.split_whitespace().next().unwrap_or_default();
            let found = mistake(&error, verb);
            assert_eq!(found, Some((what.to_owned(), next.to_owned())), "{typed}");
        };
        let tune_help = "all options: sweetspot tune --help";
        check(
            "tune",
            " tune: no command to measure",
            "try: sweetspot tune -- ./program its arguments",
        );
        check("bench", " bench: no plan", "try: sweetspot bench plan.toml");
        check("run", " run: no program to run", "try: sweetspot run -- ./program");
        check(
            "tune --budgt 3s -- ls",
            " tune: no option '--budgt'",
            "did you mean: --budget; all options: sweetspot tune --help",
        );
        check(
            "bench --warmup 3 plan.toml",
            " bench: no option '--warmup'",
            "all options: sweetspot bench --help",
        );
        check(
            "tune --sizes 4K -- ls",
            " tune: --sizes cannot be '4K': expected two sizes, such as 4K..16M",
            tune_help,
        );
        check(
            "bench --budget soon plan.toml",
            " bench: --budget cannot be 'soon': expected a time such as 90s, 5m or 1h",
            "all options: sweetspot bench --help",
        );
        check("tune --patience 50 ls", " tune: --patience must be between 1 and 20", tune_help);
        check(
            "run --max-age 0 -- ls",
            " run: --max-age must be between 1 and 60000 milliseconds",
            "all options: sweetspot run --help",
        );
        check(
            "tune --seed x ls",
            " tune: --seed cannot be 'x': a whole number is wanted, such as 1000",
            tune_help,
        );
        check(
            "doctor x",
            " doctor: unexpected argument 'x'",
            "all options: sweetspot doctor --help",
        );
        check("tune --within -5 ls", " tune: nothing here may be below 0: '-5'", tune_help);
        check("tune --from", " tune: --from needs a value", tune_help);
        check(
            "tune --warm --cold -- ls",
            " tune: --warm and --cold cannot be used together",
            "leave one of them out; all options: sweetspot tune --help",
        );
        check(
            "profile --compare a b -- true",
            " profile: --compare and [CMD ARGS]... cannot be used together",
            "leave one of them out; all options: sweetspot profile --help",
        );
    }
}
