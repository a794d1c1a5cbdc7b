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
//! one step too large at most, and the next one shows it. A buffer never becomes smaller for what it
//! costs: a large transfer that was held up would, and nothing would show that any more.
//!
//! All numbers fit into words: nanoseconds for a call, nanoseconds for 64 KiB instead of for a byte.

use crate::policy::{AUTO_BYTES_MAX, AUTO_BYTES_USUAL, DEAR_CALL_NS, WINDOW_BYTES_MIN};

/// Within this part of the best: one in twenty, 5 %.
const MARGIN_PARTS: u64 = 20;
/// The bytes for which the cost of a byte is kept: 2 to the power of this.
const UNIT_SHIFT: u32 = 16;
/// Two transfers tell the cost of a byte if one is so many times as large as the other.
const APART: u32 = 2;
/// Smaller transfers take a way of their own (the end of a file, a part of a page) and tell nothing.
const BYTES_MIN: u64 = WINDOW_BYTES_MIN;
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

    /// Of a transfer of so many bytes, in nanoseconds.
    pub fn of_ns(self, bytes: u64) -> u64 {
        u64::from(self.call_ns) + (u64::from(self.unit_ns).saturating_mul(bytes) >> UNIT_SHIFT)
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

/// The size after one of so many bytes that was used up, where `sweet_bytes` is the best.
pub fn grown(bytes: u64, sweet_bytes: u64) -> u64 {
    bytes.max(sweet_bytes.min(bytes.saturating_mul(2)))
}

/// One transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Timed {
    ns: u32,
    /// 0: none yet.
    bytes: u32,
}

impl Timed {
    fn is_cheaper_each(self, other: Timed) -> bool {
        let product = |ns: u32, bytes: u32| u64::from(ns) * u64::from(bytes);
        product(self.ns, other.bytes) < product(other.ns, self.bytes)
    }
}

/// What the transfers of one open file in one direction have shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// The one that took the least time.
    least: Timed,
    /// The one that took the least time for each byte.
    cheapest: Timed,
    /// The least that the program took for 64 KiB between two; 0: not known.
    program_unit_ns: u32,
    transfers: u32,
    /// When the last one ended; 0: there was none.
    ended_ns: u64,
}

impl Meter {
    /// Nothing is known yet.
    pub const NEW: Meter = Meter {
        least: Timed { ns: 0, bytes: 0 },
        cheapest: Timed { ns: 0, bytes: 0 },
        program_unit_ns: 0,
        transfers: 0,
        ended_ns: 0,
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

    /// A transfer of so many bytes, which began then, has ended now.
    pub fn end(&mut self, began_ns: u64, now_ns: u64, bytes: u64) {
        self.ended_ns = now_ns;
        let took_ns = now_ns.saturating_sub(began_ns);
        if bytes < BYTES_MIN || took_ns == 0 {
            return;
        }
        self.transfers = self.transfers.saturating_add(1);
        let clamped = |value: u64| value.min(u64::from(u32::MAX)) as u32;
        let timed = Timed { ns: clamped(took_ns), bytes: clamped(bytes) };
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
mod tests {
    use super::*;
    use std::vec::Vec;

    /// A program on a file system: costs in nanoseconds, and how its transfers are held up.
    #[derive(Clone, Copy, Debug)]
    struct World {
        call: f64,
        byte: f64,
        program: f64,
        noise: Noise,
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Noise {
        None,
        /// Each time is up to a half longer.
        Half,
        /// One time in eight is a millisecond longer, program and transfers alike.
        HeldUp,
        /// This transfer alone takes a hundred times as long.
        Only(usize),
    }

    impl World {
        /// What a byte costs by transfers of so many bytes.
        fn cost(&self, bytes: u64) -> f64 {
            self.call / bytes as f64 + self.byte + self.program
        }

        /// The sizes of `transfers` in turn, as a buffer doubles.
        fn sizes(&self, transfers: usize, seed: u64) -> Vec<u64> {
            let (mut meter, mut now, mut seed) = (Meter::NEW, 1_000_000u64, seed);
            let mut dice = || {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (seed >> 33) as f64 / (1u64 << 31) as f64
            };
            let mut took = |which: Option<usize>, ns: f64| {
                let (share, held_up) = (dice(), dice() < 0.125);
                let ns = match self.noise {
                    Noise::Half => ns * (1.0 + share / 2.0),
                    Noise::HeldUp if held_up => ns + 1e6,
                    Noise::Only(this) if which == Some(this) => ns * 100.0,
                    _ => ns,
                };
                (ns as u64).max(1)
            };
            let (mut sizes, mut used) = (Vec::new(), 0);
            for transfer in 0..transfers {
                meter.begin(now, used);
                let grown = |last: &u64| grown(*last, meter.sweet_spot(None));
                let size = sizes.last().map_or(BYTES_MIN, grown);
                let began = now;
                now += took(Some(transfer), self.call + self.byte * size as f64);
                meter.end(began, now, size);
                now += took(None, self.program * size as f64);
                sizes.push(size);
                used = size;
            }
            sizes
        }
    }

    fn worlds() -> Vec<World> {
        let mut worlds = Vec::new();
        for call in [300.0, 1_000.0, 5_000.0, 50_000.0, 1e6, 2e7] {
            for byte in [0.03, 0.1, 0.5, 5.0] {
                for program in [0.05, 0.85, 10.0] {
                    worlds.push(World { call, byte, program, noise: Noise::None });
                }
            }
        }
        worlds
    }

    fn best(world: &World) -> f64 {
        (12..=22).map(|power| world.cost(1 << power)).fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn what_is_to_tell_the_cost_of_a_byte_is_a_power_of_two() {
        for bytes in [258_000, 65_400, 1 << 17] {
            let mut meter = Meter::NEW;
            meter.end(1, 1_001, bytes);
            let next = meter.auto_bytes(Some(Cost::USUAL), 1);
            assert!(next.is_power_of_two() && next >= 2 * bytes, "{bytes}: {next}");
        }
    }

    #[test]
    fn the_size_is_within_a_twentieth_of_the_best() {
        for world in worlds() {
            for noise in [Noise::None, Noise::Half, Noise::HeldUp] {
                let world = World { noise, ..world };
                for seed in 1..=20 {
                    let size = *world.sizes(200, seed).last().unwrap();
                    let off = world.cost(size) / best(&world);
                    assert!(off <= 1.0505, "{world:?}: {size} is {off} of the best");
                }
            }
        }
    }

    #[test]
    fn it_is_the_smallest_that_is() {
        for world in worlds() {
            let size = *world.sizes(40, 1).last().unwrap();
            let half = world.cost(size / 2) / (world.byte + world.program);
            // Before that, no two transfers are far enough apart.
            let is_least = size <= BYTES_MIN * u64::from(APART) || half > 1.049;
            assert!(is_least, "{world:?}: half of {size} is {half} of what no buffer beats");
        }
    }

    #[test]
    fn one_transfer_that_is_held_up_makes_it_one_step_larger_at_most() {
        for world in worlds() {
            let clean = world.sizes(40, 1);
            for held_up in 0..16 {
                let sizes = World { noise: Noise::Only(held_up), ..world }.sizes(40, 1);
                let (last, right) = (sizes[39], clean[39]);
                assert!(last == right || last == right * 2, "{world:?} {held_up}: {sizes:?}");
                let steps = sizes.windows(2).all(|pair| pair[1] <= pair[0] * 2);
                assert!(steps, "{world:?} {held_up}: {sizes:?}");
            }
        }
    }

    #[test]
    fn what_others_have_told_counts_until_it_is_known_here() {
        let told = Cost { call_ns: 1_000_000, unit_ns: 10_000 };
        let mut meter = Meter::NEW;
        assert_eq!(meter.sweet_spot(None), AUTO_BYTES_MAX);
        assert_eq!(meter.cost(Some(told)), Some(told));
        meter.end(1000, 1000 + 1000 + 410, 4096);
        assert_eq!(meter.cost(Some(told)), Some(told), "one point makes no line");
        assert_eq!(meter.finding(), None);
        meter.end(10_000, 10_000 + 1000 + 1638, 16384);
        let own = meter.cost(Some(told)).unwrap();
        assert!((990..=1010).contains(&own.call_ns) && (6500..6600).contains(&own.unit_ns));
        assert_eq!(meter.finding(), None, "two may both have been held up");
        for _ in 0..2 {
            meter.end(10_000, 10_000 + 1000 + 1638, 16384);
        }
        assert_eq!(meter.finding(), Some(own));
    }

    #[test]
    fn a_cost_says_where_it_is_even_and_where_it_is_sweet() {
        let check = |call_ns, unit_ns, program, even, sweet| {
            let cost = Cost { call_ns, unit_ns };
            assert_eq!((cost.even_bytes(), cost.sweet_spot(program)), (even, sweet), "{cost:?}");
        };
        // A disk: 1 us, 0.1 ns, 0.85 ns. A file system in user space: 50 us. A server: 1 ms.
        check(1_000, 6_554, 55_706, 8192, 32 << 10);
        check(50_000, 6_554, 55_706, 256 << 10, 2 << 20);
        check(1_000_000, 6_554, 55_706, 4 << 20, 4 << 20);
        assert_eq!(Cost { call_ns: 1, unit_ns: 7208 }.byte_ps(), 109);
    }

    #[test]
    fn only_dear_calls_are_worth_more_than_a_second_cache() {
        let check = |call_ns, least, expected| {
            let told = Some(Cost { call_ns, unit_ns: 0 });
            assert_eq!(Meter::NEW.auto_bytes(told, least), expected, "{call_ns}");
        };
        check(1, 16 << 10, AUTO_BYTES_USUAL);
        check(DEAR_CALL_NS - 1, 16 << 10, AUTO_BYTES_USUAL);
        check(DEAR_CALL_NS, 16 << 10, AUTO_BYTES_MAX);
        assert_eq!(Meter::NEW.auto_bytes(None, 16 << 10), AUTO_BYTES_USUAL);
        let cheap = Some(Cost { call_ns: 1, unit_ns: 1 << 20 });
        assert_eq!(Meter::NEW.auto_bytes(cheap, 16 << 10), 16 << 10);
        // It is dear here, which one transfer cannot tell, and two can.
        let mut meter = Meter::NEW;
        let mut sizes = Vec::new();
        for bytes in [256 << 10, 512 << 10] {
            meter.end(1, 1_000_001, bytes);
            sizes.push(meter.auto_bytes(cheap, 16 << 10));
        }
        assert_eq!(sizes, [512 << 10, AUTO_BYTES_MAX]);
    }

    #[test]
    fn buffers_that_records_do_not_fill_tell_it_too() {
        let (mut meter, mut now) = (Meter::NEW, 1);
        for (bytes, ns) in [(65_500, 4_120_000), (131_000, 4_100_000), (258_000, 4_110_000)] {
            meter.begin(now, 0);
            meter.end(now, now + ns, bytes);
            now += ns + 1;
        }
        let told = Cost { call_ns: 3_100, unit_ns: 18_000 };
        assert!(meter.auto_bytes(Some(told), 1) > AUTO_BYTES_USUAL);
    }

    #[test]
    fn nothing_overflows() {
        let extremes = [0, 1, 2, u32::MAX - 1, u32::MAX];
        for call_ns in extremes {
            for unit_ns in extremes {
                let cost = Cost { call_ns, unit_ns };
                for program in extremes {
                    assert!((1..=AUTO_BYTES_MAX).contains(&cost.sweet_spot(program)));
                }
                assert!((1..=AUTO_BYTES_MAX).contains(&cost.even_bytes()));
                assert!(cost.byte_ps() < 1 << 32);
                assert!(cost.is_near(cost) && !cost.is_near(Cost { call_ns: !call_ns, unit_ns }));
                let kept = Cost { call_ns: call_ns.max(1), unit_ns };
                assert_eq!(Cost::from_word(cost.to_word()), Some(kept));
            }
        }
        assert_eq!(Cost::from_word(0), None);
        let times = [0, 1, 4095, 4096, 4097, u64::from(u32::MAX), 1 << 33, u64::MAX];
        for began in times {
            for ended in times {
                for bytes in times {
                    let mut meter = Meter::NEW;
                    for _ in 0..3 {
                        meter.begin(began, bytes);
                        meter.end(began, ended, bytes);
                        meter.end(ended, began, bytes / 2);
                    }
                    assert!((1..=AUTO_BYTES_MAX).contains(&meter.sweet_spot(None)));
                    meter.finding();
                }
            }
        }
    }
}
