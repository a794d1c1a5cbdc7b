//! Runs one cell of a benchmark once: clears the way, sets the cache, runs the command as a fresh
//! process, and turns what came out into a hash.

use super::{
    data, failed,
    table::{Benchmark, Cache, Cell, Figure, Way},
};
use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};
use sweetspot_lab::{
    Error,
    cache::{self, State},
    measure::{self, Job, Measurement},
    output::Hash,
    paired::{Executor, Observation},
};

/// The line in which a program says what it measured inside: not part of its output.
const FIGURE_LINE: &str = "nanoseconds_per_transfer ";

/// No run of any benchmark takes that long; a program that hangs must not hang the benchmark.
const RUN_LIMIT: Duration = Duration::from_secs(600);

/// How much of the error output of a failed command is shown, in bytes.
const ERROR_OUTPUT_LEN_MAX: usize = 2000;

/// Runs the cells of one benchmark.
pub struct Runner<'a> {
    /// The benchmark.
    pub benchmark: &'a Benchmark,
    /// What stands before a command that is to be buffered.
    pub wrapper: &'a [OsString],
    /// The folder with the compiled programs.
    pub programs: &'a Path,
    /// The folder with their sources.
    pub sources: &'a Path,
    /// An empty folder for outputs.
    pub work: PathBuf,
    /// The input.
    pub input: Option<PathBuf>,
    /// What `{count}` stands for.
    pub count: u64,
    /// What each run took, in the order in which they ran.
    pub runs: Vec<(usize, Measurement)>,
}

/// The environment of every command: nobody's own settings, in one language.
pub fn environment() -> Vec<(OsString, OsString)> {
    [("LC_ALL", "C"), ("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_SYSTEM", "/dev/null")]
        .map(|(name, value)| (name.into(), value.into()))
        .into()
}

/// Fills the placeholders of a command (the list is in `table`).
pub fn fill(text: &str, values: &[(&str, &Path)]) -> OsString {
    let mut text = text.to_owned();
    for (name, value) in values {
        text = text.replace(name, &value.to_string_lossy());
    }
    text.into()
}

/// Runs a program in a folder, once, and returns what it printed.
pub fn run(folder: &Path, words: &[&OsStr]) -> Result<Vec<u8>, Error> {
    let name = Path::new(words[0]).file_name().unwrap_or(words[0]).to_string_lossy().into_owned();
    let output = Command::new(words[0])
        .args(&words[1..])
        .envs(environment())
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(Error::system("start", &name))?;
    // `tune` ends with 1 where it could not decide.
    match output.status.code() {
        Some(0 | 1) => Ok(output.stdout),
        _ => Err(failed(&name, String::from_utf8_lossy(&output.stderr).trim())),
    }
}

impl Executor for Runner<'_> {
    fn execute(&mut self, cell: usize) -> Result<Observation, Error> {
        data::remove(&self.output())?;
        self.set_cache()?;
        let job = self.job(&self.benchmark.cells[cell]);
        let measurement = measure::run(&job)?;
        if !measurement.status.success() {
            let program = format!("cell {:?}", self.benchmark.cells[cell].name);
            let said = tail(&self.stderr());
            let reason = format!("{}; it said: {said}", measurement.status);
            return Err(Error::Failed { program, reason });
        }
        self.runs.push((cell, measurement));
        self.observe(&measurement)
    }
}

impl Runner<'_> {
    /// What the command makes.
    pub fn output(&self) -> PathBuf {
        self.work.join("output")
    }

    // These two lie beside the folder of the outputs: that may be a FUSE mount.
    fn stdout(&self) -> PathBuf {
        self.work.with_extension("stdout")
    }

    fn stderr(&self) -> PathBuf {
        self.work.with_extension("stderr")
    }

    /// The command of a cell, without what stands before it.
    pub fn command(&self, cell: &Cell) -> Vec<OsString> {
        let (output, count) = (self.output(), self.count.to_string());
        let none = PathBuf::new();
        let values = [
            ("{input}", self.input.as_deref().unwrap_or(&none)),
            ("{output}", &output),
            ("{count}", Path::new(&count)),
            ("{programs}", self.programs),
            ("{sources}", self.sources),
        ];
        cell.command.iter().map(|word| fill(word, &values)).collect()
    }

    fn job(&self, cell: &Cell) -> Job {
        let command = self.command(cell);
        let mut job = match cell.way {
            Way::Buffered => Job::new(self.wrapper.iter().cloned().chain(command)),
            Way::With(options) => {
                // The last word of it is `--`.
                let before = self.wrapper.len().saturating_sub(1);
                let (run, dashes) = self.wrapper.split_at(before);
                let options = options.iter().map(OsString::from);
                let wrapper = run.iter().cloned().chain(options).chain(dashes.iter().cloned());
                Job::new(wrapper.chain(command))
            }
            Way::Plain | Way::EmptyPreload => Job::new(command),
        };
        job.environment = environment();
        job.without = ["IO_BUFFER_SIZE", "SWEETSPOT", "LD_PRELOAD"].map(Into::into).into();
        if cell.way == Way::EmptyPreload {
            job.without.retain(|name| name != "LD_PRELOAD");
            job.environment.push(("LD_PRELOAD".into(), self.programs.join("empty.so").into()));
        }
        // No sweetspot.toml lies there or above.
        job.folder = Some(self.work.clone());
        job.stdout = Some(self.stdout());
        job.stderr = Some(self.stderr());
        job.limit = RUN_LIMIT;
        job
    }

    fn set_cache(&self) -> Result<(), Error> {
        let (Cache::Cold, Some(input)) = (self.benchmark.cache, &self.input) else {
            return Ok(()); // what was read in the round before all others is there
        };
        if is_root() {
            cache::drop_all()?;
        }
        cache::bring(State::Cold, std::slice::from_ref(input))
    }

    fn observe(&self, measurement: &Measurement) -> Result<Observation, Error> {
        let mut hash = Hash::default();
        let figure = match self.benchmark.figure {
            Figure::Wall => {
                hash.add_file(&self.stdout())?;
                measurement.wall.as_secs_f64()
            }
            Figure::PerTransfer => {
                let stdout = self.stdout();
                let text = fs::read_to_string(&stdout).map_err(Error::system("read", &stdout))?;
                let (figure, rest) = split_figure(&text)?;
                hash.add(rest.as_bytes());
                figure
            }
        };
        hash.add_tree(&self.output())?;
        Ok(Observation { figure, output: format!("sha256:{}", hash.text()) })
    }
}

/// Parts the figure that a program printed from the rest of its output.
fn split_figure(text: &str) -> Result<(f64, String), Error> {
    let (figures, rest): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with(FIGURE_LINE));
    match figures.as_slice() {
        [line] => line[FIGURE_LINE.len()..].trim().parse().ok(),
        _ => None,
    }
    .map(|figure| (figure, rest.join("\n")))
    .ok_or_else(|| Error::Failed {
        program: "the program".to_owned(),
        reason: format!("it printed no line {FIGURE_LINE:?} with a number"),
    })
}

/// The end of what is in a file, as far as it is worth showing.
fn tail(path: &Path) -> String {
    let mut text = Vec::new();
    // Only to explain another error: where it cannot be read there is nothing to show.
    let _ = File::open(path).and_then(|mut file| file.read_to_end(&mut text));
    let start = text.len().saturating_sub(ERROR_OUTPUT_LEN_MAX);
    match String::from_utf8_lossy(&text[start..]).trim() {
        "" => "nothing".to_owned(),
        said => said.to_owned(),
    }
}

/// Whether this process may drop the caches of the whole machine.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled() {
        let values = [("{input}", Path::new("/a b")), ("{count}", Path::new("7"))];
        for (text, expected) in
            [("if={input}", "if=/a b"), ("{count}{count}", "77"), ("{other}", "{other}")]
        {
            assert_eq!(fill(text, &values), expected);
        }
    }

    #[test]
    fn a_printed_figure_is_no_output() {
        let (figure, rest) =
            split_figure("checksum 5\nnanoseconds_per_transfer 12.5\nend\n").unwrap();
        assert_eq!((figure, rest.as_str()), (12.5, "checksum 5\nend"));
        for text in ["", "checksum 5\n", "nanoseconds_per_transfer x\n"] {
            assert!(split_figure(text).is_err(), "{text:?}");
        }
    }
}
