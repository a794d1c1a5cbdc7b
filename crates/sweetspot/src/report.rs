//! `sweetspot report`: shows what `tune` and `bench` have measured, also while they do, and what
//! `profile` and `run --summary` wrote.
//!
//! The story: read what was named (`load`) into one form; make sentences, tables and figures of it; show
//! them in a terminal or as Markdown, or as a page with drawings (all of that is `sweetspot_report`'s).
//!
//! Invariant: nothing that was named is changed, and no file that holds anything but an older report
//! is overwritten.
//!
//! Deliberately not here: any statistics. They are `sweetspot-lab`'s; what follows from them, `tune`
//! and `bench` say.

mod load;

use crate::arguments;
use crate::target::Target;
use std::io::IsTerminal;
use std::path::Path;
use sweetspot_report::content::{self, Block, Section};
use sweetspot_report::data::Report;
use sweetspot_report::failure::Failure;
use sweetspot_report::print::print;
use sweetspot_report::shown::shown;
use sweetspot_report::{chart, page, text};

/// Shows what was named. Returns the exit status.
///
/// # Errors
/// Where something cannot be read or is not understood, or a file cannot be written.
pub fn report(arguments: &arguments::Report) -> Result<u8, Failure> {
    let report = load::report(arguments)?;
    let sections = content::sections(&report);
    let mut written = Vec::new();
    if let Some(path) = &arguments.html {
        write("--html ", path, page::START, &page::html(&report, &sections))?;
        written.push(path);
    }
    if let Some(path) = &arguments.figure {
        write("--figure ", path, chart::FILE_START, &first_figure(&sections, path)?)?;
        written.push(path);
    }
    if arguments.markdown {
        print(&text::markdown(&report, &sections))?;
    } else if arguments.json {
        print(&(serde_json::to_string(&report).unwrap_or_default() + "\n"))?;
    } else if arguments.csv {
        print(&csv(&report)?)?;
    } else if written.iter().any(|path| path.as_os_str() != "-") {
        print(&brief(&sections, &written))?;
    } else if written.is_empty() {
        print(&text::plain(&report, &sections, width()))?;
    }
    Ok(0)
}

fn write(option: &str, path: &Path, start: &str, text: &str) -> Result<(), Failure> {
    Target::open(option, path, start)?.try_write(text)
}

/// Columns of the terminal; of none, there is no limit.
fn width() -> Option<u16> {
    let stdout = std::io::stdout();
    let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok())??;
    (size.ws_col > 0).then_some(size.ws_col)
}

fn csv(report: &Report) -> Result<String, Failure> {
    if report.sessions.is_empty() {
        return Err(Failure::own("there are no runs: profiles and summaries are of one run each")
            .next("name a store of tune or bench; for profiles: --json"));
    }
    text::csv(&report.sessions).map_err(|error| Failure::own(error.to_string()))
}

fn first_figure(sections: &[Section], path: &Path) -> Result<String, Failure> {
    let mut blocks = sections.iter().flat_map(|section| &section.blocks);
    let figure = blocks.find_map(|block| match block {
        Block::Figure(figure) => Some(figure),
        _ => None,
    });
    let figure = figure.ok_or_else(|| {
        Failure::own(format!("--figure {}: there is nothing that could be drawn", shown(path)))
            .next("try again when more runs are finished")
    })?;
    Ok(figure.chart.file())
}

/// The answer, and where the rest is.
fn brief(sections: &[Section], written: &[&std::path::PathBuf]) -> String {
    let answers =
        sections.iter().flat_map(|section| &section.blocks).filter_map(|block| match block {
            Block::Answer(text) => Some(text.as_str()),
            _ => None,
        });
    let mut lines: Vec<String> = answers.map(str::to_owned).collect();
    lines.extend(written.iter().map(|path| format!("Written: {}", shown(path))));
    lines.join("\n") + "\n"
}
