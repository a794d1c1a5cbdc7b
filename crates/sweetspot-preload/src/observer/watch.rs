//! One call: what it was, how long it took, where it went, and what a buffer would have made of it.
#![allow(unsafe_code)]

use core::sync::atomic::Ordering::Relaxed;

use sweetspot_core::append::is_small;
use sweetspot_core::cost::Cost;
use sweetspot_core::learning::LEN_UNKNOWN;
use sweetspot_core::ledger::{BUFFER_OFF, Way};
use sweetspot_core::observe::{
    IS_OTHER, IS_REGULAR, Kind, LARGE_BYTES, OUTSIDE_SHARED, OUTSIDE_UNKNOWN, Tally, WAIT_NS,
    size_bucket,
};
use sweetspot_core::shadow::{self, Transfer, Use, Wish, World, Would};
use sweetspot_core::stamps::would_show_a_change;
use sweetspot_core::threshold::Ended;
use sweetspot_core::trace::Told;
use sweetspot_core::why::Why;

use super::files::BUSY_CALLS;
use super::state::{
    BURST_CALLS, Counts, FIRST_CALLS, FOLDED, OTHER, SEEN, STDIO_TOO, Seen, State, gap,
};
use super::{
    ACQUIRES, PID, RELEASES, TICKS, beside, clock_ns, count_point, is_on, log, observations,
    places, world_now,
};
use crate::engine::eligible::{Refusal, may_have_window, may_wait};
use crate::engine::{inodes, ledger, process, rules, thresholds};
use crate::floor::{clock, sys};

/// A call in flight.
pub struct Watch {
    pub(super) kind: Kind,
    pub(super) by_stdio: bool,
    pub(super) fd: i32,
    /// Bytes that were asked for; [`LEN_UNKNOWN`]: not known. Of a seek: whence.
    pub(super) len: u64,
    /// Where; -1: at the position.
    pub(super) at: i64,
    /// When it began; 0: it is not timed.
    pub(super) began_ns: u64,
    /// Where in the program it returns to; 0: not known.
    pub(super) returns_to: u64,
}

/// A call begins that is to be watched; `None`: this process is not observed.
#[inline(always)]
pub fn call(kind: Kind, fd: i32, len: u64, at: Option<i64>) -> Option<Watch> {
    if !is_on() {
        return None;
    }
    let began_ns = turn(kind, len);
    Some(Watch { kind, by_stdio: false, fd, len, at: at.unwrap_or(-1), began_ns, returns_to: 0 })
}

/// Whether it is the turn of this call to be timed: then the time, else 0.
#[inline(always)]
pub(super) fn turn(kind: Kind, len: u64) -> u64 {
    let left = TICKS.load(Relaxed).wrapping_sub(1);
    TICKS.store(left, Relaxed);
    if left == 0 || kind != Kind::Seek && len >= LARGE_BYTES { time(left) } else { 0 }
}

/// This call is timed. If that was its turn, another is chosen: after 1 to twice the gap calls,
/// each as likely as the others, so that no rhythm of the program hides from it.
#[cold]
pub(super) fn time(left: u32) -> u64 {
    if left == 0 {
        TICKS.store(gap(), Relaxed);
    }
    clock_ns().max(1)
}

/// A call that libc makes on its own account.
pub fn libc_call(kind: Kind, fd: i32, len: u64, at: Option<i64>) -> Option<Watch> {
    call(kind, fd, len, at).map(|watch| Watch { by_stdio: true, ..watch })
}

impl Watch {
    /// Counts the call that gave `answer`, and hands the answer back.
    #[inline]
    pub fn finish(self, answer: isize) -> isize {
        self.finish_slowly(answer);
        answer
    }

    #[cold]
    #[inline(never)]
    pub(super) fn finish_slowly(&self, answer: isize) {
        let took_ns = match self.began_ns {
            0 => 0,
            began => clock_ns().saturating_sub(began).max(1),
        };
        self.count(answer, took_ns);
    }

    /// `took_ns` is 0 where the call was not timed.
    pub(super) fn count(&self, answer: isize, took_ns: u64) {
        let Some(seen) = SEEN.get(self.fd as usize) else { return };
        let Some(counts) = Counts::of(seen, self.fd) else { return };
        let done = answer.max(0) as u64;
        match self.kind {
            Kind::Read => {
                counts.add(&counts.record.sizes_read[size_bucket(done)], 1);
                counts.tally(Tally::ReadBytes, done);
            }
            Kind::Write => {
                counts.add(&counts.record.sizes_written[size_bucket(done)], 1);
                counts.tally(Tally::WrittenBytes, done);
            }
            Kind::Seek => counts.tally(Tally::Seeks, 1),
        }
        if answer <= 0 || self.by_stdio {
            self.count_rare(&counts, answer);
        }
        if took_ns != 0 {
            self.count_time(&counts, done, took_ns);
        }
        if seen.flags.load(Relaxed) & OTHER != 0 {
            count_point(&ACQUIRES);
            count_point(&RELEASES);
            if counts.exclusive && !self.by_stdio {
                seen.arm(gap());
            }
            return;
        }
        let is_folded = seen.flags.load(Relaxed) & FOLDED != 0;
        if is_folded && seen.description().is_none() && seen.left.fetch_sub(1, Relaxed) <= 0 {
            seen.describe();
            seen.with_state(false, |state| state.position = seen.position.load(Relaxed));
            return seen.unfold(self.fd);
        }
        let beside = beside::others_have(seen, counts.exclusive);
        seen.with_state(counts.exclusive, |state| {
            self.follow(state, seen, &counts, answer, beside);
            if is_folded && (state.left == FIRST_CALLS - BUSY_CALLS || state.weight > 1) {
                state.save(&counts);
                seen.unfold(self.fd);
            }
            if counts.exclusive && !self.by_stdio {
                seen.arm_file(state);
            }
        });
        if self.kind == Kind::Write && beside.window {
            beside::written(seen, counts.exclusive);
        }
    }

    #[cold]
    pub(super) fn count_rare(&self, counts: &Counts, answer: isize) {
        if answer < 0 {
            counts.tally(Tally::Failed, 1);
        } else if answer == 0 && self.kind == Kind::Read && self.len != 0 {
            counts.tally(Tally::Ends, 1);
        }
        if self.by_stdio {
            let kind = match self.kind {
                Kind::Read => Tally::StdioReads,
                Kind::Write => Tally::StdioWrites,
                Kind::Seek => Tally::StdioSeeks,
            };
            counts.tally(kind, 1);
        }
    }

    #[cold]
    pub(super) fn count_time(&self, counts: &Counts, done: u64, took_ns: u64) {
        let times = &counts.record.times[self.kind as usize];
        let (calls, ns) = if self.kind != Kind::Seek && done >= LARGE_BYTES {
            (&times.large, &times.large_ns)
        } else if took_ns >= WAIT_NS {
            (&times.waits, &times.waits_ns)
        } else {
            (&times.timed, &times.timed_ns)
        };
        counts.add(calls, 1);
        counts.add(ns, took_ns);
        if self.returns_to != 0
            && ledger::wants_places()
            && let Some(all) = observations()
        {
            places::note(all, PID.load(Relaxed), counts.record, self.returns_to);
        }
    }

    /// Where the call went, and what buffering would have done with it.
    #[inline(always)]
    pub(super) fn follow(
        &self,
        state: &mut State,
        seen: &Seen,
        counts: &Counts,
        answer: isize,
        beside: Use,
    ) {
        let resumes = state.left == BURST_CALLS && state.weight > 1;
        if state.skip > 0 || resumes && self.kind == Kind::Seek {
            state.skip = state.skip.saturating_sub(1);
            return self.pass(state, answer);
        }
        let before = World { beside, ..world_now() };
        let mut world = before;
        if resumes {
            let at = if self.at >= 0 { self.at as u64 } else { state.position };
            state.resume(at, &world);
        }
        let manner = log::Manner {
            by_stdio: self.by_stdio && seen.flags.load(Relaxed) & STDIO_TOO == 0,
            handed: self.is_handed(answer),
            positioned: self.at >= 0,
            resumed: resumes,
        };
        let nowhere = self.kind == Kind::Seek && answer >= 0 && answer as u64 == state.position;
        let done = answer.max(0) as u64;
        let at = self.move_on(state, counts, answer);
        let len = if self.len == LEN_UNKNOWN { done } else { self.len };
        let transfer = Transfer { at, len, done, is_positioned: self.at >= 0 };
        let sought = state.position;
        let told = if self.kind == Kind::Seek { (sought, 0, 0) } else { (at, len, done) };
        log::call(state, counts, &world, self.kind, manner, told);
        if manner.by_stdio {
            world.release_point();
            world.acquire_point();
            state.change_shadow(&mut world, Some(Why::Stdio));
        } else {
            let wish = self.ask_shadow(state, transfer, sought, manner.handed, &mut world);
            if wish != Wish::Nothing {
                self.grant(wish, state, seen, counts, &mut world);
                refuse_windows(state, self.fd, counts);
            }
        }
        if nowhere {
            counts.tally(Tally::SeeksNowhere, u64::from(state.weight));
        }
        state.would[match self.kind {
            Kind::Read => Would::AskedReads,
            Kind::Write => Would::AskedWrites,
            Kind::Seek => Would::AskedSeeks,
        } as usize] += u64::from(state.weight);
        state.left -= 1;
        if state.left.is_multiple_of(BURST_CALLS) {
            state.end_part(counts);
        }
        if world != before {
            keep(&world);
        }
    }

    /// What buffering would have done with a call that was a transfer, or a seek that led to `position`.
    #[inline(always)]
    fn ask_shadow(
        &self,
        state: &mut State,
        transfer: Transfer,
        position: u64,
        is_handed: bool,
        world: &mut World,
    ) -> Wish {
        let State { shadow, would, weight, .. } = state;
        let weight = u64::from(*weight);
        let count = |kind: Would, amount: u64| would[kind as usize] += amount * weight;
        match self.kind {
            Kind::Read => return shadow.read(transfer, world, count),
            Kind::Write if is_handed => shadow.write_past(transfer, world, count),
            Kind::Write => return shadow.write(transfer, world, count),
            Kind::Seek => shadow.seek(position, !is_handed, world, count),
        }
        Wish::Nothing
    }

    /// Whether the engine would hand the file over to this call: large vectors, writes at a position, seeks
    /// from elsewhere than the beginning and the position.
    #[inline(always)]
    pub(super) fn is_handed(&self, answer: isize) -> bool {
        let plain = self.len == libc::SEEK_SET as u64 || self.len == libc::SEEK_CUR as u64;
        match self.kind {
            Kind::Read => false,
            Kind::Write => self.at >= 0 || self.len == LEN_UNKNOWN && !is_small(answer as u64),
            Kind::Seek => !plain || answer < 0,
        }
    }

    /// Follows the position, and nothing else.
    #[inline(always)]
    pub(super) fn pass(&self, state: &mut State, answer: isize) {
        if answer >= 0 {
            match self.kind {
                Kind::Seek => state.position = answer as u64,
                _ if self.at < 0 => state.position = state.position.wrapping_add(answer as u64),
                _ => {}
            }
        }
    }

    /// Follows the position and the pattern; says where a transfer began.
    #[inline(always)]
    pub(super) fn move_on(&self, state: &mut State, counts: &Counts, answer: isize) -> u64 {
        let at = if self.at >= 0 { self.at as u64 } else { state.position };
        self.pass(state, answer);
        let done = answer.max(0) as u64;
        let end = at.wrapping_add(done);
        if done == 0 || self.kind == Kind::Seek {
            return at;
        }
        if at != state.last_end || state.last_end == 0 {
            state.jump(at, counts);
        }
        if end.wrapping_sub(state.run_from) > state.covered_to.wrapping_sub(state.covered_from) {
            (state.covered_from, state.covered_to) = (state.run_from, end);
        } else if at >= state.covered_from && end <= state.covered_to {
            let again = if self.kind == Kind::Read { Tally::ReReads } else { Tally::ReWrites };
            counts.tally(again, u64::from(state.weight));
        }
        (state.last_at, state.last_end) = (at, end);
        at
    }

    /// Whether what came from outside is another process', too. The guard would look at all of them. Of what the
    /// first program was given to read `profile` has done so; of others nobody but the parent is asked, from which
    /// they came most often.
    fn is_shared(&self, flags: i32) -> bool {
        let parent = (sys::parent_id(), self.fd);
        let outside = observations().map_or(OUTSIDE_UNKNOWN, |all| all.outside.load(Relaxed));
        flags & libc::O_ACCMODE != libc::O_RDONLY
            || outside == OUTSIDE_UNKNOWN
            || self.fd == 0 && outside == OUTSIDE_SHARED
            || sys::is_same_description(self.fd, parent) != Some(false)
    }

    /// Why the engine would not give the file what `wish` says.
    fn against(
        &self,
        wish: Wish,
        state: &State,
        flags: i32,
        status: &sys::Status,
        buffer: u32,
    ) -> Option<Why> {
        let made_up = || sys::file_system(self.fd).is_none_or(|of| of.is_made_up());
        let is_fuse = || sys::file_system(self.fd).is_some_and(|of| of.is_fuse());
        let is_direct = || is_fuse() && sys::is_direct_by_server(self.fd) == Some(true);
        if !may_wait(flags) || is_direct() {
            Some(Why::OpenFlags)
        } else if !status.regular || made_up() {
            Some(Why::NotRegular)
        } else if buffer == BUFFER_OFF {
            Some(Why::Off)
        } else if inodes::is_mapped(status.device, status.inode) {
            Some(Why::Mapped)
        } else if wish == Wish::Window && state.shadow.is_from_outside() && self.is_shared(flags) {
            Some(Why::FromOutside)
        } else if wish == Wish::Window
            && let Err(Refusal::Final(why)) = may_have_window(self.fd)
        {
            Some(why)
        } else {
            None
        }
    }

    /// The file has earned what `wish` says: asks of it what the engine would ask. Nobody notices what is
    /// done with `/dev/zero`, or with what the kernel makes up.
    #[cold]
    pub(super) fn grant(
        &self,
        wish: Wish,
        state: &mut State,
        seen: &Seen,
        counts: &Counts,
        world: &mut World,
    ) {
        // What the shadow did to the world at this call, one that is told the call again does, too.
        log::know(world);
        let status = sys::status(self.fd).unwrap_or_default();
        look_at_times(&status, state, counts, world);
        if wish == Wish::Times {
            return;
        }
        counts.record.size.fetch_max(status.size, Relaxed);
        let flags = sys::open_flags(self.fd).unwrap_or(0);
        let buffer = rules::buffer_for(self.fd);
        let against = self.against(wish, state, flags, &status, buffer);
        let is = if against == Some(Why::NotRegular) { IS_OTHER } else { IS_REGULAR };
        counts.record.what.fetch_or(is, Relaxed);
        if against.is_none() {
            state.would[Would::Open as usize] += u64::from(state.weight);
            state.shadow = state.shadow.with_buffer(buffer);
        }
        let devices = ledger::devices();
        let cost = |way| devices.and_then(|devices| devices.cost(status.device, way));
        let told = shadow::Told { read: cost(Way::Read), write: cost(Way::Write) };
        if against.is_none() && told != shadow::Told::default() {
            let word = |cost: Option<Cost>| cost.map_or(0, Cost::to_word);
            log::tell(state, counts, world, Told::Costs, word(told.read), word(told.write));
            state.shadow.tell(told);
        }
        match (wish, against) {
            (_, Some(why)) => {
                if why == Why::NotRegular && status.is_noticed {
                    seen.flags.fetch_or(OTHER, Relaxed);
                }
                state.change(counts, world, Some(why));
            }
            (Wish::Window, None) => {
                log::tell(state, counts, world, Told::Window, status.size, 0);
                state.shadow.open_window(status.size);
            }
            (_, None) if !sys::file_size_unlimited() => {
                log::tell(state, counts, world, Told::RefuseWrites, 0, Why::FileSizeLimit.bit());
                state.shadow.refuse_writes(Why::FileSizeLimit);
            }
            (_, None) if flags & libc::O_APPEND != 0 || state.shadow.is_from_outside() => {
                log::tell(state, counts, world, Told::HandleToAppend, status.size, 0);
                state.shadow.ask_for_handle_to_append(status.size);
            }
            (_, None) => {
                log::tell(state, counts, world, Told::Handle, status.size, 0);
                state.shadow.ask_for_handle(status.size);
            }
        }
    }
}

/// Where the process reads memory that others may write, only a file that nobody else looks at would have a window.
#[cold]
pub(super) fn refuse_windows(state: &mut State, fd: i32, counts: &Counts) {
    if process::may_acquire() && !rules::is_unobserved(fd) {
        log::tell(state, counts, &world_now(), Told::NoWindows, 0, 0);
        state.shadow.refuse_windows();
    }
}

/// Whether the file was changed so lately that a change which comes now would not show in its times.
fn look_at_times(status: &sys::Status, state: &mut State, counts: &Counts, world: &World) {
    let age_ns = clock::max_age_ms() * 1_000_000;
    let is_recent =
        !would_show_a_change(status.mtime_ns, status.ctime_ns, clock::wall_ns(), age_ns);
    if is_recent != state.shadow.is_recent() {
        log::tell(state, counts, world, Told::Times, 0, is_recent.into());
        state.shadow.note_times(is_recent);
    }
}

/// The world is now as shadows have left it.
#[inline(always)]
fn keep(world: &World) {
    ACQUIRES.store(world.acquires, Relaxed);
    RELEASES.store(world.releases, Relaxed);
    if world.ended_reads > 0 {
        thresholds::ended(Ended::reads(world.ended_reads));
    }
    log::know(world);
}
