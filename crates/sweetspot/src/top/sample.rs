//! Counts of calls and bytes of all processes that may be looked at, from one look to the next.
//!
//! The kernel adds the counts of a process that has ended to those of the parent that waited for it.
//! So a shell that starts a thousand short programs shows their calls, which is right; but what was
//! already counted for a child that was seen must be taken off again.
//!
//! Cheap on purpose: three system calls for a process and look, and none for one that has ended and
//! is not waited for.

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs;
use std::time::Instant;

/// What `/proc/PID/io` and the first fields of `/proc/PID/stat` take at most.
const TEXT_BYTES_MAX: usize = 1024;

/// Calls that read or write, and the bytes that they moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub calls: u64,
    pub bytes: u64,
}

impl Counts {
    fn less(self, other: Counts) -> Counts {
        Counts {
            calls: self.calls.saturating_sub(other.calls),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

#[derive(Clone, Copy)]
struct Known {
    counts: Counts,
    parent: u32,
    /// It had ended when it was first seen.
    is_dead: bool,
    look: u64,
}

/// What one process did between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    pub pid: u32,
    pub counts: Counts,
}

/// All that was seen between two looks.
#[derive(Debug, Default)]
pub struct Sample {
    pub seconds: f64,
    pub active: Vec<Activity>,
    /// Processes of others, that may not be looked at.
    pub hidden: usize,
}

/// Looks again and again.
pub struct Sampler {
    known: HashMap<u32, Known>,
    looked: Instant,
    looks: u64,
    us: u32,
}

impl Sampler {
    /// Looks for the first time.
    pub fn new() -> Sampler {
        let us = std::process::id();
        let mut sampler = Sampler { known: HashMap::new(), looked: Instant::now(), looks: 0, us };
        sampler.look();
        sampler
    }

    /// What every process did since the last look.
    pub fn look(&mut self) -> Sample {
        let now = Instant::now();
        let mut sample =
            Sample { seconds: now.duration_since(self.looked).as_secs_f64(), ..Sample::default() };
        self.looked = now;
        self.looks += 1;
        let mut read = HashMap::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            if pid == self.us {
                continue;
            }
            match self.known.get(&pid) {
                Some(known) if known.is_dead => drop(read.insert(pid, known.counts)),
                _ => match counts(pid) {
                    Ok(counts) => drop(read.insert(pid, counts)),
                    Err(Errno::ACCESS | Errno::PERM) => sample.hidden += 1,
                    // It has just gone.
                    Err(_) => {}
                },
            }
        }
        let ended = self.counted_of_the_ended(&read);
        for (pid, now) in read {
            let (known, before) = match self.known.get(&pid) {
                // A number that came back belongs to another process.
                Some(known) if known.counts.calls <= now.calls => (*known, known.counts),
                _ => {
                    let (state, parent) = state_and_parent(pid);
                    let is_dead = state == 'Z';
                    (Known { counts: now, parent, is_dead, look: 0 }, Counts::default())
                }
            };
            self.known.insert(pid, Known { counts: now, look: self.looks, ..known });
            let counts = now.less(before).less(ended.get(&pid).copied().unwrap_or_default());
            if counts.calls > 0 && self.looks > 1 {
                sample.active.push(Activity { pid, counts });
            }
        }
        let looks = self.looks;
        self.known.retain(|_, known| known.look == looks);
        sample
    }

    /// What was already counted for processes that have ended, by parent.
    fn counted_of_the_ended(&self, alive: &HashMap<u32, Counts>) -> HashMap<u32, Counts> {
        let mut counted: HashMap<u32, Counts> = HashMap::new();
        for (_, known) in self.known.iter().filter(|(pid, _)| !alive.contains_key(pid)) {
            let parents = counted.entry(known.parent).or_default();
            parents.calls += known.counts.calls;
            parents.bytes += known.counts.bytes;
        }
        counted
    }
}

fn counts(pid: u32) -> rustix::io::Result<Counts> {
    let mut text = [0; TEXT_BYTES_MAX];
    let text = read_small(&format!("/proc/{pid}/io"), &mut text)?;
    Ok(counts_in(text))
}

fn counts_in(text: &[u8]) -> Counts {
    let mut counts = Counts::default();
    for line in text.split(|&byte| byte == b'\n') {
        let Some((name, value)) = std::str::from_utf8(line).ok().and_then(|l| l.split_once(": "))
        else {
            continue;
        };
        let value = value.parse().unwrap_or(0);
        match name {
            "rchar" | "wchar" => counts.bytes += value,
            "syscr" | "syscw" => counts.calls += value,
            _ => {}
        }
    }
    counts
}

/// The letter of its state and its parent; `Z` and 0 where it has just gone.
fn state_and_parent(pid: u32) -> (char, u32) {
    let mut text = [0; TEXT_BYTES_MAX];
    let text = read_small(&format!("/proc/{pid}/stat"), &mut text).unwrap_or_default();
    // The name, in parentheses, may hold anything; the state and the parent follow it.
    let text = String::from_utf8_lossy(text);
    let mut after = text.rsplit_once(')').map_or("", |(_, after)| after).split_whitespace();
    let state = after.next().and_then(|state| state.chars().next()).unwrap_or('Z');
    (state, after.next().and_then(|parent| parent.parse().ok()).unwrap_or(0))
}

/// Reads a small file of the kernel with one read.
fn read_small<'a>(path: &str, text: &'a mut [u8]) -> rustix::io::Result<&'a [u8]> {
    let file = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let len = rustix::io::read(&file, &mut *text)?;
    Ok(&text[..len])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn counts_are_read() {
        let text = b"rchar: 10\nwchar: 20\nsyscr: 3\nsyscw: 4\nread_bytes: 5\n";
        assert_eq!(counts_in(text), Counts { calls: 7, bytes: 30 });
        assert_eq!(counts_in(b""), Counts::default());
    }

    /// A child that was seen is not counted a second time when its parent has waited for it.
    #[test]
    fn children_are_counted_once() {
        let mut sampler = Sampler::new();
        let script = "dd if=/dev/zero of=/dev/null bs=1 count=50000 2>/dev/null; echo; read line; \
                      dd if=/dev/zero of=/dev/null bs=1 count=70000 2>/dev/null; echo; read line";
        let mut shell = Command::new("sh")
            .args(["-c", &format!("sh -c '{script}; exit'; echo; read line")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = shell.stdin.take().unwrap();
        let mut output = shell.stdout.take().unwrap();
        let calls = |sampler: &mut Sampler| -> u64 {
            let mut below = vec![shell.id()];
            let sample = sampler.look();
            let pids: Vec<u32> = sampler.known.keys().copied().collect();
            below.extend(pids.iter().filter(|pid| state_and_parent(**pid).1 == shell.id()));
            let ours = sample.active.iter().filter(|activity| below.contains(&activity.pid));
            ours.map(|activity| activity.counts.calls).sum()
        };
        use std::io::{Read, Write};
        output.read_exact(&mut [0]).unwrap();
        let mut all = calls(&mut sampler);
        writeln!(input).unwrap();
        output.read_exact(&mut [0]).unwrap();
        all += calls(&mut sampler);
        writeln!(input).unwrap();
        output.read_exact(&mut [0]).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(100));
        all += calls(&mut sampler);
        assert!((240_000..245_000).contains(&all), "{all}");
        writeln!(input).unwrap();
        shell.wait().unwrap();
    }
}
