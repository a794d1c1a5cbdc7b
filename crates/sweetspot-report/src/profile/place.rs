//! A place in a program in words.

use super::data::CallSite;
use crate::numbers::short;

/// How names of programs begin that run programs of another language.
const INTERPRETERS: [&str; 9] =
    ["python", "libpython", "perl", "libperl", "ruby", "libruby", "node", "php", "libjava"];

/// Where it is, for a reader: function, file and line, or what there is of them.
pub fn text(place: &CallSite) -> String {
    let module = short(&place.module);
    let mut text = match (&place.function, &place.file, place.line) {
        (Some(function), Some(file), Some(line)) => {
            format!("{function} ({}:{line})", short(file))
        }
        (Some(function), ..) => format!("{function} in {module}"),
        _ => format!("{module}+{:#x}", place.offset),
    };
    if let Some(outer) = &place.inlined_into {
        text.push_str(&format!(", inlined into {outer}"));
    }
    if is_interpreter(place) {
        text.push_str(", of the interpreter: the call is in its script");
    }
    text
}

/// Whether the module runs programs of another language.
fn is_interpreter(place: &CallSite) -> bool {
    let module = short(&place.module);
    INTERPRETERS.iter().any(|name| module.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_in_words() {
        let check = |function: Option<&str>, line: Option<u32>, module: &str, expected: &str| {
            let place = CallSite {
                function: function.map(str::to_owned),
                file: line.map(|_| "/src/copy.c".to_owned()),
                line,
                module: module.to_owned(),
                ..CallSite::default()
            };
            assert_eq!(text(&place), expected);
        };
        check(Some("copy"), Some(7), "/bin/x", "copy (copy.c:7)");
        check(Some("copy"), None, "/bin/x", "copy in x");
        check(None, None, "/bin/x", "x+0x0");
        let script = "main in python3.11, of the interpreter: the call is in its script";
        check(Some("main"), None, "/usr/bin/python3.11", script);
    }
}
