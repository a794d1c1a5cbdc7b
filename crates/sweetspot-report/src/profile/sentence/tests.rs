use super::*;
use crate::profile::data::{Pattern, Prediction};

/// A file with that first reason.
fn file(path: &str, seconds: f64, reason: &str) -> File {
    let reasons = vec![reason.to_string()];
    File { path: path.into(), seconds, reasons, ..File::default() }
}

#[test]
fn the_reason_is_that_of_most_of_the_time_and_a_whole_sentence() {
    let check = |files: &[(f64, &str)], expected: &str| {
        let files: Vec<File> =
            files.iter().map(|(time, reason)| file("/data/a", *time, reason)).collect();
        let main: Vec<&File> = files.iter().collect();
        let (reason, of) = most_frequent_reason(&main).unwrap();
        assert_eq!(because(reason, &of), expected);
    };
    let (stdio, memory) = (Why::Stdio.text(), Why::SharedMemory.text());
    check(&[(1.0, stdio)], "a is used through stdio");
    check(&[(1.0, stdio), (1.5, memory), (1.0, stdio)], "2 files are used through stdio");
    check(&[(1.0, stdio), (3.0, memory), (1.0, memory)], memory);
    check(&[(1.0, Why::TooFewCalls.text())], "a is used with too few calls to be worth it");
    // Their beginnings show which of them follow the word "is", but for one.
    for why in Why::ALL.into_iter().filter(|why| *why != Why::NotWorthIt) {
        let is_sentence = because(why.text(), &[&file("a", 0.0, "")]) == why.text();
        let begins = ["the ", "a ", "no ", "an", "part ", "writes ", "memory ", "switched "];
        let reads_as_one = begins.iter().any(|begin| why.text().starts_with(begin));
        assert_eq!(is_sentence, reads_as_one, "{}", why.text());
    }
}

#[test]
fn of_stdio_it_is_said_why_it_has_nothing_to_gain() {
    let check = |calls: u64, size: u64, random: u64, expected: &str| {
        let pattern = Pattern { sequential: calls - random, random, ..Pattern::default() };
        let reason = Why::Stdio.text();
        let used = File {
            reads: calls,
            read_bytes: calls * size,
            pattern,
            ..file("/data/a", 1.0, reason)
        };
        assert_eq!(because(reason, &[&used]), format!("a is {expected}"));
    };
    check(100, 200, 0, "used through stdio");
    check(100, 200, 50, "used through stdio");
    check(100, 200, 51, "accessed at random through stdio");
    check(100, 4096, 51, "accessed at random through stdio");
    check(100, 2047, 0, "used through stdio");
    check(100, 2048, 0, "used through stdio, which buffers by itself");
}

/// A profile of `seen` reads on one file, of which the kernel counted `kernel`.
fn profile(verdict: Seen, kernel: u64, seen: u64) -> Profile {
    let calls = |reads| Calls { reads, read_bytes: reads * 100, ..Calls::default() };
    let reads = File { reads: seen, read_bytes: seen * 100, ..file("/data/a", 0.5, "") };
    Profile {
        seconds: 1.0,
        file_seconds: 0.5,
        coverage: Coverage {
            verdict,
            reason: String::new(),
            kernel: calls(kernel),
            seen: calls(seen),
        },
        files: vec![reads],
        ..Profile::default()
    }
}

#[test]
fn what_was_out_of_sight_is_in_the_sentence() {
    use crate::reach::Why::Go;
    let check = |verdict, kernel, seen, reach: Reach, has: &[&str]| {
        let said = sentence(&profile(verdict, kernel, seen), &reach, |_, _| None);
        assert!(has.iter().all(|part| said.contains(part)), "{said}");
    };
    let small = "in pieces of 64 KiB it would be";
    check(Seen::Nothing, 9_000, 0, Reach::Unreachable(Go), &["9,000 reads", "is a Go", small]);
    check(
        Seen::Part,
        9_000,
        10,
        Reach::Unreachable(Go),
        &["but sweetspot cannot", "is a Go", small],
    );
    let part = ["but for 6,000 of them sweetspot cannot", "out of sight", small];
    check(Seen::Part, 9_000, 3_000, Reach::Reachable, &part);
    let rest = ["50 % of 1.00 s", ", and 1,000 reads and writes of 97.7 KiB were out of sight."];
    check(Seen::Part, 9_000, 8_000, Reach::Reachable, &rest);
    let all = sentence(&profile(Seen::All, 8_050, 8_000), &Reach::Reachable, |_, _| None);
    assert!(!all.contains("out of sight"), "{all}");
}

#[test]
fn what_to_do_stands_first_and_claims_no_more_than_the_interval() {
    let said = |ratio_low| {
        let mut profile = profile(Seen::All, 8_000, 8_000);
        profile.command = vec!["dd".into(), "if=a b".into()];
        profile.prediction = Some(Prediction {
            seconds: 0.25,
            ratio: 4.0,
            ratio_low,
            ratio_high: 5.0,
            calls_made: 9,
        });
        profile.files[0].verdict = Verdict::WillGain;
        sentence(&profile, &Reach::Reachable, |_, _| None)
    };
    let (sure, open) = (said(3.0), said(0.9));
    let both = "times as fast (3.0 to 5.0): 0.25 s instead of 1.00 s. 50 % of 1.00 s went into ";
    assert!(
        sure.starts_with(&format!("Use `sweetspot run`: it should be about 4.0 {both}")),
        "{sure}"
    );
    assert!(sure.ends_with(". Try: sweetspot run -- dd 'if=a b'"), "{sure}");
    assert!(
        open.starts_with("Perhaps use `sweetspot run`: it should be about 4.0 times"),
        "{open}"
    );
    assert!(open.ends_with(". Try: sweetspot tune -- dd 'if=a b'"), "{open}");
}

/// On a busy machine the calls took longer than the whole run without what others took.
#[test]
fn a_part_is_never_larger_than_its_whole() {
    let mut profile = profile(Seen::All, 8_000, 8_000);
    (profile.file_seconds, profile.evicted_seconds) = (1.5, 0.4);
    let said = sentence(&profile, &Reach::Reachable, |_, _| None);
    let parts =
        [". 100 % of its time went into ", ". The machine was busy: it took 1.00 s in all."];
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    (profile.evicted_seconds, profile.processor_seconds) = (0.0, 3.0);
    let said = sentence(&profile, &Reach::Reachable, |_, _| None);
    assert!(said.contains("50 % of 3.00 s in its threads went into "), "{said}");
}

#[test]
fn small_calls_of_stdio_in_order_lead_to_its_option() {
    let stdio = |calls: u64, size: u64, random: u64| File {
        verdict: Verdict::NotBuffered,
        reads: calls,
        read_bytes: calls * size,
        pattern: Pattern { sequential: calls - random, random, ..Pattern::default() },
        ..file("/data/a", 0.5, Why::Stdio.text())
    };
    assert!(is_for_stdio(&stdio(200_000, 4000, 0)));
    assert!(!is_for_stdio(&stdio(200_000, 9000, 0)), "large already");
    assert!(!is_for_stdio(&stdio(200_000, 4000, 100_000)), "at random");
    assert!(!is_for_stdio(&File { reasons: Vec::new(), ..stdio(200_000, 4000, 0) }));
    let saved = |ratio| {
        let mut profile = profile(Seen::All, 1, 1);
        profile.prediction_stdio = Some(Prediction {
            seconds: 1.0 / ratio,
            ratio,
            ratio_low: ratio,
            ratio_high: ratio,
            calls_made: 1,
        });
        saved_by_stdio(&profile)
    };
    assert_eq!(saved(2.0), Some(0.5));
    assert_eq!(saved(1.02), None, "too little to matter");
}
