//! `sweetspot generate`: manual pages and completions, from the definitions that `--help` shows; and
//! what lets a systemd unit run buffered (`systemd`).
//!
//! A page has the parts of the help in the order of manuals: what stands before the usage there are
//! the EXAMPLES here, what stands behind the options is the DESCRIPTION, and its paragraph about exit
//! statuses has a section of its own.

mod systemd;

use crate::arguments::{Arguments, Generate, Generated};
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use jiff::{Timestamp, tz::TimeZone};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use sweetspot_report::failure::Failure;
use sweetspot_report::print::print;
use sweetspot_report::shown::shown;

const NAME: &str = "sweetspot";
/// How the paragraph about exit statuses begins, in every help.
const EXIT_STATUS: &str = "The exit status is";

/// Writes what was asked for.
///
/// # Errors
/// Where it cannot be written.
pub fn generate(arguments: &Generate) -> Result<u8, Failure> {
    let folder = &arguments.target;
    let write = match arguments.what {
        Generated::Man => pages,
        Generated::Completions => completions,
        Generated::Systemd => {
            let text = systemd::drop_in(folder)?;
            return print(&text).map(|()| 0);
        }
    };
    let written = fs::create_dir_all(folder).and_then(|()| write(folder));
    written.map_err(|error| Failure::own(format!("{}: {error}", shown(folder))))?;
    Ok(0)
}

/// What can be typed, without the verbs that people do not type.
fn visible() -> Command {
    let all = Arguments::command();
    let verbs = all.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    let shown = Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommands(verbs);
    let (about, examples) = (all.get_about(), all.get_before_help());
    shown
        .about(about.cloned().unwrap_or_default())
        .before_help(examples.cloned().unwrap_or_default())
}

fn completions(folder: &Path) -> io::Result<()> {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut visible(), NAME, folder)?;
    }
    Ok(())
}

fn pages(folder: &Path) -> io::Result<()> {
    let mut command = visible();
    command.build();
    page_and_those_below(&command, folder)
}

fn page_and_those_below(command: &Command, folder: &Path) -> io::Result<()> {
    let man = Man::new(command.clone())
        .source(concat!("sweetspot ", env!("CARGO_PKG_VERSION")))
        .manual("sweetspot")
        .date(date());
    page(&man, command, &mut File::create(folder.join(man.get_filename()))?)?;
    command.get_subcommands().try_for_each(|verb| page_and_those_below(verb, folder))
}

fn page(man: &Man, command: &Command, file: &mut File) -> io::Result<()> {
    let text = |part: Option<&clap::builder::StyledStr>| part.map(ToString::to_string);
    let notes = text(command.get_after_help()).unwrap_or_default();
    let (statuses, notes): (Vec<&str>, Vec<&str>) =
        notes.split("\n\n").partition(|paragraph| paragraph.starts_with(EXIT_STATUS));
    man.render_title(file)?;
    man.render_name_section(file)?;
    // As `--help` says it: clap_mangen leaves out what options take.
    let usage = command.clone().render_usage().to_string();
    let mut synopsis = Roff::new();
    synopsis.control("SH", ["SYNOPSIS"]).control("nf", []);
    for line in usage.trim_start_matches("Usage:").lines().filter(|line| !line.trim().is_empty()) {
        add_lines(&mut synopsis, line.trim());
    }
    synopsis.control("fi", []).to_writer(file)?;
    man.render_description_section(file)?;
    let mut behind = Roff::new();
    let notes = notes.iter().filter(|paragraph| !paragraph.is_empty());
    notes.for_each(|paragraph| add_lines(behind.control("PP", []), paragraph));
    behind.to_writer(file)?;
    if let Some(examples) = text(command.get_before_help()) {
        let lines = examples.lines().skip(1).map(str::trim);
        let mut section = Roff::new();
        section.control("SH", ["EXAMPLES"]).control("nf", []);
        for line in lines {
            section.text([roman(line)]);
        }
        section.control("fi", []).to_writer(file)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(file)?;
    }
    man.render_options_section(file)?;
    if !statuses.is_empty() {
        let mut section = Roff::new();
        section.control("SH", ["EXIT STATUS"]);
        statuses.iter().for_each(|paragraph| add_lines(&mut section, paragraph));
        section.to_writer(file)?;
    }
    Ok(())
}

fn add_lines(roff: &mut Roff, paragraph: &str) {
    for line in paragraph.lines() {
        roff.text([roman(line)]);
    }
}

/// Today, or, to make the same page of the same source, the day that is said
/// (<https://reproducible-builds.org/specs/source-date-epoch/>).
fn date() -> String {
    let said = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    let time = said.and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.unwrap_or_else(Timestamp::now).to_zoned(TimeZone::UTC).date().to_string()
}
