//! One start of the command: its state before, its environment, its outputs afterwards.

use crate::experiment::{NOT_PASSED_ON, lab, tail};
use crate::own;
use crate::preload;
use crate::tune::files::Outputs;
use crate::tune::trial::{BRING_BACK, RUN_LIMIT, Trial, Way, standard_input};
use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use sweetspot_core::environment as names;
use sweetspot_core::size::BufferSize;
use sweetspot_lab::cache;
use sweetspot_lab::measure::{self, Job, Measurement};
use sweetspot_report::failure::Failure;
use sweetspot_report::numbers::{self};
use sweetspot_report::shown::shown;

impl Trial<'_> {
    /// One run, from preparation to a good end.
    pub(super) fn start(&mut self, way: &Way) -> Result<Measurement, Failure> {
        self.prepare()?;
        self.bring_into_cache()?;
        let mut job = self.job(way)?;
        if let Some(apart) = &mut self.apart {
            job.command = apart.words(&job.command)?;
        }
        let mut measurement = measure::run(&job).map_err(lab)?;
        if let Some(apart) = &mut self.apart {
            apart.end(&mut measurement)?;
        }
        self.runs += 1;
        if !measurement.status.success() {
            let said = tail(&self.stderr());
            let first = if self.runs == 1 { "" } else { ", which it did not the first time" };
            let next = match self.runs {
                1 => "make it succeed first; a program that ends so on purpose: sh -c 'CMD; true'",
                _ => {
                    "if it uses up or changes its input, restore that before each run: \
                     --prepare 'cp saved.dat input.dat'"
                }
            };
            return Err(Failure::own(format!(
                "'{}' failed with {}{first}{said}",
                self.name(),
                measurement.status
            ))
            .next(next));
        }
        if self.arguments.prepare.is_none()
            && let Some(path) = self.files.changed_input()
        {
            return Err(Failure::own(format!(
                "{}, which '{}' reads, has changed: by the program itself or by someone else, so \
                 its runs cannot be compared",
                shown(path),
                self.name()
            ))
            .next(BRING_BACK));
        }
        // What was written leaves the next run alone; in a sandbox it is thrown away.
        for path in self.files.written.iter().filter(|_| self.apart.is_none()) {
            if let Ok(file) = File::open(path) {
                let _ = file.sync_all(); // a file system that cannot is no reason to stop
            }
        }
        Ok(measurement)
    }

    /// In a process group of its own, as the command itself: a Ctrl-C finishes it.
    pub(super) fn prepare(&self) -> Result<(), Failure> {
        let Some(command) = &self.arguments.prepare else { return Ok(()) };
        let mut job = Job::new(["/bin/sh".as_ref(), "-c".as_ref(), command.as_os_str()]);
        let said = self.scratch.path().join("prepare");
        (job.stderr, job.limit) = (Some(said.clone()), RUN_LIMIT);
        let shown = shown(command);
        let status = measure::run(&job)
            .map_err(|error| Failure::own(format!("--prepare '{shown}': {error}")))?
            .status;
        if status.success() {
            return Ok(());
        }
        Err(Failure::own(format!("--prepare '{shown}' failed with {status}{}", tail(&said)))
            .next("try it by hand: it runs in this folder, by /bin/sh"))
    }

    fn bring_into_cache(&mut self) -> Result<(), Failure> {
        let state = if self.arguments.cold { cache::State::Cold } else { cache::State::Warm };
        if self.is_cache_as_it_is {
            return Ok(());
        }
        match cache::bring(state, &self.files.inputs()) {
            Err(error) if !self.arguments.cold && !self.arguments.warm => {
                self.is_cache_as_it_is = true;
                self.notes.push(format!("the cache is left as each run leaves it: {error}"));
                Ok(())
            }
            Err(error) if self.arguments.cold => {
                Err(lab(error).next("without --cold it can be tuned with a warm cache"))
            }
            other => other.map_err(lab),
        }
    }

    fn job(&self, way: &Way) -> Result<Job, Failure> {
        let command = self.arguments.command.iter().cloned();
        let with_run = |options: [OsString; 2]| -> Vec<OsString> {
            // One that is still to be made says nothing yet.
            let config = self.arguments.config.iter().filter(|path| path.exists());
            let config = config.flat_map(|path| ["--config".into(), path.clone().into_os_string()]);
            let mut words = vec![own::FILE.into(), "run".into()];
            words.extend(options);
            if !matches!(way, Way::Rules(_)) {
                words.extend(config);
            }
            words.push("--".into());
            words
        };
        let mut job = match way {
            Way::Setting(BufferSize::Off) | Way::Learning(_) | Way::Recording(_) => {
                Job::new(command)
            }
            Way::Setting(size) => {
                let options = ["--buffer-size".into(), numbers::size(*size).into()];
                Job::new(with_run(options).into_iter().chain(command))
            }
            Way::Rules(rules) => {
                let options = ["--config".into(), rules.as_os_str().to_owned()];
                Job::new(with_run(options).into_iter().chain(command))
            }
        };
        if let Way::Recording(path) = way {
            let words = [own::FILE, "profile", "--output", "/dev/null", "--record"];
            let mut words: Vec<OsString> = words.map(OsString::from).into();
            words.extend([path.as_os_str().to_owned(), "--".into()]);
            job.command.splice(0..0, words);
        }
        job.without = NOT_PASSED_ON.map(OsString::from).into();
        if let Way::Learning(ledger) = way {
            let library = preload::install()?;
            let seen = match &self.apart {
                None => ledger.path().to_owned(),
                Some(apart) => apart.inside(ledger.path()),
            };
            let others = std::env::var_os(names::PRELOAD);
            let all = preload::chain(library.as_os_str(), others.as_deref());
            job.without.clear();
            job.environment = vec![
                (names::PRELOAD.into(), all),
                (names::BUFFER.into(), "auto".into()),
                (names::LEDGER.into(), seen.into_os_string()),
                (names::SUMMARY.into(), "1".into()),
                (names::SWITCH.into(), "on".into()),
            ];
        }
        job.stdin = standard_input();
        job.stdout = Some(self.stdout());
        job.stderr = Some(self.stderr());
        job.limit = RUN_LIMIT;
        Ok(job)
    }

    pub(super) fn outputs(&self) -> Result<Outputs, Failure> {
        let stdout = self.stdout();
        let is_checked = |path: &&PathBuf| !self.varying.contains(*path);
        let Some(apart) = &self.apart else {
            let all = self.files.written.iter().chain([&stdout]);
            return Outputs::of(all.filter(is_checked));
        };
        let mut outputs = Outputs::of([&stdout].into_iter().filter(is_checked))?;
        for path in self.files.written.iter().filter(is_checked) {
            outputs.0.insert(path.clone(), apart.last.0.get(path).cloned().flatten());
        }
        Ok(outputs)
    }

    /// Compares what came out with what came out first. Where it differs the command runs once more
    /// as it is, which tells whose doing that is.
    pub(super) fn check_outputs(&mut self, how: &str) -> Result<(), Failure> {
        let found = self.outputs()?;
        let differing: Vec<PathBuf> = found.differing(&self.expected).cloned().collect();
        if differing.is_empty() {
            return Ok(());
        }
        self.start(&Way::Setting(BufferSize::Off))?;
        let again = self.outputs()?;
        let own: Vec<&PathBuf> = again.differing(&self.expected).collect();
        for path in differing {
            let shown = self.shown(&path);
            if !own.contains(&&path) {
                return Err(Failure::own(format!(
                    "{shown} comes out differently {how}: this must not happen, and nothing was \
                     written to sweetspot.toml"
                ))
                .next(
                    "check that nothing else writes to it, such as another tune. If nothing does, run \
                     it with SWEETSPOT=off and report this. Either sweetspot has a bug, or the program \
                     inspects its own calls.",
                ));
            }
            let goes_on = self.arguments.prepare.is_none() && self.apart.is_none();
            if goes_on && self.files.is_read_too(&path) {
                return Err(Failure::own(format!(
                    "'{}' reads {shown} and changes it, so that each run begins with something else",
                    self.name()
                ))
                .next(BRING_BACK));
            }
            self.notes.push(match again.growth(&self.expected, &path) {
                Some(bytes) => format!(
                    "{shown} comes out differently from run to run, also without sweetspot ({bytes} \
                     bytes more than at first), so it was not checked"
                ),
                None => format!(
                    "{shown} comes out differently from run to run, also without sweetspot, so it \
                     was not checked"
                ),
            });
            self.varying.insert(path);
        }
        Ok(())
    }
}
