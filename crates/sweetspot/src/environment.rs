//! The environment a program is started in, and what it says about sweetspot.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use sweetspot_core::environment::SWITCH;
use sweetspot_guard::given;

/// Why nothing is buffered where the switch is off.
pub const SWITCHED_OFF: &str = "SWEETSPOT=off is set in the environment";

/// Entries, in their order: `NAME=VALUE`, and whatever else somebody has put there. The program gets all of
/// them, also two of one name, and those that no variable is.
#[derive(Clone, Debug, Default)]
pub struct Environment(Vec<OsString>);

impl Environment {
    /// Of this process.
    pub fn own() -> Environment {
        Environment(given::environment())
    }

    pub fn entries(&self) -> &[OsString] {
        &self.0
    }
}

/// The value in an entry for a variable of that name.
fn value_in<'a>(entry: &'a OsStr, name: &str) -> Option<&'a OsStr> {
    let rest = entry.as_bytes().strip_prefix(name.as_bytes())?;
    rest.strip_prefix(b"=").map(OsStr::from_bytes)
}

/// Whether SWEETSPOT=off is set.
pub fn is_switched_off(environment: &Environment) -> bool {
    value(environment, SWITCH).is_some_and(|text| text.eq_ignore_ascii_case("off"))
}

/// The value of a variable.
pub fn value<'a>(environment: &'a Environment, name: &str) -> Option<&'a OsStr> {
    environment.0.iter().find_map(|entry| value_in(entry, name))
}

/// Sets a variable in its place, so that the order of the others stays. A second one of that name goes: the dynamic
/// linker would take that.
pub fn set(environment: &mut Environment, name: &str, value: impl AsRef<OsStr>) {
    let mut entry = OsString::from(name);
    entry.push("=");
    entry.push(value);
    let entries = &mut environment.0;
    let place = entries.iter().position(|known| value_in(known, name).is_some());
    let place = place.unwrap_or(entries.len());
    remove(environment, name);
    environment.0.insert(place, entry);
}

/// Sees that there is no variable of that name.
pub fn remove(environment: &mut Environment, name: &str) {
    environment.0.retain(|entry| value_in(entry, name).is_none());
}

/// Sets a variable in its place, or sees that there is none.
pub fn set_or_remove(environment: &mut Environment, name: &str, value: Option<OsString>) {
    match value {
        Some(value) => set(environment, name, value),
        None => remove(environment, name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stay_as_they_are() {
        let given = ["NOEQUALS", "", "=x", "A=1", "B=", "A=2", "LD_PRELOAD"];
        let mut environment = Environment(given.map(OsString::from).into());
        assert_eq!(value(&environment, "A"), Some(OsStr::new("1")));
        assert_eq!(value(&environment, "B"), Some(OsStr::new("")));
        assert_eq!(value(&environment, "LD_PRELOAD"), None);
        set(&mut environment, "LD_PRELOAD", "x.so");
        set(&mut environment, "B", "2");
        remove(&mut environment, "C");
        let expected = ["NOEQUALS", "", "=x", "A=1", "B=2", "A=2", "LD_PRELOAD", "LD_PRELOAD=x.so"];
        assert_eq!(environment.entries(), expected);
        set(&mut environment, "A", "3");
        assert_eq!(environment.entries()[3..5], ["A=3", "B=2"]);
        assert_eq!(environment.entries().len(), 7);
    }
}
