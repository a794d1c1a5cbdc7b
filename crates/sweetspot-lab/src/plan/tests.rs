//! What a plan means.

mod mistakes;

use super::*;
use std::collections::BTreeSet;

const PLAN: &str = r#"
title = "Copies"
question = "What does it gain?"
seed = 7
rounds = 10
margin = "3%"
limit = "5m"

[factors]
records = [1000]
how = ["without", "run"]

[scale.full]
rounds = 5
[scale.full.factors]
records = [1000, 5000]

[data.input]
generate = ["--records", "{records}"]

[programs.cobol]
needs = ["cobc", "gcc"]
install = "apt-get install gnucobol4 gcc"
build = [["cobc", "-x", "-o", "{build}/copy", "{plan}/copy.cob"]]
command = ["{build}/copy", "{input}", "{output}"]
env = { LANG = "C", COUNT = "{records}" }
[programs.cobol.when.how]
run = { before = ["{sweetspot}", "run", "--"], arguments = ["-v"] }
[programs.cobol.when.records]
5000 = { env = { LARGE = "yes" } }

[programs.library]
command = ["{sweetspot}", "work", "copy", "{input}", "{output}"]

[[exclude]]
program = "library"
how = "run"

[baseline]
program = "cobol"
how = "without"

[oracle]
same-within = ["records"]
[[oracle.known]]
records = 5000
sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789ABCDEF"

[[claim]]
name = "under run"
cell = { program = "cobol", how = "run" }
at-least = 5
memory-at-most = 1.5

[[claim]]
name = "the library"
cell = { program = "library" }
against = [{ program = "cobol" }]
not-slower-within = "2%"

[published]
file = "published.csv"
figures = "seconds"
"#;

fn read(text: &str) -> Plan {
    Plan::read(text, None).unwrap_or_else(|error| panic!("{error}"))
}

fn called(plan: &Plan) -> Vec<String> {
    (0..plan.cells.len()).map(|cell| plan.called(cell)).collect()
}

/// In [`PLAN`], `from` is replaced by `to`; then there is a mistake at the line that holds `at`, and
/// the message has `what` and `next`.
fn refused(from: &str, to: &str, at: &str, what: &str, next: &str) {
    assert!(PLAN.contains(from), "{from}");
    let text = PLAN.replacen(from, to, 1);
    let error = Plan::read(&text, None).expect_err(to);
    let line = 1 + text.lines().position(|line| line.contains(at)).unwrap_or(0);
    assert!(error.what.contains(what), "{what:?} is missing in: {error}");
    assert!(error.next.contains(next), "{next:?} is missing in: {error}");
    if !at.is_empty() {
        assert_eq!(error.line, line, "{error}\n{text}");
    }
}

#[test]
fn cells_are_the_product_without_what_is_excluded() {
    let plan = read(PLAN);
    assert_eq!(called(&plan), ["cobol, how without", "cobol, how run", "library, how without"]);
    assert_eq!(plan.stop, Stop::Rounds(10));
    let full = Plan::read(PLAN, Some("full")).unwrap();
    assert_eq!(full.stop, Stop::Rounds(5));
    let expected = [
        "cobol, records 1000, how without",
        "cobol, records 1000, how run",
        "cobol, records 5000, how without",
        "cobol, records 5000, how run",
        "library, records 1000, how without",
        "library, records 5000, how without",
    ];
    assert_eq!(called(&full), expected);
}

#[test]
fn everything_is_read() {
    let plan = Plan::read(PLAN, Some("full")).unwrap();
    assert_eq!(
        (plan.title.as_str(), plan.question.as_deref()),
        ("Copies", Some("What does it gain?"))
    );
    assert_eq!((plan.seed, plan.margin), (Some(7), 0.03));
    assert_eq!((plan.figure, plan.limit), (Figure::Wall, Duration::from_secs(300)));
    assert_eq!(plan.cache(&plan.cells[0]).name(), "warm");
    let program = &plan.programs[0];
    assert_eq!(
        (program.needs.as_slice(), program.output),
        (&["cobc".into(), "gcc".into()][..], Output::File)
    );
    assert_eq!(program.install.as_deref(), Some("apt-get install gnucobol4 gcc"));
    assert_eq!(program.build[0].len(), 5);
    // program, 5000, run: what always holds, then the level of records, then of how.
    let changes: Vec<&Change> = plan.changes(&plan.cells[3]).collect();
    let names = |change: &Change| {
        change.environment.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(changes.iter().map(|c| names(c)).collect::<Vec<_>>(), ["LANG COUNT", "LARGE", ""]);
    assert_eq!((changes[2].before.len(), changes[2].arguments.len()), (3, 1));
    assert_eq!(plan.claims[0].checks, [Check::AtLeast(5.0), Check::MemoryAtMost(1.5)]);
    assert_eq!(plan.claims[1].checks, [Check::NotSlowerWithin(0.02)]);
    let published = Published { file: "published.csv".into(), figures: vec!["seconds".into()] };
    assert_eq!(plan.published, Some(published));
}

#[test]
fn cells_are_held_against_others() {
    let plan = Plan::read(PLAN, Some("full")).unwrap();
    let references: Vec<_> = (0..6).map(|cell| plan.reference(cell)).collect();
    assert_eq!(references, [None, Some(0), None, Some(2), Some(0), Some(2)]);
    assert!(plan.must_agree(0, 4) && !plan.must_agree(0, 2));
    let hashes: Vec<bool> = (0..6).map(|cell| plan.known_hash(cell).is_some()).collect();
    assert_eq!(hashes, [false, false, true, true, false, true]);
    assert!(plan.known_hash(2).unwrap().ends_with("abcdef"), "in small letters");
    let against = &plan.claims[1].against[0];
    assert_eq!(plan.counterpart(5, against), Some(2));
}

#[test]
fn short_plans_have_defaults() {
    let plan = read(
        "title = 't'\n[factors]\ncache = ['cold', 'none']\n[programs.a]\ncommand = ['cat']\n\
         [programs.b]\ncommand = ['cat', '{output}']\noutput = 'none'\n[baseline]\nprogram = 'a'\n",
    );
    assert_eq!(plan.stop, Stop::Precision { within: 0.02, budget: None });
    assert_eq!((plan.seed, plan.margin, plan.limit.as_secs()), (None, 0.02, 3600));
    assert_eq!(
        plan.programs.iter().map(|s| s.output).collect::<Vec<_>>(),
        [Output::Stdout, Output::None]
    );
    let caches: BTreeSet<_> = plan.cells.iter().map(|cell| plan.cache(cell).name()).collect();
    assert_eq!(caches, BTreeSet::from(["cold", "none"]));
    assert!(plan.oracle.same_within.is_empty(), "the state of the cache changes no output");
    let looked = read(&PLAN.replace("rounds = 10", "precision = '1%'\nbudget = '2h'"));
    let budget = Some(Duration::from_secs(7200));
    assert_eq!(looked.stop, Stop::Precision { within: 0.01, budget });
}

#[test]
fn only_cells_that_run_count_against_the_limit() {
    // Two programs in two ways each, but for one that is excluded.
    let with = |levels: usize| {
        let levels: Vec<String> = (0..levels).map(|level| level.to_string()).collect();
        PLAN.replacen("records = [1000]", &format!("records = [{}]", levels.join(",")), 1)
    };
    assert_eq!(read(&with(CELLS_MAX / 3)).cells.len(), 999);
    let error = Plan::read(&with(CELLS_MAX / 3 + 1), None).unwrap_err();
    assert!(error.what.contains("1002 cells are too many"), "{error}");
}

#[test]
fn programs_were_called_subjects() {
    let before = PLAN
        .replace("[programs.", "[subjects.")
        .replace("program = ", "subject = ")
        .replace("COUNT = \"{records}\"", "COUNT = \"{subject}\"")
        .replace("same-within = [", "same-within = [\"subject\", ");
    let (now, plan) = (read(PLAN), read(&before));
    assert_eq!(called(&plan), called(&now));
    assert_eq!((&plan.factors, &plan.baseline), (&now.factors, &now.baseline));
    let (_, count) = &plan.programs[0].always.environment[1];
    assert_eq!(count.names().collect::<Vec<_>>(), ["program"]);
    assert_eq!(plan.oracle.same_within, [0, 1]);
    refused("[programs.library]", "[subjects.library]", "[subjects", "in two places", "alone");
    refused("records = [1000]", "subject = ['x']", "subject =", "cannot be called", "another");
}

/// Programs that differ in what they have: one reads in pieces of a size, one was written by hand, too.
const UNLIKE: &str = r#"
title = "Unlike"
[factors]
bytes = { levels = [8, 64], only = { program = "read" } }
how = ["without", "run", "by-hand"]
[scale.large.factors]
bytes = [4096]
[scale.copy.factors]
program = ["copy"]
[data.input]
generate = ["--binary", "{bytes}"]
[programs.read]
command = ["read", "{bytes}", "{input}"]
[programs.copy]
command = ["copy", "{output}"]
arguments = ["-v"]
[programs.copy.when.how]
run = { env = { SLOW = "no" } }
by-hand = { command = ["fast", "{output}"] }
[when.how]
run = { before = ["{sweetspot}", "run", "--"] }
[[exclude]]
how = "by-hand"
except = { program = "copy" }
[baseline]
how = "without"
"#;

#[test]
fn a_factor_may_belong_to_some_cells_only() {
    let plan = read(UNLIKE);
    let expected = [
        "read, bytes 8, how without",
        "read, bytes 8, how run",
        "read, bytes 64, how without",
        "read, bytes 64, how run",
        "copy, how without",
        "copy, how run",
        "copy, how by-hand",
    ];
    assert_eq!(called(&plan), expected);
    let references: Vec<_> = (0..7).map(|cell| plan.reference(cell)).collect();
    assert_eq!(references, [None, Some(0), None, Some(2), None, Some(4), Some(4)]);
    assert_eq!((plan.level(&plan.cells[3], 1), plan.level(&plan.cells[4], 1)), ("64", ""));
    assert!(plan.must_agree(4, 6) && !plan.must_agree(1, 3));
    // Held against another program, a cell loses what that one does not have.
    assert_eq!(plan.counterpart(3, &Assignment(vec![(0, 1)])), Some(5));
    // A baseline that names the size is one for cells of no size as well.
    let sized = read(&UNLIKE.replace("[baseline]", "[baseline]\nbytes = 8"));
    let baselines: Vec<_> = (0..7).filter(|cell| sized.is_baseline(*cell)).collect();
    assert_eq!(baselines, [0, 4]);
    let large = Plan::read(UNLIKE, Some("large")).unwrap();
    assert_eq!(called(&large)[..2], ["read, how without", "read, how run"], "one size");
    assert_eq!(large.level(&large.cells[0], 1), "4096");
}

#[test]
fn a_scale_may_have_fewer_programs() {
    let plan = Plan::read(UNLIKE, Some("copy")).unwrap();
    assert_eq!(called(&plan), ["copy, how without", "copy, how run", "copy, how by-hand"]);
    assert_eq!(plan.programs.iter().map(|found| &found.name).collect::<Vec<_>>(), ["copy"]);
    assert_eq!(plan.varying().collect::<Vec<_>>(), [2], "none has a size");
    let error = Plan::read(&UNLIKE.replace("[\"copy\"]", "['cp']"), Some("copy")).unwrap_err();
    assert!(
        error.to_string().contains("there is no program 'cp'; programs of this plan: read, copy")
    );
}

#[test]
fn levels_change_the_command_and_some_do_so_for_all_programs() {
    let plan = read(UNLIKE);
    let started = |cell: usize| {
        let started = plan.started(&plan.cells[cell]);
        let words = started.words.iter().map(|word| word.fill(|name| format!("<{name}>")));
        let words: Vec<String> = words.map(|word| word.into_string().unwrap()).collect();
        (words.join(" "), started.environment.len())
    };
    assert_eq!(started(1), ("<sweetspot> run -- read <bytes> <input>".to_owned(), 0));
    assert_eq!(started(4), ("copy <output> -v".to_owned(), 0));
    assert_eq!(started(5), ("<sweetspot> run -- copy <output> -v".to_owned(), 1));
    assert_eq!(started(6), ("fast <output> -v".to_owned(), 0));
    assert_eq!(
        plan.programs.iter().map(|of| of.output).collect::<Vec<_>>(),
        [Output::Stdout, Output::File]
    );
}
