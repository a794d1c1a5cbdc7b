//! The report in the terminal: the sentence, the run as a picture, the files, the processes, what to do.

use super::data::{
    File, FileKind, Insight, MOMENTS_MIN, Moment, Process, Profile, Severity, Verdict,
};
use super::place;
use crate::numbers::{self, bytes, count, seconds};
use std::fmt::Write as _;
use std::io::IsTerminal;

/// Files and processes that are shown; the rest is folded. `--json` has all.
const FILES_SHOWN: usize = 12;
const FILES_SHOWN_MIN: usize = 3;
/// A file with less than that part of the time in calls is one of the rest.
const SHARE_SHOWN: f64 = 0.01;
/// Places in the program that are shown of a file.
const PLACES_SHOWN: usize = 3;
const PROCESSES_SHOWN: usize = 8;
const INSIGHTS_SHOWN: usize = 6;
/// Codes of findings that the sentence tells, with their commands.
const TOLD: [&str; 3] = ["will-gain", "stdio", "not-seen"];
/// Fewer seeks are no matter.
const SEEKS_TOLD: u64 = 16;
/// Columns of a path that are shown.
const PATH_COLUMNS: usize = 40;
/// Places of the drawn histogram: each stands for two powers of two, from 1 byte to 16 MiB.
const DRAWN: usize = 13;
/// Heights of a place that is drawn.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Places of the drawn run: each stands for an equal part of its time.
const RUN: usize = 48;

/// Whether there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    Colours,
}

impl Style {
    /// Colours on a terminal, unless NO_COLOR is set or the terminal has none.
    pub fn of_stderr() -> Style {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        match std::io::stderr().is_terminal() && !is_set("NO_COLOR") && !is_dumb {
            true => Style::Colours,
            false => Style::Plain,
        }
    }

    fn paint(self, code: &str, text: &str) -> String {
        match self {
            Style::Plain => text.to_string(),
            Style::Colours => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }

    fn verdict(self, verdict: Verdict) -> String {
        let code = match verdict {
            Verdict::WillGain => "32",
            Verdict::NoGain => "2",
            Verdict::NotBuffered => "33",
        };
        self.paint(code, verdict.text())
    }
}

/// The whole report.
pub fn text(profile: &Profile, style: Style) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}\n", style.paint("1", &profile.sentence));
    let here = std::env::current_dir().map(|path| path.display().to_string()).unwrap_or_default();
    text.push_str(&run(&profile.timeline, style));
    files(profile, style, &here, &mut text);
    processes(profile, &mut text);
    let _ = writeln!(text, "seen      {}", profile.coverage.reason);
    let _ = writeln!(
        text,
        "observed  {} after {}, including {} of profiling overhead",
        profile.ended,
        seconds(profile.seconds),
        seconds(profile.observing_seconds),
    );
    insights(profile, style, &mut text);
    text
}

/// What was done when: a line for calls and one for bytes. Nothing of a run that was looked at too
/// seldom.
fn run(timeline: &[Moment], style: Style) -> String {
    let [first, .., last] = timeline else { return String::new() };
    let whole = last.seconds - first.seconds;
    if timeline.len() < MOMENTS_MIN || whole <= 0.0 {
        return String::new();
    }
    let step = whole / RUN as f64;
    let line = |of: fn(&Moment) -> u64| {
        let done = |place: usize| done(timeline, first.seconds + place as f64 * step, of);
        let rates: Vec<f64> =
            (0..RUN).map(|place| (done(place + 1) - done(place)).max(0.0) / step).collect();
        let most = rates.iter().copied().fold(0.0, f64::max);
        let height = |rate: &f64| match rate / most {
            // Less than half a call.
            _ if rate * step < 0.5 => '·',
            share => BARS[((share * 8.0).ceil() as usize).clamp(1, 8) - 1],
        };
        (style.paint("36", &rates.iter().map(height).collect::<String>()), most)
    };
    let (calls, calls_most) = line(|moment| moment.calls);
    let (moved, moved_most) = line(|moment| moment.bytes);
    let end = seconds(last.seconds);
    format!(
        "when      {calls}  calls, up to {} a second\n          {moved}  bytes, up to {} a second\n\
         {:10}0 s{end:>width$}\n\n",
        count(calls_most.round() as u64),
        bytes(moved_most.round() as u64),
        "",
        width = RUN - "0 s".len()
    )
}

/// How much was done at a moment: in between evenly.
fn done(timeline: &[Moment], at: f64, of: fn(&Moment) -> u64) -> f64 {
    let next = timeline.iter().position(|moment| moment.seconds >= at);
    let next = next.unwrap_or(timeline.len() - 1).max(1);
    let (before, after) = (&timeline[next - 1], &timeline[next]);
    let share = (at - before.seconds) / (after.seconds - before.seconds).max(f64::MIN_POSITIVE);
    of(before) as f64 + (of(after) as f64 - of(before) as f64) * share.clamp(0.0, 1.0)
}

fn files(profile: &Profile, style: Style, here: &str, text: &mut String) {
    let used: Vec<&File> = profile.files.iter().filter(|file| calls(file) > 0).collect();
    let (files, others): (Vec<&File>, Vec<&File>) =
        used.into_iter().partition(|file| file.kind == FileKind::File);
    // Those that matter to the time, and a few more.
    let matter = |files: &[&File]| {
        let least = (profile.file_seconds + profile.other_seconds) * SHARE_SHOWN;
        files.iter().filter(|file| file.seconds >= least).count().max(FILES_SHOWN_MIN)
    };
    let shown = files.len().min(matter(&files)).min(FILES_SHOWN);
    let others_shown = others.len().min(matter(&others)).min(FILES_SHOWN_MIN);
    if files.is_empty() && others.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "{:PATH_COLUMNS$} {:>11} {:>11} {:>11} {:>10}  {:DRAWN$} {:>8} {:>8}",
        "file", "reads", "writes", "seeks", "bytes", "1B 1K  1M", "in calls", "saves",
    );
    let several = profile.processes.len() > 1;
    for file in files[..shown].iter().chain(&others[..others_shown]) {
        line(file, style, here, text);
        detail(file, profile, several, style, text);
    }
    let left = files[shown..].iter().chain(&others[others_shown..]);
    let (number, calls, moved, time) = left.fold((0, 0, 0, 0.0), |sum, file| {
        (
            sum.0 + file.together.max(1),
            sum.1 + calls(file),
            sum.2 + moved(file),
            sum.3 + file.seconds,
        )
    });
    if number > 0 {
        let _ = writeln!(
            text,
            "and {} more: {} calls, {}, {} in calls (all with --json FILE)",
            numbers::files(number),
            count(calls),
            bytes(moved),
            seconds(time),
        );
    }
    text.push('\n');
}

fn calls(file: &File) -> u64 {
    file.calls()
}

fn moved(file: &File) -> u64 {
    file.moved_bytes()
}

fn line(file: &File, style: Style, here: &str, text: &mut String) {
    let saves = match file.verdict {
        Verdict::WillGain => seconds(file.saves_seconds),
        _ => "-".to_string(),
    };
    let drawn = histogram(file);
    let _ = writeln!(
        text,
        "{:PATH_COLUMNS$} {:>11} {:>11} {:>11} {:>10}  {:DRAWN$} {:>8} {:>8}",
        fit(&file.path, here),
        count(file.reads),
        count(file.writes),
        count(file.seeks),
        bytes(moved(file)).replace(" bytes", " B"),
        style.paint("36", &drawn),
        seconds(file.seconds),
        saves,
    );
}

/// Verdict, reason, and what else is worth knowing of a file.
fn detail(file: &File, profile: &Profile, several: bool, style: Style, text: &mut String) {
    let mut facts = Vec::new();
    facts.extend(pattern(file));
    if file.seeks >= SEEKS_TOLD && file.seeks_nowhere > file.seeks / 10 {
        facts.push(format!("{} % of the seeks go nowhere", file.seeks_nowhere * 100 / file.seeks));
    }
    if file.together > 0 {
        facts.push(format!("{} counted together", numbers::files(file.together)));
    } else if file.opens > 1 {
        facts.push(format!("{} opens", count(file.opens)));
    }
    let stdio = file.stdio_calls * 100 / calls(file).max(1);
    if stdio > 0 {
        facts.push(match stdio {
            100 => "all calls by stdio".to_owned(),
            part => format!("{part} % of the calls by stdio"),
        });
    }
    if file.waiting_seconds > file.seconds * 0.2 {
        facts.push(format!("{} waiting", seconds(file.waiting_seconds)));
    }
    if several {
        facts.push(match file.process.and_then(|index| profile.processes.get(index)) {
            Some(process) => format!("{} {}", process.program, process.pid),
            None => "several processes".to_string(),
        });
    }
    let why = match file.verdict {
        Verdict::WillGain => String::new(),
        _ => file.reasons.first().map(|reason| format!(": {reason}")).unwrap_or_default(),
    };
    let facts = if facts.is_empty() { String::new() } else { format!("; {}", facts.join(", ")) };
    let _ = writeln!(text, "  {}{why}{facts}", style.verdict(file.verdict));
    for place in file.places.iter().take(PLACES_SHOWN) {
        let _ = writeln!(text, "  {:.0} % by {}", place.share * 100.0, place::text(place));
    }
}

fn pattern(file: &File) -> Option<String> {
    if file.kind == FileKind::Other {
        return None;
    }
    let pattern = &file.pattern;
    let all = pattern.sequential + pattern.strided + pattern.random;
    let percent = |part: u64| part * 100 / all.max(1);
    if all < 2 {
        return None;
    }
    let mut text = match () {
        () if percent(pattern.sequential) >= 90 => "sequential".to_string(),
        () if percent(pattern.strided) >= 60 => "strided".to_string(),
        () if percent(pattern.random) >= 60 => "random".to_string(),
        () => format!(
            "{} % sequential, {} % strided, {} % random",
            percent(pattern.sequential),
            percent(pattern.strided),
            percent(pattern.random),
        ),
    };
    if percent(pattern.re_reads) >= 10 {
        let _ = write!(text, ", {} % read again", percent(pattern.re_reads));
    }
    if percent(pattern.re_writes) >= 10 {
        let _ = write!(text, ", {} % rewritten", percent(pattern.re_writes));
    }
    Some(text)
}

/// Sizes of transfers: the height of a bar is the share of the calls.
fn histogram(file: &File) -> String {
    let mut places = [0u64; DRAWN];
    for size in file.read_sizes.iter().chain(&file.write_sizes).filter(|size| size.bytes_min > 0) {
        let place = size.bytes_min.ilog2() as usize / 2;
        places[place.min(DRAWN - 1)] += size.calls;
    }
    let most = places.iter().copied().max().unwrap_or(0).max(1);
    let bar = |calls: &u64| match *calls {
        0 => '·',
        calls => BARS[(calls * 7).div_ceil(most).min(7) as usize],
    };
    places.iter().map(bar).collect()
}

/// A path that fits: from the current folder where it lies there, else without its middle.
fn fit(path: &str, here: &str) -> String {
    let inside = path.strip_prefix(here).and_then(|rest| rest.strip_prefix('/'));
    let path = inside.unwrap_or(path);
    let characters: Vec<char> = path.chars().collect();
    if characters.len() <= PATH_COLUMNS {
        return path.to_string();
    }
    let tail: String = characters[characters.len() - (PATH_COLUMNS - 3)..].iter().collect();
    format!("...{tail}")
}

/// A line for each process that made calls, and for all that share theirs; the lines add up to all.
fn processes(profile: &Profile, text: &mut String) {
    if profile.processes.len() < 2 {
        return;
    }
    let mut sorted: Vec<&Process> = profile.processes.iter().collect();
    sorted.sort_by(|a, b| (b.seconds, b.calls).partial_cmp(&(a.seconds, a.calls)).unwrap());
    let _ = writeln!(
        text,
        "{:PATH_COLUMNS$} {:>11} {:>11} {:>11}  {:>8}",
        "process", "pid", "calls", "bytes", "in calls"
    );
    let mut line = |name: &str, pid: &str, calls: u64, moved: u64, time: f64| {
        let _ = writeln!(
            text,
            "{:PATH_COLUMNS$} {pid:>11} {:>11} {:>11}  {:>8}",
            fit(name, ""),
            count(calls),
            bytes(moved).replace(" bytes", " B"),
            seconds(time),
        );
    };
    let with_calls = sorted.iter().filter(|process| process.calls > 0).count();
    let (shown, left) = sorted.split_at(with_calls.min(PROCESSES_SHOWN));
    for process in shown {
        let Process { program, pid, calls, bytes, seconds, .. } = process;
        line(program, &pid.to_string(), *calls, *bytes, *seconds);
    }
    let together = profile.files.iter().filter(|file| file.process.is_none());
    let together = together.fold((0, 0, 0.0), |sum, file| {
        (sum.0 + calls(file), sum.1 + moved(file), sum.2 + file.seconds)
    });
    if together.0 > 0 {
        line("(later ones together)", "", together.0, together.1, together.2);
    }
    let folded = left.iter().fold((0, 0, 0.0), |sum, process| {
        (sum.0 + process.calls, sum.1 + process.bytes, sum.2 + process.seconds)
    });
    let number = left.len() + profile.processes_beyond;
    match folded {
        _ if number == 0 => {}
        (0, _, _) => {
            let _ = writeln!(text, "and {} more without a call", count(number as u64));
        }
        (calls, moved, time) => {
            line(&format!("and {} more", count(number as u64)), "", calls, moved, time);
        }
    }
    text.push('\n');
}

/// Findings, without those that the sentence tells.
fn insights(profile: &Profile, style: Style, text: &mut String) {
    let is_told = |insight: &&Insight| TOLD.contains(&insight.code.as_str());
    let insights: Vec<&Insight> =
        profile.insights.iter().filter(|insight| !is_told(insight)).collect();
    for insight in insights.iter().take(INSIGHTS_SHOWN) {
        let code = match insight.severity {
            Severity::High => "1;32",
            Severity::Medium => "33",
            Severity::Low => "2",
        };
        let _ = writeln!(text, "{} {}", style.paint(code, "*"), insight.text);
        if let Some(command) = &insight.command {
            let _ = writeln!(text, "  try: {command}");
        }
    }
    if insights.len() > INSIGHTS_SHOWN {
        let _ = writeln!(text, "and {} more findings", insights.len() - INSIGHTS_SHOWN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::data::{Pattern, Size};

    #[test]
    fn sizes_are_drawn_at_their_place_and_by_their_share() {
        let check = |reads: &[(u64, u64)], writes: &[(u64, u64)], expected: &str| {
            let sizes = |sizes: &[(u64, u64)]| {
                let size = |(bytes_min, calls): &(u64, u64)| Size {
                    bytes_min: *bytes_min,
                    bytes_max: 2 * bytes_min,
                    calls: *calls,
                };
                sizes.iter().map(size).collect()
            };
            let (read_sizes, write_sizes) = (sizes(reads), sizes(writes));
            assert_eq!(histogram(&File { read_sizes, write_sizes, ..File::default() }), expected);
        };
        check(&[], &[], "·············");
        check(&[(0, 9)], &[(1, 1)], "█············");
        check(&[(2, 1), (4, 1), (1 << 20, 1)], &[(1 << 24, 1)], "██········█·█");
        check(&[(1 << 10, 50)], &[(1 << 11, 50), (1 << 12, 50), (1 << 14, 1)], "·····█▅▂·····");
    }

    #[test]
    fn a_run_is_drawn_by_when_its_calls_were_made() {
        let at = |(tenths, calls): (u32, u64)| Moment {
            seconds: f64::from(tenths) / 10.0,
            calls,
            bytes: 200 * calls,
        };
        // Two fifths at full speed, one at rest, two at half of it.
        let busy = [(0, 0), (1, 500), (2, 1000), (3, 1000), (4, 1250), (5, 1500)].map(at);
        let drawn = run(&busy, Style::Plain);
        let mut lines = drawn.lines();
        let calls = lines.next().unwrap();
        let bars: Vec<char> = calls.chars().skip(10).take(RUN).collect();
        assert_eq!(
            [0, 5, 10, 18, 21, 26, 30, 40, 47].map(|place| bars[place]),
            ['█', '█', '█', '█', '·', '·', '▄', '▄', '▄'],
            "{drawn}"
        );
        assert!(
            calls.starts_with("when ") && calls.ends_with("  calls, up to 5,000 a second"),
            "{drawn}"
        );
        assert!(lines.next().unwrap().ends_with("  bytes, up to 977 KiB a second"), "{drawn}");
        assert_eq!(lines.next().unwrap().chars().count(), 10 + RUN, "{drawn}");
        // Too few looks, and a run in which nothing was done.
        assert_eq!(run(&busy[..5], Style::Plain), "");
        let idle = [0, 1, 2, 3, 4, 5].map(|tenths| at((tenths, 0)));
        assert!(!run(&idle, Style::Plain).contains(BARS), "{}", run(&idle, Style::Plain));
    }

    #[test]
    fn patterns_are_in_words() {
        let check = |pattern: Pattern, expected: Option<&str>| {
            let found = super::pattern(&File { pattern, ..File::default() });
            assert_eq!(found.as_deref(), expected);
        };
        let some = |sequential, strided, random| Pattern {
            sequential,
            strided,
            random,
            ..Pattern::default()
        };
        check(some(1, 0, 0), None);
        check(some(95, 2, 3), Some("sequential"));
        check(some(5, 90, 5), Some("strided"));
        check(some(5, 5, 90), Some("random"));
        check(some(50, 25, 25), Some("50 % sequential, 25 % strided, 25 % random"));
        let again = Pattern { re_reads: 40, re_writes: 9, ..some(100, 0, 0) };
        check(again, Some("sequential, 40 % read again"));
        let over = Pattern { re_writes: 60, ..some(100, 0, 0) };
        check(over, Some("sequential, 60 % rewritten"));
    }

    #[test]
    fn long_lists_are_folded_and_lose_nothing() {
        let file = |number: u64| File {
            path: format!("/data/{number}"),
            reads: number,
            read_bytes: 100 * number,
            seconds: 1.0,
            ..File::default()
        };
        let profile = Profile {
            file_seconds: 30.0,
            files: (1..=30).map(file).collect(),
            ..Profile::default()
        };
        let text = text(&profile, Style::Plain);
        assert_eq!(text.matches("/data/").count(), FILES_SHOWN);
        // 13 to 30: 387 calls.
        let rest = "and 18 files more: 387 calls, 37.8 KiB, 18.0 s in calls (all with --json FILE)";
        assert!(text.contains(rest), "{text}");
        assert!(!text.contains('\x1b') && super::text(&profile, Style::Colours).contains('\x1b'));
    }
}
