//! What another buffer would have done with a recorded run: the same shadows, told the same, at any
//! size (`recording`, `sweetspot_core::shadow`).
//!
//! What the kernel was asked once (how large is the file, may it be written?) it would have answered
//! the same at another size. Where another size would have asked what was never asked, the file is as
//! large as it was seen to be, and may be written.

use super::recording::Recording;
use super::{gather, model};
use std::collections::HashMap;
use sweetspot_core::cost::Cost;
use sweetspot_core::ledger::BUFFER_AUTO;
use sweetspot_core::shadow::{self, Shadow, Transfer, Wish, World, Would};
use sweetspot_core::size::BufferSize;
use sweetspot_core::trace::{
    ACQUIRED, BY_STDIO, FROM_OUTSIDE, HANDED, Line, POSITIONED, RELEASED, RESUMED, Told,
};
use sweetspot_core::why::Why;
use sweetspot_report::profile::data::Prediction;

/// What buffering would have done with a file, by [`Would`].
type Counts = [u64; Would::COUNT];

/// What the kernel said of a stream's file.
#[derive(Clone, Copy, Default)]
struct Answers {
    /// Its size, when a window opened.
    size: Option<u64>,
    told: shadow::Told,
    /// How its writes could wait, or why not.
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

/// Tells shadows with buffers of one size what those of the run were told. By the number of their
/// record, what they would have done.
fn counts(lines: &[Line], buffer: BufferSize) -> HashMap<usize, Counts> {
    let bytes = match buffer {
        BufferSize::Off => return HashMap::new(),
        BufferSize::Auto => BUFFER_AUTO,
        BufferSize::Bytes(bytes) => bytes,
    };
    let answers = answers(lines);
    let mut worlds: HashMap<u32, World> = HashMap::new();
    let mut streams: HashMap<u32, Stream> = HashMap::new();
    let mut all: HashMap<usize, Counts> = HashMap::new();
    for line in lines {
        if line.told == Told::Begin {
            let new = if line.value & FROM_OUTSIDE != 0 { Shadow::OUTSIDE } else { Shadow::NEW };
            let stream = streams.entry(line.stream).or_insert_with(|| Stream {
                record: 0,
                process: line.value as u32,
                shadow: new.with_buffer(bytes),
            });
            // One that is known is counted elsewhere from now on.
            stream.record = line.at as usize;
            continue;
        }
        let Some(stream) = streams.get_mut(&line.stream) else { continue };
        let world = worlds.entry(stream.process).or_default();
        let counted = all.entry(stream.record).or_insert([0; Would::COUNT]);
        let answers = answers.get(&line.stream).copied().unwrap_or_default();
        tell(line, stream, world, counted, &answers);
        if line.told == Told::End {
            streams.remove(&line.stream);
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
            Told::Handle | Told::HandleToAppend | Told::RefuseWrites => {
                answers.handle = Some((line.told, line.value));
            }
            Told::Refuse => answers.is_refused = true,
            Told::Read | Told::Write => {
                answers.end = answers.end.max(line.at.saturating_add(line.value >> 32));
            }
            Told::Begin | Told::Seek | Told::HandOver | Told::End | Told::Placed => {}
        }
    }
    all
}

fn tell(
    line: &Line,
    stream: &mut Stream,
    world: &mut World,
    counted: &mut Counts,
    answers: &Answers,
) {
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
    let transfer = Transfer {
        at: line.at,
        len: line.value & 0xffff_ffff,
        done: line.value >> 32,
        is_positioned: line.flags & POSITIONED != 0,
    };
    let is_handed = line.flags & HANDED != 0;
    let shadow = &mut stream.shadow;
    if let Some(asked) = asked(line.told) {
        add(&mut counted[asked as usize], weight);
    }
    let count = |kind: Would, amount: u64| {
        add(&mut counted[kind as usize], amount.saturating_mul(weight));
    };
    let mut wish = Wish::Nothing;
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
        Told::End => shadow.close(count),
        Told::Placed => shadow.place(line.value != 0),
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
        (Wish::Nothing, ..) => return false,
        (Wish::Window, Some(size), _) => shadow.open_window(size),
        (Wish::Handle, _, Some((Told::RefuseWrites, why))) => shadow.refuse_writes(reason(why)),
        (Wish::Handle, _, Some((Told::HandleToAppend, _))) => shadow.ask_for_handle_to_append(),
        (Wish::Handle, _, Some(_)) => shadow.ask_for_handle(),
        // The refusal is the next thing that it is told.
        _ if answers.is_refused => return false,
        (Wish::Window, None, _) => shadow.open_window(answers.end),
        (Wish::Handle, ..) if shadow.is_from_outside() => shadow.ask_for_handle_to_append(),
        (Wish::Handle, ..) => shadow.ask_for_handle(),
    }
    true
}

fn reason(bits: u64) -> Why {
    Why::ALL.into_iter().find(|why| bits & why.bit() != 0).unwrap_or(Why::NotRegular)
}

/// What the run would have taken with another buffer; `None`: nothing was called.
pub fn predict(recording: &Recording, lines: &[Line], buffer: BufferSize) -> Option<Prediction> {
    let counts = counts(lines, buffer);
    let mut profile = recording.profile.clone();
    for (file, record) in profile.files.iter_mut().zip(&recording.files) {
        let counts = counts.get(record).copied().unwrap_or([0; Would::COUNT]);
        file.buffered = gather::buffered(
            |would| counts[would as usize],
            [file.reads, file.writes, file.seeks],
            file.together > 0,
        );
    }
    model::judge(&mut profile);
    profile.prediction
}
