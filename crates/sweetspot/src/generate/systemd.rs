//! `sweetspot generate systemd UNIT`: a drop-in that lets a service run under `sweetspot run`.
//!
//! A drop-in cannot put words before a command: it takes the command away and gives it anew. So the
//! unit is read as systemd reads it: later settings are added, an empty one takes away what was there.
//!
//! Invariant: a command stays as it was typed, with its quotes, variables and specifiers; what it
//! begins with (`-`, `+`, `!`, `:`) goes before `sweetspot`.

use crate::preload;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use sweetspot_core::environment::CACHE;
use sweetspot_report::failure::Failure;
use sweetspot_report::shown::shown;

/// The drop-in's name; of an older one of that name nothing is read.
const NAME: &str = "sweetspot.conf";
/// Begins a command without changing which program it is.
const PREFIXES: [char; 5] = ['-', ':', '+', '!', '|'];

/// The drop-in for a unit, or for a unit's file.
///
/// # Errors
/// Where the unit cannot be read, or is none that can run under `run`.
pub fn drop_in(unit: &Path) -> Result<String, Failure> {
    let is_file = unit.components().count() > 1 || unit.is_file();
    let text = match is_file {
        true => std::fs::read_to_string(unit)
            .map_err(|error| Failure::own(format!("{}: {error}", shown(unit))))?,
        false => asked_of_systemd(unit)?,
    };
    let sweetspot = std::env::current_exe()
        .map_err(|error| Failure::own(format!("cannot find sweetspot's own file: {error}")))?;
    let name = unit.file_name().unwrap_or(unit.as_os_str()).to_string_lossy().into_owned();
    // As systemd reads it: no other kind of unit has an ExecStart, so what follows a dot is part of the name.
    let name = if name.ends_with(".service") { name } else { format!("{name}.service") };
    let text = made(&name, &text, &sweetspot, preload::packaged().is_some());
    text.map_err(|why| Failure::own(format!("{}: {why}", shown(unit))))
}

fn asked_of_systemd(unit: &Path) -> Result<String, Failure> {
    let failed = |why: String| {
        Failure::own(format!("systemctl cat {}: {why}", shown(unit)))
            .next("name the unit's file: sweetspot generate systemd ./NAME.service")
    };
    let output = Command::new("systemctl").arg("cat").arg("--").arg(unit).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

/// What a unit says about how its program starts.
#[derive(Default)]
struct Service<'a> {
    commands: Vec<String>,
    /// Names below the folder for caches.
    caches: Vec<String>,
    /// Which file is read, where several are.
    file: Option<&'a str>,
    section: &'a str,
}

impl<'a> Service<'a> {
    fn read(text: &'a str) -> Service<'a> {
        let mut service = Service::default();
        let mut open: Option<String> = None;
        for line in text.lines() {
            let line = line.trim();
            if let Some(comment) = line.strip_prefix(['#', ';']) {
                // `systemctl cat` names each file so.
                service.file =
                    Some(comment.trim()).filter(|path| path.starts_with('/')).or(service.file);
                continue;
            }
            let (part, goes_on) = match line.strip_suffix('\\') {
                Some(part) => (part.trim_end(), true),
                None => (line, false),
            };
            let whole = match open.take() {
                Some(before) => format!("{before} {part}"),
                None => part.to_owned(),
            };
            match (goes_on, line.strip_prefix('[').and_then(|line| line.strip_suffix(']'))) {
                (true, _) => open = Some(whole),
                (false, Some(section)) => service.section = section,
                (false, None) => service.set(&whole),
            }
        }
        service
    }

    fn set(&mut self, line: &str) {
        let is_ours = self.file.is_some_and(|file| file.ends_with(&format!("/{NAME}")));
        let Some((name, value)) = line.split_once('=') else { return };
        if self.section != "Service" || is_ours {
            return;
        }
        let (settings, values) = match name.trim() {
            "ExecStart" => (&mut self.commands, vec![value.trim()]),
            "CacheDirectory" => (&mut self.caches, value.split_whitespace().collect()),
            _ => return,
        };
        match value.trim() {
            "" => settings.clear(),
            _ => settings.extend(values.into_iter().map(str::to_owned)),
        }
    }
}

/// The text of the drop-in, or why there is none. A package brings the library's file along; else it
/// needs a folder.
fn made(
    unit: &str,
    text: &str,
    sweetspot: &Path,
    is_packaged: bool,
) -> Result<String, &'static str> {
    let service = Service::read(text);
    if service.commands.is_empty() {
        return Err("no ExecStart= in a section [Service], so there is no program to buffer");
    }
    let folder = format!("/etc/systemd/system/{unit}.d");
    let mut made = format!(
        "# Runs {unit} under `sweetspot run`. To put it in place, as root:\n\
         #   mkdir -p {folder}\n\
         #   sweetspot generate systemd {unit} >{folder}/{NAME}\n\
         #   systemctl daemon-reload\n\
         # To take it away: remove that file, and reload again.\n\
         [Service]\n"
    );
    match service.caches.first() {
        _ if is_packaged => {}
        // A second folder would change the CACHE_DIRECTORY that the program sees.
        Some(cache) => {
            let _ = writeln!(made, "Environment=\"{CACHE}=%C/{cache}\"");
        }
        None => {
            let _ = writeln!(
                made,
                "CacheDirectory=sweetspot/%N\nEnvironment=\"{CACHE}=%C/sweetspot/%N\""
            );
        }
    }
    made.push_str("ExecStart=\n");
    let sweetspot = sweetspot.display().to_string().replace('%', "%%");
    let sweetspot = match sweetspot.contains(char::is_whitespace) {
        true => format!("\"{sweetspot}\""),
        false => sweetspot,
    };
    for command in &service.commands {
        let program = command.trim_start_matches(PREFIXES);
        if program.starts_with('@') {
            return Err("its command gives the program another name (@), which run cannot do");
        }
        let prefix = &command[..command.len() - program.len()];
        let _ = writeln!(made, "ExecStart={prefix}{sweetspot} run -- {program}");
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings of a drop-in for a unit, or why there is none.
    fn settings(text: &str, is_packaged: bool) -> Result<Vec<String>, &'static str> {
        let made = made("a.service", text, Path::new("/usr/bin/sweetspot"), is_packaged)?;
        let (head, settings) = made.split_once("[Service]\n").unwrap();
        assert!(head.contains(">/etc/systemd/system/a.service.d/sweetspot.conf"), "{head}");
        Ok(settings.lines().map(str::to_owned).collect())
    }

    fn commands(text: &str) -> Vec<String> {
        let settings = settings(&format!("[Service]\n{text}"), true).unwrap();
        assert_eq!(settings[0], "ExecStart=");
        let command = |line: &String| line.strip_prefix("ExecStart=").unwrap().to_owned();
        settings[1..].iter().map(command).collect()
    }

    #[test]
    fn a_command_stays_as_it_was_typed() {
        for (typed, expected) in [
            ("/bin/a 'b c' $D ${E} %n", "/usr/bin/sweetspot run -- /bin/a 'b c' $D ${E} %n"),
            ("-/bin/a", "-/usr/bin/sweetspot run -- /bin/a"),
            ("+:/bin/a -b", "+:/usr/bin/sweetspot run -- /bin/a -b"),
            ("/bin/a \\\n# why\n  b \\\n c", "/usr/bin/sweetspot run -- /bin/a b c"),
        ] {
            assert_eq!(commands(&format!("ExecStart={typed}\n")), [expected]);
        }
    }

    #[test]
    fn settings_count_as_for_systemd() {
        let run = |program: &str| format!("/usr/bin/sweetspot run -- {program}");
        assert_eq!(commands("ExecStart=/a\nExecStart = /b\n"), [run("/a"), run("/b")]);
        assert_eq!(commands("ExecStart=/a\nExecStart=\nExecStart=/b"), [run("/b")]);
        assert_eq!(commands("ExecStart=/a\n[Unit]\nExecStart=/b\nExecStartPre=/c"), [run("/a")]);
        // The file of an older drop-in of ours, as `systemctl cat` shows it, and one of somebody's.
        let older = "ExecStart=/a\n\n# /etc/systemd/system/a.service.d/sweetspot.conf\n[Service]\n\
                     ExecStart=\nExecStart=/usr/bin/sweetspot run -- /a\n";
        assert_eq!(commands(older), [run("/a")]);
        let others = format!(
            "{older}\n# /etc/systemd/system/a.service.d/z.conf\n[Service]\n\
                              ExecStart=\nExecStart=/z\n"
        );
        assert_eq!(commands(&others), [run("/z")]);
    }

    #[test]
    fn a_dot_does_not_make_a_name_whole() {
        let folder = tempfile::tempdir().unwrap();
        for (name, expected) in [("my.app", "my.app.service.d"), ("a.service", "a.service.d")] {
            let file = folder.path().join(name);
            std::fs::write(&file, "[Service]\nExecStart=/a\n").unwrap();
            let made = drop_in(&file).unwrap();
            assert!(made.contains(&format!("mkdir -p /etc/systemd/system/{expected}\n")), "{made}");
        }
    }

    #[test]
    fn what_cannot_run_under_run_is_said() {
        for (text, why) in [
            ("", "no ExecStart="),
            ("[Timer]\nOnCalendar=02:30\n", "no ExecStart="),
            ("[Service]\nExecStart=/a\nExecStart=\n", "no ExecStart="),
            ("[Service]\nExecStart=-@/bin/a b\n", "another name (@)"),
        ] {
            assert!(settings(text, true).unwrap_err().contains(why), "{text}");
        }
    }

    #[test]
    fn the_library_has_a_folder_and_the_program_sees_no_other() {
        let cache = |text: &str, is_packaged| {
            let text = format!("[Service]\nExecStart=/a\n{text}");
            let settings = settings(&text, is_packaged).unwrap();
            settings[..settings.len() - 2].join(" ")
        };
        assert_eq!(cache("", true), "");
        let own = "CacheDirectory=sweetspot/%N Environment=\"SWEETSPOT_CACHE=%C/sweetspot/%N\"";
        assert_eq!(cache("", false), own);
        let theirs = "Environment=\"SWEETSPOT_CACHE=%C/b\"";
        assert_eq!(cache("CacheDirectory=a\nCacheDirectory=\nCacheDirectory=b c\n", false), theirs);
    }
}
