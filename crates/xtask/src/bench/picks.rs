//! `--picks`: which buffer size people end up with, and how far it is from the best.
//!
//! Each job is measured at every size in 40 random rounds: the grid. Before it, three choosers look
//! for a size in their own way: `sweetspot tune`, `hyperfine` with a list of sizes (least mean), and
//! a loop of dd over block sizes, three times each (least time). How far a pick lies from the grid's
//! best is a ratio from the grid's own rounds. The best is the least median of many, so it is a
//! little better than it truly is, for all choosers alike.

use super::{
    BENCHMARKS, data, execute,
    execute::Runner,
    failed,
    table::{Benchmark, Cell, Way},
};
use serde::Serialize;
use std::{
    ffi::{OsStr, OsString},
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};
use sweetspot_lab::{
    Error,
    paired::{Comparison, Effect},
    statistics,
};

/// Rounds of the grid, unless `--rounds` says otherwise.
pub const ROUNDS: usize = 40;
/// How often the loop of dd tries each size.
const DD_PASSES: usize = 3;
const MIB: u64 = 1 << 20;

/// No buffering, every size that `tune` looks at, and the automatic one, which is the candidate.
macro_rules! grid {
    ($command:expr) => {
        grid!(
            $command, "off", "4K", "8K", "16K", "32K", "64K", "128K", "256K", "512K", "1M", "2M",
            "4M", "8M", "16M", "auto"
        )
    };
    ($command:expr, $($size:literal),+) => {
        &[$(Cell { name: $size, way: Way::Sized($size), command: $command, bar: None }),+]
    };
}

/// The six jobs: those of the same name among all benchmarks, each with as much to do as makes a
/// grid affordable.
pub fn benchmarks() -> Vec<Benchmark> {
    let jobs: [(&str, u64, &'static [Cell]); 6] = [
        ("cobol-copy", 200_000, grid!(&["{programs}/record-copy", "{input}", "{output}"])),
        ("java-readline", 5_000, grid!(&["java", "-cp", "{programs}", "ReadLines", "{input}"])),
        ("dd-200", 200_000, grid!(&["dd", "bs=200", "status=none", "if={input}", "of={output}"])),
        (
            "fortran-flush",
            100_000,
            grid!(&["{programs}/flush-records", "{count}", "integer", "{output}"]),
        ),
        (
            "random-seek",
            256 * MIB,
            grid!(&["{programs}/random-access", "seek", "100000", "{input}"]),
        ),
        (
            "small-files-read",
            10_000,
            grid!(&["{programs}/small-files", "read", "{count}", "{input}"]),
        ),
    ];
    let of = |name| BENCHMARKS.iter().find(move |benchmark| benchmark.name == name);
    let scaled = |(name, count, cells)| {
        of(name).map(|base| Benchmark { count: [count, base.count[1]], cells, ..*base })
    };
    jobs.into_iter().filter_map(scaled).collect()
}

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

/// Lets every chooser pick.
pub fn pick(runner: &Runner<'_>, binary: &Path) -> Result<Vec<Pick>, Error> {
    let choosers = [tune, hyperfine, dd];
    choosers.into_iter().map(|chooser| chooser(runner, binary)).collect()
}

/// Holds the picks against the grid. Returns the name of its best.
pub fn judge(
    picks: &mut [Pick],
    benchmark: &Benchmark,
    comparison: &Comparison,
) -> Result<&'static str, Error> {
    let medians: Vec<f64> = (0..benchmark.cells.len())
        .map(|cell| statistics::median(&comparison.figures(cell)))
        .collect::<Result<_, _>>()?;
    let best = (0..medians.len()).min_by(|a, b| medians[*a].total_cmp(&medians[*b])).unwrap_or(0);
    for pick in picks {
        let size = pick.size.as_deref();
        let cell = benchmark.cells.iter().position(|cell| Some(cell.name) == size);
        pick.to_best = cell.map(|cell| comparison.effect(best, cell)).transpose()?;
    }
    Ok(benchmark.cells[best].name)
}

/// One line for each pick.
pub fn text(picks: &[Pick], best: &str) -> String {
    let line = |pick: &Pick| {
        let size = pick.size.as_deref().unwrap_or("no answer");
        let stands = if pick.confirmed { "" } else { ", not confirmed" };
        let far = pick.to_best.map_or_else(String::new, |effect| {
            let interval = effect.interval.map_or_else(String::new, |interval| {
                format!(" ({:.3} to {:.3})", interval.low, interval.high)
            });
            format!("{:.3} of the best's time{interval}", effect.ratio)
        });
        let Pick { chooser, runs, seconds, .. } = pick;
        format!("  {chooser:<16} {size:<10} {runs:>4} runs {seconds:>6.1} s  {far}{stands}\n")
    };
    picks.iter().map(line).collect::<String>() + &format!("  the grid's best  {best}\n")
}

/// The shell command that makes runs begin alike.
fn prepare(runner: &Runner<'_>) -> OsString {
    let mut command = OsString::from("rm -rf ");
    command.push(runner.output());
    command
}

fn candidate<'a>(runner: &Runner<'a>) -> &'a Cell {
    &runner.benchmark.cells[runner.benchmark.cells.len() - 1]
}

/// Runs a chooser's program and returns what it printed.
fn run(runner: &Runner<'_>, words: &[&OsStr]) -> Result<Vec<u8>, Error> {
    let name = Path::new(words[0]).file_name().unwrap_or(words[0]).to_string_lossy().into_owned();
    let output = Command::new(words[0])
        .args(&words[1..])
        .envs(execute::environment())
        .current_dir(&runner.work)
        .stdin(Stdio::null())
        .output()
        .map_err(Error::system("start", &name))?;
    // `tune` ends with 1 where it could not decide.
    match output.status.code() {
        Some(0 | 1) => Ok(output.stdout),
        _ => Err(failed(&name, String::from_utf8_lossy(&output.stderr).trim())),
    }
}

fn json(program: &str, text: &[u8]) -> Result<serde_json::Value, Error> {
    serde_json::from_slice(text).map_err(|error| failed(program, &error.to_string()))
}

fn tune(runner: &Runner<'_>, binary: &Path) -> Result<Pick, Error> {
    let (command, prepare) = (runner.command(candidate(runner)), prepare(runner));
    let store = runner.work.with_extension("sqlite");
    let begun = Instant::now();
    let mut words: Vec<&OsStr> = vec![binary.as_ref(), "tune".as_ref(), "--json".as_ref()];
    words.extend(["--keep-rules".as_ref(), "--prepare".as_ref(), &*prepare]);
    words.extend(["--store".as_ref(), store.as_os_str(), "--".as_ref()]);
    words.extend(command.iter().map(OsString::as_os_str));
    let report = json("sweetspot tune", &run(runner, &words)?)?;
    let confirmed = report["confirmed"].as_bool().unwrap_or(false);
    // What it would use; where it is undecided, its best guess.
    let size = report["buffer"].as_str().or(report["smallest"].as_str());
    Ok(Pick {
        chooser: "sweetspot tune",
        size: size.map(str::to_owned),
        confirmed,
        runs: report["runs"].as_u64().unwrap_or(0) as usize,
        seconds: begun.elapsed().as_secs_f64(),
        to_best: None,
    })
}

fn hyperfine(runner: &Runner<'_>, binary: &Path) -> Result<Pick, Error> {
    let export = runner.work.with_extension("hyperfine");
    let sizes: Vec<&str> = runner.benchmark.cells.iter().map(|cell| cell.name).collect();
    let (sizes, prepare) = (sizes.join(","), prepare(runner));
    let command: Vec<String> = runner
        .command(candidate(runner))
        .iter()
        .map(|word| format!("'{}'", word.to_string_lossy()))
        .collect();
    let command =
        format!("{} run --buffer-size {{size}} -- {}", binary.display(), command.join(" "));
    let begun = Instant::now();
    let mut words: Vec<&OsStr> =
        ["hyperfine", "-N", "--warmup", "1", "-L", "size"].map(OsStr::new).into();
    words.extend([OsStr::new(&sizes), "--prepare".as_ref(), &*prepare]);
    words.extend(["--export-json".as_ref(), export.as_os_str(), command.as_ref()]);
    run(runner, &words)?;
    let seconds = begun.elapsed().as_secs_f64();
    let text = fs::read(&export).map_err(Error::system("read", &export))?;
    let results = json("hyperfine", &text)?;
    let results = results["results"].as_array().cloned().unwrap_or_default();
    let mean = |result: &serde_json::Value| result["mean"].as_f64().unwrap_or(f64::MAX);
    let best = results.iter().min_by(|a, b| mean(a).total_cmp(&mean(b)));
    let runs = results.iter().map(|result| result["times"].as_array().map_or(0, Vec::len) + 1);
    Ok(Pick {
        chooser: "hyperfine",
        size: best.and_then(|best| best["parameters"]["size"].as_str()).map(str::to_owned),
        confirmed: true,
        runs: runs.sum(),
        seconds,
        to_best: None,
    })
}

/// What many do by hand: copy a file of that size with dd at every block size, and take the fastest.
fn dd(runner: &Runner<'_>, _: &Path) -> Result<Pick, Error> {
    let zeros = Path::new("/dev/zero");
    let input = runner.input.as_deref().filter(|input| input.is_file()).unwrap_or(zeros);
    let sizes = runner.benchmark.cells.iter().map(|cell| cell.name);
    let sizes: Vec<&str> = sizes.filter(|size| !["off", "auto"].contains(size)).collect();
    let begun = Instant::now();
    let mut best: Option<(f64, &str)> = None;
    for _ in 0..DD_PASSES {
        for size in &sizes {
            data::remove(&runner.output())?;
            let mut words: Vec<OsString> = ["dd", "status=none"].map(Into::into).into();
            words.extend([format!("bs={size}"), format!("if={}", input.display())].map(Into::into));
            words.push(format!("of={}", runner.output().display()).into());
            if input == zeros {
                words.extend(["count=20000000", "iflag=count_bytes"].map(Into::into));
            }
            let words: Vec<&OsStr> = words.iter().map(OsString::as_os_str).collect();
            let started = Instant::now();
            run(runner, &words)?;
            let seconds = started.elapsed().as_secs_f64();
            best = best.filter(|(least, _)| *least <= seconds).or(Some((seconds, size)));
        }
    }
    data::remove(&runner.output())?;
    Ok(Pick {
        chooser: "a loop of dd",
        size: best.map(|(_, size)| size.to_owned()),
        confirmed: true,
        runs: DD_PASSES * sizes.len(),
        seconds: begun.elapsed().as_secs_f64(),
        to_best: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweetspot_lab::paired::Round;

    #[test]
    fn there_are_six_jobs_at_all_sizes() {
        let all = benchmarks();
        assert_eq!(all.len(), 6);
        for benchmark in &all {
            assert_eq!(benchmark.cells.len(), 15, "{}", benchmark.name);
            assert_eq!(candidate_name(benchmark), "auto");
        }
    }

    fn candidate_name(benchmark: &Benchmark) -> &str {
        benchmark.cells[benchmark.cells.len() - 1].name
    }

    #[test]
    fn picks_are_held_against_the_best() {
        let all = benchmarks();
        // Of 15 cells the fourth (16K) is the best, 10 % faster than all others.
        let figures: Vec<f64> = (0..15).map(|cell| if cell == 3 { 0.9 } else { 1.0 }).collect();
        let round = Round { order: (0..15).collect(), figures };
        let comparison = Comparison {
            rounds: vec![round; 10],
            output: String::new(),
            confidence: 0.95,
            confidence_nominal: 0.95,
            margin: 0.02,
        };
        let picked = |size: Option<&str>| Pick {
            chooser: "x",
            size: size.map(str::to_owned),
            confirmed: true,
            runs: 1,
            seconds: 1.0,
            to_best: None,
        };
        let mut picks = [picked(Some("16K")), picked(Some("1M")), picked(None)];
        let best = judge(&mut picks, &all[0], &comparison).unwrap();
        assert_eq!(best, "16K");
        let far: Vec<Option<f64>> =
            picks.iter().map(|pick| pick.to_best.map(|effect| effect.ratio)).collect();
        assert!((far[0].unwrap() - 1.0).abs() < 1e-9);
        assert!((far[1].unwrap() - 1.0 / 0.9).abs() < 1e-9);
        assert_eq!(far[2], None);
    }
}
