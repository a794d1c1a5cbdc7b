//! Toolchains: what the programs of the classics are built with.
//!
//! Not here: what one plan needs; `bench --dry-run` says it.

use crate::resolve;
use std::ffi::OsStr;
use sweetspot_report::doctor::{Finding, Part};
use sweetspot_report::shown::shown;

/// Command, what it is for, and how it is installed on Debian.
const TOOLCHAINS: [(&str, &str, &str); 6] = [
    ("cobc", "COBOL", "sudo apt-get install gnucobol4"),
    ("gcc", "C", "sudo apt-get install gcc libc6-dev"),
    ("gfortran", "Fortran", "sudo apt-get install gfortran"),
    ("javac", "Java", "sudo apt-get install default-jdk-headless"),
    ("mvn", "Java with Apache Commons", "sudo apt-get install maven"),
    ("cargo", "Rust", "sudo apt-get install cargo"),
];

/// A line for each.
pub fn findings() -> impl Iterator<Item = Finding> {
    let path = std::env::var_os("PATH");
    TOOLCHAINS.into_iter().map(move |(command, language, install)| {
        match resolve::find(OsStr::new(command), path.as_deref()) {
            Ok(file) => {
                let says = format!("for {language}: {}", shown(&file));
                Finding::ok(Part::Classics, command, says)
            }
            Err(_) => Finding::lacks(Part::Classics, command, format!("for {language}"))
                .mend(install.to_owned()),
        }
    })
}
