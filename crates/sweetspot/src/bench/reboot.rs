//! `--between reboot`: a queue that survives the restarts of the machine, so that each run begins on
//! one that has just started.
//!
//! ```text
//! typed        write the unit, warm up, restart
//! each start   the unit runs `bench --resume`: settle, one run, restart
//! at the end   remove the unit, write the report beside the store
//! ```
//!
//! Invariant: the machine is only restarted after a run was stored. Where anything fails it stays up.

use super::place::{Workspace, utf8};
use super::session::store_path;
use crate::arguments::Bench;
use crate::own;
use crate::say::say;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use sweetspot_report::bench::BenchReport;
use sweetspot_report::failure::Failure;
use sweetspot_report::shown::shown;

/// The target that starts the unit.
const WANTS: &str = "multi-user.target.wants";
/// How often a Ctrl-C is looked for while the machine settles.
const LOOK: Duration = Duration::from_millis(100);

/// The queue of one plan.
pub struct Queue<'a> {
    arguments: &'a Bench,
    place: &'a Workspace,
}

impl<'a> Queue<'a> {
    /// The queue, if the machine is to be restarted between runs.
    pub fn of(arguments: &'a Bench, place: &'a Workspace) -> Option<Queue<'a>> {
        arguments.between.as_ref().map(|_| Queue { arguments, place })
    }

    fn name(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let name: String = self.place.name.chars().map(plain).collect();
        format!("sweetspot-bench-{name}.service")
    }

    fn unit(&self) -> PathBuf {
        self.arguments.unit_dir.join(self.name())
    }

    fn link(&self) -> PathBuf {
        self.arguments.unit_dir.join(WANTS).join(self.name())
    }

    /// Waits until what starts with the machine has calmed down.
    pub fn settle(&self, interrupted: &AtomicBool) {
        let begun = Instant::now();
        while begun.elapsed() < self.arguments.settle && !interrupted.load(Relaxed) {
            std::thread::sleep(LOOK.min(self.arguments.settle));
        }
    }

    /// Has the session go on at the next start of the machine.
    ///
    /// # Errors
    /// Where the unit cannot be written.
    pub fn install(&self) -> Result<(), Failure> {
        let failure = |path: &Path| {
            let shown = shown(path);
            move |error: std::io::Error| {
                Failure::own(format!("cannot write {shown}: {error}")).next(
                    "units of systemd are root's: the same command with sudo, and --resume if the \
                     session has begun",
                )
            }
        };
        let (unit, link) = (self.unit(), self.link());
        let wants = self.arguments.unit_dir.join(WANTS);
        fs::create_dir_all(&wants).map_err(failure(&wants))?;
        fs::write(&unit, self.text()?).map_err(failure(&unit))?;
        match symlink(Path::new("..").join(self.name()), &link) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(failure(&link)(error)),
            _ => Ok(()),
        }
    }

    /// The unit.
    fn text(&self) -> Result<String, Failure> {
        let folder = std::env::current_dir()
            .map_err(|error| Failure::own(format!("the current folder is not usable: {error}")))?;
        let words = self.words(&folder)?;
        let words: Vec<String> = words.iter().map(|word| quoted(word).replace('$', "$$")).collect();
        let mut text = format!(
            "[Unit]\nDescription=sweetspot bench {}, between restarts\n\n[Service]\nType=exec\n\
             WorkingDirectory={}\n",
            self.place.name.replace('%', "%%"),
            utf8(&folder)?.replace('%', "%%")
        );
        for name in ["PATH", "HOME"] {
            if let Ok(value) = std::env::var(name) {
                text.push_str(&format!("Environment={}\n", quoted(&format!("{name}={value}"))));
            }
        }
        text.push_str(&format!("ExecStart={}\n\n", words.join(" ")));
        text.push_str("[Install]\nWantedBy=multi-user.target\n");
        Ok(text)
    }

    /// The command that goes on, with everything that was typed.
    fn words(&self, folder: &Path) -> Result<Vec<String>, Failure> {
        let Bench { scale, rounds, launcher, check, json, .. } = self.arguments;
        let Bench { reboot_command, settle, accept_changes, .. } = self.arguments;
        let lossy = |text: &std::ffi::OsString| text.to_string_lossy().into_owned();
        let store = folder.join(store_path(self.arguments, self.place));
        let mut words = vec![utf8(&own::name()?)?.to_owned(), "bench".to_owned()];
        let mut add = |name: &str, value: String| words.push(format!("--{name}={value}"));
        add("between", "reboot".to_owned());
        add("settle", format!("{}s", settle.as_secs()));
        add("reboot-command", lossy(reboot_command));
        add("unit-dir", utf8(&folder.join(&self.arguments.unit_dir))?.to_owned());
        add("store", utf8(&store)?.to_owned());
        add("dir", utf8(self.place.base())?.to_owned());
        scale.iter().for_each(|scale| add("scale", scale.clone()));
        rounds.iter().for_each(|rounds| add("rounds", rounds.to_string()));
        launcher.iter().for_each(|launcher| add("launcher", lossy(launcher)));
        words.extend(check.then(|| "--check".to_owned()));
        words.extend(accept_changes.then(|| "--accept-changes".to_owned()));
        words.extend(json.then(|| "--json".to_owned()));
        words.extend(["--resume".to_owned(), "--".to_owned()]);
        words.push(utf8(&folder.join(&self.arguments.plan))?.to_owned());
        Ok(words)
    }

    /// Restarts the machine.
    ///
    /// # Errors
    /// Where the command fails.
    pub fn restart(&self) -> Result<(), Failure> {
        rustix::fs::sync();
        let text = self.arguments.reboot_command.to_string_lossy();
        let mut words = text.split_whitespace();
        let failure = |what: String| {
            Failure::own(format!("the machine cannot be restarted: '{text}': {what}"))
                .next("name another command: --reboot-command 'shutdown -r now'")
        };
        let name = words.next().ok_or_else(|| failure("it is empty".to_owned()))?;
        let status = Command::new(name).args(words).status();
        match status.map_err(|error| failure(error.to_string()))? {
            ended if ended.success() => Ok(()),
            ended => Err(failure(format!("it failed with {ended}"))),
        }
    }

    /// Ends the queue: nothing goes on at the next start, and the report lies beside the store, over nothing that is
    /// there.
    ///
    /// # Errors
    /// Where something of that cannot be done.
    pub fn finish(&self, report: &BenchReport) -> Result<(), Failure> {
        let (name, text) = match self.arguments.json {
            true => ("json", serde_json::to_string(report).unwrap_or_default() + "\n"),
            false => ("txt", report.text()),
        };
        let store = store_path(self.arguments, self.place);
        let (path, mut file) = new_beside(&store, name)?;
        file.write_all(text.as_bytes())
            .map_err(|error| Failure::own(format!("cannot write {}: {error}", shown(&path))))?;
        self.remove();
        Ok(())
    }

    /// Nothing goes on at the next start.
    pub fn remove(&self) {
        for path in [self.link(), self.unit()] {
            if let Err(error) = fs::remove_file(&path)
                && error.kind() != ErrorKind::NotFound
            {
                say(format_args!("sweetspot: cannot remove {}: {error}", shown(&path)));
            }
        }
    }
}

/// Makes a file with the store's name and another ending: the first such name that is free.
fn new_beside(store: &Path, ending: &str) -> Result<(PathBuf, File), Failure> {
    const NAMES_MAX: u32 = 1000;
    let stem = store.file_stem().unwrap_or_default();
    let mut number = 1;
    loop {
        let mut name = stem.to_owned();
        match number {
            1 => name.push(format!(".{ending}")),
            _ => name.push(format!("-{number}.{ending}")),
        }
        let path = store.with_file_name(name);
        match File::create_new(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < NAMES_MAX => {}
            Err(error) => {
                return Err(Failure::own(format!("cannot write {}: {error}", shown(&path))));
            }
        }
        number += 1;
    }
}

/// A word as systemd reads it in a unit; in a command `$` is typed twice besides.
fn quoted(word: &str) -> String {
    let mut text = String::from("\"");
    for letter in word.chars() {
        match letter {
            '"' | '\\' => text.extend(['\\', letter]),
            '%' => text.push_str("%%"),
            '\n' => text.push_str("\\n"),
            letter => text.push(letter),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_unit() {
        for (word, expected) in [
            ("plain", r#""plain""#),
            ("a b", r#""a b""#),
            (r#"a"b\"#, r#""a\"b\\""#),
            ("50%", r#""50%%""#),
            ("$HOME", r#""$HOME""#),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }
}
