//! How large a transfer should be, from what transfers cost.
//!
//! Filling a window or flushing a buffer of n bytes takes t(n) = a + b n: a for the call, b for each
//! byte. The program, and copying into and out of the buffer, take c for each byte besides. A byte then
//! costs a / n + b + c, and the smallest n at which that is within 5 % of the best there is, is
//! n = a / (0.05 (b + c)). That size is looked for while the program runs: buffers begin small and
//! double, each transfer is timed, and doubling ends where this n is reached.
//!
//! Noise only ever adds to a time: anyone who waits for a processor takes longer, and nobody is faster than
//! he is. So a is taken from the least time seen, b from the line between that and the transfer with the
//! least time for each byte, c from the least time between two transfers. What is not known yet counts as
//! what makes n larger, and a step at most doubles the buffer: one transfer that was held up makes it
//! one step too large at most, and the next one shows it. A buffer does not become smaller for what one
//! transfer costs: a large one that was held up would, and nothing would show that any more.
//!
//! Of reads in order that is not all. The kernel reads ahead while the program works, up to
//! [`READ_AHEAD_BYTES`] at a time: fills of that size may cost next to nothing where larger ones are waited for, and
//! the first fill, which nothing was read ahead of, tells nothing of it. So windows stop at that size until it is seen
//! whether the program waits for them, and return to it where even the cheapest larger one is dearer for each
//! byte ([`Larger`]).
//!
//! All numbers fit into words: nanoseconds for a call, nanoseconds for 64 KiB instead of for a byte.

use crate::policy::{
    AUTO_BYTES_MAX, AUTO_BYTES_USUAL, DEAR_CALL_NS, LARGER_FILLS, READ_AHEAD_BYTES,
    READ_AHEAD_FILLS, WAIT_NS, WINDOW_BYTES_MIN,
};

/// Within this part of the best: one in twenty, 5 %.
const MARGIN_PARTS: u64 = 20;
/// The bytes for which the cost of a byte is kept: 2 to the power of this.
const UNIT_SHIFT: u32 = 16;
/// Two transfers tell the cost of a byte if one is so many times as large as the other.
const APART: u32 = 2;
/// Smaller transfers take a way of their own (the end of a file, a part of a page) and tell nothing.
const BYTES_MIN: u64 = WINDOW_BYTES_MIN;
/// A call that costs so much is answered by somebody else: one on a disk's file system costs 45 us at most, by the line.
const SERVED_NS: u32 = 100_000;
/// What copying a byte takes at most: the rest of a transfer's time is of its call.
const BYTE_NS_MAX: u32 = 2;
/// Transfers from which what they tell is told to others: one alone may have been held up.
const TRANSFERS_TO_TELL: u32 = 4;

/// What the library takes for a call that it answers itself, in picoseconds: a read from a window, a write
/// that waits, a seek; and for each byte that it copies. Measured on the machine that `policy` names, by the
/// same calls without the library and under `run`.
pub const HIT_PS: u32 = 5_400;
/// See [`HIT_PS`].
pub const APPEND_PS: u32 = 15_900;
/// See [`HIT_PS`].
pub const SEEK_PS: u32 = 6_000;
/// See [`HIT_PS`].
pub const COPIED_BYTE_PS: u32 = 20;

/// What transfers cost: a and b.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Of a call, in nanoseconds.
    pub call_ns: u32,
    /// Of 64 KiB, in nanoseconds.
    pub unit_ns: u32,
}

impl Cost {
    /// On a local file system, from the page cache: measured as said in `policy`.
    pub const USUAL: Cost = Cost { call_ns: 1_000, unit_ns: 7_000 };

    /// Of a transfer of so many bytes, in nanoseconds. Smaller ones than those that have told it are calls as usual
    /// ([`Meter::small_call`] says why), but where it can only be somebody else who answers.
    pub fn of_ns(self, bytes: u64) -> u64 {
        let is_usual = bytes < BYTES_MIN && self.call_ns < SERVED_NS;
        let call_ns = if is_usual { self.call_ns.min(Cost::USUAL.call_ns) } else { self.call_ns };
        u64::from(call_ns) + (u64::from(self.unit_ns).saturating_mul(bytes) >> UNIT_SHIFT)
    }

    /// As one word of shared memory; 0 says nothing.
    pub fn to_word(self) -> u64 {
        u64::from(self.call_ns.max(1)) << 32 | u64::from(self.unit_ns)
    }

    /// What a word says. Anyone who may write to the memory may have stored anything, and every word is a
    /// cost: it only decides between the smallest and the largest size.
    pub fn from_word(word: u64) -> Option<Cost> {
        (word != 0).then_some(Cost { call_ns: (word >> 32) as u32, unit_ns: word as u32 })
    }

    /// The smallest size within 5 % of the best, a power of two, for a program that takes so many
    /// nanoseconds for 64 KiB; at most [`AUTO_BYTES_MAX`].
    pub fn sweet_spot(self, program_unit_ns: u32) -> u64 {
        let each = (u64::from(self.unit_ns) + u64::from(program_unit_ns)).max(1);
        let bytes = ((u64::from(self.call_ns) * MARGIN_PARTS) << UNIT_SHIFT) / each;
        bytes.clamp(1, AUTO_BYTES_MAX).next_power_of_two()
    }

    /// The size at which the bytes take as long as the call, rounded down to a power of two: whatever
    /// of it is not used costs no more than the call that brings it.
    pub fn even_bytes(self) -> u64 {
        let bytes = (u64::from(self.call_ns) << UNIT_SHIFT) / u64::from(self.unit_ns.max(1));
        1 << bytes.clamp(1, AUTO_BYTES_MAX).ilog2()
    }

    /// The most that `auto` takes: a larger buffer than the second cache holds only where calls are dear.
    pub fn limit_bytes(self) -> u64 {
        if self.call_ns >= DEAR_CALL_NS { AUTO_BYTES_MAX } else { AUTO_BYTES_USUAL }
    }

    /// Whether another one is nearly the same, to a quarter: nothing that follows from it differs by more
    /// than a step.
    pub fn is_near(self, other: Cost) -> bool {
        let near = |one: u32, other: u32| one.abs_diff(other) <= one.max(other) / 4;
        near(self.call_ns, other.call_ns) && near(self.unit_ns, other.unit_ns)
    }

    /// Of a byte, in picoseconds.
    pub fn byte_ps(self) -> u64 {
        (u64::from(self.unit_ns) * 1000) >> UNIT_SHIFT
    }
}

/// What so many calls cost together that move so many bytes, by what one of them costs and what a byte does, in
/// whatever unit of time these are.
pub fn of_calls([call, byte]: [f64; 2], calls: f64, bytes: f64) -> f64 {
    call * calls + byte * bytes
}

/// The size after one of so many bytes that was used up, where `sweet_bytes` is the best.
pub fn grown(bytes: u64, sweet_bytes: u64) -> u64 {
    bytes.max(sweet_bytes.min(bytes.saturating_mul(2)))
}

/// How windows do that are larger than what the kernel reads ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Larger {
    /// It is not yet seen whether the program waits for smaller ones.
    Unknown,
    /// For smaller ones it waits less than a twentieth of its time.
    NoGain,
    /// For smaller ones it waits less, as the kernel reads ahead while it works.
    Slower,
    MayPay,
}

/// One transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Timed {
    ns: u32,
    /// 0: none yet.
    bytes: u32,
}

impl Timed {
    /// What 64 KiB of it took, in nanoseconds.
    fn unit_ns(self) -> u64 {
        (u64::from(self.ns) << UNIT_SHIFT) / u64::from(self.bytes.max(1))
    }

    fn is_cheaper_each(self, other: Timed) -> bool {
        let product = |ns: u32, bytes: u32| u64::from(ns) * u64::from(bytes);
        product(self.ns, other.bytes) < product(other.ns, self.bytes)
    }
}

/// What the transfers of one open file in one direction have shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meter {
    /// The one that took the least time.
    least: Timed,
    /// The one that took the least time for each byte.
    cheapest: Timed,
    /// The least that the program took for 64 KiB between two; 0: not known.
    program_unit_ns: u32,
    transfers: u32,
    /// The shortest one, however small it was, and whether there was another. It took 0 ns: there was none.
    shortest: Timed,
    is_one_of_many: bool,
    /// When the last one ended; 0: there was none.
    ended_ns: u64,
    /// Those of [`READ_AHEAD_BYTES`].
    ahead: Sum,
    /// Larger ones, and that of them that took the least time for each byte.
    larger: u32,
    cheapest_larger: Timed,
}

/// What a small call takes, in nanoseconds (0: not known), and [`HELD_UP`]: in one word, as every close hands it on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmallCall(pub u32);

/// Told by one transfer alone, which took so long that it may have been held up.
pub const HELD_UP: u32 = 1 << 31;

/// What some transfers took together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    transfers: u32,
    /// Of all but the first one.
    ns: u64,
    bytes: u64,
}

impl Sum {
    const NONE: Sum = Sum { transfers: 0, ns: 0, bytes: 0 };

    fn add(&mut self, ns: u64, bytes: u64) {
        self.transfers = self.transfers.saturating_add(1);
        if self.transfers > 1 {
            self.ns = self.ns.saturating_add(ns);
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }

    /// What 64 KiB took on average, in nanoseconds, if there were enough.
    fn unit_ns(self) -> Option<u64> {
        let is_known = self.transfers >= READ_AHEAD_FILLS;
        is_known.then(|| self.ns.saturating_mul(1 << UNIT_SHIFT) / self.bytes.max(1))
    }
}

impl Meter {
    /// Nothing is known yet.
    pub const NEW: Meter = Meter {
        least: Timed { ns: 0, bytes: 0 },
        cheapest: Timed { ns: 0, bytes: 0 },
        program_unit_ns: 0,
        transfers: 0,
        shortest: Timed { ns: 0, bytes: 0 },
        is_one_of_many: false,
        ended_ns: 0,
        ahead: Sum::NONE,
        larger: 0,
        cheapest_larger: Timed { ns: 0, bytes: 0 },
    };

    /// A transfer begins; since the last one the program has used so many bytes.
    pub fn begin(&mut self, now_ns: u64, used_bytes: u64) {
        let between_ns = now_ns.saturating_sub(self.ended_ns);
        if self.ended_ns == 0 || used_bytes == 0 || between_ns == 0 {
            return;
        }
        let unit_ns = (between_ns.min(u64::MAX >> UNIT_SHIFT) << UNIT_SHIFT) / used_bytes;
        let unit_ns = unit_ns.clamp(1, u64::from(u32::MAX)) as u32;
        if self.program_unit_ns == 0 || unit_ns < self.program_unit_ns {
            self.program_unit_ns = unit_ns;
        }
    }

    /// A transfer of so many bytes, which began then, has ended now. One of none tells nothing: nobody was asked to
    /// write, or who was asked to read knew without asking anyone that the file had ended.
    pub fn end(&mut self, began_ns: u64, now_ns: u64, bytes: u64) {
        self.ended_ns = now_ns;
        if bytes == 0 {
            return;
        }
        let took_ns = now_ns.saturating_sub(began_ns);
        let clamped = |value: u64| value.min(u64::from(u32::MAX)) as u32;
        let timed = Timed { ns: clamped(took_ns), bytes: clamped(bytes) };
        self.is_one_of_many = self.shortest.ns != 0;
        if self.shortest.ns == 0 || timed.ns < self.shortest.ns {
            self.shortest = Timed { ns: timed.ns.max(1), ..timed };
        }
        if bytes < BYTES_MIN || took_ns == 0 {
            return;
        }
        self.transfers = self.transfers.saturating_add(1);
        if bytes > READ_AHEAD_BYTES {
            self.larger = self.larger.saturating_add(1);
            if self.larger == 1 || timed.is_cheaper_each(self.cheapest_larger) {
                self.cheapest_larger = timed;
            }
        } else if bytes > READ_AHEAD_BYTES / 2 {
            self.ahead.add(took_ns, bytes);
        }
        if self.least.bytes == 0 || timed.ns < self.least.ns {
            self.least = timed;
        }
        if self.cheapest.bytes == 0 || timed.is_cheaper_each(self.cheapest) {
            self.cheapest = timed;
        }
    }

    /// What transfers cost here, as far as it is known: by these transfers where they tell it, else as
    /// others have told, else no more of it than a limit.
    pub fn cost(&self, told: Option<Cost>) -> Option<Cost> {
        match (self.least.bytes, told) {
            (0, told) => told,
            (_, Some(told)) if !self.is_sure() => Some(told),
            _ => Some(self.own()),
        }
    }

    /// What a small call takes, in nanoseconds, by the shortest transfer; 0: not known. The line through larger ones
    /// does not tell it: where it meets zero bytes it is 15 times what a small call takes, on ext4, as a file grows.
    #[inline(always)]
    pub fn small_call(&self) -> SmallCall {
        let Timed { ns, .. } = self.shortest;
        if u64::from(ns) < WAIT_NS { SmallCall(ns) } else { self.long_call() }
    }

    #[cold]
    fn long_call(&self) -> SmallCall {
        let Timed { ns, bytes } = self.shortest;
        let of_call_ns = ns.saturating_sub(bytes.saturating_mul(BYTE_NS_MAX)).min(!HELD_UP);
        match u64::from(of_call_ns) < WAIT_NS {
            true => SmallCall(0),
            false if self.is_one_of_many => SmallCall(of_call_ns),
            false => SmallCall(of_call_ns | HELD_UP),
        }
    }

    /// What may be told to others, if anything.
    pub fn finding(&self) -> Option<Cost> {
        let is_known = self.is_sure() && self.transfers >= TRANSFERS_TO_TELL;
        is_known.then(|| self.own())
    }

    /// The size that transfers should have: the largest there is where nothing is known.
    pub fn sweet_spot(&self, told: Option<Cost>) -> u64 {
        self.cost(told).map_or(AUTO_BYTES_MAX, |cost| cost.sweet_spot(self.program_unit_ns))
    }

    /// The size that `auto` takes here: no less than `least_bytes`, and usual where nothing is known. What
    /// others have told is followed, but not believed: until two transfers are far enough apart to tell
    /// it here, the next one is larger.
    pub fn auto_bytes(&self, told: Option<Cost>, least_bytes: u64) -> u64 {
        // One transfer alone says nothing of the call: perhaps its bytes took all that time.
        let known = if self.is_sure() { Some(self.own()) } else { told };
        let limit_bytes = known.map_or(AUTO_BYTES_USUAL, Cost::limit_bytes);
        let telling_bytes = match self.is_sure() {
            true => 0,
            false => (u64::from(self.least.bytes) * u64::from(APART))
                .clamp(1, AUTO_BYTES_MAX)
                .next_power_of_two(),
        };
        self.sweet_spot(told).min(limit_bytes).max(telling_bytes).max(least_bytes)
    }

    /// How windows of more than [`READ_AHEAD_BYTES`] do.
    pub fn larger_windows(&self) -> Larger {
        let Some(ahead_ns) = self.ahead.unit_ns() else { return Larger::Unknown };
        if MARGIN_PARTS * ahead_ns <= ahead_ns + u64::from(self.program_unit_ns) {
            return Larger::NoGain;
        }
        let is_slower = self.cheapest_larger.unit_ns() > ahead_ns + ahead_ns / 4;
        if self.larger >= LARGER_FILLS && is_slower { Larger::Slower } else { Larger::MayPay }
    }

    fn is_sure(&self) -> bool {
        let telling_bytes = u64::from(self.least.bytes) * u64::from(APART);
        // Nearly: whole records seldom fill a buffer.
        telling_bytes > 0 && u64::from(self.cheapest.bytes) >= telling_bytes - telling_bytes / 4
    }

    /// The line through both transfers. It meets zero bytes at no less than nothing, as the larger one
    /// is the cheaper one for each byte.
    fn own(&self) -> Cost {
        let (least, cheapest) = (self.least, self.cheapest);
        if !self.is_sure() {
            return Cost { call_ns: least.ns, unit_ns: 0 };
        }
        let (ns, bytes) = (cheapest.ns - least.ns, cheapest.bytes - least.bytes);
        let unit_ns = (u64::from(ns) << UNIT_SHIFT) / u64::from(bytes);
        let of_bytes_ns = (u64::from(ns) * u64::from(least.bytes)) / u64::from(bytes);
        Cost {
            call_ns: least.ns.saturating_sub(of_bytes_ns as u32).max(1),
            unit_ns: unit_ns.min(u64::from(u32::MAX)) as u32,
        }
    }
}

#[cfg(test)]
mod tests;
