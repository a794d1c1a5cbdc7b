//! Starting victims under `sweetspot run`, reading their memory, stopping, stepping and killing
//! them.
#![allow(unsafe_code)]

use super::kit::{Kit, own_words};
use super::model::{self, FILES, LANES, Lane, STEPS_FROM};
#[cfg(target_arch = "x86_64")]
use super::process::stop_at;
use super::process::{
    PATIENCE, adopt_orphans, is_stopped, pause, reap, signal, trace, wait_for, wait_until,
};
use super::registers::Registers;
use std::fs::{self, File};
use std::io::Seek;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use sweetspot_core::environment::LEDGER;
use sweetspot_core::ledger::{Header, Ledger};

/// Where the victim's counters are, and which: `struct page` in programs/c/kill_victim.c.
const PAGE: u64 = 0x2_0000_0000;
const READY: u64 = 0;
const STOP: u64 = 1;
const GO: u64 = 2;
const ENDED: u64 = 3;
const DONE: u64 = 4;
const PIDS: u64 = DONE + LANES as u64;

/// What one victim is to do.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    /// calls, threads, shared, forks, log, steps.
    pub mode: &'static str,
    pub size: &'static str,
    /// `run --wait`: a parent stays.
    pub waits: bool,
}

/// A victim and its guard.
pub struct Victim {
    plan: Plan,
    folder: PathBuf,
    /// What was started: the victim, or its waiting parent.
    pub started: i32,
    pub pid: i32,
    pub ledger: PathBuf,
    /// The guard's process, as far as it is known: it comes to us when it ends.
    guard: i32,
    /// Our own descriptor of what is the victim's descriptor 0, while its offset must be right.
    pub outside: Option<File>,
    lanes: [u64; LANES],
}

impl Victim {
    /// Starts a victim and waits until it is at work.
    ///
    /// # Errors
    /// It did not start.
    pub fn start(kit: &Kit, plan: Plan, folder: &Path) -> Result<Victim, String> {
        adopt_orphans();
        let errors = File::create(folder.join("stderr")).map_err(|error| error.to_string())?;
        let mut command = kit.command(&kit.sweetspot, folder);
        command.args(["run", "--buffer-size", plan.size]);
        if plan.mode == "steps" {
            // All take the same way: each has its instructions where the others have them, and
            // however long one is stepped, it sees no time pass.
            command.args(["--max-age", "60000"]);
            // SAFETY: a system call without pointers.
            unsafe { command.pre_exec(without_random_addresses) };
        }
        command.args(plan.waits.then_some("--wait")).arg("--").arg(kit.program("kill_victim"));
        command.args([plan.seed.to_string().as_str(), plan.mode]);
        let outside = (model::is_outside(plan.seed) && plan.mode != "log").then(|| {
            let path = folder.join("0-1");
            File::options().read(true).write(true).create(true).truncate(true).open(path)
        });
        let outside = outside.transpose().map_err(|error| error.to_string())?;
        if let Some(file) = &outside {
            command.stdin(file.try_clone().map_err(|error| error.to_string())?);
        }
        let child = command.stdout(Stdio::null()).stderr(errors).spawn();
        let started = child.map_err(|error| error.to_string())?.id() as i32;
        let mut victim = Victim {
            plan,
            folder: folder.to_owned(),
            started,
            pid: started,
            ledger: PathBuf::new(),
            guard: 0,
            outside,
            lanes: [0; LANES],
        };
        let ready = if plan.mode == "steps" { 2 } else { 1 };
        wait_until("the victim to begin", PATIENCE, || {
            if plan.waits {
                victim.pid = only_child(started).unwrap_or(started);
            }
            word(victim.pid, READY).is_some_and(|word| word >= ready)
        })?;
        let all = fs::read_to_string(format!("/proc/{}/environ", victim.pid)).unwrap_or_default();
        let value = all.split('\0').find_map(|text| text.strip_prefix(LEDGER)?.strip_prefix('='));
        victim.ledger = value.ok_or("it runs without a ledger")?.into();
        Ok(victim)
    }

    fn is_family(&self) -> bool {
        matches!(self.plan.mode, "forks" | "log")
    }

    fn has_one_file(&self) -> bool {
        matches!(self.plan.mode, "shared" | "log")
    }

    /// Every process of the victim, by lane; a family has one for each.
    fn processes(&self) -> Vec<i32> {
        let mut all = vec![self.pid];
        if self.is_family() {
            let children = (1..LANES as u64).filter_map(|lane| word(self.pid, PIDS + lane));
            all.extend(children.filter(|pid| *pid != 0).map(|pid| pid as i32));
        }
        all
    }

    /// Stops all its threads and processes.
    ///
    /// # Errors
    /// They do not stop.
    pub fn stop(&self) -> Result<(), String> {
        let processes = self.processes();
        processes.iter().for_each(|pid| signal(*pid, libc::SIGSTOP));
        wait_until("the victim to stop", PATIENCE, || processes.iter().all(|pid| is_stopped(*pid)))
    }

    /// Reads the counters of the calls that were accepted; it must not be running.
    ///
    /// # Errors
    /// It is dead already.
    pub fn count(&mut self) -> Result<(), String> {
        self.guard = self.guard_now().unwrap_or(0);
        let is_family = self.is_family();
        for (lane, done) in self.lanes.iter_mut().enumerate() {
            let pid = match (is_family, lane) {
                (true, 1..) => word(self.pid, PIDS + lane as u64).unwrap_or(0) as i32,
                _ => self.pid,
            };
            *done = word(pid, DONE + lane as u64)
                .ok_or_else(|| format!("process {pid} of lane {lane} had ended by itself"))?;
        }
        Ok(())
    }

    /// Kills all of it with SIGKILL and waits for the ends. Where a parent waits, only that is killed, and takes the
    /// victim along.
    ///
    /// # Errors
    /// It does not end.
    pub fn kill(&self) -> Result<(), String> {
        let mut processes = self.processes();
        if self.started != self.pid {
            signal(self.started, libc::SIGKILL);
            [self.started, self.pid].into_iter().try_for_each(reap)?;
            processes.retain(|pid| *pid != self.pid);
        }
        processes.iter().for_each(|pid| signal(*pid, libc::SIGKILL));
        processes.into_iter().try_for_each(reap)
    }

    /// Kills it without a warning: the counters are those at the very moment of its death.
    ///
    /// # Errors
    /// It cannot be traced, or had ended already.
    pub fn kill_at_once(&mut self, after: Duration) -> Result<Vec<Vec<u8>>, String> {
        trace(libc::PTRACE_SEIZE, self.pid, libc::PTRACE_O_TRACEEXIT)?;
        pause(after);
        signal(self.pid, libc::SIGKILL);
        // Its memory is still there, and the guard does not know of it yet.
        wait_for(self.pid)?;
        let counted = self.count();
        let before = self.contents();
        let _ = trace(libc::PTRACE_CONT, self.pid, 0);
        reap(self.pid)?;
        counted.map(|()| before)
    }

    /// Stops a held victim, which is then about to go on.
    ///
    /// # Errors
    /// It cannot be traced.
    pub fn hold(&self) -> Result<(), String> {
        trace(libc::PTRACE_SEIZE, self.pid, 0)?;
        trace(libc::PTRACE_INTERRUPT, self.pid, 0)?;
        wait_for(self.pid)?;
        let memory = fs::OpenOptions::new().write(true).open(format!("/proc/{}/mem", self.pid));
        let memory = memory.map_err(|error| error.to_string())?;
        memory.write_all_at(&1u64.to_ne_bytes(), PAGE + GO * 8).map_err(|error| error.to_string())
    }

    /// Lets a stopped victim execute `steps` instructions, and tells `look` the address of each.
    /// Returns how many it executed before it came to the end of its calls; it stays stopped and is to
    /// be killed.
    ///
    /// # Errors
    /// It cannot be traced, or died.
    pub fn step(&self, steps: u64, mut look: impl FnMut(u64)) -> Result<u64, String> {
        for step in 0..steps {
            if step % 64 == 0 && word(self.pid, ENDED) == Some(1) {
                return Ok(step);
            }
            look(Registers::of(self.pid)?.place());
            trace(libc::PTRACE_SINGLESTEP, self.pid, 0)?;
            if !libc::WIFSTOPPED(wait_for(self.pid)?) {
                return Err(format!("it died after {step} steps"));
            }
        }
        Ok(steps)
    }

    /// Lets a stopped victim go on until it is about to execute the instruction at `place` for the
    /// `times`th time, at full speed. Returns whether it came there, and not to the end of its calls.
    ///
    /// # Errors
    /// It cannot be traced, or died.
    #[cfg(target_arch = "x86_64")]
    pub fn run_to(&self, place: u64, times: u64) -> Result<bool, String> {
        stop_at(self.pid, Some((place, PAGE + ENDED * 8)))?;
        for _ in 0..times {
            trace(libc::PTRACE_CONT, self.pid, 0)?;
            if !libc::WIFSTOPPED(wait_for(self.pid)?) {
                return Err(format!("it died on its way to {place:#x}"));
            }
            if word(self.pid, ENDED) == Some(1) {
                return Ok(false);
            }
        }
        stop_at(self.pid, None)?;
        Ok(true)
    }

    /// The same step by step: debug registers of other processors stop before a store, not after it,
    /// and again at the instruction at which they have stopped.
    ///
    /// # Errors
    /// It cannot be traced, or died.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn run_to(&self, place: u64, times: u64) -> Result<bool, String> {
        let mut left = times;
        loop {
            left -= u64::from(Registers::of(self.pid)?.place() == place);
            if left == 0 {
                return Ok(true);
            }
            if self.step(1, |_| ())? == 0 {
                return Ok(false);
            }
        }
    }

    /// Asks it to end by itself, and waits until it has.
    ///
    /// # Errors
    /// It does not, or not well.
    pub fn end(&mut self) -> Result<(), String> {
        self.stop()?;
        for pid in self.processes() {
            let memory = fs::OpenOptions::new().write(true).open(format!("/proc/{pid}/mem"));
            memory
                .and_then(|memory| memory.write_all_at(&1u64.to_ne_bytes(), PAGE + STOP * 8))
                .map_err(|error| format!("process {pid}: {error}"))?;
        }
        // Each lane ends with the call in which it was stopped: its counter may still advance by
        // one, which is seen by what is there.
        self.count()?;
        let processes = self.processes();
        processes.iter().for_each(|pid| signal(*pid, libc::SIGCONT));
        reap(self.started)
    }

    /// The guard's process, waiting until there is one.
    ///
    /// # Errors
    /// There is none.
    pub fn guard(&self) -> Result<i32, String> {
        wait_until("the guard to begin", PATIENCE, || self.guard_now().is_some())?;
        self.guard_now().ok_or_else(|| "the guard has ended".to_owned())
    }

    /// The guard's process, if there is one by now.
    fn guard_now(&self) -> Option<i32> {
        let at = (offset_of!(Ledger, header) + offset_of!(Header, guard)) as u64;
        let mut word = [0; 4];
        File::open(&self.ledger).and_then(|file| file.read_exact_at(&mut word, at)).ok()?;
        Some(i32::from_ne_bytes(word) & 0x3fff_ffff).filter(|pid| *pid != 0)
    }

    /// Waits until the guard has finished and removed the ledger.
    ///
    /// # Errors
    /// It takes too long.
    pub fn wait_finished(&self) -> Result<(), String> {
        wait_until("the guard to finish", PATIENCE, || !self.ledger.exists())?;
        // Thousands of ended processes that nobody waited for slow the whole machine.
        if self.guard == 0 { Ok(()) } else { reap(self.guard) }
    }

    /// All its files.
    pub fn contents(&self) -> Vec<Vec<u8>> {
        let read = |name: String| fs::read(self.folder.join(name)).unwrap_or_default();
        if self.has_one_file() {
            return vec![read("shared".to_owned())];
        }
        let lanes = (0..LANES).flat_map(|lane| (0..FILES).map(move |file| (lane, file)));
        lanes.map(|(lane, file)| read(format!("{lane}-{file}"))).collect()
    }

    /// Compares what is there with what was accepted.
    ///
    /// # Errors
    /// What was lost, doubled or torn.
    pub fn check(&self) -> Result<(), String> {
        self.check_by(Lane::check)
    }

    /// As [`Victim::check`] after [`Victim::end`]: whole calls only.
    ///
    /// # Errors
    /// What was lost, doubled or torn.
    pub fn check_ended(&self) -> Result<(), String> {
        self.check_by(Lane::check_whole)
    }

    fn check_by(
        &self,
        check: impl Fn(Lane, u64, &[Vec<u8>; FILES]) -> Result<(), String>,
    ) -> Result<(), String> {
        let said = own_words(&self.folder.join("stderr"));
        if !said.is_empty() {
            return Err(format!("on stderr: {said}"));
        }
        let contents = self.contents();
        if self.has_one_file() {
            return model::check_shared(self.plan.seed, &self.lanes, &contents[0]);
        }
        for (lane, files) in contents.chunks(FILES).enumerate() {
            let files: &[Vec<u8>; FILES] = files.try_into().expect("as many as a lane has");
            let done = self.lanes[lane];
            if done == 0 && lane > 0 && !matches!(self.plan.mode, "threads" | "forks") {
                continue;
            }
            let all_kinds = if self.plan.mode == "steps" { STEPS_FROM } else { u64::MAX };
            let after = || Lane::after(self.plan.seed, lane, done, all_kinds);
            check(after(), done, files)?;
            if let (0, Some(mut file)) = (lane, self.outside.as_ref()) {
                let offset = file.stream_position().map_err(|error| error.to_string())?;
                after().check_offset(done, offset as usize)?;
            }
        }
        Ok(())
    }

    /// Calls that were accepted.
    pub fn accepted(&self) -> u64 {
        self.lanes.iter().sum()
    }
}

fn without_random_addresses() -> std::io::Result<()> {
    // SAFETY: no pointers.
    match unsafe { libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) } {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn only_child(pid: i32) -> Option<i32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

/// A word of the victim's page.
fn word(pid: i32, index: u64) -> Option<u64> {
    let mut word = [0; 8];
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    memory.read_exact_at(&mut word, PAGE + index * 8).ok()?;
    Some(u64::from_ne_bytes(word))
}
