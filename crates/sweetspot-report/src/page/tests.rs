//! What can be told of a page without a browser: how it is read aloud, in which colours, and that it asks
//! nobody for anything.

use super::*;
use crate::chart::map::{FAINTEST, STRONGEST};
use crate::content::sections;
use crate::data::{Cell, Factor, Kind, NamedProfile, NamedSummary, Run, Session};
use crate::profile::data::{File, Moment, Prediction, Profile};
use std::collections::HashSet;

/// A search over four sizes, `off` and `auto`, three rounds of each, in which `auto` is advised.
fn tuned() -> Session {
    let names = ["off", "4K", "64K", "1M", "auto"];
    let bytes = [None, Some(4 << 10), Some(64 << 10), Some(1 << 20), None];
    let seconds = [2.0, 0.5, 0.3, 0.31, 0.29];
    let cell = |at: usize| Cell {
        name: names[at].to_owned(),
        levels: vec![names[at].to_owned()],
        buffer_bytes: bytes[at],
        runs: 3,
        median: Some(seconds[at]),
        baseline: (at > 0).then_some(0),
        peak_memory_bytes: Some(4 << 20),
        ..Cell::default()
    };
    let run = |number: usize| Run {
        round: number / names.len(),
        cell: number % names.len(),
        counts: true,
        figure: Some(seconds[number % names.len()]),
        wall_seconds: seconds[number % names.len()],
        ..Run::default()
    };
    Session {
        file: "dd".to_owned(),
        number: 1,
        kind: Kind::Tune,
        title: "dd <if>".to_owned(),
        question: None,
        begun: "2026-01-01T00:00:00Z".to_owned(),
        finished: true,
        sentences: vec!["Use `sweetspot run`.".to_owned(), "Compared by wall time.".to_owned()],
        claims: Vec::new(),
        how: "15 runs".to_owned(),
        rounds: 3,
        seed: 1,
        cache: "warm".to_owned(),
        unit: "s".to_owned(),
        margin: 0.05,
        factors: vec![Factor {
            name: "buffer".to_owned(),
            levels: names.map(str::to_owned).to_vec(),
        }],
        cells: (0..names.len()).map(cell).collect(),
        sweet_spot: None,
        confirmed: true,
        advised: Some(4),
        base: Some(4),
        null_control: None,
        costs: Vec::new(),
        published: Vec::new(),
        notes: Vec::new(),
        environment: Vec::new(),
        runs: (0..15).map(run).collect(),
    }
}

fn profiled() -> Profile {
    let moment = |at: u64| Moment { seconds: at as f64, calls: 100 * at, bytes: 200 * at };
    Profile {
        command: vec!["cpio".to_owned()],
        sentence: "Use `sweetspot run`.".to_owned(),
        seconds: 7.0,
        evicted_seconds: 3.0,
        prediction: Some(Prediction {
            seconds: 1.0,
            ratio: 7.0,
            ratio_low: 5.0,
            ratio_high: 9.0,
            calls_made: 9,
        }),
        files: vec![File { path: "/data/<a>".to_owned(), reads: 700, ..File::default() }],
        timeline: (0..8).map(moment).collect(),
        ..Profile::default()
    }
}

/// A page of one thing of each kind.
fn report() -> Report {
    let summary = "sweetspot summary\ncalls     200,002 requested, 244 made\n";
    let profile = |file: &str| NamedProfile { file: file.to_owned(), profile: profiled() };
    Report {
        sessions: vec![tuned()],
        profiles: vec![profile("before.json"), profile("after.json")],
        summaries: vec![NamedSummary { file: "job".to_owned(), text: summary.to_owned() }],
        ..Report::default()
    }
}

fn pages() -> [String; 2] {
    let one = Report { sessions: vec![tuned()], ..Report::default() };
    [report(), one].map(|report| html(&report, &sections(&report)))
}

/// The value behind each occurrence of `name="`.
fn values<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let begin = format!(" {name}=\"");
    page.split(&begin).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn headings_follow_each_other_below_one_of_the_page() {
    for page in pages() {
        let digit = |rest: &str| rest.chars().next().and_then(|letter| letter.to_digit(10));
        let levels: Vec<u32> = page.split("<h").skip(1).filter_map(digit).collect();
        assert_eq!(levels[0], 1);
        assert_eq!(levels.iter().filter(|level| **level == 1).count(), 1, "{levels:?}");
        assert!(levels.windows(2).all(|two| two[1] <= two[0] + 1), "{levels:?}");
    }
}

#[test]
fn whatever_is_drawn_or_scrolls_has_a_name_and_a_role() {
    for page in pages() {
        assert!(page.contains("<html lang=\"en\">") && page.contains("<title>"));
        let ids = values(&page, "id");
        let known: HashSet<&str> = ids.iter().copied().collect();
        assert_eq!(known.len(), ids.len(), "each is there once: {ids:?}");
        let named = values(&page, "aria-labelledby");
        assert!(named.iter().flat_map(|names| names.split(' ')).all(|id| known.contains(id)));
        for svg in page.split("<svg").skip(1) {
            let start = svg.split('>').next().unwrap();
            assert!(start.contains("role=\"img\" aria-labelledby"), "{start}");
            let rest = svg.split("</figure>").next().unwrap();
            assert!(rest.contains("<figcaption>") && rest.contains("<table"), "{start}");
        }
        assert_eq!(page.matches("class=\"scroll\" tabindex=\"0\" role=\"region\"").count(), {
            page.matches("class=\"scroll\"").count()
        });
        assert!(!page.contains("<th>") && !page.contains("></th>") && !page.contains("<img"));
        let (outside, _) = page.split_once("<body>").unwrap().1.split_once("<main>").unwrap();
        assert!(outside.trim().is_empty() || outside.trim().starts_with("<header>"), "{outside}");
    }
}

#[test]
fn a_page_asks_nobody_for_anything() {
    for page in pages() {
        for word in ["http:", "https:", "src=", "url(", "@import", "<script", "<link", "<iframe"] {
            assert!(!page.contains(word), "{word}");
        }
        assert!(values(&page, "href").iter().all(|target| target.starts_with('#')));
        assert!(page.contains("default-src 'none'"));
    }
}

#[test]
fn the_figure_that_answers_stands_on_top() {
    let [several, one] = pages();
    let first = one.find("<figure").unwrap();
    assert!(first < one.find("<table").unwrap());
    assert!(one[first..].starts_with("<figure class=\"wide\">"));
    let figure = &one[first..one.find("</figure>").unwrap()];
    for words in
        ["class=\"zone\"", "auto: 290 ms, use this", "unbuffered: 2 s", "within 5 % of auto"]
    {
        assert!(figure.contains(words), "{words}: {figure}");
    }
    assert_eq!(one.matches("class=\"answer\"").count(), 1, "how it was compared is no answer");
    assert!(one.contains(">use this</td>"));
    for title in ["Time as it is, and as it should be", "System calls requested and made"] {
        assert!(several.contains(&format!("class=\"title\">{title}<")), "{title}");
    }
    assert!(several.contains(">4 s</text>"), "without what others took, as its sentence says it");
}

/// A colour of three or six digits.
fn channels(color: &str) -> [f64; 3] {
    let digits = color.trim_start_matches('#');
    let wide = digits.len() / 3;
    [0, 1, 2].map(|at| {
        let digits = digits[at * wide..(at + 1) * wide].repeat(3 - wide);
        f64::from(u8::from_str_radix(&digits, 16).unwrap()) / 255.0
    })
}

/// As WCAG 2.2 defines it.
fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let luminance = |color: [f64; 3]| {
        let linear = |channel: f64| match channel <= 0.04045 {
            true => channel / 12.92,
            false => ((channel + 0.055) / 1.055).powf(2.4),
        };
        let [red, green, blue] = color.map(linear);
        0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05
    };
    let (one, other) = (luminance(one), luminance(other));
    one.max(other) / one.min(other)
}

#[test]
fn text_and_lines_stand_out_in_light_and_dark_and_on_paper() {
    let style = format!("{STYLE}{LAYOUT}");
    let palettes: Vec<&str> = style.split(":root{").skip(1).collect();
    assert_eq!(palettes.len(), 3, "light, dark, print");
    for palette in palettes {
        let color = |name: &str| {
            let (_, rest) = palette.split_once(&format!("--{name}:")).expect(name);
            channels(rest.split([';', '}']).next().unwrap())
        };
        let paper = color("paper");
        let over = |name: &str, part: f64| {
            let [red, green, blue] =
                std::array::from_fn(|at| part * color(name)[at] + (1.0 - part) * paper[at]);
            [red, green, blue]
        };
        for text in ["ink", "soft", "c0"] {
            assert!(contrast(color(text), paper) >= 4.5, "{text} in {palette:.60}");
        }
        for line in 0..crate::chart::SERIES_MAX {
            assert!(contrast(color(&format!("c{line}")), paper) >= 3.0, "c{line} in {palette:.60}");
        }
        // A zone, a row that stands out, squares of a map.
        assert!(contrast(color("soft"), over("soft", 0.14)) >= 4.5);
        for part in [0.14, FAINTEST, STRONGEST] {
            assert!(contrast(color("ink"), over("c0", part)) >= 4.5, "{part} in {palette:.60}");
        }
    }
}
