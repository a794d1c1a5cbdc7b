//! Who may import whom: between crates, in the command line, and in the library. ARCHITECTURE.md shows
//! the same layers; here they are held against the imports themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use test_start as _;

/// Crates, and those of ours that each may use.
const CRATES: &[(&str, &[&str])] = &[
    ("sweetspot-core", &[]),
    ("sweetspot-io", &[]),
    ("sweetspot-lab", &[]),
    ("sweetspot-preload", &["core"]),
    ("sweetspot-guard", &["core"]),
    ("sweetspot-report", &["core", "lab"]),
    ("sweetspot-sandbox", &["core", "guard"]),
    ("sweetspot", &["core", "guard", "io", "lab", "preload", "report", "sandbox"]),
];

/// The command line, from the lowest layer up. A module imports only from layers below its own.
const COMMAND_LINE: &[&[&str]] = &[
    &["failure", "environment", "home", "ladder"],
    &["print", "inherited", "interrupts", "named", "own", "seen"],
    &["arguments", "buffer", "preload", "resolve", "origin", "experiment"],
    &["config", "reach"],
    &["probe", "recover"],
    &["session"],
    &["summary"],
    &["run"],
    &["profile", "verify", "doctor", "demo", "merge", "top", "work", "generate"],
    &["tune", "bench"],
    &["report"],
    &["main"],
];

/// The rooms of the library, from the lowest up: folders.
const LIBRARY: &[&[&str]] =
    &[&["arch"], &["floor"], &["engine"], &["observer"], &["front"], &["lib"]];

/// The engine, from the lowest module up: each imports only from those before it. The root of the engine, where
/// calls come in, is above all of them; what it has is imported only by modules above `pass`.
const ENGINE: &[&str] = &[
    // What it knows.
    "concerns",
    "table",
    "lane",
    "process",
    "spawns",
    "file",
    "inodes",
    "ledger",
    "patience",
    "pool",
    "records",
    "rules",
    "auto",
    "thresholds",
    "entries",
    "others",
    // What it does.
    "deaths",
    "put_off",
    "handlers",
    "handle",
    "space",
    "flush",
    "hold",
    "dirty",
    "age",
    "quiesce",
    "failing",
    "sharing",
    "streams",
    "ending",
    "unseen",
    "eligible",
    "alone",
    "answers",
    "copied_up",
    "transition",
    "attach",
    "pass",
    "changes",
    "children",
    "life",
    "duplicates",
    "mapping",
    "own_files",
    "append",
    "fill",
    "read",
    "seek",
    "write",
    "embed",
];

/// The last module of what the engine knows.
const LAST_KNOWN: &str = "others";

/// What the observer uses of what the engine knows: it takes no part in anything that the engine does.
const OBSERVER_USES: &[&str] = &["inodes", "ledger", "process", "rules", "thresholds"];

/// Where the front chooses between the two, and where it starts the observer. Nobody else names it.
const DISPATCH: &str = "front/dispatch.rs";
const NAME_THE_OBSERVER: &[&str] = &[DISPATCH, "front/duplicates.rs", "front/start.rs", "lib.rs"];

#[test]
fn crates_use_only_those_below() {
    for (name, allowed) in CRATES {
        let text = fs::read_to_string(crates().join(name).join("Cargo.toml")).unwrap();
        let dependencies = text.split("[dependencies]").nth(1).unwrap_or_default();
        let dependencies = dependencies.split("\n[").next().unwrap_or_default();
        let ours = dependencies.lines().filter_map(|line| line.strip_prefix("sweetspot-"));
        let used: BTreeSet<&str> = ours.filter_map(|line| line.split(['.', ' ']).next()).collect();
        let allowed: BTreeSet<&str> = allowed.iter().copied().collect();
        assert_eq!(used, allowed, "{name}");
    }
}

#[test]
fn the_command_line_imports_only_from_lower_layers() {
    let found = arrows("sweetspot");
    let layers = numbered(COMMAND_LINE, &found.modules);
    let wrong: Vec<String> = (found.arrows.iter())
        .filter(|(file, target)| layers[module_of(file)] <= layers[target.as_str()])
        .map(|(file, target)| format!("{file} -> {target}"))
        .collect();
    assert!(wrong.is_empty(), "imports that do not go down:\n{}", wrong.join("\n"));
}

#[test]
fn the_library_imports_only_from_lower_rooms() {
    let found = arrows("sweetspot-preload");
    let rooms = numbered(LIBRARY, &found.modules);
    let wrong: Vec<String> = (found.arrows.iter())
        .filter(|(file, target)| rooms[module_of(file)] <= rooms[target.as_str()])
        .map(|(file, target)| format!("{file} -> {target}"))
        .collect();
    assert!(wrong.is_empty(), "imports that do not go down:\n{}", wrong.join("\n"));
}

#[test]
fn the_engine_imports_only_from_lower_modules() {
    let engine = crates().join("sweetspot-preload/src/engine");
    let (mut wrong, mut seen) = (Vec::new(), BTreeSet::new());
    for path in files_in(&engine) {
        let file = path.strip_prefix(&engine).unwrap().display().to_string();
        let module = module_of(&file).to_owned();
        if module == "mod" {
            continue;
        }
        let Some(place) = ENGINE.iter().position(|known| *known == module) else {
            wrong.push(format!("{file} is in no layer"));
            continue;
        };
        let text = fs::read_to_string(&path).unwrap();
        let mut targets = imported(&text, "crate::engine::");
        if !file.contains('/') {
            targets.extend(imported(&text, "super::"));
        }
        let may_import_root = ENGINE[..place].contains(&"pass");
        targets.retain(|target| match ENGINE.contains(&target.as_str()) {
            true => !ENGINE[..=place].contains(&target.as_str()),
            false => !may_import_root,
        });
        wrong.extend(targets.iter().map(|target| format!("{file} -> {target}")));
        seen.insert(module);
    }
    assert_eq!(seen.len(), ENGINE.len(), "each module of the list is there: {seen:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_observer_uses_only_what_the_engine_knows_of_the_process() {
    let mut used = BTreeSet::new();
    for (file, text) in texts_of_library() {
        if module_of(&file) == "observer" {
            used.extend(imported(&text, "crate::engine::"));
        }
    }
    assert_eq!(used, OBSERVER_USES.iter().map(ToString::to_string).collect());
    let known = ENGINE.iter().position(|module| *module == LAST_KNOWN).unwrap();
    assert!(OBSERVER_USES.iter().all(|module| ENGINE[..=known].contains(module)));
}

#[test]
fn neither_the_engine_nor_a_door_names_the_observer() {
    let names_it = |(file, text): &(String, String)| {
        let is_its_own = module_of(file) == "observer" || NAME_THE_OBSERVER.contains(&&**file);
        !is_its_own && has_word(&code_of(text), "observer")
    };
    let wrong: Vec<String> =
        texts_of_library().into_iter().filter(names_it).map(|(file, _)| file).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What concerns both engines is asked by all doors where one of them is chosen, never of the engine
/// itself: the observer would not know of it.
#[test]
fn no_door_goes_past_the_place_where_an_engine_is_chosen() {
    let texts = texts_of_library();
    let (_, dispatch) = texts.iter().find(|(file, _)| file == DISPATCH).unwrap();
    let functions = dispatch.lines().filter_map(|line| line.strip_prefix("pub fn "));
    let functions: Vec<&str> = functions.filter_map(|rest| rest.split('(').next()).collect();
    assert!(functions.len() > 30, "its functions are found: {functions:?}");
    let (modules, mut wrong) = (engine_modules(&texts), Vec::new());
    let doors = texts.iter().filter(|(file, _)| module_of(file) == "front" && file != DISPATCH);
    for (file, text) in doors {
        for module in &modules {
            let mut asked = imported(text, &format!("{module}::"));
            // `engine::read` is a module, whose functions are looked for under its own name.
            let is_module = |name: &str| *module == "engine" && modules.contains(name);
            asked.retain(|name| functions.contains(&name.as_str()) && !is_module(name));
            wrong.extend(asked.iter().map(|name| format!("{file}: {module}::{name}")));
        }
    }
    // That is the front's: a stream that libc has made.
    wrong.retain(|found| !found.ends_with(": streams::made"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `engine`, and the modules in it.
fn engine_modules(texts: &[(String, String)]) -> BTreeSet<&str> {
    let inside = texts.iter().filter_map(|(file, _)| file.strip_prefix("engine/"));
    inside.map(module_of).chain(["engine"]).collect()
}

/// The files of the library, by their paths in it.
fn texts_of_library() -> Vec<(String, String)> {
    let folder = crates().join("sweetspot-preload/src");
    let named = |path: PathBuf| {
        let file = path.strip_prefix(&folder).unwrap().display().to_string();
        (file, fs::read_to_string(&path).unwrap())
    };
    files_in(&folder).into_iter().map(named).collect()
}

/// What does not fit into so many lines is more than one thing. The table of programs is data.
const LINES_MAX: usize = 500;

#[test]
fn no_file_is_longer_than_one_thing() {
    let is_table = |path: &Path| path.ends_with("programs/table/c.rs");
    let all = files_in(&crates());
    let lines = |path: &Path| fs::read_to_string(path).unwrap().lines().count();
    let long = all.iter().filter(|path| !is_table(path) && lines(path) > LINES_MAX);
    assert_eq!(long.collect::<Vec<_>>(), Vec::<&PathBuf>::new());
}

/// What does not fit on a screen is not read as a whole. A function that is one table, or one routine of the
/// assembler, is data.
const FUNCTION_LINES_MAX: usize = 60;
const TABLES: &[&str] = &["conformance/table.rs", "x86_64/copy.rs", "aarch64/copy.rs"];

#[test]
fn no_function_is_longer_than_a_screen() {
    let is_code = |path: &PathBuf| {
        let is_table = TABLES.iter().any(|table| path.ends_with(table));
        !is_table && !path.components().any(|part| part.as_os_str() == "tests")
    };
    let mut count = 0;
    for path in files_in(&crates()).iter().filter(|path| is_code(path)) {
        let text = fs::read_to_string(path).unwrap();
        for (name, lines) in functions(text.split("#[cfg(test)]\nmod ").next().unwrap_or_default())
        {
            count += 1;
            assert!(lines <= FUNCTION_LINES_MAX, "{name} in {}: {lines} lines", path.display());
        }
    }
    assert!(count > 3000, "only {count} functions were found");
}

#[test]
fn functions_are_found_and_measured() {
    let found = functions(
        "fn a() {\n}\n\nimpl X {\n    pub fn b(\n    ) {\n        {\n        }\n    }\n}\n",
    );
    assert_eq!(found, [("a".to_owned(), 2), ("b".to_owned(), 5)]);
}

/// The functions of a formatted text, and of how many lines each is.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let of = |(number, line): (usize, &&str)| {
        let before = line.split("fn ").next()?;
        let name = line.split_once("fn ")?.1.split(['(', '<']).next()?;
        if name.starts_with('$') {
            // Of a macro, which may end in many ways.
            return None;
        }
        let is_word =
            |word: &str| word.starts_with("pub") || word.starts_with('"') || KINDS.contains(&word);
        if !before.replace("(in ", "(").split_whitespace().all(is_word) {
            return None;
        }
        let end = lines[number..].iter().position(|end| {
            indent(end) == indent(line) && (end.trim() == "}" || end.ends_with([';', '}']))
        })?;
        Some((name.to_owned(), end + 1))
    };
    const KINDS: &[&str] = &["const", "async", "unsafe", "extern"];
    lines.iter().enumerate().filter_map(of).collect()
}

#[test]
fn words_are_found_whole() {
    assert!(has_word("use crate::{observer, x};", "observer"));
    assert!(has_word("observer::start()", "observer"));
    assert!(!has_word("is_unobserved", "observer"));
    assert!(!has_word(&code_of("// observer\n"), "observer"));
}

#[test]
fn imports_are_found_in_every_form() {
    let check = |text: &str, expected: &[&str]| {
        assert_eq!(
            imported(text, "crate::"),
            expected.iter().map(ToString::to_string).collect(),
            "{text}"
        );
    };
    check("use crate::run;", &["run"]);
    check("use crate::run::{Start, find};", &["run"]);
    check(
        "use crate::{home, preload as library, summary::{Ran, Wanted}};",
        &["home", "preload", "summary"],
    );
    check("let x = crate::run::has_room();", &["run"]);
    check("$crate::ops::read()", &["ops"]);
    check("// crate::run\n/// [`crate::run`]", &[]);
    check("sweetspot_report::shown", &[]);
    check("a(crate::b)\n#[cfg(test)]\nmod tests {\n    use crate::c;\n}", &["b"]);
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What a crate's modules import from each other.
struct Found {
    modules: BTreeSet<String>,
    /// From a file, to a module at the top.
    arrows: BTreeSet<(String, String)>,
}

fn arrows(name: &str) -> Found {
    let folder = crates().join(name).join("src");
    let files = files_in(&folder);
    let named = |path: &PathBuf| path.strip_prefix(&folder).unwrap().display().to_string();
    let modules: BTreeSet<String> =
        files.iter().map(|path| module_of(&named(path)).to_owned()).collect();
    let mut arrows = BTreeSet::new();
    for path in &files {
        let file = named(path);
        let targets = imported(&fs::read_to_string(path).unwrap(), "crate::");
        let others = targets.into_iter().filter(|target| target != module_of(&file));
        let known = others.filter(|target| modules.contains(target));
        arrows.extend(known.map(|target| (file.clone(), target)));
    }
    assert!(arrows.len() > 20, "{name}: its imports are not found");
    Found { modules, arrows }
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
    let is_code = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    let below = folders.iter().flat_map(|folder| files_in(folder));
    files.into_iter().filter(is_code).chain(below).collect()
}

/// `ops` for `ops/read.rs`, `run` for `run.rs`.
fn module_of(file: &str) -> &str {
    file.split('/').next().unwrap().trim_end_matches(".rs")
}

/// The number of each module's layer, from below.
fn numbered(
    layers: &'static [&'static [&'static str]],
    modules: &BTreeSet<String>,
) -> BTreeMap<&'static str, usize> {
    let number = |(number, layer): (usize, &&'static [&'static str])| {
        layer.iter().map(move |module| (*module, number)).collect::<Vec<_>>()
    };
    let numbers: BTreeMap<&str, usize> = layers.iter().enumerate().flat_map(number).collect();
    let named: BTreeSet<String> = numbers.keys().map(ToString::to_string).collect();
    assert_eq!(named, *modules, "each module stands in one layer");
    numbers
}

/// Code that is neither a test nor a comment.
fn code_of(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// Whether a word stands there that is no part of a longer one.
fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        !code[..at].ends_with(is_word) && !code[at + word.len()..].starts_with(is_word)
    })
}

/// The modules after a prefix (`crate::`) in code that is no test.
fn imported(text: &str, prefix: &str) -> BTreeSet<String> {
    let code = code_of(text);
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        if code[..at].ends_with(is_word) {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        match rest.strip_prefix('{') {
            Some(group) => found.extend(first_words(group)),
            None => found.extend(rest.split(|letter| !is_word(letter)).next().map(str::to_owned)),
        }
    }
    found.remove("");
    found
}

/// The first word of each part of a group, up to its closing brace.
fn first_words(group: &str) -> Vec<String> {
    let (mut words, mut depth) = (vec![String::new()], 0);
    let mut is_first = true;
    for letter in group.chars() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                words.push(String::new());
                is_first = true;
            }
            letter if is_first && (letter.is_ascii_alphanumeric() || letter == '_') => {
                words.last_mut().unwrap().push(letter);
            }
            letter if letter.is_whitespace() && words.last().unwrap().is_empty() => {}
            _ => is_first = false,
        }
    }
    words
}
