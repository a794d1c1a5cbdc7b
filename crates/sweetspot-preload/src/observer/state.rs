//! What is known of each descriptor, and of each open file description that descriptors share: where its
//! calls are counted, where it is, its pattern, and what buffering would have done with it.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};

use sweetspot_core::observe::{Record, SAMPLE_GAP, Tally};
use sweetspot_core::shadow::{Shadow, World, Would};
use sweetspot_core::why::Why;

use super::{DESCRIPTORS_MAX, random, thinning};
use crate::engine::ledger;
use crate::floor::atomic;

/// What is known of a descriptor. All that a call of the common kind touches lies in one cache line.
#[repr(C, align(64))]
pub(super) struct Seen {
    /// Where its calls are counted; null: to be found.
    pub(super) record: AtomicPtr<Record>,
    /// While the descriptor is *armed*: the position, which else is in the description's state.
    pub(super) position: AtomicU64,
    /// Calls that only have to be counted; none or fewer: the next one is looked at closely.
    pub(super) left: AtomicI32,
    /// What `left` began with; 0: not armed.
    pub(super) armed: AtomicU32,
    /// 1: the call after these is timed.
    pub(super) due: AtomicU32,
    /// Bits, see below.
    pub(super) flags: AtomicU32,
    /// Its open file description: 1 more than the index in `DESCRIPTIONS`; 0: none.
    pub(super) description: AtomicU32,
    /// In the child of a fork: the record of the parent, whose path it is.
    pub(super) before: AtomicPtr<Record>,
    /// The number of its file, where others of that path were open at the same time; 0: not known.
    pub(super) inode: AtomicU64,
}

/// What is known of an open file description, which duplicates share.
pub(super) struct Description {
    /// Descriptors that share it; 0: free.
    pub(super) references: AtomicU32,
    /// 1 while `state` is being changed: a handler, or another thread, then only counts.
    pub(super) busy: AtomicU32,
    pub(super) state: UnsafeCell<State>,
}

// SAFETY: `state` is only touched while `busy` is held.
unsafe impl Sync for Description {}

/// Where the search for a free description begins.
#[unsafe(link_section = ".data")]
pub(super) static NEXT_DESCRIPTION: AtomicU32 = AtomicU32::new(0);

/// Other processes count in its record too.
pub(super) const SHARED: u32 = 1;
/// Closed at exec.
pub(super) const CLOSE_ON_EXEC: u32 = 2;
/// No file that could be buffered: its calls release and acquire.
pub(super) const OTHER: u32 = 4;
/// While armed: its calls would pass through, so its reads acquire and its writes release.
pub(super) const PASS_THROUGH: u32 = 8;
/// Counted in the record of its folder, until it proves busy. Most of them have no description: all
/// there is to them is counted the short way, while `left` lasts.
pub(super) const FOLDED: u32 = 16;
/// The file may be open by another description, too.
pub(super) const BESIDE_OTHERS: u32 = 32;
/// The calls that stdio makes on it are buffered like any others, by its rule.
pub(super) const STDIO_TOO: u32 = 64;

pub(super) struct State {
    pub(super) position: u64,
    pub(super) last_at: u64,
    pub(super) last_end: u64,
    pub(super) last_stride: i64,
    /// The run of sequential transfers that is going on began here.
    pub(super) run_from: u64,
    /// The longest stretch that was read or written in one run.
    pub(super) covered_from: u64,
    pub(super) covered_to: u64,
    pub(super) shadow: Shadow,
    /// What it says, not yet added to the shared counters.
    pub(super) would: [u64; Would::COUNT],
    /// Calls that are left out now; calls that are followed after that; what each of those stands
    /// for.
    pub(super) skip: u32,
    pub(super) left: u32,
    pub(super) weight: u32,
    /// How many bursts there have been.
    bursts: u32,
    /// Its number in the log, 0 before it is in it; and the record that the log has of it.
    pub(super) stream: u32,
    pub(super) logged_record: u32,
}

/// Pattern and shadow cost as much as all the rest of observing, so they follow every call only at
/// first, and then bursts, after gaps of random length: one call in [`WEIGHT_MIN`], and twice as rarely
/// after every [`BURSTS_ALIKE`], so that what a program does later is not missed, until it is one in
/// [`WEIGHT_MAX`] (fewer where a log fills). Each is counted as often as it stands for. How many calls
/// there were, and of which size, is counted always.
pub(super) const FIRST_CALLS: u32 = 4096;
pub(super) const BURST_CALLS: u32 = 256;
const BURSTS_ALIKE: u32 = 4;
const WEIGHT_MIN: u32 = 4;
const WEIGHT_MAX: u32 = 32;

impl State {
    pub(super) const NEW: State = State {
        position: 0,
        last_at: 0,
        last_end: 0,
        last_stride: 0,
        run_from: 0,
        covered_from: 0,
        covered_to: 0,
        shadow: Shadow::NEW,
        would: [0; Would::COUNT],
        skip: 0,
        left: FIRST_CALLS,
        weight: 1,
        bursts: 0,
        stream: 0,
        logged_record: 0,
    };

    /// As many calls as a burst has were followed, and none of them is lost if the process is killed. Where a
    /// burst has ended, calls are left out now.
    #[cold]
    pub(super) fn end_part(&mut self, counts: &Counts) {
        self.save(counts);
        if self.left > 0 {
            return;
        }
        self.left = BURST_CALLS;
        if ledger::is_exact() {
            return;
        }
        let steps = (self.bursts / BURSTS_ALIKE).min(WEIGHT_MAX.ilog2());
        self.weight = (WEIGHT_MIN << steps).min(WEIGHT_MAX) * thinning();
        self.bursts = self.bursts.saturating_add(1);
        let mean = BURST_CALLS * (self.weight - 1);
        self.skip = mean / 2 + random() % (mean + 1);
    }

    /// The first transfer after some calls were left out: as if it followed on the last one that was not.
    #[cold]
    pub(super) fn resume(&mut self, at: u64, world: &World) {
        let moved = at.wrapping_sub(self.last_end);
        let places = [&mut self.last_at, &mut self.last_end, &mut self.run_from];
        let covered = [&mut self.covered_from, &mut self.covered_to];
        places.into_iter().chain(covered).for_each(|place| *place = place.wrapping_add(moved));
        self.shadow.resume(at, world, self.weight - 1);
    }

    /// A transfer that does not begin where the last one ended, or the first one.
    #[cold]
    pub(super) fn jump(&mut self, at: u64, counts: &Counts) {
        self.run_from = at;
        if self.last_end == 0 {
            return;
        }
        let stride = at.wrapping_sub(self.last_at) as i64;
        let kind = if stride == self.last_stride { Tally::Strided } else { Tally::Random };
        counts.tally(kind, u64::from(self.weight));
        self.last_stride = stride;
    }

    pub(super) fn change_shadow(&mut self, world: &mut World, why: Option<Why>) {
        let State { shadow, would, weight, .. } = self;
        let count = |kind: Would, amount: u64| would[kind as usize] += amount * u64::from(*weight);
        match why {
            Some(why) => shadow.refuse(why, world, count),
            None => shadow.hand_over(world, count),
        }
    }

    /// Adds to the shared counters what buffering would have done so far.
    #[cold]
    pub(super) fn save(&mut self, counts: &Counts) {
        for (shared, own) in counts.record.would.iter().zip(&mut self.would) {
            if *own > 0 {
                counts.add(shared, *own);
                *own = 0;
            }
        }
        counts.record.why.fetch_or(self.shadow.why(), Relaxed);
    }
}

#[allow(clippy::declare_interior_mutable_const)]
pub(super) const NOT_SEEN: Seen = Seen {
    record: AtomicPtr::new(core::ptr::null_mut()),
    position: AtomicU64::new(0),
    left: AtomicI32::new(0),
    armed: AtomicU32::new(0),
    due: AtomicU32::new(0),
    flags: AtomicU32::new(0),
    description: AtomicU32::new(0),
    before: AtomicPtr::new(core::ptr::null_mut()),
    inode: AtomicU64::new(0),
};
pub(super) static SEEN: [Seen; DESCRIPTORS_MAX] = [const { NOT_SEEN }; DESCRIPTORS_MAX];
#[allow(clippy::declare_interior_mutable_const)]
pub(super) const UNUSED: Description = Description {
    references: AtomicU32::new(0),
    busy: AtomicU32::new(0),
    // SAFETY: zeros are a state. Set when it is taken; zeros take no room in the library's file.
    state: UnsafeCell::new(unsafe { core::mem::zeroed() }),
};
/// As many as descriptors, so that each finds one.
pub(super) static DESCRIPTIONS: [Description; DESCRIPTORS_MAX] =
    [const { UNUSED }; DESCRIPTORS_MAX];

/// A record to count in.
pub(super) struct Counts {
    pub(super) record: &'static Record,
    /// Nobody else counts in it: no other thread, no other process.
    pub(super) exclusive: bool,
}

impl Counts {
    #[inline(always)]
    pub(super) fn add(&self, counter: &AtomicU64, amount: u64) {
        if self.exclusive {
            counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
        } else {
            counter.fetch_add(amount, Relaxed);
        }
    }

    #[inline(always)]
    pub(super) fn tally(&self, tally: Tally, amount: u64) {
        self.add(&self.record.tallies[tally as usize], amount);
    }
}

impl Seen {
    pub(super) fn description(&self) -> Option<&'static Description> {
        DESCRIPTIONS.get((self.description.load(Relaxed) as usize).wrapping_sub(1))
    }

    /// Gives it a description of its own.
    pub(super) fn describe(&self) {
        let start = NEXT_DESCRIPTION.load(Relaxed) as usize;
        for step in 0..DESCRIPTORS_MAX {
            let index = (start + step) % DESCRIPTORS_MAX;
            let description = &DESCRIPTIONS[index];
            if description.references.load(Relaxed) == 0
                && description.references.compare_exchange(0, 1, Relaxed, Relaxed).is_ok()
            {
                NEXT_DESCRIPTION.store(index as u32 + 1, Relaxed);
                description.busy.store(0, Relaxed);
                // Where a log fills, fewer of the first calls are followed, too.
                let left = FIRST_CALLS / thinning().pow(2);
                // SAFETY: it was free, so it is only ours.
                unsafe { *description.state.get() = State { left, ..State::NEW } };
                self.description.store(index as u32 + 1, Relaxed);
                return;
            }
        }
        self.description.store(0, Relaxed);
    }

    /// From now on its calls are counted in `record`.
    pub(super) fn count_in(&self, record: &'static Record) -> Counts {
        let shared = record.owner.load(Relaxed) == 0;
        if shared != (self.flags.load(Relaxed) & SHARED != 0) {
            self.flags.fetch_xor(SHARED, Relaxed);
        }
        self.before.store(core::ptr::null_mut(), Relaxed);
        self.record.store((&raw const *record).cast_mut(), Relaxed);
        Counts { record, exclusive: !shared && atomic::single_threaded() }
    }

    /// Whether anything is known of it.
    pub(super) fn is_known(&self) -> bool {
        !self.record.load(Relaxed).is_null() || !self.before.load(Relaxed).is_null()
    }

    /// Gives up its share; whether it was the last one is asked before.
    pub(super) fn leave(&self) {
        if let Some(description) = self.description()
            && description.references.fetch_sub(1, Relaxed) == 1
        {
            // The next one takes its place: memory that is in use already.
            NEXT_DESCRIPTION.store(self.description.load(Relaxed) - 1, Relaxed);
        }
        self.description.store(0, Relaxed);
        self.left.store(0, Relaxed);
        self.armed.store(0, Relaxed);
        self.due.store(0, Relaxed);
        self.inode.store(0, Relaxed);
        self.before.store(core::ptr::null_mut(), Relaxed);
        self.record.store(core::ptr::null_mut(), Relaxed);
    }

    /// From now on that many calls are only counted, unless something else comes; the one after
    /// them is timed.
    #[cold]
    pub(super) fn arm(&self, calls: u32) {
        self.due.store(1, Relaxed);
        self.armed.store(calls, Relaxed);
        self.left.store(calls as i32, Relaxed);
    }

    /// The same for a file, if pattern and shadow are left out now, and no duplicate moves it.
    #[inline(always)]
    pub(super) fn arm_file(&self, state: &State) {
        let alone = |home: &Description| home.references.load(Relaxed) == 1;
        if state.skip > 1 && self.description().is_some_and(alone) {
            match state.shadow.is_on() {
                true => self.flags.fetch_and(!PASS_THROUGH, Relaxed),
                false => self.flags.fetch_or(PASS_THROUGH, Relaxed),
            };
            self.position.store(state.position, Relaxed);
            self.arm(gap().min(state.skip - 1));
        }
    }

    /// Ends that: what was counted meanwhile is left out of the state.
    #[inline(always)]
    pub(super) fn disarm(&self, state: &mut State) {
        let armed = self.armed.swap(0, Relaxed);
        if armed != 0 {
            let left = self.left.swap(0, Relaxed).max(0) as u32;
            state.skip = state.skip.saturating_sub(armed.saturating_sub(left));
            state.position = self.position.load(Relaxed);
        }
    }

    /// Does something with the state, unless somebody is at it.
    #[inline(always)]
    pub(super) fn with_state(&'static self, exclusive: bool, with: impl FnOnce(&mut State)) {
        let Some(home) = self.description() else { return };
        if exclusive {
            if home.busy.load(Relaxed) != 0 {
                return;
            }
            home.busy.store(1, Relaxed);
        } else if home.busy.swap(1, core::sync::atomic::Ordering::Acquire) != 0 {
            return;
        }
        // SAFETY: `busy` is held.
        let state = unsafe { &mut *home.state.get() };
        self.disarm(state);
        with(state);
        home.busy.store(0, core::sync::atomic::Ordering::Release);
    }
}

/// Calls until the next one that is timed: 1 to twice the mean.
pub(super) fn gap() -> u32 {
    1 + random() % (2 * SAMPLE_GAP - 1)
}
