//! `summary`: what runs or profiles left in a folder, each in a file of its own, as one.

mod read;

use crate::arguments;
use sweetspot_report::failure::Failure;
use sweetspot_report::print::print;

/// Shows what many runs left, as one. Returns the exit status.
///
/// # Errors
/// Where nothing can be merged.
pub fn summary(arguments: &arguments::Summary) -> Result<u8, Failure> {
    let folder = read::all(&arguments.paths)?;
    print(&match arguments.json {
        true => format!("{}\n", serde_json::to_string_pretty(&folder).unwrap_or_default()),
        false => folder.text(),
    })?;
    Ok(0)
}
