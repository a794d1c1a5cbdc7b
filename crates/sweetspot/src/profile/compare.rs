//! What changed between two profiles: before and after.

use crate::named;
use std::path::Path;
use sweetspot_report::failure::Failure;
use sweetspot_report::print::print;
use sweetspot_report::profile::compare::text;
use sweetspot_report::profile::data::{Profile, SCHEMA};
use sweetspot_report::shown::{plain, shown};

/// Prints what changed, on stdout.
///
/// # Errors
/// Where one of the files is no profile.
pub fn compare(before: &Path, after: &Path) -> Result<u8, Failure> {
    let text = text(&plain(&read(before)?), &plain(&read(after)?));
    print(&text)?;
    Ok(0)
}

fn read(path: &Path) -> Result<Profile, Failure> {
    let shown = format!("--compare {}", shown(path));
    let content = named::text(path, MEBIBYTES_MAX)
        .map_err(|error| Failure::own(format!("{shown}: {error}")).next(AGAIN))?;
    understood(&content, &shown)
}

/// No profile is larger.
const MEBIBYTES_MAX: u64 = 64;
const AGAIN: &str = "make it with: sweetspot profile --json FILE -- CMD";

/// The profile in a text; `shown` names the file in messages.
///
/// # Errors
/// Where it is none, or of another version.
pub fn understood(content: &str, shown: &str) -> Result<Profile, Failure> {
    let profile: Profile = serde_json::from_str(content)
        .map_err(|error| Failure::own(format!("{shown}: not a profile: {error}")).next(AGAIN))?;
    if profile.sweetspot_profile != SCHEMA {
        let version = profile.sweetspot_profile;
        let cause = format!("{shown}: schema {version}, and this sweetspot reads {SCHEMA}");
        return Err(Failure::own(cause).next(AGAIN));
    }
    Ok(profile)
}
