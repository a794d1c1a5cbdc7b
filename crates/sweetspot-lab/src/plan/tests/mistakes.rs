//! Every mistake that can be made in a plan is named with its line.

use super::*;

#[test]
fn mistakes_at_the_top_name_their_line() {
    let check = refused;
    check("rounds = 10", "rounds = ", "rounds =", "", "TOML");
    check("seed = 7", "sede = 7", "sede", "'sede' is not known in a plan", "title, question, seed");
    check("title = \"Copies\"", "", "", "a plan has no 'title'", "add title");
    check("title = \"Copies\"", "title = 3", "title", "is of type integer", "a text");
    check("seed = 7", "seed = -7", "seed", "cannot be -7", "a whole number");
    check("seed = 7", "seed = 0x7", "seed", "cannot be 7", "decimal digits");
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
        "either generate or command",
        "generate",
    );
    check("generate = [", "generate = ['{path}', ", "generate", "adds the path itself", "leave");
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
    assert!(
        Plan::read("title = 't'\n", None).unwrap_err().what.contains("the plan names no program")
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
