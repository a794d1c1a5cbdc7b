//! The times of files that were written at different times, and whose bytes leave together.
//!
//! The kernel stamps all of them with the moment at which they leave. Whoever compares them (make,
//! `test -nt`) is to see which was written later, so an earlier one gets a time just before that of the
//! next. Not the time at which the program wrote to it: then its bytes were in no file yet, and whoever
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

/// How far before the beginning of a flush a time may lie, as the kernel's clock may not have moved
/// since: a nanosecond for each file.
const NANOSECONDS_MAX: u64 = 4096;
/// Where times are whole numbers of as much, the file system has no room between them.
const COARSE_NS: u64 = 1_000_000;

/// The time that the earlier of two files is to get, if it is to get one. The flush that wrote both began
/// at `began_ns`.
pub fn told_apart(earlier: &Stamped, later: &Stamped, began_ns: u64) -> Option<u64> {
    let apart_ns = u64::from(earlier.written_ns < later.written_ns);
    let wanted_ns = later.modified_ns.saturating_sub(apart_ns);
    let is_needed = earlier.modified_ns > wanted_ns;
    let has_room = !earlier.modified_ns.is_multiple_of(COARSE_NS);
    let is_true = wanted_ns >= earlier.before_ns && wanted_ns + NANOSECONDS_MAX >= began_ns;
    (is_needed && has_room && is_true).then_some(wanted_ns)
}

/// Whether a change after `at_ns` would have left its mark in these times of a file: they must be older by
/// the age that a window may have. They are no finer than a tick of the kernel's clock, which is much
/// less; on some file systems they are whole seconds, on others (FAT) every other one.
pub fn is_settled(modified_ns: u64, changed_ns: u64, at_ns: u64, age_ns: u64) -> bool {
    const SECOND_NS: u64 = 1_000_000_000;
    let is_whole = |ns: u64| ns.is_multiple_of(SECOND_NS);
    let whole_seconds = is_whole(modified_ns) && is_whole(changed_ns);
    let margin_ns = if whole_seconds { age_ns.max(2 * SECOND_NS) } else { age_ns };
    modified_ns.max(changed_ns) < at_ns.saturating_sub(margin_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN: u64 = 1_700_000_000_123_456_789;

    fn file(written_ns: u64, before_ns: u64, modified_ns: u64) -> Stamped {
        Stamped { written_ns, before_ns, modified_ns }
    }

    #[test]
    fn an_earlier_file_is_a_nanosecond_older() {
        let old = BEGAN - 1_000_000_000;
        let later = file(old + 20, old, BEGAN);
        assert_eq!(told_apart(&file(old + 10, old, BEGAN), &later, BEGAN), Some(BEGAN - 1));
        // Also where the kernel's clock moved between them the wrong way round.
        assert_eq!(told_apart(&file(old + 10, old, BEGAN + 5), &later, BEGAN), Some(BEGAN - 1));
        // The kernel has told them apart.
        assert_eq!(told_apart(&file(old + 10, old, BEGAN - 1), &later, BEGAN), None);
        // Written in the same moment: as old as the other, not older.
        assert_eq!(told_apart(&file(old + 20, old, BEGAN), &later, BEGAN), None);
        assert_eq!(told_apart(&file(old + 20, old, BEGAN + 1), &later, BEGAN), Some(BEGAN));
    }

    #[test]
    fn times_of_whole_seconds_settle_after_two() {
        const SECOND: u64 = 1_000_000_000;
        let (age, whole) = (SECOND / 10, BEGAN / SECOND * SECOND);
        assert!(is_settled(BEGAN, BEGAN, BEGAN + age + 1, age));
        assert!(!is_settled(BEGAN, BEGAN, BEGAN + age, age));
        assert!(!is_settled(whole, whole, whole + 2 * SECOND, age));
        assert!(is_settled(whole, whole, whole + 2 * SECOND + 1, age));
        // A time that somebody has set, on a file system with fine ones.
        assert!(is_settled(whole, BEGAN, BEGAN + age + 1, age));
        assert!(!is_settled(whole, whole, whole + 3 * SECOND, 3 * SECOND));
    }

    #[test]
    fn no_time_is_one_at_which_the_bytes_were_in_no_file() {
        let old = BEGAN - 1_000_000_000;
        let earlier = file(old + 10, old, BEGAN);
        // Somebody has set the later one's time back.
        assert_eq!(told_apart(&earlier, &file(old + 20, old, old), BEGAN), None);
        // Somebody else has just written to the earlier one.
        assert_eq!(told_apart(&file(old, BEGAN, BEGAN), &file(old + 20, old, BEGAN), BEGAN), None);
        // Times of whole seconds: one less would be a second.
        let whole = BEGAN / 1_000_000_000 * 1_000_000_000;
        let seconds = |written| file(written, old, whole);
        assert_eq!(told_apart(&seconds(old), &seconds(old + 20), whole), None);
    }
}
