//! The command line of the process inside: as it is typed, and as it is read.

use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// Runs a command inside a sandbox: started by `verify`, not by people
#[derive(Debug, Args)]
pub struct Step {
    /// The folder of the run
    #[arg(long)]
    pub folder: PathBuf,

    /// The same in shared memory
    #[arg(long)]
    pub shared_folder: Option<PathBuf>,

    /// A folder that has an overlay of its own
    #[arg(long)]
    pub top: Vec<PathBuf>,

    /// Without namespaces and overlays
    #[arg(long)]
    pub in_place: bool,

    /// The program and its arguments; without them only the sandbox is tried
    #[arg(trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

impl Step {
    /// The verb.
    pub const NAME: &str = "sandbox-step";
}

/// What this program starts itself by. Its name may lead to another file by now, as after an upgrade.
const OWN_FILE: &str = "/proc/self/exe";

/// The words that start a step, before the program.
pub fn words(arguments: &Step) -> Vec<OsString> {
    let mut words: Vec<OsString> =
        vec![OWN_FILE.into(), Step::NAME.into(), "--folder".into(), (&arguments.folder).into()];
    let shared = arguments.shared_folder.iter().map(|folder| ("--shared-folder", folder));
    for (name, folder) in shared.chain(arguments.top.iter().map(|top| ("--top", top))) {
        words.extend([name.into(), folder.into()]);
    }
    if arguments.in_place {
        words.push("--in-place".into());
    }
    words.push("--".into());
    words.extend(arguments.command.iter().cloned());
    words
}
