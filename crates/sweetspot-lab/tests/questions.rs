//! The two questions on a machine that does not exist, whose noise is known: how often is an answer
//! wrong? No clock runs here, and every seed is fixed.

use test_start as _;

use sweetspot_lab::{
    questions::{self, Answer, Figure, Reply},
    schedule::Random,
    search::{OFF, Phase, Plan, Round, Setting},
};

const SIZES: usize = 13;
const SEARCHES: u64 = 200;
/// One in twenty.
const FALSE_MAX: usize = 10;
/// Runs of a plan without patience.
const RUNS: std::ops::RangeInclusive<usize> = 12..=28;

/// A busy machine with two processors. The level of the times wanders (each run is like the one before
/// it), single runs take much longer (Student's t on two degrees of freedom), and now and then somebody
/// else comes for a while, which is seen.
struct Machine {
    random: Random,
    level: f64,
    busy_runs: usize,
    /// What of this noise there is: 1 is a busy machine.
    noise: f64,
    knows_processor: bool,
}

/// What one run took beside one without noise, its processor time likewise, and how far it was disturbed.
struct Ran {
    wall: f64,
    processor: f64,
    disturbance: f64,
}

impl Machine {
    fn new(seed: u64, noise: f64, knows_processor: bool) -> Machine {
        let mut machine =
            Machine { random: Random::new(seed), level: 0.0, busy_runs: 0, noise, knows_processor };
        // So that it does not begin in the middle of its noise.
        for _ in 0..20 {
            machine.run();
        }
        machine
    }

    fn uniform(&mut self) -> f64 {
        (self.random.bits() as f64 + 1.0) / (u64::MAX as f64 + 2.0)
    }

    /// Student's t on two degrees of freedom: its variance is infinite.
    fn heavy(&mut self) -> f64 {
        let place = 2.0 * self.uniform() - 1.0;
        place * (2.0 / (1.0 - place * place)).sqrt()
    }

    fn run(&mut self) -> Ran {
        self.level = 0.7 * self.level + 0.06 * self.heavy();
        if self.busy_runs == 0 && self.uniform() < 0.05 {
            self.busy_runs = 1 + self.random.below(8);
        }
        let disturbance = if self.busy_runs > 0 { 0.2 + 0.8 * self.uniform() } else { 0.0 };
        self.busy_runs = self.busy_runs.saturating_sub(1);
        let wall = self.level + (1.0 + disturbance).ln() + 0.03 * self.heavy();
        // Nobody else can have that; caches are shared all the same.
        let processor = 0.02 * self.level + 0.01 * self.heavy().clamp(-5.0, 5.0);
        Ran {
            wall: (self.noise * wall.clamp(-1.0, 5.0)).exp(),
            processor: 0.95 * (self.noise * processor).exp(),
            disturbance,
        }
    }

    /// Asks about a program that takes `time` in each setting. The answer, and in how many runs.
    fn ask(&mut self, plan: &Plan, time: impl Fn(Setting) -> f64) -> (Answer, usize) {
        let mut rounds: Vec<Round> = Vec::new();
        while let Some((phase, order)) = questions::next(plan, &rounds).unwrap() {
            let ran: Vec<Ran> = order.iter().map(|_| self.run()).collect();
            let each = |of: fn(&Ran) -> f64| {
                let times = std::iter::zip(&order, &ran);
                times.map(|(setting, ran)| time(*setting) * of(ran)).collect::<Vec<f64>>()
            };
            let processor =
                if self.knows_processor { each(|ran| ran.processor) } else { Vec::new() };
            let disturbance = ran.iter().map(|ran| ran.disturbance).collect();
            let figures = each(|ran| ran.wall);
            rounds.push(Round { phase, order, figures, processor, disturbance });
        }
        let runs = rounds.iter().map(|round| round.order.len()).sum();
        (questions::answer(plan, &rounds).unwrap(), runs)
    }
}

fn plan(seed: u64) -> Plan {
    Plan { sizes: SIZES, within: 0.05, seed, curve_rounds: 0, patience: 1 }
}

fn says(compared: Option<questions::Compared>, reply: Reply) -> bool {
    compared.is_some_and(|compared| compared.reply == reply)
}

/// Answers of many searches on machines of that noise, each with its own seed.
fn answers(
    noise: f64,
    knows_processor: bool,
    patience: usize,
    time: impl Fn(Setting) -> f64,
) -> Vec<(Answer, usize)> {
    let search = |seed: u64| {
        let plan = Plan { patience, ..plan(seed) };
        Machine::new(!seed, noise, knows_processor).ask(&plan, &time)
    };
    (0..SEARCHES).map(search).collect()
}

/// A program that takes the same time however it is run, and one that only automatic sizes and others
/// alike make faster: nothing may be called better that is not.
#[test]
fn what_is_no_better_is_rarely_said_to_be() {
    let auto = plan(0).auto();
    for (noise, knows_processor, patience) in
        [(1.0, false, 1), (1.0, true, 1), (0.2, false, 1), (1.0, false, 3), (3.0, false, 1)]
    {
        let nothing = answers(noise, knows_processor, patience, |_| 1.0);
        let better = |answer: &Answer| answer.setting(&plan(0)).is_some_and(|chosen| chosen != OFF);
        let wrong = nothing.iter().filter(|(answer, _)| better(answer)).count();
        let alike = answers(noise, knows_processor, patience, |s| if s == OFF { 3.0 } else { 1.0 });
        let set = alike.iter().filter(|(answer, _)| says(answer.size, Reply::Yes)).count();
        let worth = alike.iter().filter(|(answer, _)| says(answer.worth, Reply::Yes)).count();
        let settled = alike.iter().filter(|(answer, _)| says(answer.size, Reply::No)).count();
        println!(
            "noise {noise}, processor {knows_processor}, patience {patience}: {wrong} of {SEARCHES} \
             better where all are alike; {worth} worth it at 3x, a size better in {set}, not in \
             {settled}"
        );
        assert!(wrong <= FALSE_MAX && set <= FALSE_MAX, "{wrong} and {set}");
        assert!(alike.iter().all(|(a, _)| a.size.is_none_or(|size| size.reference == auto)));
    }
}

/// Recorded on a machine that others kept busy, one run after the other; wall times are all that is known.
#[test]
fn on_recorded_noise_it_is_no_different() {
    for name in ["shared-2core", "shared-2core-2"] {
        let text = std::fs::read_to_string(format!("tests/noise/{name}.json")).unwrap();
        let record: serde_json::Value = serde_json::from_str(&text).unwrap();
        let noise = record["seconds"].as_array().unwrap();
        let search = |seed: u64, off: f64| {
            let (plan, mut rounds) = (plan(seed), Vec::new());
            let mut at = Random::new(!seed).below(noise.len());
            while let Some((phase, order)) = questions::next(&plan, &rounds).unwrap() {
                let mut run = |setting: &Setting| {
                    at += 1;
                    let seconds = noise[at % noise.len()].as_f64().unwrap();
                    seconds * if *setting == OFF { off } else { 1.0 }
                };
                let figures = order.iter().map(&mut run).collect();
                rounds.push(Round::new(phase, order, figures));
            }
            questions::answer(&plan, &rounds).unwrap()
        };
        let count = |off: f64, wanted: &dyn Fn(&Answer) -> bool| {
            (0..SEARCHES).filter(|seed| wanted(&search(*seed, off))).count()
        };
        let better = count(1.0, &|answer| answer.worth() == Reply::Yes);
        let size = count(2.0, &|answer| says(answer.size, Reply::Yes));
        let (wrong, right) = (
            count(2.0, &|answer| answer.worth() == Reply::No),
            count(2.0, &|answer| answer.worth() == Reply::Yes),
        );
        println!("{name}: {better} better where all are alike; at 2x {right} right, {wrong} wrong");
        assert!(better <= FALSE_MAX && size <= FALSE_MAX, "{better} and {size}");
        assert_eq!(wrong, 0);
    }
}

#[test]
fn twice_as_fast_is_never_said_to_be_no_gain() {
    for (noise, knows_processor) in [(1.0, false), (1.0, true), (0.2, false), (3.0, false)] {
        let found = answers(noise, knows_processor, 1, |s| if s == OFF { 2.0 } else { 1.0 });
        let count = |reply| found.iter().filter(|(a, _)| says(a.worth, reply)).count();
        let after_six = found.iter().filter(|(answer, _)| {
            says(answer.worth, Reply::Yes) && answer.worth.is_some_and(|worth| worth.pairs == 6)
        });
        let (wrong, right, at_once) = (count(Reply::No), count(Reply::Yes), after_six.count());
        println!(
            "noise {noise}, processor {knows_processor}: {right} right, {at_once} of them after six \
             pairs, {wrong} wrong"
        );
        assert_eq!(wrong, 0);
        assert!(found.iter().all(|(_, runs)| RUNS.contains(runs)));
        assert!(noise > 1.0 || at_once * 5 >= SEARCHES as usize * 4, "{at_once} after six pairs");
    }
}

#[test]
fn without_noise_both_questions_are_answered_as_they_are() {
    let auto = plan(0).auto();
    let check = |time: &dyn Fn(Setting) -> f64, worth: Reply, chosen: Setting, runs: usize| {
        for seed in 0..20 {
            let (answer, ran) = Machine::new(seed, 0.0, true).ask(&plan(seed), time);
            assert_eq!(answer.worth(), worth);
            assert_eq!(answer.setting(&plan(seed)), Some(chosen), "{answer:?}");
            assert_eq!((ran, answer.figure), (runs, Figure::Wall));
        }
    };
    check(&|_| 1.0, Reply::No, OFF, 12);
    check(&|setting| if setting == OFF { 1.0 } else { 1.5 }, Reply::No, OFF, 12);
    check(&|setting| if setting == OFF { 1.04 } else { 1.0 }, Reply::No, OFF, 12);
    check(&|setting| if setting == OFF { 1.1 } else { 1.0 }, Reply::Yes, auto, 28);
    // The largest of thirteen sizes is one of those that are tried.
    let only_large = |setting: Setting| match setting {
        OFF => 20.0,
        SIZES => 1.0,
        _ => 1.2,
    };
    check(&only_large, Reply::Yes, SIZES, 28);
    for sizes in 1..=5 {
        let plan = Plan { sizes, ..plan(1) };
        let time = |setting: Setting| if setting == OFF { 5.0 } else { 1.0 };
        let (answer, runs) = Machine::new(1, 0.0, true).ask(&plan, time);
        assert_eq!(answer.setting(&plan), Some(plan.auto()), "{sizes} sizes in {runs} runs");
        assert!(RUNS.contains(&runs));
    }
}

fn pair(times: [f64; 2], processor: [f64; 2], disturbance: f64) -> Round {
    Round {
        phase: Phase::Worth,
        order: vec![OFF, SIZES + 1],
        figures: times.to_vec(),
        processor: processor.to_vec(),
        disturbance: vec![0.0, disturbance],
    }
}

#[test]
fn processor_time_is_compared_only_where_wall_time_scatters_and_it_stands_for_it() {
    let rounds = |scatter: f64, share: f64| -> Vec<Round> {
        let round = |number: usize| {
            let slow = if number.is_multiple_of(2) { 1.0 } else { 1.0 + scatter };
            pair([2.0 * slow, slow], [2.0 * share, share], 0.0)
        };
        (0..6).map(round).collect()
    };
    assert_eq!(questions::figure(&rounds(0.5, 0.95)), Figure::Processor);
    assert_eq!(questions::figure(&rounds(0.03, 0.95)), Figure::Wall, "wall time is steady");
    assert_eq!(questions::figure(&rounds(0.5, 0.3)), Figure::Wall, "it waits for something");
    assert_eq!(questions::figure(&rounds(0.5, 1.7)), Figure::Wall, "it has several threads");
    assert_eq!(questions::figure(&rounds(0.5, 0.95)[..5]), Figure::Wall, "too early to say");
    let mut unknown = rounds(0.5, 0.95);
    unknown[3].processor.clear();
    assert_eq!(questions::figure(&unknown), Figure::Wall);
}

#[test]
fn a_disturbed_round_counts_less_and_none_is_dropped() {
    for (disturbance, weight) in [(0.0, 1.0), (0.1, 1.0), (0.2, 0.5), (1.0, 0.1)] {
        let found = questions::weight(&pair([1.0, 1.0], [1.0, 1.0], disturbance));
        assert!((found - weight).abs() < 1e-12, "{disturbance}: {found}");
    }
    // Two rounds in which somebody else came, to the harm of automatic sizes.
    let rounds = |disturbance: f64| -> Vec<Round> {
        let quiet = |number: usize| pair([2.0 + number as f64 / 100.0, 1.0], [0.1, 0.1], 0.0);
        let busy = || pair([2.0, 4.0], [0.1, 0.1], disturbance);
        (0..6).map(quiet).chain([busy(), busy()]).collect()
    };
    let speed = |disturbance: f64| {
        let answer = questions::answer(&plan(0), &rounds(disturbance)).unwrap();
        answer.worth.map(|worth| (worth.pairs, worth.speed)).unwrap()
    };
    // They are seen at the first look: before these rounds.
    assert_eq!(speed(0.0).0, 6);
    let later = |disturbance: f64| {
        let rounds = rounds(disturbance);
        let order: Vec<Round> = [6, 0, 1, 7, 2, 3].map(|at: usize| rounds[at].clone()).into();
        questions::answer(&plan(0), &order).unwrap().worth.unwrap()
    };
    let (same, less) = (later(0.0), later(1.0));
    assert_eq!((same.pairs, less.pairs, same.faster_in), (6, 6, 4));
    assert!(less.speed > same.speed, "{} and {}", less.speed, same.speed);
}

#[test]
fn what_is_open_says_what_more_would_take() {
    let noisy = |number: usize| {
        let factor = if number.is_multiple_of(2) { 0.8 } else { 1.6 };
        pair([factor, 1.0], [0.1, 0.1], 0.0)
    };
    let rounds: Vec<Round> = (0..14).map(noisy).collect();
    let found = questions::answer(&plan(0), &rounds).unwrap().worth.unwrap();
    assert_eq!((found.reply, found.faster_in), (Reply::Open, 7));
    assert!(found.pairs_wanted.unwrap() > 14);
    assert_eq!(questions::next(&plan(0), &rounds).unwrap(), None, "all runs are spent");
    let patient = Plan { patience: 2, ..plan(0) };
    assert!(questions::next(&patient, &rounds).unwrap().is_some());
    assert_eq!(questions::patience_for(14), 2);
    let nothing = questions::answer(&plan(0), &[]).unwrap();
    assert_eq!((nothing.worth, nothing.setting(&plan(0))), (None, None));
}
