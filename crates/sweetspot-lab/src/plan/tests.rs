//! What a plan means, and every mistake that can be made in one.

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
fn mistakes_at_the_top_name_their_line() {
    let check = refused;
    check("rounds = 10", "rounds = ", "rounds =", "", "TOML");
    check("seed = 7", "sede = 7", "sede", "'sede' is not known in a plan", "title, question, seed");
    check("title = \"Copies\"", "", "", "a plan has no 'title'", "add title");
    check("title = \"Copies\"", "title = 3", "title", "is of type integer", "a text");
    check("seed = 7", "seed = -7", "seed", "is of type integer", "a whole number");
    check("seed = 7", "seed = 0x7", "seed", "is of type integer", "a whole number");
    check("rounds = 10", "rounds = 0", "rounds", "0 rounds are not possible", "from 1 to 500");
    check("rounds = 10", "rounds = 501", "rounds", "501 rounds", "from 1 to 500");
    check("rounds = 10", "rounds = 9\nbudget = '5m'", "budget", "fixed already", "leave out");
    check("rounds = 10", "rounds = 9\nprecision = '5%'", "precision", "fixed already", "leave out");
    check("rounds = 10", "budget = '5 days'", "budget", "\"5 days\" is not known", "90s, 5m or 1h");
    check("margin = \"3%\"", "margin = '0%'", "margin", "\"0%\" is not known", "a share such as");
    check("margin = \"3%\"", "figure = 'cpu'", "figure", "\"cpu\" is not known", "\"samples\"");
    check("margin = \"3%\"", "cache = 'hot'", "cache =", "\"hot\" is not known", "\"cold\"");
    check("limit = \"5m\"", "limit = 5", "limit", "is of type integer", "a text");
    check("[factors]", "[factors", "[factors", "", "TOML");
}

#[test]
fn mistakes_in_factors_and_data_name_their_line() {
    let check = refused;
    check("how = [\"without\", \"run\"]", "how = 'run'", "how =", "is of type string", "a list");
    check(
        "how = [\"without\", \"run\"]",
        "how = []",
        "how =",
        "'how' has no level",
        "one at least",
    );
    check("\"without\", \"run\"]", "'run', 'run']", "how =", "'run' is there twice", "leave one");
    check("records = [1000]", "cache = ['hot']", "cache", "no state of the page cache", "\"cold\"");
    check(
        "records = [1000]",
        "program = ['x']",
        "program =",
        "cannot be called 'program'",
        "another",
    );
    check("records = [1000]", "output = ['x']", "output =", "cannot be called 'output'", "another");
    check("records = [1000, 5000]", "record = [1]", "record =", "no factor 'record'", "[factors]");
    check("rounds = 5\n", "round = 5\n", "round = 5", "'round' is not known in full", "rounds");
    check("[data.input]", "[data.records]", "data.records", "means something else", "another name");
    check("generate =", "make =", "make =", "'make' is not known in input", "generate, command");
    check("generate = [", "command = [", "command = [", "not told where to write", "{path}");
    check(
        "generate = [",
        "command = ['{path}']\ngenerate = [",
        "data.input",
        "said once",
        "generate",
    );
    check("generate = [", "generate = ['{path}', ", "generate", "told where to write by", "leave");
    check("{records}\"]", "{recs}\"]", "{recs}", "{recs} means nothing here", "{records}");
    check("{records}\"]", "{output}\"]", "generate", "{output} means nothing", "{sweetspot}");
}

#[test]
fn mistakes_in_programs_name_their_line() {
    let check = refused;
    check(
        "command = [\"{build}/copy\"",
        "comand = [\"x\"",
        "comand",
        "'comand' is not known",
        "needs",
    );
    check(
        "command = [\"{build}/copy\", \"{input}\", \"{output}\"]",
        "",
        "programs.cobol]",
        "no 'command'",
        "add command",
    );
    check(
        "command = [\"{build}/copy\", \"{input}\", \"{output}\"]",
        "command = []",
        "command = []",
        "is empty",
        "name a program",
    );
    check("\"{input}\"", "\"{inptu}\"", "{inptu}", "{inptu} means nothing here", "{input}");
    check("\"{input}\"", "\"{input\"", "{input\"", "has no other half", "typed twice: {{");
    check(
        "\"{plan}/copy.cob\"",
        "\"{input}\"",
        "cobc\", \"-x\"",
        "{input} means nothing",
        "{plan}",
    );
    check(
        "run = { before",
        "urn = { before",
        "urn = {",
        "'how' has no level 'urn'",
        "without, run",
    );
    check("when.how]", "when.what]", "when.what", "no factor 'what'", "program, records, how");
    check(
        "arguments = [\"-v\"]",
        "argument = []",
        "run = {",
        "'argument' is not known in run",
        "before",
    );
    check(
        "install = ",
        "output = 'both'\ninstall = ",
        "output =",
        "\"both\" is not known",
        "\"stdout\"",
    );
    check(
        "command = [\"{sweetspot}\", \"work\", \"copy\", \"{input}\", \"{output}\"]",
        "command = ['cat', '{input}']\noutput = 'file'",
        "output = 'file'",
        "no word of the program names {output}",
        "add",
    );
    check(
        "env = { LANG = \"C\"",
        "env = { LANG = 3",
        "env =",
        "'LANG' is of type integer",
        "a text",
    );
}

#[test]
fn mistakes_about_cells_name_their_line() {
    let check = refused;
    check(
        "how = \"run\"\n\n[baseline]",
        "what = 1\n\n[baseline]",
        "what = 1",
        "no factor 'what'",
        "program",
    );
    check(
        "program = \"library\"\nhow = \"run\"\n",
        "",
        "[[exclude]]",
        "excludes every cell",
        "name levels",
    );
    check(
        "program = \"library\"\nhow = \"run\"\n",
        "records = 1000\n",
        "",
        "no cell is left",
        "less",
    );
    check(
        "[baseline]\nprogram = \"cobol\"",
        "[baseline]\nprogram = \"fortran\"",
        "\"fortran\"",
        "no level 'fortran'",
        "cobol, library",
    );
    check(
        "[baseline]\nprogram = \"cobol\"\nhow = \"without\"",
        "[baseline]\nprogram = \"library\"\nhow = \"run\"",
        "[baseline]",
        "no such cell",
        "less",
    );
    check(
        "[baseline]\nprogram = \"cobol\"\n",
        "[baseline]\nrecords = 5000\n",
        "records = 5000",
        "no level '5000' in this scale",
        "all scales",
    );
    check(
        "[baseline]\nprogram = \"cobol\"\nhow = \"without\"\n",
        "",
        "",
        "a plan has no 'baseline'",
        "[baseline]",
    );
    check(
        "same-within = [\"records\"]",
        "same-within = ['x']",
        "same-within",
        "no factor 'x'",
        "leave it",
    );
    check("sha256 = \"0123", "sha256 = \"123", "sha256", "is not known", "64 hexadecimal");
    let many: Vec<String> = (0..501).map(|level| level.to_string()).collect();
    check(
        "records = [1000]",
        &format!("records = [1000, {}]", many.join(",")),
        "",
        "cells are too many",
        "1000",
    );
    let many: Vec<String> = (0..40_000).map(|level| level.to_string()).collect();
    check(
        "records = [1000]",
        &format!("records = [{}]", many.join(",")),
        "",
        "160000 combinations of levels are too many",
        "100000",
    );
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
fn mistakes_in_claims_name_their_line() {
    let check = refused;
    check("name = \"under run\"\n", "", "[[claim]]", "has no 'name'", "add name");
    check(
        "at-least = 5\nmemory-at-most = 1.5",
        "",
        "[[claim]]",
        "'under run' claims nothing",
        "at-least",
    );
    check("at-least = 5", "at-least = -5", "at-least", "is no factor", "above 0");
    check("at-least = 5", "atleast = 5", "atleast", "'atleast' is not known", "at-least");
    check(
        "cell = { program = \"library\" }",
        "cell = { program = \"library\", how = \"run\" }",
        "cell = { program = \"library\"",
        "is about no cell",
        "less",
    );
    check(
        "cell = { program = \"library\" }",
        "cell = { how = 'run' }",
        "cell = { how = 'run' }",
        "against itself",
        "other levels",
    );
    check(
        "against = [{ program = \"cobol\" }]",
        "against = { how = 'run' }",
        "",
        "no cell to hold 'library",
        "less",
    );
    check(
        "cell = { program = \"cobol\", how = \"run\" }",
        "cell = { program = 'cobol' }",
        "",
        "against itself",
        "other levels",
    );
    check("figures = \"seconds\"", "", "[published]", "has no 'figures'", "columns");
}

#[test]
fn a_scale_that_is_not_there_is_named_with_those_that_are() {
    let error = Plan::read(PLAN, Some("huge")).unwrap_err();
    assert_eq!(error.to_string(), "line 1: there is no scale 'huge'; try: --scale full");
    let without = "title = 't'\n[programs.a]\ncommand = ['a']\n[baseline]\n";
    let error = Plan::read(without, Some("full")).unwrap_err();
    assert!(error.next.contains("[scale.full.factors]"), "{error}");
    assert!(Plan::read("title = 't'\n", None).unwrap_err().what.contains("nobody does the work"));
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

#[test]
fn mistakes_about_what_only_some_cells_have_name_their_line() {
    let check = |from: &str, to: &str, at: &str, what: &str| {
        assert!(UNLIKE.contains(from), "{from}");
        let text = UNLIKE.replacen(from, to, 1);
        let error = Plan::read(&text, None).expect_err(to);
        let line = 1 + text.lines().position(|line| line.contains(at)).unwrap();
        assert!(error.what.contains(what), "{what:?} is missing in: {error}");
        assert_eq!(error.line, line, "{error}\n{text}");
    };
    check(
        "program = \"read\" }",
        "how = 'run' }",
        "bytes = {",
        "'how' does not stand before 'bytes'",
    );
    check("program = \"read\" }", "program = 'write' }", "bytes = {", "no level 'write'");
    check("levels = [8, 64], ", "", "bytes = {", "no 'levels'");
    check("levels = [8, 64], ", "levels = [8], when = 1, ", "bytes = {", "'when' is not known");
    check(
        "bytes = [4096]",
        "bytes = { levels = [8] }",
        "bytes = { levels = [8] }",
        "is of type table",
    );
    check("arguments = [\"-v\"]", "arguments = ['{bytes}']", "programs.copy]", "no {bytes}");
    check("arguments = [\"-v\"]", "arguments = ['{input}']", "programs.copy]", "no {bytes}");
    check("how = \"by-hand\"\n", "", "[[exclude]]", "excludes every cell");
    check("program = \"copy\" }", "program = 'cp' }", "except", "no level 'cp'");
}
