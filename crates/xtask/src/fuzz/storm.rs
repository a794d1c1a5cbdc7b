//! Sixteen threads on shared descriptors, with timers whose handlers write (`programs/c/storm.c`):
//! no deadlock, no lost and no doubled byte. The victim checks each of its rounds itself; what it
//! found in its files at its end is compared with what is there afterwards.

use super::kit::Kit;
use super::process::bounded;
use crate::saved::saved;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Sizes among which the time is shared out.
const SIZES: &[&str] = &["auto", "512", "64K", "1M"];
const FILES: &[&str] = &["storm-0", "storm-1", "storm-2"];
/// How much longer than it was told a victim may take before it is taken to hang.
const LATE_MAX: Duration = Duration::from_secs(30);

/// Lets storms rage for `seconds` together. Returns the closing line.
///
/// # Errors
/// The first that hung, lost or doubled something; or that nothing was ever buffered.
pub fn run(kit: Kit, seconds: u64, seed: u64) -> Result<String, String> {
    kit.compile("storm")?;
    let each = Duration::from_secs(seconds.max(1)) / SIZES.len() as u32;
    let (mut records, mut signals, mut saved) = (0, 0, 0);
    for (index, size) in SIZES.iter().enumerate() {
        let work = kit.work()?;
        let own = seed + index as u64;
        match storm(&kit, work.path(), size, each, own) {
            Ok(storm) => {
                records += storm.records;
                signals += storm.signals;
                saved += storm.saved;
            }
            Err(wrong) => {
                let kept = work.keep();
                kit.keep();
                return Err(format!(
                    "size {size}, seed {own}: {wrong}\n  files in {}",
                    kept.display()
                ));
            }
        }
    }
    if saved == 0 {
        return Err(format!("nothing was ever buffered in {records} records"));
    }
    Ok(format!(
        "{records} records in {seconds} s, {saved} of them buffered, {signals} signals, \
         0 lost, 0 doubled, 0 deadlocks"
    ))
}

#[derive(Default)]
struct Storm {
    records: u64,
    signals: u64,
    /// Calls that the kernel did not see.
    saved: u64,
}

fn storm(kit: &Kit, folder: &Path, size: &str, life: Duration, seed: u64) -> Result<Storm, String> {
    let mut command = kit.command(&kit.sweetspot, folder);
    command.args(["run", "--summary=summary", "--buffer-size", size, "--"]);
    command.arg(kit.program("storm")).args([life.as_secs_f64().to_string(), seed.to_string()]);
    let [out, errors] = ["said", "errors"].map(|name| folder.join(name));
    let ended = bounded(&mut command, [out.clone(), errors.clone()], life + LATE_MAX)?;
    let status = ended.ok_or("it did not end: a deadlock?")?;
    let read = |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let [said, errors] = [read(&out)?, read(&errors)?];
    let [said, errors] = [said, errors].map(|text| String::from_utf8_lossy(&text).into_owned());
    if !status.success() || !errors.is_empty() {
        return Err(format!("{status}: {said}{errors}"));
    }
    let last = said.lines().last().unwrap_or_default();
    let number = |name: &str| {
        let mut words = last.split_whitespace().skip_while(|word| *word != name);
        words.nth(1).and_then(|word| word.parse().ok())
    };
    let (Some(records), Some(signals), Some(0)) =
        (number("records"), number("signals"), number("wrong"))
    else {
        return Err(said);
    };
    for name in FILES {
        let bytes = fs::read(folder.join(name)).map_err(|error| format!("{name}: {error}"))?;
        let there = format!("{name}: {} bytes, ", bytes.len());
        if bytes.is_empty() || !said.contains(&there) {
            return Err(format!("{there}but the program saw\n{said}"));
        }
    }
    let summary = fs::read_to_string(folder.join("summary")).map_err(|error| error.to_string())?;
    Ok(Storm { records, signals, saved: saved(&summary) })
}
