//! The program that copies: one in COBOL where there is a compiler, else `dd`.

use crate::demo::{RECORD_BYTES, SOURCE};
use crate::own;
use crate::resolve;
use crate::say::say;
use indicatif::ProgressBar;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use sweetspot_core::environment as names;
use sweetspot_report::shown::shown;

/// A program of this machine that copies records one by one.
pub(super) enum CopyProgram {
    Cobol(PathBuf),
    Dd(PathBuf),
}

impl CopyProgram {
    pub(super) fn find(folder: &Path, bar: &ProgressBar) -> CopyProgram {
        let path = std::env::var_os("PATH");
        let find = |name: &str| resolve::find(OsStr::new(name), path.as_deref());
        if let Ok(compiler) = find("cobc") {
            bar.set_message("compiling the COBOL program");
            match compile(&compiler, folder) {
                Ok(program) => return CopyProgram::Cobol(program),
                Err(cause) => bar.suspend(|| {
                    say(format_args!(
                        "sweetspot: {} cannot compile here, dd is used instead: {cause}",
                        shown(&compiler)
                    ));
                }),
            }
        }
        CopyProgram::Dd(find("dd").unwrap_or_else(|_| PathBuf::from("dd")))
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            CopyProgram::Cobol(_) => "GnuCOBOL",
            CopyProgram::Dd(_) => "dd",
        }
    }

    /// The command line, with a verb of sweetspot's in front or none, and the names of the files
    /// where they go into the environment.
    pub(super) fn command(&self, verb: &[&OsStr], input: &Path, output: &Path) -> Command {
        let program = match self {
            CopyProgram::Cobol(program) | CopyProgram::Dd(program) => program,
        };
        let mut command = if verb.is_empty() {
            Command::new(program)
        } else {
            let mut command = Command::new(own::FILE);
            command.args(verb).arg("--").arg(program);
            command
        };
        match self {
            CopyProgram::Cobol(_) => {
                command.env("SEQCOPY_IN", input).env("SEQCOPY_OUT", output);
                // It would be put before both names.
                command.env_remove("COB_FILE_PATH");
            }
            CopyProgram::Dd(_) => {
                let operand = |name: &str, path: &Path| {
                    let mut operand = std::ffi::OsString::from(name);
                    operand.push(path);
                    operand
                };
                command.arg(operand("if=", input)).arg(operand("of=", output));
                command.arg(format!("bs={RECORD_BYTES}")).arg("status=none");
            }
        }
        match verb {
            // Also inside another `sweetspot run`.
            [] => command.env(names::SWITCH, "off").env(names::BUFFER, "off"),
            _ => command.env_remove(names::SWITCH).env_remove(names::BUFFER),
        };
        command.stdin(Stdio::null());
        command
    }
}

fn compile(compiler: &Path, folder: &Path) -> Result<PathBuf, String> {
    let (source, program) = (folder.join("seqcopy.cob"), folder.join("seqcopy"));
    std::fs::write(&source, SOURCE).map_err(|error| error.to_string())?;
    let output = Command::new(compiler)
        .args(["-x", "-o"])
        .args([&program, &source])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(program);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(said.lines().next().unwrap_or("it said nothing").to_string())
}
