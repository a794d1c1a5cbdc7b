//! Who imports what: the modules of a crate, and the paths in their code. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The path of a module in its crate, whose root has none.
pub type Module = Vec<String>;

/// The modules of a crate, each with its file and its code.
pub struct Modules(BTreeMap<Module, (String, String)>);

/// That one module uses something of another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrow {
    pub file: String,
    pub from: Module,
    pub to: Module,
    /// What it uses; `None`: the module itself.
    pub name: Option<String>,
}

impl Modules {
    pub fn of_crate(name: &str) -> Modules {
        Modules::read(&crates().join(name).join("src"))
    }

    fn read(folder: &Path) -> Modules {
        let mut modules = BTreeMap::new();
        let mut tests = BTreeSet::new();
        for path in files_in(folder) {
            let file = path.strip_prefix(folder).unwrap().display().to_string();
            let text = fs::read_to_string(&path).unwrap();
            let mut module: Module =
                file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
            let last = module.last().unwrap().as_str();
            if last == "mod" || module.len() == 1 && ["lib", "main"].contains(&last) {
                module.pop();
            }
            let below = |name: &str| module.iter().cloned().chain([name.to_owned()]).collect();
            tests.extend(test_modules(&text).map(|name| -> Module { below(name) }));
            modules.insert(module, (file, code_of(&text)));
        }
        modules.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        Modules(modules)
    }

    /// Modules by their paths with slashes, for what tests these tests.
    pub fn given(texts: &[(&str, &str)]) -> Modules {
        let one = |(path, text): &(&str, &str)| {
            let parts = path.split('/').filter(|part| !part.is_empty());
            (parts.map(str::to_owned).collect(), ((*path).to_owned(), code_of(text)))
        };
        Modules(texts.iter().map(one).collect())
    }

    /// The files, with their code.
    pub fn texts(&self) -> impl Iterator<Item = (&Module, &str, &str)> {
        self.0.iter().map(|(module, (file, code))| (module, file.as_str(), code.as_str()))
    }

    /// What the modules at the top are called; and the root, as its file is.
    pub fn tops(&self) -> BTreeSet<String> {
        self.texts().map(|(_, file, _)| top_of(file).to_owned()).collect()
    }

    /// Everything that is used, where it is defined: what a module has from another one and passes on is that one's.
    pub fn arrows(&self) -> BTreeSet<Arrow> {
        let passed_on: BTreeMap<&Module, BTreeMap<String, Module>> =
            self.texts().map(|(module, _, code)| (module, self.imports(module, code))).collect();
        let mut arrows = BTreeSet::new();
        for (module, file, code) in self.texts() {
            for (mut to, name) in self.used(module, code) {
                while let Some(name) = &name
                    && let Some(next) = passed_on[&to].get(name)
                {
                    to = next.clone();
                }
                if to != *module {
                    arrows.insert(Arrow { file: file.to_owned(), from: module.clone(), to, name });
                }
            }
        }
        assert!(arrows.len() > 2, "imports are not found");
        arrows
    }

    /// What a module imports, by name, and where from.
    fn imports(&self, module: &Module, code: &str) -> BTreeMap<String, Module> {
        let statements = code.split("use ").skip(1).filter_map(|rest| rest.split(';').next());
        let used = statements.flat_map(|statement| self.used(module, statement));
        let named = used.filter_map(|(from, name)| Some((name?, from)));
        named.filter(|(name, from)| name != "*" && from != module).collect()
    }

    /// The modules of this crate in the paths of some code, and what of each is meant.
    fn used(&self, module: &Module, code: &str) -> Vec<(Module, Option<String>)> {
        paths(code).iter().filter_map(|path| self.resolve(module, path)).collect()
    }

    fn resolve(&self, module: &Module, path: &[&str]) -> Option<(Module, Option<String>)> {
        let mut rest = path.iter().copied().peekable();
        let mut found = if path.first() == Some(&"crate") { Vec::new() } else { module.clone() };
        let mut is_here = rest.next_if(|word| ["crate", "self"].contains(word)).is_some();
        while rest.next_if_eq(&"super").is_some() {
            found.pop()?;
            is_here = true;
        }
        while let Some(word) = rest.peek() {
            found.push((*word).to_owned());
            if !self.0.contains_key(&found) {
                found.pop();
                break;
            }
            is_here = true;
            rest.next();
        }
        is_here.then(|| (found, rest.next().map(str::to_owned)))
    }
}

/// `engine` for `engine/read.rs`, `run` for `run.rs`.
pub fn top_of(file: &str) -> &str {
    file.split('/').next().unwrap().trim_end_matches(".rs")
}

pub fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub fn files_in(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
    let is_code = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    let below = folders.iter().flat_map(|folder| files_in(folder));
    files.into_iter().filter(is_code).chain(below).collect()
}

const TEST: &str = "#[cfg(test)]\nmod ";

/// The modules of tests that have files of their own.
fn test_modules(text: &str) -> impl Iterator<Item = &str> {
    text.split(TEST).skip(1).filter_map(|rest| rest.lines().next()?.strip_suffix(';'))
}

/// Code that is neither a test nor a comment. Tests in the same file are at its end.
pub fn code_of(text: &str) -> String {
    let is_code = |piece: &&str| !piece.lines().next().unwrap_or_default().ends_with('{');
    let mut pieces = text.split(TEST);
    let first = pieces.next().unwrap_or_default();
    let code: String = [first].into_iter().chain(pieces.take_while(is_code)).collect();
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    // Further in it stands in a module of the same file.
    lines.collect::<Vec<_>>().join("\n").replace("    use super::", "    use self::")
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// Words, `::`, and each other character by itself.
fn tokens(code: &str) -> Vec<&str> {
    let mut rest = code.trim_start();
    let mut all = Vec::new();
    while let Some(first) = rest.chars().next() {
        let len = match first {
            first if is_word(first) => rest.find(|letter| !is_word(letter)).unwrap_or(rest.len()),
            _ if rest.starts_with("::") => 2,
            first => first.len_utf8(),
        };
        all.push(&rest[..len]);
        rest = rest[len..].trim_start();
    }
    all
}

/// Whether a word stands there that is no part of a longer one.
pub fn has_word(code: &str, word: &str) -> bool {
    tokens(code).contains(&word)
}

/// All paths of several words, each as it is from its first word on: of a group there are several.
pub fn paths(code: &str) -> Vec<Vec<&str>> {
    let (tokens, mut all, mut at) = (tokens(code), Vec::new(), 0);
    while at < tokens.len() {
        let begins = tokens[at].starts_with(is_word) && tokens.get(at + 1) == Some(&"::");
        at = if begins { take_path(&tokens, at, &[], &mut all) } else { at + 1 };
    }
    all
}

/// Takes the paths that begin with `before`, and says where they end.
fn take_path<'a>(
    tokens: &[&'a str],
    mut at: usize,
    before: &[&'a str],
    all: &mut Vec<Vec<&'a str>>,
) -> usize {
    let mut path = before.to_vec();
    while let Some(token) = tokens.get(at).filter(|token| token.starts_with(is_word)) {
        path.push(token);
        at += 1;
        if tokens.get(at) != Some(&"::") {
            all.push(path);
            return at;
        }
        at += 1;
    }
    if tokens.get(at) != Some(&"{") {
        all.push(path);
        return at;
    }
    at += 1;
    while tokens.get(at).is_some_and(|token| *token != "}") {
        let begins = tokens[at].starts_with(is_word) && tokens[at - 1] != "as";
        at = if begins { take_path(tokens, at, &path, all) } else { at + 1 };
        // The name that it gets here.
        at += if tokens.get(at) == Some(&"as") { 2 } else { 0 };
    }
    at + 1
}

#[test]
fn words_are_found_whole() {
    assert!(has_word("use crate::{observer, x};", "observer"));
    assert!(has_word("observer::start()", "observer"));
    assert!(!has_word("is_unobserved", "observer"));
    assert!(!has_word(&code_of("// observer\n"), "observer"));
}

#[test]
fn paths_are_found_in_every_form() {
    let check = |text: &str, expected: &[&str]| {
        let code = code_of(text);
        let found: Vec<String> = paths(&code).iter().map(|path| path.join(" ")).collect();
        assert_eq!(found, expected, "{text}");
    };
    check("use crate::run;", &["crate run"]);
    check("use crate::run::{Start, find};", &["crate run Start", "crate run find"]);
    check(
        "use crate::{home, preload as library, summary::{Ran, Wanted as W}, b::c};",
        &["crate home", "crate preload", "crate summary Ran", "crate summary Wanted", "crate b c"],
    );
    check("use super::super::{self, x};", &["super super self", "super super x"]);
    check("let x = crate::run::has_room();", &["crate run has_room"]);
    check("$crate::ops::read()", &["crate ops read"]);
    check("pub(in crate::a) fn x() -> Vec::<u8> {", &["crate a", "Vec"]);
    check("// crate::run\n/// [`crate::run`]", &[]);
    check("sweetspot_report::shown", &["sweetspot_report shown"]);
    check("a(crate::b)\n#[cfg(test)]\nmod tests {\n    use crate::c;\n}", &["crate b"]);
    check("#[cfg(test)]\nmod tests;\nuse crate::c;", &["crate c"]);
    check("mod within {\n    use super::A;\n}", &["self A"]);
}

#[test]
fn what_is_passed_on_is_found_where_it_is_defined() {
    let modules = Modules::given(&[
        ("", "mod a;\npub use a::One;"),
        ("a", "mod x;\nmod y;\nuse x::Two;\npub struct One;"),
        ("a/x", "use crate::One;"),
        ("a/y", "use super::{Two, Three};\nuse super::super::b;"),
        ("b", "use crate::One;\nfn f() { other::g() }"),
    ]);
    let found = modules.arrows();
    let found: Vec<String> =
        (found.iter()).map(|arrow| format!("{} -> {}", arrow.file, arrow.to.join("/"))).collect();
    assert_eq!(
        found,
        [" -> a", "a -> a/x", "a/x -> a", "a/y -> a", "a/y -> a/x", "a/y -> b", "b -> a"]
    );
}
