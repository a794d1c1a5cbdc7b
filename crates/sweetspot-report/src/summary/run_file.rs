//! What the content of a file says, if it is one that a run left.

use super::{Record, SCHEMA, TITLE};
use crate::profile::data::{self, Profile};
use serde::Deserialize;

/// A file of a run.
pub enum RunFile {
    Summary(Box<Record>),
    Profile(Box<Profile>),
}

/// What both kinds begin with.
#[derive(Deserialize)]
struct Head {
    sweetspot_summary: Option<u32>,
    sweetspot_profile: Option<u32>,
    version: Option<String>,
}

impl RunFile {
    /// Reads the content of a file, or says why it is none.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn understood(content: &[u8]) -> Result<RunFile, String> {
        if content.starts_with(TITLE.as_bytes()) {
            return Err(
                "a text summary; use --summary=DIR/ for files that can be combined".to_owned()
            );
        }
        if !content.starts_with(b"{") {
            return Err("not a file of a run".to_owned());
        }
        let head: Head = parse(content)?;
        let version = head.version.unwrap_or_else(|| "of another version".to_owned());
        let is_known = |found: u32, ours: u32| match found == ours {
            true => Ok(()),
            false => Err(format!(
                "written by sweetspot {version} with schema {found}; this one reads {ours}"
            )),
        };
        match (head.sweetspot_summary, head.sweetspot_profile) {
            (Some(found), _) => {
                is_known(found, SCHEMA)?;
                Ok(RunFile::Summary(Box::new(parse(content)?)))
            }
            (None, Some(found)) => {
                is_known(found, data::SCHEMA)?;
                Ok(RunFile::Profile(Box::new(parse(content)?)))
            }
            (None, None) => Err("not a file of a run".to_owned()),
        }
    }
}

fn parse<'a, T: Deserialize<'a>>(content: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(content).map_err(|error| match error.classify() {
        serde_json::error::Category::Eof => "not complete: it ends too early".to_owned(),
        _ => format!("broken: {error}"),
    })
}
