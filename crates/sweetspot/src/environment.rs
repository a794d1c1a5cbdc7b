//! The environment a program is started in, and what it says about sweetspot.

use std::ffi::{OsStr, OsString};
use sweetspot_core::environment::SWITCH;

/// Why nothing is buffered where the switch is off.
pub const SWITCHED_OFF: &str = "SWEETSPOT=off is set in the environment";

/// Names and values of variables, in their order.
pub type Environment = Vec<(OsString, OsString)>;

/// Whether SWEETSPOT=off is set.
pub fn is_switched_off(environment: &Environment) -> bool {
    value(environment, SWITCH).is_some_and(|text| text.eq_ignore_ascii_case("off"))
}

/// The value of a variable.
pub fn value<'a>(environment: &'a Environment, name: &str) -> Option<&'a OsStr> {
    environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
}

/// Sets a variable in its place, so that the order of the others stays.
pub fn set(environment: &mut Environment, name: &str, value: OsString) {
    match environment.iter_mut().find(|(known, _)| known == name) {
        Some(variable) => variable.1 = value,
        None => environment.push((name.into(), value)),
    }
}

/// Sets a variable in its place, or sees that there is none.
pub fn set_or_remove(environment: &mut Environment, name: &str, value: Option<OsString>) {
    match value {
        Some(value) => set(environment, name, value),
        None => environment.retain(|(known, _)| known != name),
    }
}
