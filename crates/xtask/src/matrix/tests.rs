use super::*;

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
    let names = |short| -> Vec<String> {
        let settings = Settings { short, ..Settings::default() };
        planned(&settings).iter().map(Planned::name).collect()
    };
    assert_eq!(names(true), ["bullseye", "sid"]);
    let all = names(false);
    assert_eq!(all.len(), root::SUITES.len() + machine::MACHINES.len());
    let mut different = all.clone();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), all.len());
}
