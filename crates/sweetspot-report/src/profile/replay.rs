//! What another buffer would have done with a recorded run: the same shadows, told the same, at any
//! size (`recording`, `sweetspot_core::shadow`).
//!
//! What the kernel was asked once (how large is the file, may it be written?) it would have answered
//! the same at another size. Where another size would have asked what was never asked, the file is as
//! large as it was seen to be, and may be written.

use super::data::Prediction;
use super::model;
use super::recording::Recording;
use super::sampled::buffered;
use std::collections::{HashMap, HashSet};
use std::mem;
use sweetspot_core::cost::Cost;
use sweetspot_core::ledger::BUFFER_AUTO;
use sweetspot_core::shadow::{self, Shadow, Transfer, Use, Wish, World, Would};
use sweetspot_core::size::BufferSize;
use sweetspot_core::threshold::{Ended, Thresholds};
use sweetspot_core::trace::{
    ACQUIRED, BY_STDIO, FROM_OUTSIDE, HANDED, Line, POSITIONED, RELEASED, RESUMED, Told,
};
use sweetspot_core::why::Why;

/// What buffering would have done with a file, by [`Would`].
type Counts = [u64; Would::COUNT];

/// What the kernel said of a stream's file.
#[derive(Clone, Copy, Default)]
struct Answers {
    /// Its size, when a window opened.
    size: Option<u64>,
    told: shadow::Told,
    /// How its writes could wait, and the size of the file then, or that they could not, and why.
    handle: Option<(Told, u64)>,
    is_refused: bool,
    /// Where the farthest transfer ended.
    end: u64,
}

/// An open file description on its way through the calls.
struct Stream {
    record: usize,
    process: u32,
    shadow: Shadow,
}

/// All that are open.
#[derive(Default)]
struct Streams {
    all: HashMap<u32, Stream>,
    /// How many a process has of a record.
    open: HashMap<(u32, usize), u32>,
}

impl Streams {
    /// One begins, or is counted elsewhere from now on.
    fn begin(&mut self, line: &Line, buffer: u32) {
        let outside = line.value & FROM_OUTSIDE != 0;
        let shadow = if outside { Shadow::OUTSIDE } else { Shadow::NEW }.with_buffer(buffer);
        let (process, record) = (line.value as u32, line.at as usize);
        let stream = match self.end(line.stream) {
            Some(known) => Stream { record, ..known },
            None => Stream { record, process, shadow },
        };
        *self.open.entry((stream.process, record)).or_default() += 1;
        self.all.insert(line.stream, stream);
    }

    /// One has written to its file beside windows of others.
    fn written(&mut self, number: u32) {
        let Some(of) = self.all.get(&number) else { return };
        let file = (of.process, of.record);
        let others = self.all.iter_mut().filter(|(other, _)| **other != number);
        let others = others.filter(|(_, stream)| (stream.process, stream.record) == file);
        others.for_each(|(_, stream)| stream.shadow.written_beside());
    }

    fn end(&mut self, number: u32) -> Option<Stream> {
        let stream = self.all.remove(&number)?;
        if let Some(open) = self.open.get_mut(&(stream.process, stream.record)) {
            *open -= 1;
        }
        Some(stream)
    }

    /// What others of its process have of the file of one.
    fn beside(&self, number: u32, world: &World) -> Use {
        let Some(of) = self.all.get(&number) else { return Use::default() };
        if self.open.get(&(of.process, of.record)).is_none_or(|open| *open < 2) {
            return Use::default();
        }
        let others = self.all.iter().filter(|(other, stream)| {
            **other != number && (stream.process, stream.record) == (of.process, of.record)
        });
        others.fold(Use::default(), |all, (_, other)| all.and(other.shadow.has(world)))
    }
}

/// Tells shadows with buffers of one size what those of the run were told. By the number of their
/// record, what they would have done. The files of a folder have a record together.
fn counts(
    lines: &[Line],
    buffer: BufferSize,
    is_folder: impl Fn(usize) -> bool,
) -> HashMap<usize, Counts> {
    let bytes = match buffer {
        BufferSize::Off => return HashMap::new(),
        BufferSize::Auto => BUFFER_AUTO,
        BufferSize::Bytes(bytes) => bytes,
    };
    let answers = answers(lines);
    let mut processes: HashMap<u32, (World, Thresholds)> = HashMap::new();
    let mut streams = Streams::default();
    let mut all: HashMap<usize, Counts> = HashMap::new();
    for line in lines {
        if line.told == Told::Begin {
            streams.begin(line, bytes);
            continue;
        }
        let Some(stream) = streams.all.get(&line.stream) else { continue };
        let process = processes.entry(stream.process);
        let (world, thresholds) = process.or_insert_with(|| (World::default(), Thresholds::NEW));
        world.asked = thresholds.asked();
        world.beside = match is_folder(stream.record) {
            true => Use::default(),
            false => streams.beside(line.stream, world),
        };
        let Some(stream) = streams.all.get_mut(&line.stream) else { continue };
        let counted = all.entry(stream.record).or_insert([0; Would::COUNT]);
        let answers = answers.get(&line.stream).copied().unwrap_or_default();
        let ended = tell(line, stream, world, counted, &answers);
        thresholds.ended(Ended::reads(mem::take(&mut world.ended_reads)));
        thresholds.ended(ended);
        let is_written = line.told == Told::Write && world.beside.window;
        if is_written {
            streams.written(line.stream);
        }
        if line.told == Told::End {
            streams.end(line.stream);
        }
    }
    all
}

fn answers(lines: &[Line]) -> HashMap<u32, Answers> {
    let mut all: HashMap<u32, Answers> = HashMap::new();
    for line in lines {
        let answers = all.entry(line.stream).or_default();
        match line.told {
            Told::Window => answers.size = Some(line.at),
            Told::Costs => {
                let cost = Cost::from_word;
                answers.told = shadow::Told { read: cost(line.at), write: cost(line.value) };
            }
            Told::Handle | Told::HandleToAppend => answers.handle = Some((line.told, line.at)),
            Told::RefuseWrites => answers.handle = Some((line.told, line.value)),
            Told::Refuse => answers.is_refused = true,
            Told::Read | Told::Write => {
                answers.end = answers.end.max(line.at.saturating_add(line.value >> 32));
            }
            Told::Begin
            | Told::Seek
            | Told::HandOver
            | Told::End
            | Told::Placed
            | Told::Times
            | Told::NoWindows => {}
        }
    }
    all
}

/// Tells a shadow one line. What has come to an end by it, if that was a close.
fn tell(
    line: &Line,
    stream: &mut Stream,
    world: &mut World,
    counted: &mut Counts,
    answers: &Answers,
) -> Ended {
    if line.flags & ACQUIRED != 0 {
        world.acquire_point();
    }
    if line.flags & RELEASED != 0 {
        world.release_point();
    }
    if line.flags & RESUMED != 0 {
        stream.shadow.resume(line.at, world, line.weight.saturating_sub(1));
    }
    let weight = u64::from(line.weight);
    let transfer = transfer(line);
    let is_handed = line.flags & HANDED != 0;
    let shadow = &mut stream.shadow;
    if let Some(asked) = asked(line.told) {
        add(&mut counted[asked as usize], weight);
    }
    let count = |kind: Would, amount: u64| {
        add(&mut counted[kind as usize], amount.saturating_mul(weight));
    };
    let (mut wish, mut ended) = (Wish::Nothing, Ended::default());
    match line.told {
        _ if line.flags & BY_STDIO != 0 => {
            world.release_point();
            world.acquire_point();
            shadow.refuse(Why::Stdio, world, count);
        }
        Told::Write if is_handed => shadow.write_past(transfer, world, count),
        Told::Read => wish = shadow.read(transfer, world, count),
        Told::Write => wish = shadow.write(transfer, world, count),
        Told::Seek => shadow.seek(line.at, !is_handed, world, count),
        Told::HandOver => shadow.hand_over(world, count),
        Told::Refuse => shadow.refuse(reason(line.value), world, count),
        Told::End => ended = shadow.close(count),
        Told::Placed => shadow.place(line.value != 0),
        Told::Times => shadow.note_times(line.value != 0),
        Told::NoWindows => shadow.refuse_windows(),
        // Answers: given where they were wished for.
        Told::Begin
        | Told::Window
        | Told::Handle
        | Told::HandleToAppend
        | Told::RefuseWrites
        | Told::Costs => {}
    }
    if wish != Wish::Nothing && grant(wish, shadow, answers) {
        add(&mut counted[Would::Open as usize], weight);
    }
    ended
}

/// The read or write that a line tells.
fn transfer(line: &Line) -> Transfer {
    Transfer {
        at: line.at,
        len: line.value & 0xffff_ffff,
        done: line.value >> 32,
        is_positioned: line.flags & POSITIONED != 0,
    }
}

/// As what a call is counted of which a shadow is asked.
fn asked(told: Told) -> Option<Would> {
    match told {
        Told::Read => Some(Would::AskedReads),
        Told::Write => Some(Would::AskedWrites),
        Told::Seek => Some(Would::AskedSeeks),
        _ => None,
    }
}

/// A recording may say anything of how much there was.
fn add(counted: &mut u64, amount: u64) {
    *counted = counted.saturating_add(amount);
}

/// Gives the file what its calls have earned. Whether it got it.
fn grant(wish: Wish, shadow: &mut Shadow, answers: &Answers) -> bool {
    shadow.tell(answers.told);
    match (wish, answers.size, answers.handle) {
        // Where they are other ones now, this is the next thing that it is told.
        (Wish::Nothing | Wish::Times, ..) => return false,
        (Wish::Window, Some(size), _) => shadow.open_window(size),
        (Wish::Handle, _, Some((Told::RefuseWrites, why))) => shadow.refuse_writes(reason(why)),
        (Wish::Handle, _, Some((Told::HandleToAppend, size))) => {
            shadow.ask_for_handle_to_append(size);
        }
        (Wish::Handle, _, Some((_, size))) => shadow.ask_for_handle(size),
        // The refusal is the next thing that it is told.
        _ if answers.is_refused => return false,
        (Wish::Window, None, _) => shadow.open_window(answers.end),
        (Wish::Handle, ..) if shadow.is_from_outside() => {
            shadow.ask_for_handle_to_append(answers.end);
        }
        (Wish::Handle, ..) => shadow.ask_for_handle(answers.end),
    }
    true
}

fn reason(bits: u64) -> Why {
    Why::first(bits).unwrap_or(Why::NotRegular)
}

/// What the run would have taken with another buffer; `None`: nothing was called.
pub fn predict(recording: &Recording, lines: &[Line], buffer: BufferSize) -> Option<Prediction> {
    let mut profile = recording.profile.clone();
    let files = || profile.files.iter().zip(&recording.files);
    let folders = files().filter(|(file, _)| file.together > 0);
    let folders: HashSet<usize> = folders.map(|(_, record)| *record).collect();
    let counts = counts(lines, buffer, |record| folders.contains(&record));
    for (file, record) in profile.files.iter_mut().zip(&recording.files) {
        let counts = counts.get(record).copied().unwrap_or([0; Would::COUNT]);
        file.buffered = buffered(
            |would| counts[would as usize],
            [file.reads, file.writes, file.seeks],
            file.together > 0,
        );
    }
    model::judge(&mut profile);
    profile.prediction
}
