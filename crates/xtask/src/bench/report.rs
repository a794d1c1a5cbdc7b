//! What is in a record of sessions of `sweetspot bench`, as `sweetspot report --json` wrote it.

use crate::project::failed;
use serde_json::Value;
use std::{fs, path::Path};
use sweetspot_lab::Error;

/// The record's name in its folder below `measurements/`.
pub const FILE: &str = "report.json";

/// Where the files of a session were.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Disk,
    Fuse,
}

/// Reads the record in a folder.
pub fn read(folder: &Path) -> Result<Value, Error> {
    let path = folder.join(FILE);
    let text = fs::read_to_string(&path).map_err(Error::system("read", &path))?;
    serde_json::from_str(&text).map_err(|error| failed(FILE, &error.to_string()))
}

/// The session on a disk, or that on a FUSE mount.
pub fn session(record: &Value, place: Place) -> Result<&Value, Error> {
    let is_fuse = |session: &Value| file_system(session).starts_with("fuse");
    let is_there = |session: &&Value| is_fuse(session) == (place == Place::Fuse);
    list(&record["sessions"]).iter().find(is_there).ok_or_else(|| {
        let name = if place == Place::Fuse { "a FUSE mount" } else { "a disk" };
        failed(FILE, &format!("it has no session on {name}"))
    })
}

/// The entry of a list that is called so.
pub fn named<'a>(list: &'a Value, key: &str, name: &str) -> &'a Value {
    let all = list.as_array().map_or(&[][..], Vec::as_slice);
    all.iter().find(|entry| entry[key] == name).unwrap_or_else(|| panic!("there is no '{name}'"))
}

/// The members of a list.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// What is known of the machine.
pub fn fact<'a>(session: &'a Value, name: &str) -> &'a str {
    named(&session["environment"], "name", name)["value"].as_str().unwrap_or_default()
}

/// The kind of file system.
pub fn file_system(session: &Value) -> &str {
    fact(session, "file system").split(' ').next().unwrap_or_default()
}

/// The runs of a cell that count.
pub fn runs<'a>(session: &'a Value, cell: &str) -> impl Iterator<Item = &'a Value> {
    let place = list(&session["cells"]).iter().position(|found| found["name"] == cell);
    let place = place.map(|place| place as u64);
    let counts = move |run: &&Value| run["counts"] == true && run["cell"].as_u64() == place;
    list(&session["runs"]).iter().filter(counts)
}

/// A figure of two cells, from the rounds in which both ran.
pub fn pairs(
    session: &Value,
    one: &str,
    other: &str,
    figure: impl Fn(&Value) -> Option<f64>,
) -> (Vec<f64>, Vec<f64>) {
    let partner = |run: &Value| runs(session, other).find(|found| found["round"] == run["round"]);
    let both = runs(session, one).filter_map(|run| Some((figure(run)?, figure(partner(run)?)?)));
    both.unzip()
}
