//! The search on recorded noise: programs that do not exist, with curves that are known, on machines
//! whose every run is one of a recorded series (`cargo xtask bench noise` recorded them).

use test_start as _;

use sweetspot_lab::{
    Error,
    paired::{self, LOOKS, Observation, Options, Verdict},
    schedule::Random,
    search::{self, Answer, Plan, Round, Step},
};

/// Sizes of the ladder: 4 KiB to 16 MiB.
const SIZES: usize = 13;
/// A choice this far off the best is bad: the margin and two points.
const BAD: f64 = 1.07;
/// Searches of one shape: enough that those which are confirmed on a busy machine say something.
const TRIALS: u64 = 1500;
const TRIALS_QUIET: u64 = 200;
/// Comparisons of a command with itself, on each series; and how many of them may go wrong: the 97.5 %
/// point of a binomial at 5 %.
const COMPARISONS: u64 = 1000;
const WRONG_MAX: usize = 64;

/// The times of a program without noise: without buffering, by size, with automatic sizes.
struct Shape {
    name: &'static str,
    off: f64,
    sizes: [f64; SIZES],
    auto: f64,
}

const SHAPES: [Shape; 6] = [
    Shape {
        name: "plateau", // everything from 64 KiB on is alike
        off: 5.0,
        sizes: [2.0, 1.6, 1.3, 1.12, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
        auto: 1.0,
    },
    Shape {
        name: "real", // a COBOL copy: a shallow end, and caches that are too small
        off: 5.5,
        sizes: [1.6, 1.3, 1.17, 1.1, 1.06, 1.03, 1.01, 1.0, 1.02, 1.05, 1.08, 1.12, 1.15],
        auto: 1.05,
    },
    Shape { name: "flat", off: 1.0, sizes: [1.0; SIZES], auto: 1.0 },
    Shape {
        name: "late knee", // each call costs a round trip
        off: 20.0,
        sizes: [8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.5, 2.0, 1.2, 1.0, 1.0, 1.0, 1.0],
        auto: 4.0,
    },
    Shape {
        name: "slope", // each doubling gains four per cent
        off: 2.0,
        sizes: [1.6, 1.54, 1.48, 1.42, 1.37, 1.32, 1.27, 1.22, 1.17, 1.12, 1.08, 1.04, 1.0],
        auto: 1.3,
    },
    Shape {
        name: "worse", // buffering never pays
        off: 1.0,
        sizes: [1.0, 1.0, 1.02, 1.05, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 2.0],
        auto: 1.01,
    },
];

impl Shape {
    fn time(&self, plan: &Plan, setting: usize) -> f64 {
        match setting {
            search::OFF => self.off,
            auto if auto == plan.auto() => self.auto,
            size => self.sizes[size - 1],
        }
    }

    fn best(&self) -> f64 {
        self.sizes.iter().copied().fold(self.off, f64::min)
    }
}

/// Recorded on a machine with two processors that others kept busy: once very (standard deviation
/// over mean 85 %), once less (39 %).
const SERIES: [&str; 2] = ["tests/noise/shared-2core.json", "tests/noise/shared-2core-2.json"];

/// The recorded series: what each run took relative to the median run.
fn series() -> Vec<(String, Vec<f64>)> {
    // Another one can be named, to try the search on another machine's noise.
    let paths = match std::env::var("SWEETSPOT_NOISE") {
        Ok(path) => vec![path],
        Err(_) => SERIES.map(str::to_owned).into(),
    };
    paths.into_iter().map(|path| (path.clone(), noise(&path))).collect()
}

fn noise(path: &str) -> Vec<f64> {
    let text = std::fs::read_to_string(path).unwrap();
    let record: serde_json::Value = serde_json::from_str(&text).unwrap();
    let seconds = record["seconds"].as_array().unwrap();
    let mut seconds: Vec<f64> = seconds.iter().map(|time| time.as_f64().unwrap()).collect();
    let median = sweetspot_lab::statistics::median(&seconds).unwrap();
    seconds.iter_mut().for_each(|time| *time /= median);
    seconds
}

struct Trial {
    answer: Answer,
    rounds: Vec<Round>,
}

impl Trial {
    fn run(shape: &Shape, plan: &Plan, noise: &[f64], mut at: usize) -> Trial {
        let mut rounds = Vec::new();
        loop {
            match search::step(plan, &rounds).unwrap() {
                Step::Done(answer) => return Trial { answer, rounds },
                Step::Round { phase, order } => {
                    let figures = order
                        .iter()
                        .map(|setting| {
                            at += 1;
                            shape.time(plan, *setting) * noise[at % noise.len()]
                        })
                        .collect();
                    rounds.push(Round::new(phase, order, figures));
                }
            }
        }
    }

    fn runs(&self) -> usize {
        self.rounds.iter().map(|round| round.order.len()).sum()
    }
}

/// What many searches for the sweet spot of one shape came to.
#[derive(Default)]
struct Tally {
    confirmed: u64,
    /// Of the confirmed ones.
    bad: u64,
    runs: usize,
}

fn tally(shape: &Shape, noise: &[f64], trials: u64, patience: usize) -> Tally {
    let (mut tally, mut chosen) = (Tally::default(), [0; SIZES + 2]);
    for seed in 0..trials {
        let plan = Plan { sizes: SIZES, within: 0.05, seed, curve_rounds: 0, patience };
        let trial = Trial::run(shape, &plan, noise, Random::new(seed).below(noise.len()));
        tally.runs += trial.runs();
        assert!(trial.runs() <= 10 * (SIZES + 2) * patience, "more than a grid of ten rounds");
        if !trial.answer.confirmed {
            continue;
        }
        let setting = trial.answer.setting(&plan);
        chosen[setting] += 1;
        tally.confirmed += 1;
        tally.bad += u64::from(shape.time(&plan, setting) > BAD * shape.best());
    }
    println!(
        "{:10} confirmed {:5.1} %, of these bad {:4.1} %, runs {:5.1}, confirmed ones {chosen:?}",
        shape.name,
        tally.confirmed as f64 * 100.0 / trials as f64,
        tally.bad as f64 * 100.0 / tally.confirmed as f64,
        tally.runs as f64 / trials as f64,
    );
    tally
}

#[test]
fn a_confirmed_answer_is_rarely_bad_and_costs_few_runs() {
    for (name, noise) in series() {
        println!("{name}");
        let all: Vec<Tally> = SHAPES.iter().map(|shape| tally(shape, &noise, TRIALS, 1)).collect();
        for (shape, tally) in SHAPES.iter().zip(&all) {
            // Of what it stands by, not of all trials: a search that never answers is never wrong.
            let Tally { bad, confirmed, .. } = tally;
            assert!(bad * 20 <= *confirmed, "{}: {bad} of {confirmed} are bad", shape.name);
            // Both series are from busy machines: most searches there end undecided, as they should.
            assert!(confirmed * 40 >= TRIALS, "{}: only {confirmed} confirmed", shape.name);
        }
        let runs = all.iter().map(|tally| tally.runs).sum::<usize>();
        let mean = runs as f64 / (TRIALS as usize * SHAPES.len()) as f64;
        println!("mean {mean:.1} runs");
        assert!(mean <= 90.0, "{mean} runs on average");
    }
}

/// Anyone who takes more rounds on a busy machine gets more answers, and they are as good.
#[test]
fn patience_decides_what_was_undecided() {
    for (name, noise) in series() {
        println!("{name}, with patience");
        let shapes = SHAPES.iter().filter(|shape| ["plateau", "real"].contains(&shape.name));
        for shape in shapes {
            let usual = tally(shape, &noise, TRIALS_QUIET, 1);
            let patient = tally(shape, &noise, TRIALS_QUIET, 6);
            assert!(patient.confirmed > usual.confirmed * 3 / 2, "{}", shape.name);
            assert!(patient.bad * 20 <= patient.confirmed, "{}: {} bad", shape.name, patient.bad);
        }
    }
}

/// A machine that is as quiet as one is that nobody else uses: a tenth of the recorded noise.
#[test]
fn on_a_quiet_machine_most_answers_are_confirmed() {
    for (name, mut noise) in series() {
        noise.iter_mut().for_each(|time| *time = time.powf(0.1));
        println!("{name}, a tenth of it");
        for shape in &SHAPES {
            let Tally { bad, confirmed, .. } = tally(shape, &noise, TRIALS_QUIET, 1);
            assert_eq!(bad, 0, "{}", shape.name);
            assert!(
                confirmed * 3 >= TRIALS_QUIET * 2,
                "{}: only {confirmed} confirmed",
                shape.name
            );
        }
    }
}

#[test]
fn without_noise_every_answer_is_the_smallest_within_the_margin() {
    for shape in &SHAPES {
        let plan = Plan { sizes: SIZES, within: 0.05, seed: 7, curve_rounds: 0, patience: 1 };
        let trial = Trial::run(shape, &plan, &[1.0], 0);
        let smallest_within = |within: f64| {
            let good = |setting: &usize| shape.time(&plan, *setting) <= within * shape.best();
            (search::OFF..=SIZES).find(good).unwrap()
        };
        // The best may lie between two scouted sizes, and a size at the margin on either side of it.
        let (smallest, clear) = (smallest_within(BAD), smallest_within(1.03));
        let choice = trial.answer.choice;
        assert!(trial.answer.confirmed, "{}", shape.name);
        assert!((smallest..=clear).contains(&choice), "{}: {choice}", shape.name);
        let auto_is_good = shape.auto <= 1.05 * shape.best();
        assert_eq!(trial.answer.auto_is_within, auto_is_good, "{}", shape.name);
        assert!(trial.runs() <= 95, "{}: {} runs", shape.name, trial.runs());
    }
}

#[test]
fn a_search_goes_on_where_it_was_interrupted() {
    let noise = noise(SERIES[0]);
    let plan = Plan { sizes: SIZES, within: 0.05, seed: 3, curve_rounds: 2, patience: 1 };
    for shape in &SHAPES {
        let whole = Trial::run(shape, &plan, &noise, 100);
        for done in 0..whole.rounds.len() {
            // Whatever was left out or is asked again does not depend on anything but the rounds.
            let Step::Round { phase, order } = search::step(&plan, &whole.rounds[..done]).unwrap()
            else {
                panic!("{}: done after {done} rounds", shape.name)
            };
            assert_eq!((phase, &order), (whole.rounds[done].phase, &whole.rounds[done].order));
            let guess = search::guess(&plan, &whole.rounds[..done]).unwrap();
            assert!(guess.is_none_or(|guess| !guess.confirmed), "{}", shape.name);
            // What is shown as the best guess is what is being confirmed, not something else.
            if phase == search::Phase::Confirm {
                let choice = guess.unwrap().choice;
                assert!(order.contains(&choice), "{}: {choice} is not in {order:?}", shape.name);
            }
        }
        let curve = whole.rounds.iter().rev().take(2);
        assert!(curve.clone().all(|round| round.order.len() == SIZES + 2), "the curve is whole");
        let last = search::guess(&plan, &whole.rounds).unwrap().unwrap();
        assert_eq!(last, whole.answer);
    }
}

#[test]
fn a_guess_sees_that_no_buffering_is_better() {
    let plan = Plan { sizes: SIZES, within: 0.05, seed: 1, curve_rounds: 0, patience: 1 };
    for (shape, expected) in [(&SHAPES[5], search::OFF), (&SHAPES[0], 5)] {
        let trial = Trial::run(shape, &plan, &[1.0], 0);
        // After the pilots and the scouts.
        let guess = search::guess(&plan, &trial.rounds[..4]).unwrap().unwrap();
        assert!(!guess.confirmed);
        let choice = guess.choice;
        assert!(choice == expected || expected != search::OFF && choice > expected, "{choice}");
    }
}

#[test]
fn short_ladders_and_wrong_figures() {
    for sizes in 1..=4 {
        let plan = Plan { sizes, within: 0.05, seed: 1, curve_rounds: 0, patience: 1 };
        let trial = Trial::run(&SHAPES[0], &plan, &[1.0], 0);
        assert!(trial.answer.choice <= sizes, "{sizes} sizes: {:?}", trial.answer);
    }
    let plan = Plan { sizes: 3, within: 0.05, seed: 1, curve_rounds: 0, patience: 1 };
    let round = |figure: f64| Round::new(search::Phase::Scout, vec![1, 3], vec![figure, 1.0]);
    let mut rounds: Vec<Round> =
        (0..2).map(|_| Round::new(search::Phase::Pilot, vec![0], vec![1.0])).collect();
    rounds.extend([round(1.0), round(0.0), round(1.0)]);
    assert!(search::step(&plan, &rounds).is_err(), "no time is zero");
}

#[test]
fn a_command_is_rarely_said_to_differ_from_itself() {
    for (name, noise) in series() {
        let wrong = (0..COMPARISONS).filter(|seed| differs_from_itself(*seed, &noise)).count();
        println!("{name}: {wrong} of {COMPARISONS} differ");
        assert!(wrong <= WRONG_MAX, "{name}: {wrong} of {COMPARISONS}");
    }
}

/// With no margin at all, so that "the same" is no way out.
fn differs_from_itself(seed: u64, noise: &[f64]) -> bool {
    let mut at = Random::new(seed).below(noise.len());
    let mut run_one = |_: usize| -> Result<Observation, Error> {
        at += 1;
        Ok(Observation { figure: noise[at % noise.len()], output: String::new() })
    };
    // Not the seed that the place was drawn from: the order must not follow from the place.
    let options = Options { seed: !seed, margin: 0.0, ..Options::default() };
    let result = paired::compare(&mut run_one, 2, &options).unwrap();
    assert!(LOOKS.contains(&result.rounds.len()));
    result.effect(0, 1).unwrap().verdict != Verdict::Undecided
}
