//! The times of files that were written at different times, and whose bytes leave together.
//!
//! The kernel stamps all of them with the moment at which they leave. Anyone who compares them (make,
//! `test -nt`) is to see which was written later, so an earlier one gets a time just before that moment.
//! Not the time at which the program wrote to it: then its bytes were in no file yet, and anyone who
//! copied the file meanwhile would take the copy for newer.

/// A file that was just written to.
#[derive(Clone, Copy, Debug)]
pub struct Stamped {
    /// When the program wrote to it, as coarse as the times of files.
    pub written_ns: u64,
    /// Its time of modification before, and as the kernel left it.
    pub before_ns: u64,
    pub modified_ns: u64,
}

/// Whether there is room before a time of a file: not where the file system keeps whole seconds. Nothing
/// finer tells that: on some machines the clock by which files are stamped knows whole milliseconds only.
pub fn has_room_before(modified_ns: u64) -> bool {
    !modified_ns.is_multiple_of(SECOND_NS)
}

const SECOND_NS: u64 = 1_000_000_000;

/// The files that leave together, in the order of the program's last writes to them. Each is told apart
/// from those after it before the next one is written: so nobody ever sees both written and their times
/// the wrong way round.
#[derive(Clone, Debug)]
pub struct Apart {
    /// Files that are still to come.
    left: u64,
    last_written_ns: u64,
    /// Those that were written in one moment stay alike: when, and how many were to come with the first.
    group: (u64, u64),
}

impl Apart {
    /// So many files, to the last of which the program wrote at `last_written_ns`.
    pub fn new(files: u64, last_written_ns: u64) -> Apart {
        Apart { left: files, last_written_ns, group: (0, 0) }
    }

    /// The next file has left; it needs no time of its own.
    pub fn pass(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// The time that the file which has just left is to get, if it is to get one; `now_ns` is the clock
    /// by which the kernel stamps files.
    pub fn time_of(&mut self, file: &Stamped, now_ns: u64) -> Option<u64> {
        if self.group.0 != file.written_ns {
            self.group = (file.written_ns, self.left);
        }
        self.pass();
        let wanted_ns = file.modified_ns.saturating_sub(self.group.1);
        // Else the kernel tells it from the next one by itself.
        let is_needed = file.written_ns < self.last_written_ns && file.modified_ns >= now_ns;
        let has_room = has_room_before(file.modified_ns);
        (is_needed && has_room && wanted_ns >= file.before_ns).then_some(wanted_ns)
    }
}

/// Whether a change after `at_ns` would have left its mark in these times of a file: they must be
/// older by the age that a window may have. They are no finer than a tick of the kernel's clock, which
/// is much less. On some file systems they are whole seconds, on others (FAT) every other one.
pub fn would_show_a_change(modified_ns: u64, changed_ns: u64, at_ns: u64, age_ns: u64) -> bool {
    let is_whole = |ns: u64| ns.is_multiple_of(SECOND_NS);
    let whole_seconds = is_whole(modified_ns) && is_whole(changed_ns);
    let margin_ns = if whole_seconds { age_ns.max(2 * SECOND_NS) } else { age_ns };
    modified_ns.max(changed_ns) < at_ns.saturating_sub(margin_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_123_456_789;
    const TICK: u64 = 4_000_000;
    const OLD: u64 = NOW - 1_000_000_000;

    /// The times of files that were written at `OLD` and so much, and when the kernel stamped each.
    fn check(files: &[(u64, u64)], expected: &[Option<u64>]) {
        let last = OLD + files.last().unwrap().0;
        let mut apart = Apart::new(files.len() as u64, last);
        let mut time = |&(after, modified_ns): &(u64, u64)| {
            let written_ns = OLD + after;
            apart.time_of(&Stamped { written_ns, before_ns: OLD, modified_ns }, modified_ns)
        };
        let times: Vec<_> = files.iter().map(&mut time).collect();
        assert_eq!(times, expected, "{files:?}");
    }

    #[test]
    fn an_earlier_file_is_some_nanoseconds_older() {
        check(&[(10, NOW)], &[None]);
        check(&[(10, NOW), (20, NOW)], &[Some(NOW - 2), None]);
        let all = [(10, NOW), (20, NOW), (30, NOW)];
        check(&all, &[Some(NOW - 3), Some(NOW - 2), None]);
        // The kernel's clock moves on between them.
        let moved = [(10, NOW), (20, NOW), (30, NOW + TICK), (40, NOW + TICK)];
        check(&moved, &[Some(NOW - 4), Some(NOW - 3), Some(NOW + TICK - 2), None]);
        // Written in the same moment: as old as the other, not older.
        check(&[(10, NOW), (10, NOW), (20, NOW)], &[Some(NOW - 3), Some(NOW - 3), None]);
        check(&[(10, NOW), (20, NOW), (20, NOW)], &[Some(NOW - 3), None, None]);
        // A clock whose ticks are whole milliseconds.
        let even = NOW / TICK * TICK;
        check(&[(10, even), (20, even)], &[Some(even - 2), None]);
    }

    #[test]
    fn no_time_that_says_nothing_or_goes_back() {
        let two = || Apart::new(2, OLD + 20);
        let file = Stamped { written_ns: OLD + 10, before_ns: OLD, modified_ns: NOW };
        assert_eq!(two().time_of(&file, NOW), Some(NOW - 2));
        // The clock has moved since: the kernel tells them apart.
        assert_eq!(two().time_of(&file, NOW + TICK), None);
        // It was modified in this very moment already.
        assert_eq!(two().time_of(&Stamped { before_ns: NOW, ..file }, NOW), None);
        // No room between times.
        let coarse = Stamped { modified_ns: NOW - NOW % 1_000_000_000, ..file };
        assert_eq!(two().time_of(&coarse, NOW - TICK * 500), None);
    }

    #[test]
    fn times_of_whole_seconds_show_a_change_after_two() {
        const SECOND: u64 = 1_000_000_000;
        let (age, whole) = (SECOND / 10, NOW / SECOND * SECOND);
        assert!(would_show_a_change(NOW, NOW, NOW + age + 1, age));
        assert!(!would_show_a_change(NOW, NOW, NOW + age, age));
        assert!(!would_show_a_change(whole, whole, whole + 2 * SECOND, age));
        assert!(would_show_a_change(whole, whole, whole + 2 * SECOND + 1, age));
        // A time that somebody has set, on a file system with fine ones.
        assert!(would_show_a_change(whole, NOW, NOW + age + 1, age));
        assert!(!would_show_a_change(whole, whole, whole + 3 * SECOND, 3 * SECOND));
    }
}
