//! A report in a terminal, as Markdown, and its runs as CSV.

use crate::content::{Block, Section, Table};
use crate::data::{Report, Run, Session};
use comfy_table::{CellAlignment, ContentArrangement, Row, Table as Drawn, presets};
use std::fmt::Write as _;

/// A table needs so much; narrower terminals break its lines.
const WIDTH_MIN: u16 = 40;

/// For a terminal of that width; without one, as wide as it gets.
pub fn plain(report: &Report, sections: &[Section], width: Option<u16>) -> String {
    let mut text = String::new();
    for (number, section) in sections.iter().enumerate() {
        if number > 0 {
            text.push('\n');
        }
        let _ = writeln!(text, "{}\n{}\n", wrapped(&section.heading, width), section.kind);
        for block in &section.blocks {
            match block {
                Block::Answer(words) | Block::Text(words) => {
                    let _ = writeln!(text, "{}", wrapped(words, width));
                }
                Block::List(items) => {
                    for item in items {
                        let _ = writeln!(text, "{}", wrapped(&format!("- {item}"), width));
                    }
                }
                Block::Verbatim(words) => {
                    let _ = writeln!(text, "\n{}", visible(words).trim_end());
                }
                Block::Table(table) => {
                    let _ = writeln!(text, "\n{}", drawn(table, width));
                    let _ = writeln!(text, "{}", wrapped(&table.caption, width));
                }
                Block::Figure(_) => {}
            }
        }
    }
    for note in &report.notes {
        let _ = writeln!(text, "\n{}", wrapped(&format!("Note: {note}."), width));
    }
    text
}

/// Without what a terminal would obey.
fn visible(text: &str) -> String {
    let seen = |letter: char| match letter {
        '\n' | '\t' => letter,
        letter if letter.is_control() => '\u{fffd}',
        letter => letter,
    };
    text.chars().map(seen).collect()
}

/// In lines of that width.
fn wrapped(text: &str, width: Option<u16>) -> String {
    let text = visible(text);
    let Some(width) = width.map(usize::from) else { return text };
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push_str(&line);
            lines.push('\n');
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines + &line
}

fn drawn(table: &Table, width: Option<u16>) -> String {
    let visible = |texts: &[String]| texts.iter().map(|text| visible(text)).collect::<Vec<_>>();
    let is_number = |column: &usize| !table.header[*column].is_empty();
    let numbers = (table.words..table.header.len()).filter(is_number);
    let rows = table.rows.iter().map(|row| visible(row));
    let mut drawn = aligned(visible(&table.header), rows, numbers);
    if let Some(width) = width {
        drawn.set_content_arrangement(ContentArrangement::Dynamic).set_width(width.max(WIDTH_MIN));
    }
    drawn.trim_fmt()
}

/// Columns beside each other, as wide as they get; those of numbers end at the same place.
pub fn table<Rows>(
    header: impl Into<Row>,
    rows: Rows,
    numbers: impl IntoIterator<Item = usize>,
) -> String
where
    Rows: IntoIterator<Item: Into<Row>>,
{
    aligned(header, rows, numbers).trim_fmt()
}

fn aligned<Rows>(
    header: impl Into<Row>,
    rows: Rows,
    numbers: impl IntoIterator<Item = usize>,
) -> Drawn
where
    Rows: IntoIterator<Item: Into<Row>>,
{
    let mut drawn = Drawn::new();
    drawn.load_style(presets::NOTHING).set_header(header).add_rows(rows);
    for column in numbers {
        if let Some(column) = drawn.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    drawn
}

/// For a pull request.
pub fn markdown(report: &Report, sections: &[Section]) -> String {
    let mut text = String::new();
    for section in sections {
        let _ = writeln!(text, "### {}\n\n{}\n", plain_words(&section.heading), section.kind);
        for block in &section.blocks {
            match block {
                Block::Answer(words) => {
                    let _ = writeln!(text, "**{}**\n", plain_words(words));
                }
                Block::Text(words) => {
                    let _ = writeln!(text, "{}\n", plain_words(words));
                }
                Block::List(items) => {
                    for item in items {
                        let _ = writeln!(text, "- {}", plain_words(item));
                    }
                    text.push('\n');
                }
                Block::Verbatim(words) => {
                    let fence = fence(words);
                    let _ = writeln!(text, "{fence}text\n{}\n{fence}\n", visible(words).trim_end());
                }
                Block::Table(table) => markdown_table(&mut text, table),
                Block::Figure(_) => {}
            }
        }
    }
    for note in &report.notes {
        let _ = writeln!(text, "{}.\n", plain_words(note));
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

/// More backticks in a row than the text has.
fn fence(text: &str) -> String {
    let runs = text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(runs.max(2) + 1)
}

fn markdown_table(text: &mut String, table: &Table) {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| plain_words(cell)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let _ = write!(text, "{}", line(&table.header));
    let rule = |column: usize| if column < table.words { "---" } else { "---:" };
    let rules: Vec<&str> = (0..table.header.len()).map(rule).collect();
    let _ = writeln!(text, "| {} |", rules.join(" | "));
    for (number, row) in table.rows.iter().enumerate() {
        let bold = |cell: &String| match (table.marked == Some(number), cell.is_empty()) {
            (true, false) => format!("**{}**", plain_words(cell)),
            _ => plain_words(cell),
        };
        let cells: Vec<String> = row.iter().map(bold).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    let _ = writeln!(text, "\n{}\n", plain_words(&table.caption));
}

/// On one line, with nothing in it that Markdown or HTML would take for a sign.
fn plain_words(text: &str) -> String {
    let mut safe = String::new();
    for letter in visible(text).chars() {
        match letter {
            '\n' | '\t' => safe.push(' '),
            '\\' | '`' | '*' | '_' | '|' | '[' | ']' | '~' => safe.extend(['\\', letter]),
            '<' => safe.push_str("&lt;"),
            '&' => safe.push_str("&amp;"),
            letter => safe.push(letter),
        }
    }
    safe
}

/// One run a row.
pub fn csv(sessions: &[Session]) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS)?;
    for session in sessions {
        for (number, run) in session.runs.iter().enumerate() {
            writer.write_record(record(session, number + 1, run))?;
        }
    }
    let bytes = writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

const COLUMNS: [&str; 25] = [
    "session",
    "run",
    "round",
    "place",
    "cell",
    "phase",
    "node",
    "counts",
    "figure",
    "unit",
    "wall_seconds",
    "user_seconds",
    "system_seconds",
    "peak_memory_bytes",
    "read_calls",
    "write_calls",
    "read_bytes",
    "written_bytes",
    "minor_faults",
    "major_faults",
    "voluntary_switches",
    "involuntary_switches",
    "disturbed",
    "output",
    "given_up",
];

fn record(session: &Session, number: usize, run: &Run) -> [String; COLUMNS.len()] {
    let or_nothing = |text: &Option<String>| text.clone().unwrap_or_default();
    [
        session.number.to_string(),
        number.to_string(),
        run.round.to_string(),
        run.place.to_string(),
        session.cells[run.cell].name.clone(),
        or_nothing(&run.phase),
        or_nothing(&run.node),
        run.counts.to_string(),
        run.figure.map_or_else(String::new, |figure| figure.to_string()),
        session.unit.clone(),
        run.wall_seconds.to_string(),
        run.user_seconds.to_string(),
        run.system_seconds.to_string(),
        run.peak_memory_bytes.to_string(),
        run.read_calls.to_string(),
        run.write_calls.to_string(),
        run.read_bytes.to_string(),
        run.written_bytes.to_string(),
        run.minor_faults.to_string(),
        run.major_faults.to_string(),
        run.voluntary_switches.to_string(),
        run.involuntary_switches.to_string(),
        run.disturbed.to_string(),
        or_nothing(&run.output),
        or_nothing(&run.given_up),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_users_wrote_is_a_sign() {
        let check = |text: &str, expected: &str| assert_eq!(plain_words(text), expected);
        check("a|b\n<b>", "a\\|b &lt;b>");
        check("`x` *y* _z_", "\\`x\\` \\*y\\* \\_z\\_");
        assert_eq!(visible("a\u{1b}[31m\n"), "a\u{fffd}[31m\n");
        assert_eq!(fence("a ``` b"), "````");
        assert_eq!(fence("a"), "```");
    }

    #[test]
    fn lines_are_as_long_as_there_is_room() {
        assert_eq!(wrapped("one two three", Some(7)), "one two\nthree");
        assert_eq!(wrapped("one two three", None), "one two three");
        let table = Table {
            header: vec!["name".into(), "figure".into()],
            rows: vec![vec!["a long name of several words".into(), "1".into()]],
            words: 1,
            ..Table::default()
        };
        for width in [40, 60, 200] {
            let drawn = drawn(&table, Some(width));
            assert!(
                drawn.lines().all(|line| line.chars().count() <= usize::from(width)),
                "{drawn}"
            );
        }
    }
}
