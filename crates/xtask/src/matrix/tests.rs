use super::*;

#[test]
fn options_of_the_matrix_are_read() {
    let settings = parse(&["--only", "sid", "--only", "5.10", "--record"]).unwrap();
    assert_eq!(settings.only, ["sid", "5.10"]);
    assert!(settings.record && !settings.short && !settings.go_on);
    assert_eq!(parse(&["--go-on", "--also", "1f2e3d4"]).unwrap().also, ["1f2e3d4"]);
    for wrong in [&["--only"][..], &["--also"], &["sid"]] {
        assert!(parse(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn answers_are_those_of_the_same_source_and_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("answers/sid.json");
    let of = |source: &str| Answers { path: path.clone(), source: Some(source.to_owned()) };
    let kept = |source: &str| of(source).kept(&["three".to_owned()]).map(|(source, _)| source);
    assert!(kept("one").is_none(), "none yet");
    of("one").keep(&[Step::skipped("doctor", String::new())]).unwrap();
    assert_eq!(kept("one").as_deref(), Some("one"));
    assert!(kept("two").is_none());
    of("three").keep(&[Step::skipped("doctor", String::new())]).unwrap();
    assert_eq!(kept("two").as_deref(), Some("three"));
    of("one").keep(&[Step::new("system", "it did not boot".to_owned())]).unwrap();
    assert!(kept("one").is_none());
}

#[test]
fn the_short_form_is_two_roots() {
    let names = |words: &[&str]| -> Vec<String> {
        planned(&parse(words).unwrap()).iter().map(Planned::name).collect()
    };
    assert_eq!(names(&["--short"]), ["bullseye", "sid"]);
    let all = names(&[]);
    assert_eq!(all.len(), root::SUITES.len() + machine::MACHINES.len());
    let mut different = all.clone();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), all.len());
}
