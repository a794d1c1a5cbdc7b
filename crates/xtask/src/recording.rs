//! `cargo xtask recording`: a session in a terminal, as the picture in README.
//!
//! What is typed is listed here and runs in a scratch folder; what it prints is kept as it came, in a
//! record below `measurements/`, and the picture is drawn from that. A test draws it again.
//!
//! Deliberately not here: colours and motion. A picture in a README is looked at, printed and read aloud.

use crate::build::{self, Machine};
use crate::project::root;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use sweetspot_lab::environment::Environment;
use sweetspot_report::chart::escaped;

/// What is typed.
const TYPED: [&str; 3] = [
    "sweetspot profile -- dd if=in.dat of=out.dat bs=200 status=none 2>&1 | sed -n 2,10p",
    "sweetspot tune -- dd if=in.dat of=out.dat bs=200 status=none | sed -n 1,10p",
    "sweetspot run --summary -- dd if=in.dat of=out.dat bs=200 status=none",
];
/// What `dd` copies: half a second of calls of 200 bytes or so.
const INPUT_BYTES: usize = 60_000_000;
/// As wide as the terminal is: the table of `profile` has room.
const COLUMNS: usize = 120;
const PICTURE: &str = "docs/session.svg";
const RECORD: &str = "session.json";

/// A session.
#[derive(Serialize, Deserialize)]
struct Recording {
    machine: String,
    commands: Vec<Ran>,
}

/// A command, and what it printed.
#[derive(Serialize, Deserialize)]
struct Ran {
    typed: String,
    printed: String,
}

/// Records a session and draws it. Returns what was done.
///
/// # Errors
/// The product does not build, or a file cannot be written.
pub fn record(name: Option<String>) -> Result<String, String> {
    let built = build::binary("release", Machine::HERE)?;
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let session = run(&built.binary, scratch.path()).map_err(|error| error.to_string())?;
    let here = Environment::of(scratch.path(), &[]).map_err(|error| error.to_string())?;
    let session = Recording { machine: machine(&here), ..session };
    let name = name.unwrap_or_else(|| format!("{}-{}-session", here.date, here.machine()));
    let folder = root().join("measurements").join(name);
    let written = fs::create_dir_all(&folder).and_then(|()| {
        let text = serde_json::to_string_pretty(&session)?;
        fs::write(folder.join(RECORD), text + "\n")?;
        fs::write(root().join(PICTURE), picture(&session))
    });
    written.map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(format!("{PICTURE}: from {}; README is to name that record", folder.display()))
}

fn run(binary: &Path, scratch: &Path) -> std::io::Result<Recording> {
    let (bin, data) = (scratch.join("bin"), scratch.join("data"));
    fs::create_dir(&bin)?;
    fs::create_dir(&data)?;
    symlink(binary, bin.join("sweetspot"))?;
    fs::write(data.join("in.dat"), vec![b'x'; INPUT_BYTES])?;
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let mut commands = Vec::new();
    for typed in TYPED {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec 2>&1; {typed}")]).current_dir(&data);
        let output = shell.env("PATH", &path).env("HOME", scratch).output()?;
        let printed = String::from_utf8_lossy(&output.stdout);
        // Where it ran is nobody's matter; the table is as wide as the path was.
        let blanks = " ".repeat(data.display().to_string().len() - "/data".len());
        let printed = printed.replace(&*data.to_string_lossy(), "/data");
        let printed = printed.replace(&format!(" file{blanks}"), " file");
        commands.push(Ran { typed: typed.to_owned(), printed });
    }
    Ok(Recording { machine: String::new(), commands })
}

fn machine(here: &Environment) -> String {
    format!("{}, {} of them, Linux {}", here.processor, here.processors, here.kernel)
}

/// The lines of a terminal: what was typed stands behind a prompt, and long lines are broken between
/// words.
fn lines(session: &Recording) -> Vec<(bool, String)> {
    let mut lines = Vec::new();
    let mut add = |is_typed: bool, text: &str| {
        let mut rest = text.trim_end().to_owned();
        loop {
            let end = rest.char_indices().nth(COLUMNS).map_or(rest.len(), |(at, _)| at);
            let blank = rest[..end].rfind(' ').filter(|at| end < rest.len() && *at > 0);
            let next = rest.split_off(blank.unwrap_or(end));
            lines.push((is_typed, rest));
            if next.is_empty() {
                break;
            }
            rest = next.trim_start().to_owned();
        }
    };
    for (number, ran) in session.commands.iter().enumerate() {
        if number > 0 {
            add(false, "");
        }
        add(true, &format!("$ {}", ran.typed));
        ran.printed.trim_end().lines().for_each(|line| add(false, line));
    }
    lines
}

/// The session as a picture that reads in light and dark, and aloud.
fn picture(session: &Recording) -> String {
    const LETTER: f64 = 7.8;
    const LINE: f64 = 18.0;
    const EDGE: f64 = 16.0;
    let lines = lines(session);
    let (wide, high) =
        (COLUMNS as f64 * LETTER + 2.0 * EDGE, lines.len() as f64 * LINE + 2.0 * EDGE);
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide} {high}\" width=\"{wide}\" \
         role=\"img\" aria-labelledby=\"t d\"><title id=\"t\">A session in a terminal</title>\
         <desc id=\"d\">{}</desc><style>\
         :root{{--ink:#1b1f24;--soft:#57606a;--typed:#0072b2;--paper:#f6f8fa}}\
         @media(prefers-color-scheme:dark){{:root{{--ink:#e6edf3;--soft:#9da7b1;--typed:#56b4e9;\
         --paper:#0f1419}}}}\
         text{{font:13px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:var(--ink);\
         white-space:pre}}.typed{{fill:var(--typed);font-weight:600}}</style>\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" style=\"fill:var(--paper)\"/>\n",
        escaped(&said(session))
    );
    for (number, (is_typed, line)) in
        lines.iter().enumerate().filter(|(_, (_, line))| !line.is_empty())
    {
        let class = if *is_typed { " class=\"typed\"" } else { "" };
        // Letters of whatever font is there stand where they stand in a terminal.
        let long = line.chars().count() as f64 * LETTER;
        let at = EDGE + (number as f64 + 0.75) * LINE;
        let _ = writeln!(
            picture,
            "<text{class} x=\"{EDGE}\" y=\"{at:.1}\" textLength=\"{long:.1}\" \
             lengthAdjust=\"spacingAndGlyphs\" xml:space=\"preserve\">{}</text>",
            escaped(line)
        );
    }
    picture + "</svg>\n"
}

/// For who cannot see it: what was typed, and the first line of each answer.
fn said(session: &Recording) -> String {
    let said = |ran: &Ran| {
        format!("{}: {}", ran.typed, ran.printed.lines().next().unwrap_or("nothing is printed"))
    };
    session.commands.iter().map(said).collect::<Vec<_>>().join(" Then ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_in_the_walk_through_is_drawn_from_its_record() {
        let page = fs::read_to_string(root().join("docs/use/walk-through.md")).unwrap();
        let (_, after) = page.split_once("(../session.svg)").expect("it shows the session");
        let at = after.find("`measurements/").expect("it names the session's record");
        let folder = after[at + 1..].split('`').next().unwrap();
        let record = fs::read_to_string(root().join(folder).join(RECORD)).unwrap();
        let drawn = picture(&serde_json::from_str(&record).unwrap());
        if std::env::var_os("UPDATE_README").is_some() {
            fs::write(root().join(PICTURE), &drawn).unwrap();
        }
        let shown = fs::read_to_string(root().join(PICTURE)).unwrap_or_default();
        assert!(shown == drawn, "UPDATE_README=1 cargo test -p xtask the_session_in_the");
    }

    #[test]
    fn long_lines_are_broken_and_none_is_lost() {
        let words = format!("{} {}", "y".repeat(COLUMNS - 1), "z".repeat(2));
        let printed = format!("{}\n{words}\n\n<b> & c\n", "x".repeat(COLUMNS + 1));
        let ran = |printed: String| Ran { typed: "a".to_owned(), printed };
        let session =
            Recording { machine: String::new(), commands: vec![ran(printed), ran(String::new())] };
        let lines = lines(&session);
        let lengths: Vec<usize> = lines.iter().map(|(_, line)| line.len()).collect();
        assert_eq!(lengths, [3, COLUMNS, 1, COLUMNS - 1, 2, 0, 7, 0, 3]);
        let typed: Vec<bool> = lines.iter().map(|(is_typed, _)| *is_typed).collect();
        assert_eq!(typed.iter().filter(|is_typed| **is_typed).count(), 2);
        assert!(typed[0] && typed[8], "{typed:?}");
        let picture = picture(&session);
        assert!(picture.contains("&lt;b&gt; &amp; c") && !picture.contains("<b>"), "{picture}");
        assert_eq!(picture.matches("<text").count(), 7);
    }
}
