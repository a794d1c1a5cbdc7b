//! Who may import whom: between crates, in the command line, and in the library. ARCHITECTURE.md shows
//! the same layers; here they are held against the imports themselves.

mod circles;
mod imports;
mod sizes;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use test_start as _;

use imports::{Arrow, Modules, crates, has_word, paths, top_of};

/// Crates, and those of ours that each may use.
const CRATES: &[(&str, &[&str])] = &[
    ("sweetspot-core", &[]),
    ("sweetspot-io", &[]),
    ("sweetspot-lab", &["core"]),
    ("sweetspot-preload", &["core"]),
    ("sweetspot-guard", &["core"]),
    ("sweetspot-report", &["core", "lab"]),
    ("sweetspot-sandbox", &["core", "guard"]),
    ("sweetspot-work", &["core", "io", "lab", "report"]),
    ("sweetspot", &["core", "guard", "lab", "preload", "report", "sandbox", "work"]),
];

/// The command line, from the lowest layer up. A module imports only from layers below its own.
const COMMAND_LINE: &[&[&str]] = &[
    &["environment", "home", "processes", "say"],
    &["inherited", "interrupts", "named", "own", "seen"],
    &["arguments", "buffer", "preload", "resolve", "origin", "experiment", "target"],
    &["config", "reach"],
    &["probe", "recover"],
    &["session"],
    &["run"],
    &["profile", "verify", "doctor", "demo", "summary", "top", "generate"],
    &["tune", "bench"],
    &["report"],
    &["main"],
];

/// The rooms of the library, from the lowest up: folders.
const LIBRARY: &[&[&str]] =
    &[&["arch"], &["floor"], &["engine"], &["observer"], &["front"], &["lib"]];

/// The engine, from the lowest module up: each imports only from those before it. `mod` is its root.
const ENGINE: &[&str] = &[
    // What it knows.
    "concerns",
    "table",
    "vector",
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
    "eligible",
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
    "alone",
    "answers",
    "copied_up",
    "transition",
    "attach",
    "pass",
    "mod",
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
const OBSERVER_USES: &[&str] = &["eligible", "inodes", "ledger", "process", "rules", "thresholds"];

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
    assert_down("sweetspot", COMMAND_LINE);
}

#[test]
fn the_library_imports_only_from_lower_rooms() {
    assert_down("sweetspot-preload", LIBRARY);
}

/// That each module at the top of a crate imports only from layers below its own.
fn assert_down(name: &str, layers: &'static [&'static [&'static str]]) {
    let modules = Modules::of_crate(name);
    let layers = numbered(layers, &modules.tops());
    let is_up = |arrow: &Arrow| {
        let [from, to] = [&arrow.from, &arrow.to].map(|module| module.first());
        from != to && to.is_none_or(|to| layers[top_of(&arrow.file)] <= layers[to.as_str()])
    };
    assert_none(modules.arrows().into_iter().filter(is_up));
}

fn assert_none(wrong: impl Iterator<Item = Arrow>) {
    let wrong: Vec<String> = wrong
        .map(|Arrow { file, to, name, .. }| format!("{file} -> {} {name:?}", to.join("::")))
        .collect();
    assert!(wrong.is_empty(), "imports that do not go down:\n{}", wrong.join("\n"));
}

#[test]
fn the_engine_imports_only_from_lower_modules() {
    let modules = Modules::of_crate("sweetspot-preload");
    // The root's own name is that of its file.
    let place = |module: &[String]| match module {
        [top] if top == "engine" => ENGINE.iter().position(|known| *known == "mod"),
        [top, inside, ..] if top == "engine" => ENGINE.iter().position(|known| known == inside),
        _ => None,
    };
    let inside = modules.texts().filter(|(_, file, _)| top_of(file) == "engine");
    let seen: BTreeSet<usize> = inside
        .map(|(module, file, _)| place(module).unwrap_or_else(|| panic!("{file} is in no layer")))
        .collect();
    assert_eq!(seen.len(), ENGINE.len(), "each module of the list is there: {seen:?}");
    assert_none(modules.arrows().into_iter().filter(|arrow| {
        let [from, to] = [&arrow.from, &arrow.to].map(|module| place(module));
        from.is_some() && to > from
    }));
}

#[test]
fn the_observer_uses_only_what_the_engine_knows_of_the_process() {
    let arrows = Modules::of_crate("sweetspot-preload").arrows();
    let is_meant = |arrow: &&Arrow| arrow.from[..1] == ["observer"] && arrow.to[..1] == ["engine"];
    let used: BTreeSet<&str> = (arrows.iter().filter(|arrow| !arrow.from.is_empty()))
        .filter(is_meant)
        .map(|arrow| arrow.to.get(1).map_or("", String::as_str))
        .collect();
    assert_eq!(used, OBSERVER_USES.iter().copied().collect());
    let known = ENGINE.iter().position(|module| *module == LAST_KNOWN).unwrap();
    assert!(OBSERVER_USES.iter().all(|module| ENGINE[..=known].contains(module)));
}

#[test]
fn neither_the_engine_nor_a_door_names_the_observer() {
    let modules = Modules::of_crate("sweetspot-preload");
    let others = modules
        .texts()
        .filter(|(_, file, _)| top_of(file) != "observer" && !NAME_THE_OBSERVER.contains(file));
    let wrong = others.filter(|(_, _, code)| has_word(code, "observer")).map(|(_, file, _)| file);
    assert_eq!(wrong.collect::<Vec<_>>(), Vec::<&str>::new());
}

/// What concerns both engines is asked by all doors where one of them is chosen, never of the engine
/// itself: the observer would not know of it.
#[test]
fn no_door_goes_past_the_place_where_an_engine_is_chosen() {
    let modules = Modules::of_crate("sweetspot-preload");
    let (_, _, dispatch) = modules.texts().find(|(_, file, _)| *file == DISPATCH).unwrap();
    let functions = dispatch.lines().filter_map(|line| line.strip_prefix("pub fn "));
    let functions: Vec<&str> = functions.filter_map(|rest| rest.split('(').next()).collect();
    assert!(functions.len() > 30, "its functions are found: {functions:?}");
    // `engine`, and the modules in it.
    let is_engine = |word: &str| word == "engine" || ENGINE.contains(&word);
    let mut wrong = Vec::new();
    let doors = modules.texts().filter(|(_, file, _)| top_of(file) == "front" && *file != DISPATCH);
    for (_, file, code) in doors {
        let asked = paths(code).into_iter().filter(|path| {
            let [.., module, name] = path[..] else { return false };
            is_engine(module)
                && functions.contains(&name)
                && !(module == "engine" && is_engine(name))
        });
        wrong.extend(asked.map(|path| format!("{file}: {}", path.join("::"))));
    }
    // That is the front's: a stream that libc has made.
    wrong.retain(|found| !found.ends_with("streams::made"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
