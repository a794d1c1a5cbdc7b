//! No circles between modules, in any crate. To those beside it a module is one with all that is below it; inside it,
//! the words that the module itself defines are shared by those below.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::{Arrow, Module, Modules, crates};

#[test]
fn no_modules_import_each_other_in_a_circle() {
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(crates()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        wrong.extend(circles(&Modules::of_crate(&name).arrows()).into_iter().map(|arrow| {
            format!("{name}/src/{} -> {} {:?}", arrow.file, arrow.to.join("::"), arrow.name)
        }));
    }
    assert!(
        wrong.is_empty(),
        "imports that lead back to where they come from:\n{}",
        wrong.join("\n")
    );
}

/// The arrows between neighbours that are part of circles, or lie between two of them; and those to what the root of a
/// crate defines, which is above all.
fn circles(arrows: &BTreeSet<Arrow>) -> Vec<Arrow> {
    let mut between: BTreeMap<(Module, Module), &Arrow> = BTreeMap::new();
    for arrow in arrows {
        let common = arrow.from.iter().zip(&arrow.to).take_while(|(from, to)| from == to).count();
        let part = |module: &Module| module.get(..=common).map(<[String]>::to_vec);
        if let (Some(from), Some(to)) = (part(&arrow.from), part(&arrow.to)) {
            between.entry((from, to)).or_insert(arrow);
        }
    }
    let mut len = usize::MAX;
    while between.len() < len {
        len = between.len();
        let sources: BTreeSet<Module> = between.keys().map(|(from, _)| from.clone()).collect();
        let targets: BTreeSet<Module> = between.keys().map(|(_, to)| to.clone()).collect();
        between.retain(|(from, to), _| targets.contains(from) && sources.contains(to));
    }
    let to_root = arrows.iter().filter(|arrow| arrow.to.is_empty());
    between.into_values().chain(to_root).cloned().collect()
}

#[test]
fn circles_are_found() {
    let check = |texts: &[(&str, &str)], expected: &[&str]| {
        let found = circles(&Modules::given(texts).arrows());
        let found: Vec<&str> = found.iter().map(|arrow| arrow.file.as_str()).collect();
        assert_eq!(found, expected, "{texts:?}");
    };
    let down = [("a", "use crate::b::X;\nuse crate::c::Y;"), ("b", "use crate::c::Y;"), ("c", "")];
    check(&down, &[]);
    check(&[down[0], down[1], ("c", "use super::b::X;")], &["b", "c"]);
    // Through something below, and through what another one passes on.
    check(&[down[0], down[1], ("c", ""), ("c/d", "use super::super::a;")], &["a", "a", "b", "c/d"]);
    check(&[down[0], down[1], ("c", "pub use crate::d::Y;"), ("d", "use crate::b;")], &["b", "d"]);
    // A module and those below it share what it defines; those below are neighbours.
    let below =
        [("a", "use self::b::B;\nuse self::c::C;\npub struct A;"), ("a/b", "use super::A;")];
    check(&[below[0], below[1], ("a/c", "use super::{A, B};")], &[]);
    check(&[below[0], ("a/b", "use super::C;"), ("a/c", "use super::{A, B};")], &["a/b", "a/c"]);
    // What the root defines.
    check(
        &[("", "use a::X;\nuse b::Y;\npub fn f() {}"), ("a", "use crate::f;"), ("b", "")],
        &["a"],
    );
}
