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

/// Fills of a millisecond, of which only the first ones are waited for where the kernel reads ahead.
#[test]
fn a_window_is_no_larger_than_what_is_read_ahead_unless_the_program_waits() {
    let found = |program_ns: u64, fills: &[(u64, u64)]| {
        let (mut meter, mut now) = (Meter::NEW, 1);
        for (took_ns, bytes) in fills {
            meter.begin(now, *bytes);
            meter.end(now, now + took_ns, *bytes);
            now += took_ns + program_ns * bytes / READ_AHEAD_BYTES;
        }
        meter.larger_windows()
    };
    let (waited, ahead) = ((1_000_000, READ_AHEAD_BYTES), (40_000, READ_AHEAD_BYTES));
    assert_eq!(found(1_000_000, &[waited]), Larger::Unknown);
    assert_eq!(found(1_000_000, &[waited; 2]), Larger::MayPay);
    assert_eq!(found(1_000_000, &[waited, ahead]), Larger::NoGain);
    assert_eq!(found(1_000_000, &[waited, ahead, ahead, ahead, waited]), Larger::MayPay);
    // A faster program.
    let read_ahead = [waited, ahead, ahead];
    assert_eq!(found(400_000, &read_ahead), Larger::MayPay);
    let larger = |took_ns: u64| [&read_ahead[..], &[(took_ns, 8 * READ_AHEAD_BYTES); 4]].concat();
    assert_eq!(found(400_000, &larger(1_000_000)), Larger::Slower);
    let held_up = [(50_000_000, 4 * READ_AHEAD_BYTES); 3];
    let mixed = [&read_ahead[..], &held_up, &[(300_000, 8 * READ_AHEAD_BYTES)]].concat();
    assert_eq!(found(400_000, &mixed), Larger::MayPay, "one was not held up");
    assert_eq!(found(400_000, &mixed[..5]), Larger::MayPay, "two tell nothing");
    assert_eq!(found(400_000, &larger(300_000)), Larger::MayPay);
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
                meter.larger_windows();
            }
        }
    }
}

fn small_call(meter: &Meter) -> u32 {
    meter.small_call().0
}

#[test]
fn what_a_small_call_takes_is_seen_by_short_transfers() {
    let mut meter = Meter::NEW;
    assert_eq!(small_call(&meter), 0);
    // However small it is.
    meter.end(1, 30_001, 100);
    assert_eq!(small_call(&meter), 29_800 | HELD_UP);
    let mut hung = Meter::NEW;
    hung.end(1, (1 << 31) + 1_000, 100);
    assert_eq!(small_call(&hung), u32::MAX, "two seconds are long, too");
    meter.end(1, 20_001, 100);
    assert_eq!(
        small_call(&meter),
        0,
        "it was little more than a wait, and its bytes take something"
    );
    let mut meter = Meter::NEW;
    (0..2).for_each(|_| meter.end(1, 30_001, 100));
    assert_eq!(small_call(&meter), 29_800);
    meter.end(1, 10_001, 1 << 16);
    meter.end(1, 40_001, 100);
    assert_eq!(small_call(&meter), 10_000);
    let mut meter = Meter::NEW;
    meter.end(1, 10_001, 100);
    assert_eq!(small_call(&meter), 10_000);
}

#[test]
fn a_small_transfer_costs_what_a_small_call_does() {
    let ext4 = Cost { call_ns: 45_000, unit_ns: 20_000 };
    assert_eq!(ext4.of_ns(64 << 10), 65_000);
    assert_eq!(ext4.of_ns(200), 1_000 + 61);
    let served = Cost { call_ns: 1_000_000, unit_ns: 20_000 };
    assert_eq!(served.of_ns(200), 1_000_000 + 61);
}

#[test]
fn large_transfers_say_nothing_of_small_calls() {
    let mut meter = Meter::NEW;
    // As a file on ext4 grew, where a small call takes 1.3 us.
    for (us, bytes) in [(53, 64), (44, 64), (70, 128), (61, 128), (112, 256), (206, 512)] {
        meter.end(1, us * 1_000 + 1, bytes << 10);
    }
    assert!(u64::from(meter.finding().unwrap().call_ns) >= WAIT_NS);
    assert_eq!(small_call(&meter), 0);
    // Where somebody else answers they do: the bytes explain little of it.
    let mut meter = Meter::NEW;
    (0..2).for_each(|_| meter.end(1, 1_000_001, 64 << 10));
    assert_eq!(small_call(&meter), 1_000_000 - (128 << 10));
    // Nothing had to be written when the file was closed.
    meter.end(1, 5_001, 0);
    assert_eq!(small_call(&meter), 1_000_000 - (128 << 10));
}
