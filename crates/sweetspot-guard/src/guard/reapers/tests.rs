use super::super::Held;
use super::*;

#[test]
fn who_is_late_three_times_is_asked_no_more() {
    let held = Held::default();
    let answers = || matches!(held.late(), Refused::Later);
    assert_eq!([answers(), answers(), answers()], [true, true, false]);
    held.late_answers.store(0, SeqCst);
    assert!(answers(), "another answer came in between");
}

#[test]
fn what_a_call_uses_is_taken_after_it() {
    let reapers = Reapers::new(Duration::ZERO);
    let is_taken = |index| reapers.unless_in_use(index, || ()).is_some();
    let (begun, in_use) = (Instant::now(), Some(5));
    reapers.lock().call = Some(Call { device: 1, in_use, is_asked: false, begun, rest: None });
    assert!(is_taken(4));
    assert!(!reapers.lock().call.as_ref().unwrap().is_asked);
    assert!(!is_taken(5));
    assert!(reapers.lock().call.take().unwrap().is_asked, "it is asked again");
    reapers.lock().hung.insert(1, Hung { in_use, ..Hung::default() });
    assert!(is_taken(4));
    assert!(!is_taken(5));
    assert_eq!(reapers.lock().hung[&1].asked, [5]);
    reapers.lock().hung.clear();
    assert!(is_taken(5));
}

#[test]
fn a_step_that_nobody_waits_for_any_more_keeps_nothing() {
    let handle = std::sync::Arc::new(());
    let held = std::sync::Arc::clone(&handle);
    let mut state = State::default();
    let first = state.put_first(Step::new(7, 1, move || std::sync::Arc::strong_count(&held) > 0));
    let second = state.put_first(Step::new(8, 1, || true));
    drop(state.take_back(first));
    assert_eq!(std::sync::Arc::strong_count(&handle), 1);
    assert!(state.take_back(first + second).is_none(), "there is no such step");
    let mut answer = |expected: usize| match state.due.pop_front() {
        Some(Job::Step(step)) => {
            assert_eq!(step.index, expected);
            (step.call)()
        }
        _ => panic!("no step"),
    };
    assert!(answer(8), "it is made as it was");
    assert!(!answer(7), "its entry is asked for again");
}

#[test]
fn what_is_not_held_back_is_returned() {
    let reapers = Reapers::new(Duration::ZERO);
    let is_held_back = || reapers.hold_back(1, Job::Finish(7)).is_none();
    assert!(!is_held_back(), "its file system does not hang");
    let hang = |since| reapers.lock().hung.insert(1, Hung { since, ..Hung::default() });
    hang(Some(Instant::now()));
    assert!(is_held_back());
    assert!(matches!(reapers.lock().hung[&1].held_back.front(), Some(Job::Finish(7))));
    hang(Instant::now().checked_sub(HELD_BACK_MAX));
    assert!(!is_held_back(), "it has done so for long");
    assert!(matches!(reapers.hold_back(1, Job::Finish(8)), Some(Job::Finish(8))));
}
