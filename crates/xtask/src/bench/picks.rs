//! `--picks`: which buffer size people end up with, and how far it is from the best.
//!
//! Each job is measured at every size in 40 random rounds: the grid. Before it, four choosers look
//! for a size in their own way: `sweetspot tune`, the same from one recorded run (`tune --from`),
//! `hyperfine` with a list of sizes (least mean), and a loop of dd over block sizes, three times each (least time). How far a pick lies from the grid's
//! best is a ratio from the grid's own rounds. The best of many sizes owes a part of its lead to
//! luck: so it is found on one half of the rounds and compared on the other, and the other way
//! round.

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
/// How far from the best a pick may be to be as good: its time over that of the best.
const NEAR: f64 = 1.05;
const MIB: u64 = 1 << 20;

const TUNE: &str = "sweetspot tune";
const FROM: &str = "from one run";
const HYPERFINE: &str = "hyperfine";
const DD: &str = "a loop of dd";
const GRID: &str = "the grid";

/// No buffering, every size that `tune` looks at, and the automatic one, which is the candidate.
macro_rules! grid {
    ($command:expr) => {
        grid!(
            $command, "off", "4K", "8K", "16K", "32K", "64K", "128K", "256K", "512K", "1M", "2M",
            "4M", "8M", "16M", "auto"
        )
    };
    ($command:expr, $($size:literal),+) => {
        &[$(Cell { name: $size, way: Way::With(&["--buffer-size", $size]), command: $command, bar: None }),+]
    };
}

/// The six jobs: those of the same name among all benchmarks, each with as much to do as makes a
/// grid affordable.
pub fn benchmarks() -> Vec<Benchmark> {
    const RANDOM: &str =
        "100,000 times lseek and read of 4 KiB at random places of a file of {count} bytes";
    const SMALL: &str = "open, read and close {count} files of 1,000 bytes";
    // The words of those that have other arguments than their namesakes.
    let jobs: [(&str, Option<&'static str>, u64, &'static [Cell]); 6] = [
        ("cobol-copy", None, 200_000, grid!(&["{programs}/record-copy", "{input}", "{output}"])),
        (
            "java-readline",
            None,
            5_000,
            grid!(&["java", "-cp", "{programs}", "ReadLines", "{input}"]),
        ),
        (
            "dd-200",
            None,
            200_000,
            grid!(&["dd", "bs=200", "status=none", "if={input}", "of={output}"]),
        ),
        (
            "fortran-flush",
            None,
            100_000,
            grid!(&["{programs}/flush-records", "{count}", "integer", "{output}"]),
        ),
        (
            "random-seek",
            Some(RANDOM),
            256 * MIB,
            grid!(&["{programs}/random-access", "seek", "100000", "{input}"]),
        ),
        (
            "small-files-read",
            Some(SMALL),
            10_000,
            grid!(&["{programs}/small-files", "read", "{count}", "{input}"]),
        ),
    ];
    let of = |name| BENCHMARKS.iter().find(move |benchmark| benchmark.name == name);
    let scaled = |(name, what, count, cells)| {
        of(name).map(|base| Benchmark {
            what: Option::unwrap_or(what, base.what),
            count: [count, base.count[1]],
            cells,
            ..*base
        })
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
    let choosers = [tune, from_one_run, hyperfine, dd];
    choosers.into_iter().map(|chooser| chooser(runner, binary)).collect()
}

/// Holds the picks against the grid, and adds the grid's own: its best.
pub fn judge(
    picks: &mut Vec<Pick>,
    benchmark: &Benchmark,
    comparison: &Comparison,
    grid_seconds: f64,
) -> Result<(), Error> {
    let figures: Vec<Vec<f64>> =
        (0..benchmark.cells.len()).map(|cell| comparison.figures(cell)).collect();
    let best = least(&figures, |_| true)?;
    let best_of_odd = least(&figures, |round| round % 2 == 1)?;
    let best_of_even = least(&figures, |round| round % 2 == 0)?;
    let best_by_round: Vec<f64> = (0..comparison.rounds.len())
        .map(|round| figures[if round % 2 == 0 { best_of_odd } else { best_of_even }][round])
        .collect();
    for pick in picks.iter_mut() {
        let size = pick.size.as_deref();
        let cell = benchmark.cells.iter().position(|cell| Some(cell.name) == size);
        let effect = |cell: usize| comparison.effect_to(&best_by_round, cell);
        pick.to_best = cell.map(effect).transpose()?;
    }
    picks.push(Pick {
        chooser: GRID,
        size: Some(benchmark.cells[best].name.to_owned()),
        confirmed: true,
        runs: benchmark.cells.len() * comparison.rounds.len(),
        seconds: grid_seconds,
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
pub fn words(pick: &Pick) -> [String; 5] {
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
pub fn text(picks: &[Pick]) -> String {
    let line = |pick: &Pick| {
        let [chooser, size, runs, seconds, far] = words(pick);
        format!("  {chooser:<15} {size:<16} {runs:>4} runs {seconds:>5} s   {far}\n")
    };
    picks.iter().map(line).collect()
}

/// What each chooser came to over all jobs, a line for each. Whether a pick is within 5 % of the best
/// is asked of the estimate, not of its interval.
pub fn summary<'a>(jobs: impl Iterator<Item = &'a [Pick]> + Clone) -> String {
    let of = |chooser: &'static str| -> Vec<&Pick> {
        jobs.clone().flatten().filter(|pick| pick.chooser == chooser).collect()
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
pub fn run(runner: &Runner<'_>, words: &[&OsStr]) -> Result<Vec<u8>, Error> {
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
    tuned(runner, binary, TUNE, &[], 0, Instant::now())
}

/// From a recorded run, which is one of the runs that it took.
fn from_one_run(runner: &Runner<'_>, binary: &Path) -> Result<Pick, Error> {
    let recording = runner.work.with_extension("recording");
    data::remove(&runner.output())?;
    let begun = Instant::now();
    let command = runner.command(candidate(runner));
    let mut words: Vec<&OsStr> = vec![binary.as_ref(), "profile".as_ref(), "--output".as_ref()];
    words.extend(["/dev/null".as_ref(), "--record".as_ref(), recording.as_os_str(), "--".as_ref()]);
    words.extend(command.iter().map(OsString::as_os_str));
    run(runner, &words)?;
    let from: [&OsStr; 2] = ["--from".as_ref(), recording.as_os_str()];
    let pick = tuned(runner, binary, FROM, &from, 1, begun)?;
    data::remove(&recording)?;
    Ok(pick)
}

/// What `tune` picks with these options, after so many runs before it.
fn tuned(
    runner: &Runner<'_>,
    binary: &Path,
    chooser: &'static str,
    options: &[&OsStr],
    runs_before: usize,
    begun: Instant,
) -> Result<Pick, Error> {
    let (command, prepare) = (runner.command(candidate(runner)), prepare(runner));
    let store = runner.work.with_extension("sqlite");
    let mut words: Vec<&OsStr> = vec![binary.as_ref(), "tune".as_ref(), "--json".as_ref()];
    words.extend(options);
    words.extend(["--keep-rules".as_ref(), "--prepare".as_ref(), &*prepare]);
    words.extend(["--store".as_ref(), store.as_os_str(), "--".as_ref()]);
    words.extend(command.iter().map(OsString::as_os_str));
    let report = json("sweetspot tune", &run(runner, &words)?)?;
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
        chooser: HYPERFINE,
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
        chooser: DD,
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

    fn comparison(rounds: Vec<Round>) -> Comparison {
        Comparison {
            rounds,
            output: String::new(),
            confidence: 0.95,
            confidence_nominal: 0.95,
            margin: 0.02,
        }
    }

    /// Of equal cells the one that was lucky in some rounds is no better in the others.
    #[test]
    fn luck_is_no_lead() {
        let figures = |round: usize| {
            (0..15).map(move |cell| match (cell, round % 2) {
                (2, 0) | (7, 1) => 0.8,
                _ => 1.0,
            })
        };
        let rounds = (0..40)
            .map(|round| Round { order: (0..15).collect(), figures: figures(round).collect() })
            .collect();
        let mut picks = vec![picked(Some("64K"))];
        judge(&mut picks, &benchmarks()[0], &comparison(rounds), 7.0).unwrap();
        assert!((picks[0].to_best.unwrap().ratio - 1.0).abs() < 1e-9, "{:?}", picks[0].to_best);
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
        let comparison = comparison(vec![round; 10]);
        let mut picks = vec![picked(Some("16K")), picked(Some("1M")), picked(None)];
        judge(&mut picks, &all[0], &comparison, 7.0).unwrap();
        assert_eq!(picks[3].size.as_deref(), Some("16K"), "the grid's best");
        assert_eq!(picks[3].runs, 150);
        let far: Vec<Option<f64>> =
            picks.iter().map(|pick| pick.to_best.map(|effect| effect.ratio)).collect();
        assert!((far[0].unwrap() - 1.0).abs() < 1e-9);
        assert!((far[1].unwrap() - 1.0 / 0.9).abs() < 1e-9);
        assert_eq!(far[2], None);
        let said = summary([&picks[..]].into_iter());
        let first = said.lines().next().unwrap();
        assert_eq!(
            first,
            "sweetspot tune: 1 of 3 picks within 5 % of the best, the farthest +11.1 % off; 1 runs and \
             1 s on average"
        );
        assert_eq!(words(&picks[1])[4], "+11.1 % (+11.1 % to +11.1 %)");
    }
}
