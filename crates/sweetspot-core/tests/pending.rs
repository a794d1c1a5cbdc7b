//! The protocol of pending bytes in every interleaving of program, guard, observer and reaper, by loom.
//!
//! The file is one cell. What the program writes is numbered; an observer who has seen a number stores
//! one of his own above it. Whatever happens, his stands at the end, and the last accepted write does
//! where he did not come: nothing is lost, nothing is written again over what came after it.

use loom::sync::atomic::{AtomicU64, Ordering::SeqCst};
use loom::sync::{Arc, Mutex};
use loom::thread;
use sweetspot_core::pending::{self, Found, Owner};
use test_start as _;

struct Word(AtomicU64);

impl pending::Word for Word {
    fn load(&self) -> u64 {
        self.0.load(SeqCst)
    }

    fn swap(&self, expected: u64, new: u64) -> bool {
        self.0.compare_exchange(expected, new, SeqCst, SeqCst).is_ok()
    }
}

/// What the observer stores, above all that the program writes.
const OBSERVED: u64 = 1000;

/// Pending bytes, where they wait, and the file. A write of the program is one byte longer than the last
/// one and its value is the length, so that a flush of `n` bytes stores `n`.
struct Shared {
    word: Word,
    /// Bytes that the program knows to be in the file, before those that wait.
    base: AtomicU64,
    file: AtomicU64,
    /// The lock of the open file.
    lock: Mutex<()>,
}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared {
            word: Word(AtomicU64::new(0)),
            base: AtomicU64::new(0),
            file: AtomicU64::new(0),
            lock: Mutex::new(()),
        })
    }

    /// One more byte, as the program's append: under the lock, committed by a swap.
    fn append(&self) -> bool {
        self.append_interrupted(|_| ())
    }

    /// The same with a handler that may come at each step. What it has overtaken starts again.
    fn append_interrupted(&self, mut handler: impl FnMut(usize)) -> bool {
        let _held = self.lock.lock().unwrap();
        handler(0);
        loop {
            let seen = pending::Word::load(&self.word);
            handler(1);
            if pending::owner_of(seen) != Owner::Nobody {
                return false;
            }
            let is_done = pending::Word::swap(&self.word, seen, seen + 1);
            handler(2);
            if is_done
                || pending::generation_of(pending::Word::load(&self.word))
                    == pending::generation_of(seen)
            {
                return is_done;
            }
        }
    }

    /// As the program's flush. False: the guard was writing.
    fn flush(&self) -> bool {
        self.flush_if(true)
    }

    /// The same where there is room, or not.
    fn flush_if(&self, is_room: bool) -> bool {
        let _held = self.lock.lock().unwrap();
        self.flush_held(is_room)
    }

    /// The same by who holds the lock, or has interrupted him.
    fn flush_held(&self, is_room: bool) -> bool {
        let seen = pending::Word::load(&self.word);
        if pending::owner_of(seen) == Owner::Returned {
            self.base.fetch_add(pending::length_of(seen), SeqCst);
        }
        match pending::begin_flush(&self.word, seen) {
            Found::Begun(word) if !is_room => {
                pending::end_flush(&self.word, word, false);
                true
            }
            Found::Begun(word) => {
                self.write(pending::length_of(word));
                self.base.fetch_add(pending::length_of(word), SeqCst);
                pending::end_flush(&self.word, word, true);
                true
            }
            Found::Returned(_) | Found::Nothing => true,
            Found::Guard(_) => false,
        }
    }

    /// A write of `bytes` behind the base.
    fn write(&self, bytes: u64) {
        self.file.store(self.base.load(SeqCst) + bytes, SeqCst);
    }

    /// As the guard: takes what was seen, writes it, gives it back.
    fn take(&self) {
        let seen = pending::Word::load(&self.word);
        if pending::take(&self.word, seen) {
            self.write(pending::length_of(seen));
            assert!(pending::give_back(&self.word, seen, true));
        }
    }

    /// Somebody who has seen a byte in the file, and stores what follows from it.
    fn observe(&self) {
        let seen = self.file.load(SeqCst);
        if (1..OBSERVED).contains(&seen) {
            // As a lock would order it: he has read what the guard or the program wrote, entirely.
            let _ = self.file.compare_exchange(seen, OBSERVED + seen, SeqCst, SeqCst);
        }
    }
}

/// The observer's update of the bytes that he saw is never undone by a write of the same bytes.
#[test]
fn what_somebody_stores_after_the_guards_write_stands() {
    loom::model(|| {
        let shared = Shared::new();
        assert!(shared.append());
        let guard = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.take();
                shared.observe();
            })
        };
        // The program goes on at the same time.
        shared.flush();
        guard.join().unwrap();
        while !shared.flush() {}
        let file = shared.file.load(SeqCst);
        assert!(file == 1 || file == OBSERVED + 1, "{file}");
        let observed_after_program = file == 1;
        // If the observer came, he came after the only write there ever is.
        assert!(observed_after_program || file > OBSERVED);
        assert_eq!(shared.base.load(SeqCst), 1, "accepted and written once");
    });
}

/// Every accepted byte arrives, no matter who writes it: two threads of the program and the guard. The first flush
/// succeeds, or fails.
fn threads_and_guard(is_room: bool) {
    loom::model(move || {
        let shared = Shared::new();
        assert!(shared.append());
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || u64::from(shared.append()))
        };
        let guard = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.take())
        };
        shared.flush_if(is_room);
        let accepted = 1 + other.join().unwrap();
        guard.join().unwrap();
        assert!(shared.flush(), "the guard is done");
        assert_eq!(shared.base.load(SeqCst), accepted);
        assert_eq!(shared.file.load(SeqCst), accepted);
    });
}

#[test]
fn threads_and_guard_lose_and_double_nothing() {
    threads_and_guard(true);
}

#[test]
fn what_a_flush_could_not_write_is_written_by_the_next_one() {
    threads_and_guard(false);
}

/// What a handler does: each flushes first, as it may not append.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Handler {
    Flushes,
    /// It passes through, behind what is in the file.
    Writes,
    /// It sees all that was accepted.
    Reads,
}

/// A handler interrupts an append on the same thread, at any step, beside the guard: nothing is lost, doubled or out of
/// order.
#[test]
fn a_handler_may_come_at_any_step_of_an_append() {
    for handler in [Handler::Flushes, Handler::Writes, Handler::Reads] {
        for step in 0..3 {
            loom::model(move || {
                let shared = Shared::new();
                assert!(shared.append());
                let guard = {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || shared.take())
                };
                let mut written = 0;
                let mut has_come = false;
                let is_accepted = shared.append_interrupted(|now| {
                    if now != step || std::mem::replace(&mut has_come, true) {
                        return;
                    }
                    while !shared.flush_held(true) {
                        thread::yield_now();
                    }
                    let base = shared.base.load(SeqCst);
                    if handler == Handler::Writes {
                        shared.write(1);
                        shared.base.fetch_add(1, SeqCst);
                        written = 1;
                    }
                    let file = shared.file.load(SeqCst);
                    assert_eq!(file, base + written, "it sees what was written before");
                });
                guard.join().unwrap();
                assert!(has_come && shared.flush(), "the guard is done");
                let all = 1 + u64::from(is_accepted) + written;
                assert_eq!(shared.base.load(SeqCst), all, "{handler:?} at {step}");
                assert_eq!(shared.file.load(SeqCst), all, "{handler:?} at {step}");
            });
        }
    }
}

/// The program dies after any step of its own; the guard finishes what the word says.
#[test]
fn a_death_of_the_program_leaves_what_it_accepted() {
    for steps in 0..6 {
        loom::model(move || {
            let shared = Shared::new();
            let accepted = Arc::new(AtomicU64::new(0));
            let guard = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.take())
            };
            // A program that is cut off after so many steps.
            let mut left = steps;
            let mut step = || {
                left -= i32::from(left > 0);
                left > 0
            };
            'dead: {
                for _ in 0..2 {
                    if !step() {
                        break 'dead;
                    }
                    accepted.fetch_add(u64::from(shared.append()), SeqCst);
                }
                if !step() {
                    break 'dead;
                }
                if let Found::Begun(word) =
                    pending::begin_flush(&shared.word, pending::Word::load(&shared.word))
                {
                    if !step() {
                        break 'dead;
                    }
                    shared.write(pending::length_of(word));
                    if !step() {
                        break 'dead;
                    }
                    // The library stores the base before the swap; a reaper reads it after a death.
                    pending::end_flush(&shared.word, word, true);
                }
            }
            // The reaper: one thread of the guard, so its own take is over.
            guard.join().unwrap();
            let word = pending::Word::load(&shared.word);
            if pending::waiting_of(word) > 0 {
                shared.write(pending::waiting_of(word));
            }
            assert_eq!(shared.file.load(SeqCst), accepted.load(SeqCst));
        });
    }
}

/// The guard dies after any step of a take; the program takes the bytes back and writes them.
#[test]
fn a_death_of_the_guard_leaves_what_it_took() {
    for steps in 0..4 {
        loom::model(move || {
            let shared = Shared::new();
            assert!(shared.append());
            let guard = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let seen = pending::Word::load(&shared.word);
                    if steps > 0 && pending::take(&shared.word, seen) && steps > 1 {
                        shared.write(pending::length_of(seen));
                        if steps > 2 {
                            assert!(pending::give_back(&shared.word, seen, true));
                        }
                    }
                })
            };
            let is_flushed = shared.flush();
            guard.join().unwrap();
            if !is_flushed {
                let word = pending::Word::load(&shared.word);
                if pending::owner_of(word) == Owner::Guard {
                    let is_written = shared.file.load(SeqCst) == 1;
                    assert!(pending::take_back(&shared.word, word, is_written));
                }
            }
            assert!(shared.flush());
            assert_eq!(shared.file.load(SeqCst), 1);
            assert_eq!(shared.base.load(SeqCst), 1);
        });
    }
}

/// As `write::begin_waiting` and the append after it, and a flush at the end; and somebody else who recalls the
/// entry, has what waits written, and writes to the same place. Natively what he writes comes after every write
/// that waited.
#[test]
fn nothing_comes_over_what_is_written_after_a_recall() {
    loom::model(|| {
        let shared = Shared::new();
        let is_recalled = Arc::new(AtomicU64::new(0));
        let program = {
            let (shared, is_recalled) = (Arc::clone(&shared), Arc::clone(&is_recalled));
            thread::spawn(move || {
                for _ in 0..2 {
                    // What is not appended passes through, which natively may come first or last.
                    if is_recalled.load(SeqCst) == 0 {
                        shared.append();
                    }
                    shared.flush();
                }
            })
        };
        is_recalled.store(1, SeqCst);
        while !pending::recall(&shared.word) {
            if pending::owner_of(pending::Word::load(&shared.word)) == Owner::Nobody {
                shared.take();
            }
            thread::yield_now();
        }
        shared.file.store(OBSERVED, SeqCst);
        program.join().unwrap();
        assert_eq!(shared.file.load(SeqCst), OBSERVED);
    });
}
