//! `cargo xtask bench picks RECORD DIR`: which buffer size people end up with, and how far it is from the
//! best.
//!
//! `sweetspot bench` measures each job of `benchmarks/picks.toml` at every size in 40 random rounds: the
//! grid. Four choosers look for a size in their own way: `sweetspot tune`, the same from one recorded run
//! (`tune --from`), `hyperfine` with a list of sizes (least mean), and a loop of dd over block sizes, three
//! times each (least time). How far a pick lies from the grid's best is a ratio from the grid's own rounds.
//! The best of many sizes owes a part of its lead to luck: so it is found on one half of the rounds and
//! compared on the other, and the other way round.

use super::command::{self, remove};
use super::planned::{Cell, Planned};
use super::report::{self, Place, list};
use crate::build::{self, Machine};
use crate::project::failed;
use serde::Serialize;
use serde_json::Value;
use std::{
    ffi::{OsStr, OsString},
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};
use sweetspot_lab::{
    Error,
    paired::{CONFIDENCE_FIXED, Effect},
    statistics,
};

/// How often the loop of dd tries each size.
const DD_PASSES: usize = 3;
/// How far from the best a pick may be to be as good: its time over that of the best.
const NEAR: f64 = 1.05;

const TUNE: &str = "sweetspot tune";
const FROM: &str = "from one run";
const HYPERFINE: &str = "hyperfine";
const DD: &str = "a loop of dd";
const GRID: &str = "the grid";

/// What one chooser picked.
#[derive(Clone, Serialize)]
pub struct Pick {
    /// Who picked.
    pub chooser: &'static str,
    /// The size; none where it gave no answer.
    pub size: Option<String>,
    /// Whether it stands by the answer; the others have no such notion.
    pub confirmed: bool,
    /// Runs of the command, and seconds, until it was picked.
    pub runs: usize,
    pub seconds: f64,
    /// Its time over that of the grid's best; filled in when the grid is there.
    pub to_best: Option<Effect>,
}

/// A job, and who picked what for it.
#[derive(Serialize)]
struct Job {
    name: String,
    picks: Vec<Pick>,
}

/// Measures the grid, lets everybody pick, and writes it down.
pub fn pick_all(record: &Path, folder: &Path, scale: Option<&str>) -> Result<String, Error> {
    let built = build::binary("release", Machine::HERE);
    let binary = built.map_err(|reason| failed("cargo build", &reason))?.binary;
    let folder = &std::path::absolute(folder).map_err(Error::system("find", folder))?;
    [record, folder].into_iter().try_for_each(|folder| {
        fs::create_dir_all(folder).map_err(Error::system("create", folder))
    })?;
    let planned = Planned { binary: &binary, plan: "picks.toml", scale, folder };
    let grid = grid(&planned)?;
    let path = |name: &str| record.join(name);
    let write = |name: &str, text: &str| {
        fs::write(path(name), text).map_err(Error::system("write", path(name)))
    };
    write(report::FILE, &grid.to_string())?;
    let session = report::session(&grid, Place::Disk)?;
    let cells = planned.cells()?;
    let mut jobs: Vec<Job> = Vec::new();
    for cells in cells.chunk_by(|one, other| job_and_size(one).0 == job_and_size(other).0) {
        let (name, _) = job_and_size(&cells[0]);
        let sizes: Vec<&str> = cells.iter().map(|cell| job_and_size(cell).1).collect();
        let figures = figures(session, cells);
        if figures.iter().any(Vec::is_empty) {
            println!("{name}: skipped");
            continue;
        }
        let mut picks = pick(&planned, &cells[0], &sizes)?;
        judge(&mut picks, &sizes, &figures)?;
        print!("{name}\n{}", text(&picks));
        jobs.push(Job { name: name.to_owned(), picks });
    }
    let json = serde_json::to_string(&jobs).map_err(|error| failed("picks", &error.to_string()))?;
    write("picks.json", &(json + "\n"))?;
    write("picks.md", &markdown(&jobs))?;
    Ok(summary(&jobs))
}

/// The report of a session that measures everything at every size.
fn grid(planned: &Planned<'_>) -> Result<Value, Error> {
    let store = planned.folder.join("picks.sqlite");
    let ended = planned.bench().arg("--store").arg(&store).status();
    let ended = ended.map_err(Error::system("start", planned.binary))?;
    if !ended.success() {
        return Err(failed("sweetspot bench", &ended.to_string()));
    }
    let words: [&OsStr; 4] =
        [planned.binary.as_ref(), "report".as_ref(), "--json".as_ref(), store.as_ref()];
    json("sweetspot report", &command::run(planned.folder, &words)?)
}

/// The parts of a cell's name.
fn job_and_size(cell: &Cell) -> (&str, &str) {
    cell.name.split_once(", size ").unwrap_or((&cell.name, ""))
}

/// The times of each cell, round by round.
fn figures(session: &Value, cells: &[Cell]) -> Vec<Vec<f64>> {
    let of = |cell: &Cell| {
        report::runs(session, &cell.name).filter_map(|run| run["figure"].as_f64()).collect()
    };
    cells.iter().map(of).collect()
}

/// What a chooser works with.
struct Chooser<'a> {
    binary: &'a Path,
    command: Vec<OsString>,
    sizes: &'a [&'a str],
    work: PathBuf,
    output: PathBuf,
    input: Option<PathBuf>,
}

/// Lets every chooser pick.
fn pick(planned: &Planned<'_>, cell: &Cell, sizes: &[&str]) -> Result<Vec<Pick>, Error> {
    let work = tempfile::tempdir_in(planned.folder);
    let work = work.map_err(Error::system("use", planned.folder))?;
    let output = work.path().join("output");
    let chooser = Chooser {
        binary: planned.binary,
        command: cell.bare(&output),
        sizes,
        work: work.path().to_owned(),
        output,
        input: cell.input(planned.folder),
    };
    let all = [Chooser::tune, Chooser::by_recording, Chooser::hyperfine, Chooser::dd];
    all.into_iter().map(|pick| pick(&chooser)).collect()
}

/// Holds the picks against the grid, and adds the grid's own: its best.
fn judge(picks: &mut Vec<Pick>, sizes: &[&str], figures: &[Vec<f64>]) -> Result<(), Error> {
    const MARGIN: f64 = 0.02;
    let best = least(figures, |_| true)?;
    let best_of_odd = least(figures, |round| round % 2 == 1).unwrap_or(best);
    let best_of_even = least(figures, |round| round % 2 == 0)?;
    let rounds = figures[best].len();
    let best_by_round: Vec<f64> = (0..rounds)
        .map(|round| figures[if round % 2 == 0 { best_of_odd } else { best_of_even }][round])
        .collect();
    for pick in picks.iter_mut() {
        let at = sizes.iter().position(|size| Some(*size) == pick.size.as_deref());
        let effect = |at: usize| Effect::of(&best_by_round, &figures[at], CONFIDENCE_FIXED, MARGIN);
        pick.to_best = at.map(effect).transpose()?;
    }
    picks.push(Pick {
        chooser: GRID,
        size: Some(sizes[best].to_owned()),
        confirmed: true,
        runs: sizes.len() * rounds,
        seconds: figures.iter().flatten().sum(),
        to_best: None,
    });
    Ok(())
}

/// The cell of the least median over some of the rounds.
fn least(figures: &[Vec<f64>], counts: impl Fn(usize) -> bool) -> Result<usize, Error> {
    let median = |figures: &Vec<f64>| {
        let rounds = figures.iter().enumerate().filter(|(round, _)| counts(*round));
        statistics::median(&rounds.map(|(_, figure)| *figure).collect::<Vec<_>>())
    };
    let medians: Vec<f64> = figures.iter().map(median).collect::<Result<_, _>>()?;
    Ok((0..medians.len()).min_by(|a, b| medians[*a].total_cmp(&medians[*b])).unwrap_or(0))
}

/// The words of a pick: who, which, in how many runs and seconds, and how far it is from the best.
fn words(pick: &Pick) -> [String; 5] {
    let far = match pick.to_best {
        None if pick.chooser == GRID => "the best".to_owned(),
        None => "no answer".to_owned(),
        Some(Effect { ratio, interval: None, .. }) => percent(ratio),
        Some(Effect { ratio, interval: Some(interval), .. }) => {
            format!("{} ({} to {})", percent(ratio), percent(interval.low), percent(interval.high))
        }
    };
    let stands = if pick.confirmed { "" } else { ", undecided" };
    [
        pick.chooser.to_owned(),
        format!("{}{stands}", pick.size.as_deref().unwrap_or("none")),
        pick.runs.to_string(),
        format!("{:.0}", pick.seconds),
        far,
    ]
}

/// How much longer than the best's a time is.
fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

/// One line for each pick.
fn text(picks: &[Pick]) -> String {
    let line = |pick: &Pick| {
        let [chooser, size, runs, seconds, far] = words(pick);
        format!("  {chooser:<15} {size:<16} {runs:>4} runs {seconds:>5} s   {far}\n")
    };
    picks.iter().map(line).collect()
}

/// What each chooser came to over all jobs, a line for each. Whether a pick is within 5 % of the best
/// is asked of the estimate, not of its interval.
fn summary(jobs: &[Job]) -> String {
    let of = |chooser: &'static str| -> Vec<&Pick> {
        let picks = jobs.iter().flat_map(|job| &job.picks);
        picks.filter(|pick| pick.chooser == chooser).collect()
    };
    let line = |chooser: &'static str| {
        let picks = of(chooser);
        let count = picks.len().max(1);
        let near = |pick: &&&Pick| pick.to_best.is_some_and(|effect| effect.ratio <= NEAR);
        let farthest = picks.iter().filter_map(|pick| pick.to_best).map(|effect| effect.ratio);
        format!(
            "{chooser}: {} of {} picks within 5 % of the best, the farthest {} off{}; {} runs and \
             {:.0} s on average\n",
            picks.iter().filter(near).count(),
            picks.len(),
            percent(farthest.fold(1.0, f64::max)),
            match picks.iter().filter(|pick| !pick.confirmed).count() {
                0 => String::new(),
                undecided => format!(", {undecided} undecided"),
            },
            picks.iter().map(|pick| pick.runs).sum::<usize>() / count,
            picks.iter().map(|pick| pick.seconds).sum::<f64>() / count as f64,
        )
    };
    [TUNE, FROM, HYPERFINE, DD].map(line).concat()
}

/// The picks for a reader.
fn markdown(jobs: &[Job]) -> String {
    let mut text = String::from(
        "# Which buffer size is picked, and how far it is from the best\n\n\
         Each chooser looked for a size in its own way; the grid is in report.json. *Off the best* is how \
         much longer than the grid's best the pick takes, with a 95 % interval, from the grid's own \
         rounds; the best is the least median of many, so it is a little better than it truly is, \
         for all choosers alike. Seconds are those until the answer was there, for the grid those \
         of its runs.\n\n",
    );
    // Writing to a String cannot fail.
    for line in summary(jobs).lines() {
        let _ = writeln!(text, "- {line}");
    }
    text.push_str("\n| job | chooser | pick | runs | seconds | off the best |\n");
    text.push_str("|---|---|---|---:|---:|---|\n");
    for job in jobs {
        for pick in &job.picks {
            let _ = writeln!(text, "| {} | {} |", job.name, words(pick).join(" | "));
        }
    }
    text
}

fn json(program: &str, text: &[u8]) -> Result<Value, Error> {
    serde_json::from_slice(text).map_err(|error| failed(program, &error.to_string()))
}

impl Chooser<'_> {
    /// The shell command that makes runs begin alike.
    fn prepare(&self) -> OsString {
        let mut command = OsString::from("rm -rf ");
        command.push(&self.output);
        command
    }

    /// Runs a chooser's program and returns what it printed.
    fn run(&self, words: &[&OsStr]) -> Result<Vec<u8>, Error> {
        command::run(&self.work, words)
    }

    fn tune(&self) -> Result<Pick, Error> {
        self.tuned(TUNE, &[], 0, Instant::now())
    }

    /// From a recorded run, which is one of the runs that it took.
    fn by_recording(&self) -> Result<Pick, Error> {
        let recording = self.work.join("recording");
        remove(&self.output)?;
        let begun = Instant::now();
        let mut words: Vec<&OsStr> =
            vec![self.binary.as_ref(), "profile".as_ref(), "--output".as_ref()];
        words.extend(["/dev/null", "--record"].map(OsStr::new));
        words.extend([recording.as_os_str(), "--".as_ref()]);
        words.extend(self.command.iter().map(OsString::as_os_str));
        self.run(&words)?;
        let pick = self.tuned(FROM, &["--from".as_ref(), recording.as_os_str()], 1, begun)?;
        remove(&recording)?;
        Ok(pick)
    }

    /// What `tune` picks with these options, after so many runs before it.
    fn tuned(
        &self,
        chooser: &'static str,
        options: &[&OsStr],
        runs_before: usize,
        begun: Instant,
    ) -> Result<Pick, Error> {
        let (prepare, store) = (self.prepare(), self.work.join("tune.sqlite"));
        let mut words: Vec<&OsStr> = vec![self.binary.as_ref(), "tune".as_ref(), "--json".as_ref()];
        words.extend(options);
        words.extend(["--keep-rules".as_ref(), "--prepare".as_ref(), &*prepare]);
        words.extend(["--store".as_ref(), store.as_os_str(), "--".as_ref()]);
        words.extend(self.command.iter().map(OsString::as_os_str));
        let report = json("sweetspot tune", &self.run(&words)?)?;
        let confirmed = report["confirmed"].as_bool().unwrap_or(false);
        // What it would use; where it is undecided, its best guess.
        let size = report["buffer"].as_str().or(report["smallest"].as_str());
        Ok(Pick {
            chooser,
            size: size.map(str::to_owned),
            confirmed,
            runs: report["runs"].as_u64().unwrap_or(0) as usize + runs_before,
            seconds: begun.elapsed().as_secs_f64(),
            to_best: None,
        })
    }

    fn hyperfine(&self) -> Result<Pick, Error> {
        let (export, sizes) = (self.work.join("hyperfine"), self.sizes.join(","));
        let words = self.command.iter().map(|word| format!("'{}'", word.to_string_lossy()));
        let command = format!(
            "{} run --buffer-size {{size}} -- {}",
            self.binary.display(),
            words.collect::<Vec<_>>().join(" ")
        );
        let prepare = self.prepare();
        let begun = Instant::now();
        let mut words: Vec<&OsStr> =
            ["hyperfine", "-N", "--warmup", "1", "-L", "size"].map(OsStr::new).into();
        words.extend([OsStr::new(&sizes), "--prepare".as_ref(), &*prepare]);
        words.extend(["--export-json".as_ref(), export.as_os_str(), command.as_ref()]);
        self.run(&words)?;
        let seconds = begun.elapsed().as_secs_f64();
        let text = fs::read(&export).map_err(Error::system("read", &export))?;
        let exported = json("hyperfine", &text)?;
        let results = list(&exported["results"]);
        let mean = |result: &Value| result["mean"].as_f64().unwrap_or(f64::MAX);
        let best = results.iter().min_by(|a, b| mean(a).total_cmp(&mean(b)));
        Ok(Pick {
            chooser: HYPERFINE,
            size: best.and_then(|best| best["parameters"]["size"].as_str()).map(str::to_owned),
            confirmed: true,
            runs: results.iter().map(|result| list(&result["times"]).len() + 1).sum(),
            seconds,
            to_best: None,
        })
    }

    /// What many do by hand: copy a file of that size with dd at every block size, and take the fastest.
    fn dd(&self) -> Result<Pick, Error> {
        let zeros = Path::new("/dev/zero");
        let input = self.input.as_deref().unwrap_or(zeros);
        let sizes = || self.sizes.iter().filter(|size| !["off", "auto"].contains(size));
        let begun = Instant::now();
        let mut best: Option<(f64, &str)> = None;
        for _ in 0..DD_PASSES {
            for size in sizes() {
                remove(&self.output)?;
                let mut words: Vec<OsString> = ["dd", "status=none"].map(Into::into).into();
                words.push(format!("bs={size}").into());
                words.push(format!("if={}", input.display()).into());
                words.push(format!("of={}", self.output.display()).into());
                if input == zeros {
                    words.extend(["count=20000000", "iflag=count_bytes"].map(Into::into));
                }
                let words: Vec<&OsStr> = words.iter().map(OsString::as_os_str).collect();
                let started = Instant::now();
                self.run(&words)?;
                let seconds = started.elapsed().as_secs_f64();
                best = best.filter(|(least, _)| *least <= seconds).or(Some((seconds, size)));
            }
        }
        remove(&self.output)?;
        Ok(Pick {
            chooser: DD,
            size: best.map(|(_, size)| size.to_owned()),
            confirmed: true,
            runs: DD_PASSES * sizes().count(),
            seconds: begun.elapsed().as_secs_f64(),
            to_best: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [&str; 4] = ["off", "16K", "64K", "1M"];

    fn picked(size: Option<&str>) -> Pick {
        Pick {
            chooser: TUNE,
            size: size.map(str::to_owned),
            confirmed: true,
            runs: 1,
            seconds: 1.0,
            to_best: None,
        }
    }

    /// Of equal sizes the one that was lucky in some rounds is no better in the others.
    #[test]
    fn luck_is_no_lead() {
        let lucky = |parity: usize| {
            (0..40).map(|round| if round % 2 == parity { 0.8 } else { 1.0 }).collect()
        };
        let figures = [vec![1.0; 40], lucky(0), vec![1.0; 40], lucky(1)];
        let mut picks = vec![picked(Some("64K"))];
        judge(&mut picks, &SIZES, &figures).unwrap();
        assert!((picks[0].to_best.unwrap().ratio - 1.0).abs() < 1e-9, "{:?}", picks[0].to_best);
    }

    #[test]
    fn picks_are_held_against_the_best() {
        // The second size is the best, 10 % faster than all others.
        let figures = [1.0, 0.9, 1.0, 1.0].map(|seconds| vec![seconds; 10]);
        let mut picks = vec![picked(Some("16K")), picked(Some("1M")), picked(None)];
        judge(&mut picks, &SIZES, &figures).unwrap();
        assert_eq!(picks[3].size.as_deref(), Some("16K"), "the grid's best");
        assert_eq!(picks[3].runs, 40);
        let far: Vec<Option<f64>> =
            picks.iter().map(|pick| pick.to_best.map(|effect| effect.ratio)).collect();
        assert!((far[0].unwrap() - 1.0).abs() < 1e-9);
        assert!((far[1].unwrap() - 1.0 / 0.9).abs() < 1e-9);
        assert_eq!(far[2], None);
        assert_eq!(words(&picks[1])[4], "+11.1 % (+11.1 % to +11.1 %)");
        let said = markdown(&[Job { name: "x".to_owned(), picks }]);
        let tune = "- sweetspot tune: 1 of 3 picks within 5 % of the best, the farthest +11.1 % off; 1 \
                    runs and 1 s on average\n";
        assert!(said.contains(tune), "{said}");
        assert!(said.contains("| x | sweetspot tune | 16K | 1 | 1 | +0.0 %"), "{said}");
    }
}
