//! Single values: words with a meaning, texts with placeholders, commands, hashes; and when a plan ends.

use super::{MARGIN_DEFAULT, ROUNDS_MIN};
use crate::plan::document::Value;
use crate::plan::{Cache, Figure, Output, PROGRAM, PROGRAM_BEFORE, PlanError, Stop, Template};
use crate::{grammar, paired, statistics::SAMPLES_MAX};

pub(super) fn figure(word: &str) -> Result<Figure, String> {
    match word {
        "wall" => Ok(Figure::Wall),
        "samples" => Ok(Figure::Samples),
        _ => Err("try: \"wall\" (time) or \"samples\" (the median of what is reported)".to_owned()),
    }
}

pub(super) fn cache(word: &str) -> Result<Cache, String> {
    Cache::named(word).ok_or_else(|| "try: \"warm\", \"cold\" or \"none\"".to_owned())
}

pub(super) fn output(word: &str) -> Result<Output, String> {
    match word {
        "file" => Ok(Output::File),
        "stdout" => Ok(Output::Stdout),
        "none" => Ok(Output::None),
        _ => Err("try: \"file\" (what {output} is), \"stdout\" or \"none\"".to_owned()),
    }
}

/// A text in which the placeholders `known` mean something.
pub(super) fn template(value: Value, known: &[&str]) -> Result<Template, PlanError> {
    let template = Template::read(value.text()?)
        .map_err(|what| value.error(what, "a brace that is meant as such is typed twice: {{"))?
        .renamed(PROGRAM_BEFORE, PROGRAM);
    if let Some(name) = template.names().find(|name| !known.contains(name)) {
        let known: Vec<String> = known.iter().map(|name| format!("{{{name}}}")).collect();
        let what = format!("{{{name}}} means nothing here");
        return Err(value.error(what, format!("known here: {}", known.join(" "))));
    }
    Ok(template)
}

/// Words of a command.
pub(super) fn words(value: Value, known: &[&str]) -> Result<Vec<Template>, PlanError> {
    value.list()?.into_iter().map(|word| template(word, known)).collect()
}

/// A whole command.
pub(super) fn command(value: Value, known: &[&str]) -> Result<Vec<Template>, PlanError> {
    let words = words(value, known)?;
    match words.is_empty() {
        true => Err(value.error("the command is empty", "name a program: [\"PROGRAM\"]")),
        false => Ok(words),
    }
}

pub(super) fn hash(text: &str) -> Result<String, String> {
    match text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(text.to_ascii_lowercase()),
        false => Err("64 hexadecimal digits are wanted, as sha256sum prints them".to_owned()),
    }
}

pub(super) fn stop(
    rounds: Option<Value>,
    precision: Option<Value>,
    budget: Option<Value>,
) -> Result<Stop, PlanError> {
    let budget_time = budget.map(|value| value.parsed(grammar::duration)).transpose()?;
    let Some(rounds) = rounds else {
        let within = precision.map(|value| value.parsed(grammar::share)).transpose()?;
        return Ok(Stop::Precision {
            within: within.unwrap_or(MARGIN_DEFAULT),
            budget: budget_time,
        });
    };
    if let Some(other) = precision.or(budget) {
        let next = "leave out 'rounds', or 'precision' and 'budget'";
        return Err(other.error("a number of rounds is fixed already", next));
    }
    match rounds.whole()? {
        number if (ROUNDS_MIN..=SAMPLES_MAX as u64).contains(&number) => {
            Ok(Stop::Rounds(number as usize))
        }
        number => Err(rounds.error(
            format!("{number} rounds are not possible"),
            format!("from {ROUNDS_MIN} to {SAMPLES_MAX}; {} show most things", paired::LOOKS[0]),
        )),
    }
}
