//! What runs next and what follows, on runs that nobody made.

use super::*;
use crate::{
    measure::{Measurement, Usage},
    schedule::Random,
    store::{CellRun, Ended, Observed},
};
use std::time::Duration;

const PLAN: &str = r#"
title = "t"
rounds = 8
[factors]
size = [1, 2]
[programs.slow]
command = ["slow"]
[programs.fast]
command = ["fast"]
[programs.other]
command = ["other"]
[baseline]
program = "slow"
[[claim]]
name = "five times"
cell = { program = "fast" }
at-least = 5
memory-at-most = 1.5
"#;

fn plan() -> Plan {
    Plan::read(PLAN, None).unwrap()
}

fn observed(figure: f64, memory: u64) -> Ended {
    let measurement = Measurement {
        wall: Duration::from_secs_f64(figure),
        usage: Usage { peak_memory_bytes: memory, ..Usage::default() },
        ..Measurement::of_nothing()
    };
    Ended::Measured(Box::new(Observed {
        figure,
        output: None,
        output_bytes: 0,
        sync: Duration::ZERO,
        ranks: 1,
        measurement,
        samples: None,
    }))
}

/// Everything of a session but the runs.
struct Bench {
    plan: Plan,
    skipped: Vec<usize>,
}

impl Bench {
    fn new(plan: Plan) -> Bench {
        Bench { plan, skipped: Vec::new() }
    }

    fn matrix<'a>(&'a self, runs: &'a [CellRun]) -> Matrix<'a> {
        Matrix { plan: &self.plan, seed: 7, skipped: &self.skipped, runs }
    }

    /// Goes on with `runs` until all is done; `end` says how the run of a cell in a round ends.
    fn go_on(&self, mut runs: Vec<CellRun>, end: impl Fn(usize, usize) -> Ended) -> Vec<CellRun> {
        loop {
            let step = self.matrix(&runs).step(Clock::Running).unwrap();
            let Step::Run { round, place, order } = step else { return runs };
            let (cell, runs_of_round) = (order[place], order.len());
            let (node, ended) = (String::new(), end(cell, round));
            runs.push(CellRun { round, place, runs_of_round, cell, node, ended });
        }
    }
}

/// Cells 0 and 1 are slow, 2 and 3 fast, 4 and 5 as slow as slow.
fn end(cell: usize, round: usize) -> Ended {
    let drift = 1.0 + 0.1 * round as f64;
    let noise = 1.0 + 0.01 * ((cell * 31 + round * 17) % 7) as f64;
    observed(if [2, 3].contains(&cell) { 0.1 } else { 1.0 } * drift * noise, 1 << 20)
}

fn places(runs: &[CellRun]) -> Vec<(usize, usize, usize)> {
    runs.iter().map(|run| (run.round, run.place, run.cell)).collect()
}

#[test]
fn all_cells_run_once_in_each_round_after_one_that_begins_with_the_baselines() {
    let bench = Bench::new(plan());
    let runs = bench.go_on(Vec::new(), end);
    assert_eq!(runs.len(), 9 * 6);
    let mut first: Vec<usize> = runs[..2].iter().map(|run| run.cell).collect();
    first.sort_unstable();
    assert_eq!(first, [0, 1], "the baselines");
    for (round, order) in Schedule::new(6, 7).take(8).enumerate() {
        let ran: Vec<usize> =
            runs.iter().filter(|run| run.round == round + 1).map(|run| run.cell).collect();
        assert_eq!(ran, order);
    }
    let matrix = bench.matrix(&runs);
    assert_eq!((matrix.rounds(), matrix.observed(0).len()), (8, 8));
}

#[test]
fn a_session_that_is_cut_anywhere_comes_to_the_same_runs() {
    let bench = Bench::new(plan());
    let given_up = |cell: usize, round: usize| match (cell, round) {
        (4, 3) => Ended::GivenUp("wrong".to_owned()),
        _ => end(cell, round),
    };
    let whole = bench.go_on(Vec::new(), given_up);
    for cut in 0..whole.len() {
        let kept = &whole[..cut];
        assert_eq!(places(&bench.go_on(kept.to_vec(), given_up)), places(&whole), "{cut} kept");
        // As a store does it: what is left of a round that is not whole is dropped.
        let is_whole = |run: &CellRun| {
            kept.iter().filter(|other| other.round == run.round).count() == run.runs_of_round
        };
        let rounds: Vec<CellRun> = kept.iter().filter(|run| is_whole(run)).cloned().collect();
        assert_eq!(places(&bench.go_on(rounds, given_up)), places(&whole), "cut at {cut}");
    }
}

#[test]
fn what_is_given_up_or_cannot_run_runs_no_more_and_has_no_figure() {
    let mut bench = Bench::new(plan());
    bench.skipped = vec![2];
    let runs = bench.go_on(Vec::new(), |cell, round| match (cell, round) {
        (2, 3) => Ended::GivenUp("wrong".to_owned()),
        _ => end(cell, round),
    });
    let of = |cell: usize| runs.iter().filter(|run| run.cell == cell).count();
    assert_eq!((0..6).map(of).collect::<Vec<_>>(), [9, 9, 4, 9, 0, 0]);
    let matrix = bench.matrix(&runs);
    assert_eq!((matrix.observed(2).len(), matrix.fault(2)), (0, Some("wrong")));
    assert_eq!(matrix.effect_of(2).unwrap(), None);
    assert!(matrix.effect_of(3).unwrap().is_some());
}

#[test]
fn claims_are_judged_by_their_whole_interval() {
    let bench = Bench::new(plan());
    let judge = |end: &dyn Fn(usize, usize) -> Ended| -> Vec<Judgement> {
        let runs = bench.go_on(Vec::new(), end);
        let judged = bench.matrix(&runs).judge().unwrap();
        judged.into_iter().map(|judged| judged.judgement).collect()
    };
    use Judgement::{DoesNotHold, Holds, NotMeasured, Open};
    assert_eq!(judge(&end), [Holds; 4], "ten times as fast, with as much memory");
    let slow = |cell: usize, round: usize| match cell {
        2 => observed(0.5 * (1.0 + 0.1 * round as f64), 2 << 20),
        3 => observed([0.1, 0.3][round % 2], 1 << 20),
        _ => end(cell, round),
    };
    assert_eq!(judge(&slow), [DoesNotHold, DoesNotHold, Open, Holds]);
    let gone = |cell: usize, round: usize| match cell {
        2 => Ended::GivenUp("wrong".to_owned()),
        _ => end(cell, round),
    };
    assert_eq!(judge(&gone), [NotMeasured, NotMeasured, Holds, Holds]);
}

#[test]
fn many_claims_need_more_than_one() {
    // Six rounds can show one claim at 5 %, but not four at once: 4 x 2 / 2^6 is more.
    let one = "at-least = 5\nmemory-at-most = 1.5";
    let text = PLAN.replace("rounds = 8", "rounds = 6");
    let judge = |text: &str, fast: usize| -> Vec<Judgement> {
        let bench = Bench::new(Plan::read(text, None).unwrap());
        let runs = bench.go_on(Vec::new(), |cell, round| end(cell / fast * 2, round));
        let judged = bench.matrix(&runs).judge().unwrap();
        let is_open = judged[0].judgement == Judgement::Open;
        assert_eq!(judged[0].needs_more_rounds(), is_open, "its interval is clear");
        judged.into_iter().map(|judged| judged.judgement).collect()
    };
    assert_eq!(judge(&text, 2), [Judgement::Open; 4]);
    let single = text.replace(one, "at-least = 5").replace("size = [1, 2]", "size = [1]");
    assert_eq!(judge(&single, 1), [Judgement::Holds]);
}

#[test]
fn a_claim_about_the_best_of_several_is_one_claim() {
    let against = "against = [{ program = 'slow' }, { program = 'other' }]\nat-least = 5";
    let conditions = "at-least = 5\nmemory-at-most = 1.5";
    let text = PLAN.replace(conditions, against).replace("size = [1, 2]", "size = [1]");
    let judge = |rounds: usize, other: &dyn Fn(usize) -> Ended| -> Vec<(usize, Judgement)> {
        let text = text.replace("rounds = 8", &format!("rounds = {rounds}"));
        let bench = Bench::new(Plan::read(&text, None).unwrap());
        let runs = bench.go_on(Vec::new(), |cell, round| match cell {
            2 => other(round),
            cell => end(cell * 2, round),
        });
        let judged = bench.matrix(&runs).judge().unwrap();
        judged.into_iter().map(|judged| (judged.against, judged.judgement)).collect()
    };
    use Judgement::{DoesNotHold, Holds, NotMeasured, Open};
    let faster = |round| observed(0.9 + 0.01 * round as f64, 1 << 20);
    let near = |round| observed(0.4 + 0.01 * round as f64, 1 << 20);
    let around = |round| observed([0.5, 0.9][round % 2], 1 << 20);
    let gone = |_| Ended::GivenUp("wrong".to_owned());
    // Six rounds suffice for one: it holds against each. They do not to say so of the worse of two.
    assert_eq!(judge(6, &faster), [(2, Holds)]);
    assert_eq!(judge(6, &near), [(2, Open)]);
    assert_eq!(judge(8, &near), [(2, DoesNotHold)]);
    assert_eq!(judge(8, &around), [(2, Open)]);
    assert_eq!(judge(6, &gone), [(2, NotMeasured)]);
}

#[test]
fn only_runs_on_one_machine_are_compared() {
    let bench = Bench::new(plan());
    let mut runs = bench.go_on(Vec::new(), end);
    for run in &mut runs {
        let is_elsewhere = run.cell == 2 && run.round % 2 == 0;
        run.node = if is_elsewhere { "b" } else { "a" }.to_owned();
    }
    let matrix = bench.matrix(&runs);
    assert_eq!(matrix.effect_of(2).unwrap().unwrap().rounds, 4);
    assert_eq!(matrix.effect_of(3).unwrap().unwrap().rounds, 8);
}

#[test]
fn a_precise_plan_stops_at_a_look() {
    let text = PLAN.replace("rounds = 8", "precision = \"2%\"\nbudget = \"1s\"");
    let text = text.replace("memory-at-most = 1.5", "");
    let bench = Bench::new(Plan::read(&text, None).unwrap());
    let clear = |cell: usize, round: usize| match end(cell, round) {
        Ended::Measured(seen) if cell < 4 => observed(seen.figure, 1),
        _ => observed(1.0 + 0.1 * round as f64, 1),
    };
    let rounds = |runs: &[CellRun]| bench.matrix(runs).rounds();
    assert_eq!(rounds(&bench.go_on(Vec::new(), clear)), 14);
    let noisy = |cell: usize, round: usize| {
        let noise = Random::new((cell * 1000 + round) as u64).bits() as f64 / u64::MAX as f64;
        observed(1.0 + 5.0 * noise, 1)
    };
    let runs = bench.go_on(Vec::new(), noisy);
    assert_eq!(rounds(&runs), 40, "the cap");
    let after = |round: usize| {
        let runs: Vec<CellRun> = runs.iter().filter(|run| run.round <= round).cloned().collect();
        bench.matrix(&runs).step(Clock::Up).unwrap() == Step::Done
    };
    assert_eq!([7, 8, 9].map(after), [false, true, true], "a budget never cuts below eight rounds");
}

#[test]
fn a_cell_against_itself_shows_the_noise() {
    let mut plan = plan();
    plan.add_twin();
    let bench = Bench::new(plan);
    assert_eq!(bench.plan.called(6), "slow, size 1, again");
    assert_eq!(bench.plan.reference(6), Some(0));
    let noise =
        |cell: usize, round: usize| observed(1.0 + 0.001 * ((cell / 3 + round) % 3) as f64, 1);
    let runs = bench.go_on(Vec::new(), noise);
    let matrix = bench.matrix(&runs);
    let control = matrix.null_control().unwrap().unwrap();
    assert!(control.is_same(), "{control:?}");
    let floor = control.noise_floor().unwrap();
    assert!(floor > 0.0 && floor < 0.0021, "{floor}");
    let smallest = control.smallest_effect(0.02).unwrap();
    assert!(smallest > 0.02 && smallest < 0.023, "{smallest}");
    assert!(control.autocorrelation.is_some());
    // The twin is in no claim, and a skewed pair is not called the same.
    assert!(matrix.judge().unwrap().iter().all(|judged| judged.cell != 6));
    let skewed = |cell: usize, _| observed(if cell == 6 { 1.5 } else { 1.0 }, 1);
    let runs = bench.go_on(Vec::new(), skewed);
    assert!(!bench.matrix(&runs).null_control().unwrap().unwrap().is_same());
}

#[test]
fn a_machine_that_changes_meanwhile_is_told_of() {
    let bench = Bench::new(plan());
    let shift = |after: f64| {
        let level = |round: usize| if round > 4 { after } else { 1.0 };
        let noise = |cell: usize, round: usize| 1.0 + 0.003 * ((cell * 5 + round * 3) % 7) as f64;
        // What is no baseline says nothing about the machine.
        let runs = bench.go_on(Vec::new(), |cell, round| match cell {
            0 | 1 => observed((1.0 + cell as f64) * level(round) * noise(cell, round), 1),
            _ => observed(if round > 2 { 9.0 } else { 1.0 }, 1),
        });
        bench.matrix(&runs).shift().unwrap()
    };
    let found = shift(1.3).unwrap();
    assert_eq!(found.round, 5);
    assert!((found.ratio - 1.3).abs() < 0.02 && found.p < 0.01, "{found:?}");
    assert!(shift(0.8).is_some());
    assert!(shift(1.0).is_none() && shift(1.01).is_none(), "within the margin");
}
