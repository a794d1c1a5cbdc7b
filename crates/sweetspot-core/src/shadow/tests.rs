use super::*;
use crate::policy::{POOR_FLUSHES_MAX, WRITES_TO_EARN};
use std::vec::Vec;

/// Counts over one made-up program.
struct Program {
    shadow: Shadow,
    world: World,
    counts: [u64; Would::COUNT],
    at: u64,
    /// Whether its writes wait with append placement.
    append_placed: bool,
    /// Whether the file was changed lately.
    is_recent: bool,
    /// Of the file, when its writes earn a handle.
    size: u64,
}

impl Program {
    fn new() -> Program {
        Program {
            shadow: Shadow::NEW,
            world: World::default(),
            counts: [0; Would::COUNT],
            at: 0,
            append_placed: false,
            is_recent: false,
            size: 0,
        }
    }

    fn read(&mut self, len: u64) {
        let counts = &mut self.counts;
        let read = Transfer { at: self.at, len, done: len, is_positioned: false };
        let wish = self.shadow.read(read, &mut self.world, |would, n| {
            counts[would as usize] += n;
        });
        match wish {
            Wish::Window if self.shadow.is_from_outside() => {
                self.shadow.refuse(Why::FromOutside, &mut self.world, |_, _| {});
            }
            Wish::Window => {
                self.shadow.open_window(1 << 40);
                self.shadow.note_times(self.is_recent);
            }
            Wish::Times => self.shadow.note_times(self.is_recent),
            _ => {}
        }
        self.at += len;
    }

    fn write(&mut self, len: u64) {
        let counts = &mut self.counts;
        let write = Transfer { at: self.at, len, done: len, is_positioned: false };
        let wish = self.shadow.write(write, &mut self.world, |would, n| {
            counts[would as usize] += n;
        });
        match wish {
            Wish::Handle if self.append_placed => self.shadow.ask_for_handle_to_append(self.size),
            Wish::Handle => self.shadow.ask_for_handle(self.size),
            _ => {}
        }
        self.at += len;
    }

    fn seek(&mut self, at: u64) {
        let counts = &mut self.counts;
        self.shadow.seek(at, true, &mut self.world, |would, n| counts[would as usize] += n);
        self.at = at;
    }

    fn count(&self, would: Would) -> u64 {
        self.counts[would as usize]
    }

    fn check(&self, expected: &[(Would, u64)]) {
        let found: Vec<_> =
            expected.iter().map(|(would, _)| (*would, self.count(*would))).collect();
        assert_eq!(found, expected);
    }
}

/// Its first buffer is for writes, and then it is read elsewhere: its windows are not those of a small file.
#[test]
fn of_a_file_that_is_written_first_more_is_known_than_what_was_written() {
    let mut program = Program { size: 1 << 20, ..Program::new() };
    (0..100).for_each(|_| program.write(40));
    program.seek(200_000);
    (0..50).for_each(|_| program.read(40));
    program.check(&[(Would::Hit, 50), (Would::Fill, 1)]);
}

/// Where news come between two reads, a file is asked whether it changed, and of one that was just written
/// it cannot say so.
#[test]
fn windows_of_files_that_were_changed_lately_are_not_believed_after_news() {
    let mut program = Program { is_recent: true, ..Program::new() };
    (0..16).for_each(|_| program.read(200));
    let asked = |program: &mut Program| {
        (0..4).for_each(|_| {
            program.read(200);
            program.world.acquire_point();
        });
        (program.count(Would::Ask), program.count(Would::Fill))
    };
    assert_eq!(asked(&mut program), (3, 4));
    // It is looked at again with each window.
    program.is_recent = false;
    assert_eq!(asked(&mut program), (7, 5));
    program.shadow.written_beside();
    assert_eq!(asked(&mut program), (11, 6));
}

#[test]
fn records_that_are_read_in_order_are_hits_after_sixteen() {
    let mut program = Program::new();
    (0..10_000).for_each(|_| program.read(200));
    program.check(&[(Would::Hit, 9_984), (Would::HitBytes, 9_984 * 200), (Would::Ask, 0)]);
    let fills = program.count(Would::Fill);
    assert!((16..64).contains(&fills), "2 MB in windows that grow to what pays: {fills}");
}

#[test]
fn records_that_are_written_in_order_wait_after_sixty_four() {
    let mut program = Program::new();
    (0..10_000).for_each(|_| program.write(200));
    // Of the answer the one after them learns.
    program.check(&[(Would::Append, 9_936 - 1)]);
    let flushes = program.count(Would::Flush);
    assert!((7..12).contains(&flushes), "2 MB, 64 KiB growing to 256 KiB: {flushes}");
}

#[test]
fn release_points_after_each_write_leave_no_gain() {
    let mut program = Program::new();
    for _ in 0..1000 {
        program.write(200);
        program.world.release_point();
    }
    let flushes = u64::from(POOR_FLUSHES_MAX);
    program.check(&[(Would::Append, flushes), (Would::Flush, flushes)]);
    assert_eq!(program.shadow.why(), Why::NotWorthIt.bit());
}

#[test]
fn acquire_points_before_each_read_ask_each_time() {
    let mut program = Program::new();
    for _ in 0..1000 {
        program.world.acquire_point();
        program.read(200);
    }
    let (asks, fills) = (program.count(Would::Ask), program.count(Would::Fill));
    assert_eq!(asks + fills, 1000 - 16);
}

#[test]
fn random_and_large_reads_pass_through() {
    let mut random = Program::new();
    let mut at = 1u64;
    for _ in 0..1000 {
        at = at.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        random.seek(at >> 34);
        random.read(200);
    }
    random.check(&[(Would::Hit, 0), (Would::Fill, 0)]);
    let mut large = Program::new();
    (0..1000).for_each(|_| large.read(128 << 10));
    large.check(&[(Would::Hit, 0), (Would::Fill, 0)]);
    assert_eq!(large.shadow.why(), Why::LargeTransfers.bit());
}

#[test]
fn writes_that_are_appended_or_come_from_outside_wait_and_reads_end_that() {
    let mut program = Program::new();
    program.shadow = Shadow::OUTSIDE;
    program.append_placed = true;
    (0..1000).for_each(|_| program.write(100));
    let waited = 1000 - u64::from(WRITES_TO_EARN) - 1;
    // Others move the offset meanwhile; no seek is answered here.
    program.at += 12_345;
    program.write(100);
    program
        .shadow
        .seek(program.at, true, &mut program.world, |would, _| assert_ne!(would, Would::Seek));
    program.check(&[(Would::Append, waited + 1), (Would::Quiesce, 0), (Would::Seek, 0)]);
    (0..1000).for_each(|_| program.read(100));
    program.check(&[(Would::Append, waited + 1), (Would::Hit, 0), (Would::Quiesce, 0)]);
    assert_eq!(program.shadow.why(), Why::FromOutside.bit());
}

#[test]
fn dear_calls_make_larger_buffers_and_a_size_that_was_asked_for_stays() {
    let transfers = |buffer, call_ns| {
        let cost = Some(Cost { call_ns, unit_ns: 7_000 });
        let mut program = Program::new();
        program.shadow = Shadow::NEW.with_buffer(buffer);
        program.shadow.tell(Told { read: cost, write: cost });
        (0..100_000).for_each(|_| program.read(200));
        let fills = program.count(Would::Fill);
        let mut program = Program { shadow: program.shadow, ..Program::new() };
        program.shadow = Shadow::NEW.with_buffer(buffer);
        program.shadow.tell(Told { read: cost, write: cost });
        (0..100_000).for_each(|_| program.write(200));
        (fills, program.count(Would::Flush))
    };
    let (local, far) = (transfers(BUFFER_AUTO, 1_000), transfers(BUFFER_AUTO, 1_000_000));
    assert!(local.0 > 10 * far.0 && local.1 > 10 * far.1, "{local:?} {far:?}");
    assert_eq!(transfers(64 << 10, 1_000), transfers(64 << 10, 1_000_000));
}

#[test]
fn a_position_that_is_kept_to_no_purpose_is_given_back() {
    let mut program = Program::new();
    (0..100).for_each(|_| program.write(200));
    program.shadow.refuse_writes(Why::NoGuard);
    program.write(200);
    program.seek(0);
    program.check(&[(Would::Append, 35), (Would::Quiesce, 1), (Would::Seek, 0)]);
    // With a window it is of use.
    let mut program = Program::new();
    (0..100).for_each(|_| program.read(200));
    program.shadow.refuse_writes(Why::NoGuard);
    program.write(200);
    program.seek(0);
    program.check(&[(Would::Quiesce, 0), (Would::Seek, 1)]);
}

#[test]
fn what_takes_a_handle_back_is_asked_for_again() {
    let mut program = Program::new();
    (0..20).for_each(|_| program.read(200));
    // On for its reads: the handle is asked for at the sixty-fourth write.
    (0..100).for_each(|_| program.write(200));
    program.check(&[(Would::Append, 100 - u64::from(WRITES_TO_EARN)), (Would::Quiesce, 0)]);
    // A vector ends the waiting, which is earned again by a few writes.
    let vector = Transfer { at: program.at, len: 20, done: 20, is_positioned: false };
    program.shadow.write_past(vector, &mut program.world, |_, _| {});
    program.at += 20;
    (0..20).for_each(|_| program.write(200));
    let again = 20 - u64::from(crate::policy::WRITES_TO_EARN_AGAIN);
    program.check(&[(Would::Append, 100 - u64::from(WRITES_TO_EARN) + again)]);
}

#[test]
fn reads_at_random_positions_earn_nothing_and_those_in_order_do() {
    let pread = |program: &mut Program, at| {
        let read = Transfer { at, len: 100, done: 100, is_positioned: true };
        let wish = program.shadow.read(read, &mut program.world, |_, _| {});
        wish == Wish::Window
    };
    let mut program = Program::new();
    assert!((0..1000).all(|n| !pread(&mut program, n * 7919 % 1000 * 10_000)));
    assert!((0..20).any(|n| pread(&mut program, (1 << 30) | (n * 100))));
}

#[test]
fn a_refusal_is_final_and_keeps_its_reason() {
    let mut program = Program::new();
    (0..100).for_each(|_| program.read(200));
    let hits = program.count(Would::Hit);
    program.shadow.refuse(Why::Mapped, &mut program.world, |_, _| {});
    (0..100).for_each(|_| program.read(200));
    program.check(&[(Would::Hit, hits)]);
    assert_eq!(program.shadow.why(), Why::Mapped.bit());
}

/// Calls at places of their own leave the position where it was, and the window that they earn is worth
/// what lies behind it. (Told by others where the position was, a recording told another one.)
#[test]
fn a_window_is_worth_what_lies_behind_the_position() {
    let opens_at = |position| {
        let mut program = Program::new();
        let far = Transfer { at: position, len: 0, done: 0, is_positioned: false };
        let _ = program.shadow.read(far, &mut program.world, |_, _| {});
        let earns = (0..20).any(|n| {
            let read = Transfer { at: n * 100, len: 100, done: 100, is_positioned: true };
            program.shadow.read(read, &mut program.world, |_, _| {}) == Wish::Window
        });
        program.shadow.open_window(1 << 20);
        earns && program.shadow.is_on()
    };
    assert!(opens_at(0));
    assert!(!opens_at(1 << 20));
    assert!(!opens_at(u64::MAX), "beyond its end");
}

/// After calls were left out a window goes on where it was, about the place to which the program has come:
/// behind it, or before it, where no window can lie.
#[test]
fn after_a_gap_a_window_goes_on() {
    let mut program = Program::new();
    program.shadow = Shadow::NEW.with_buffer(64 << 10);
    (0..20_000).for_each(|_| program.read(10));
    let resume = |program: &mut Program, at| {
        (program.at, program.counts) = (at, [0; Would::COUNT]);
        program.shadow.resume(at, &program.world, 7);
        program.read(10);
    };
    for _ in 0..100 {
        let at = program.at;
        (0..77).for_each(|_| program.read(10));
        resume(&mut program, at + (1 << 30));
    }
    (0..100).for_each(|_| program.read(10));
    program.check(&[(Would::Fill, 0), (Would::Hit, 101)]);
    for _ in 0..100 {
        (0..3_000).for_each(|_| program.read(10));
        resume(&mut program, 0);
    }
}

/// What has to be earned again is earned in the calls that are left out, too.
#[test]
fn reads_go_on_earning_in_a_gap() {
    let mut program = Program::new();
    program.shadow.learning = (0..6).fold(program.shadow.learning, |now, _| now.back_off());
    program.shadow.score = 0;
    (0..100).for_each(|_| program.read(10));
    assert!(!program.shadow.is_on());
    program.shadow.resume(program.at, &program.world, 31);
    program.read(10);
    assert!(program.shadow.is_on());
}

#[test]
fn a_file_from_outside_gets_its_window_when_it_is_known_to_be_alone() {
    let open = |size: u64| {
        let mut program = Program::new();
        program.shadow = Shadow::OUTSIDE;
        let mut reads = 0u64;
        while program.count(Would::Hit) == 0 && reads < 1000 {
            let read = Transfer { at: reads, len: 1, done: 1, is_positioned: false };
            let counts = &mut program.counts;
            let count = |would, n| counts[would as usize] += n;
            if program.shadow.read(read, &mut program.world, count) == Wish::Window {
                program.shadow.open_window(size);
            }
            reads += 1;
        }
        reads
    };
    // Earned, and not worth a question; asked; answered; and the first hit.
    assert_eq!(open(1 << 20), 16 + 32 + 64 + 1);
    assert_eq!(open(32 << 10), 1000, "too little is left");
}

/// Calls of two descriptions of one file, by turns.
fn in_turns(turns: u32, first: &mut Program, other: &mut Program, reads: bool) {
    for _ in 0..turns {
        first.world.beside = other.shadow.has(&first.world);
        first.write(200);
        let world = World { beside: first.shadow.has(&first.world), ..first.world };
        other.world = world;
        if reads {
            other.read(200)
        } else {
            other.write(200)
        }
        first.world = other.world;
    }
}

#[test]
fn two_descriptions_of_a_file_do_not_wait_beside_each_other() {
    let (mut one, mut other) = (Program::new(), Program::new());
    in_turns(1000, &mut one, &mut other, false);
    // What one has waiting goes out before the other writes, so that soon nothing waits any more.
    for program in [&one, &other] {
        let flushes = u64::from(POOR_FLUSHES_MAX);
        program.check(&[(Would::Append, flushes), (Would::Flush, flushes)]);
    }
    assert_ne!(other.shadow.why() & Why::OpenTwice.bit(), 0);
}

#[test]
fn a_write_beside_a_window_passes_through_and_is_news_to_it() {
    let (mut writer, mut reader) = (Program::new(), Program::new());
    (0..100).for_each(|_| reader.read(200));
    assert!(reader.count(Would::Hit) > 0 && reader.count(Would::Ask) == 0);
    in_turns(200, &mut writer, &mut reader, true);
    writer.check(&[(Would::Append, 0)]);
    assert!(reader.count(Would::Ask) > 100, "{}", reader.count(Would::Ask));
}

#[test]
fn a_window_is_found_to_be_old_when_it_is_asked() {
    let mut reader = Program::new();
    (0..20).for_each(|_| reader.read(20));
    reader.check(&[(Would::Hit, 4), (Would::Fill, 1), (Would::Ask, 0)]);
    reader.shadow.written_beside();
    reader.read(20);
    reader.check(&[(Would::Fill, 1), (Would::Ask, 0)]);
    reader.world.acquire_point();
    (0..2).for_each(|_| reader.read(20));
    reader.check(&[(Would::Hit, 7), (Would::Fill, 2), (Would::Ask, 1)]);
}
