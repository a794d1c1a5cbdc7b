//! What `doctor` found: what this machine offers and what it lacks.

use serde::Serialize;
use std::fmt::Write as _;

/// Changes when a field of the JSON form changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// What somebody would use it for.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// `run`, `profile`.
    Run,
    /// `tune`, `bench`, `verify`.
    Experiments,
    /// The plans below `classics/`.
    Classics,
    /// What lies in the user's folders.
    Yours,
}

impl Part {
    const ALL: [(Part, &str); 4] = [
        (Part::Run, "To run programs"),
        (Part::Experiments, "For tune, bench and verify"),
        (Part::Classics, "For the classics"),
        (Part::Yours, "In your folders"),
    ];
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Lacks,
}

/// One line.
#[derive(Serialize)]
pub struct Finding {
    part: Part,
    name: &'static str,
    state: State,
    says: String,
    /// The command that mends it, where one does.
    mend: Option<String>,
}

impl Finding {
    /// What is as it should be.
    pub fn ok(part: Part, name: &'static str, says: impl Into<String>) -> Finding {
        Finding { part, name, state: State::Ok, says: says.into(), mend: None }
    }

    /// What is not.
    pub fn lacks(part: Part, name: &'static str, says: impl Into<String>) -> Finding {
        Finding { part, name, state: State::Lacks, says: says.into(), mend: None }
    }

    /// With the command that mends it.
    #[must_use]
    pub fn mend(self, command: impl Into<Option<String>>) -> Finding {
        Finding { mend: command.into(), ..self }
    }
}

/// Everything that is said.
#[derive(Serialize)]
pub struct DoctorReport {
    pub schema_version: u32,
    pub version: &'static str,
    pub kernel: String,
    pub distribution: Option<String>,
    pub architecture: String,
    /// Whether anything of a program is buffered here.
    pub run_works: bool,
    pub sentence: &'static str,
    pub findings: Vec<Finding>,
}

impl DoctorReport {
    /// All of it, for people.
    pub fn text(&self) -> String {
        let distribution = self.distribution.as_deref().unwrap_or("an unknown distribution");
        let (version, kernel, architecture) = (self.version, &self.kernel, &self.architecture);
        let mut text = format!(
            "sweetspot {version} on {distribution}, Linux {kernel}, {architecture}\n{}\n",
            self.sentence
        );
        let width = self.findings.iter().map(|finding| finding.name.len()).max().unwrap_or(0);
        for (part, title) in Part::ALL {
            let of_part = self.findings.iter().filter(|finding| finding.part == part);
            for (number, finding) in of_part.enumerate() {
                if number == 0 {
                    let _ = writeln!(text, "\n{title}:");
                }
                let state = match finding.state {
                    State::Ok => "ok",
                    State::Lacks => "lacks",
                };
                let (name, says) = (finding.name, &finding.says);
                let _ = writeln!(text, "  {state:<5}  {name:<width$}  {says}");
                if let Some(mend) = &finding.mend {
                    let _ = writeln!(text, "         {:width$}  -> {mend}", "");
                }
            }
        }
        text
    }
}
