//! In what surroundings a session began, and whether it may go on in those of now.

use crate::arguments::Bench;
use crate::bench::programs::{self, plan_hash};
use crate::bench::published;
use crate::bench::session::Prepared;
use crate::experiment::{Circumstances, cannot_go_on, lab, seed_by_lot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use sweetspot_lab::environment::Environment;
use sweetspot_lab::store::{self};
use sweetspot_report::failure::Failure;

/// What must be as it was for a session to go on.
#[derive(Serialize, Deserialize)]
pub struct Begun {
    /// The hash of the plan's text: runs of two plans are never mixed.
    pub(super) plan: String,
    /// For readers of the file: the plan itself, and others' figures that it names.
    #[serde(default)]
    pub text: String,
    #[serde(default)]
    pub published: Option<String>,
    pub circumstances: Circumstances,
    /// The hash of what commands name in the plan's folder.
    sources: String,
    /// The hash of each data set, and the programs that cannot run.
    pub(super) data: Vec<String>,
    pub skipped: Vec<String>,
    /// For readers of the file: more about the machine, and the versions of programs.
    #[serde(default)]
    pub environment: serde_json::Value,
}

/// The machine, and what the programs say of their versions that programs need.
pub(super) fn environment(prepared: &Prepared) -> Result<Environment, Failure> {
    let needs = prepared.plan.programs.iter().flat_map(|program| &program.needs);
    let mut commands: Vec<[&str; 2]> = needs.map(|name| [name.as_str(), "--version"]).collect();
    commands.sort_unstable();
    commands.dedup();
    let commands: Vec<&[&str]> = commands.iter().map(|command| &command[..]).collect();
    Environment::of(&prepared.place.data, &commands).map_err(lab)
}

pub(super) fn begun(prepared: &Prepared, environment: &Environment) -> Result<Begun, Failure> {
    let Prepared { plan, place, data, skipped, .. } = prepared;
    let mut words = Vec::new();
    for cell in 0..plan.cells.len() {
        let mut values: BTreeMap<String, String> = place.values()?.into_iter().collect();
        values.extend(plan.levels(cell));
        let fill = |name: &str| values.get(name).map_or("", String::as_str);
        words.push(plan.command(&plan.cells[cell])[0].fill(fill));
    }
    let mut commands = Vec::new();
    for program in &plan.programs {
        commands.extend(program.build.iter().cloned());
        commands.push(program.templates().cloned().collect());
    }
    let seed = plan.seed.unwrap_or_else(seed_by_lot);
    Ok(Begun {
        environment: serde_json::to_value(environment).unwrap_or_default(),
        sources: place.hash(&commands)?,
        plan: plan_hash(place),
        text: place.text.clone(),
        published: published::text(plan, place),
        circumstances: Circumstances::now(seed, environment, programs::files(words)?),
        data: data.iter().map(|data| data.hash.clone()).collect(),
        skipped: skipped.iter().map(|skipped| skipped.why.clone()).collect(),
    })
}

/// Whether a session may go on now; in what surroundings it began.
pub(super) fn may_go_on(
    stored: &store::StoredSession,
    now: &Begun,
    arguments: &Bench,
    notes: &mut Vec<String>,
) -> Result<Circumstances, Failure> {
    let Ok(then) = serde_json::from_str::<Begun>(&stored.circumstances) else {
        return Err(cannot_go_on("the form of stored sessions"));
    };
    if then.plan != now.plan {
        return Err(cannot_go_on("the plan"));
    }
    let changed = then.circumstances.changed(&now.circumstances);
    let is_other = then.sources != now.sources;
    let changed = changed.or(is_other.then(|| "a file of the plan's folder".to_owned()));
    let changed = changed.or((then.data != now.data).then(|| "the data".to_owned()));
    let changed = changed.or((then.skipped != now.skipped).then(|| "what is installed".to_owned()));
    match changed {
        None => Ok(then.circumstances),
        Some(what) if arguments.accept_changes => {
            notes.push(format!("{what} has changed since this session began"));
            Ok(then.circumstances)
        }
        Some(what) => Err(cannot_go_on(&what).next(
            "begin a new one without --resume, or mix the runs all the same: --accept-changes",
        )),
    }
}
