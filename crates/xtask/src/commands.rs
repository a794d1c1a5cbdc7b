//! Commands that end when this process does, and what is said of those that are not there.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use crate::needs::is_there;
use sweetspot_core::environment::ABOUT_BUFFERING;

/// Lets a command be killed when this process ends, in whatever way.
#[expect(unsafe_code, reason = "what a child does before it becomes the command")]
pub fn ends_with_us(command: &mut Command) -> &mut Command {
    // SAFETY: one system call with values only.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        })
    }
}

/// Runs a command that must end well, and returns what it printed. Of a failure the end of what it said is shown.
///
/// # Errors
/// It cannot be started, or did not end well.
pub fn call(command: &mut Command) -> Result<String, String> {
    const SHOWN_MAX: usize = 40;
    let shown = format!("{command:?}");
    command.stdin(Stdio::null());
    let output = ends_with_us(command).output().map_err(|error| format!("{shown}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    let lines: Vec<&str> = said.lines().collect();
    let last = &lines[lines.len().saturating_sub(SHOWN_MAX)..];
    Err(format!("{shown} ended with {}:\n{}", output.status, last.join("\n")))
}

/// Takes away what the environment tells `run` and the library.
pub fn untold(command: &mut Command) -> &mut Command {
    ABOUT_BUFFERING.iter().fold(command, |command, name| command.env_remove(name))
}

/// A seed that is another one each time.
pub fn seed_of_now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs() % 1_000_000)
}

/// The first command that is not there, as a reason to skip.
pub fn no_command(needs: &[(&str, &str)]) -> Option<String> {
    let (command, package) = needs.iter().find(|(command, _)| !is_there(command))?;
    Some(format!("no {command} (apt-get install {package})"))
}
