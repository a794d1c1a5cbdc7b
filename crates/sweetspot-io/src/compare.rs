//! Compares: are two inputs equal, and where do they begin to differ?
//!
//! ```
//! use sweetspot_io::compare::{self, content_equals, first_difference};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let (one, other) = (folder.path().join("one"), folder.path().join("other"));
//! std::fs::write(&one, "abcd").unwrap();
//! std::fs::write(&other, "abxd").unwrap();
//! let options = compare::Options::default();
//! assert!(!content_equals(&one, &other, &options)?);
//! let difference = first_difference(&one, &other, &options)?.unwrap();
//! assert_eq!(difference.at, 2);
//! # Ok::<(), sweetspot_io::Error>(())
//! ```

use crate::error::Result;
use crate::input::{Input, InputKind, Opened, Source};
use crate::options::setters;
use crate::strategy::{Blocks, ReadOptions};
use crate::sys;
use std::fmt;

/// How to compare.
///
/// ```
/// use sweetspot_io::{ReadOptions, Strategy, compare};
///
/// let read = ReadOptions::new().strategy(Strategy::Mapped);
/// let options = compare::Options::new().read(read);
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Default)]
#[non_exhaustive]
pub struct Options<'a> {
    /// Strategy, buffer and hint, for both inputs.
    pub read: ReadOptions,
    /// Is told now and then how many bytes of each are done.
    pub progress: Option<&'a (dyn Fn(u64) + Sync)>,
}

impl<'a> Options<'a> {
    /// Leaves the choice to the library.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets strategy, buffer and hint, for both inputs.
        read: ReadOptions,
        /// Sets who is told now and then how many bytes of each are done.
        progress: &'a (dyn Fn(u64) + Sync),
    }
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("read", &self.read).finish_non_exhaustive()
    }
}

/// Where two inputs begin to differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The position, in bytes from where reading began.
    pub at: u64,
    /// The byte of the first input there; `None`: it ends there.
    pub one: Option<u8>,
    /// The byte of the second input there; `None`: it ends there.
    pub other: Option<u8>,
}

/// Whether two inputs are equal. Looks at the content only where it must: two names of one file are
/// equal, two files of different length are not.
///
/// ```
/// use sweetspot_io::{Input, compare::{self, content_equals}};
///
/// let [one, other] = ["one", "other"].map(|name| Input::reader(name, &b"the same"[..]));
/// assert!(content_equals(one, other, &compare::Options::default())?);
/// # Ok::<(), sweetspot_io::Error>(())
/// ```
///
/// # Errors
/// Where opening or reading fails.
pub fn content_equals(
    one: impl Into<Input>,
    other: impl Into<Input>,
    options: &Options<'_>,
) -> Result<bool> {
    let (one, other) = (one.into().open()?, other.into().open()?);
    if is_same_file(&one, &other) {
        return Ok(true);
    }
    let is_regular = |opened: &Opened| opened.facts.kind == InputKind::Regular;
    let left = |opened: &Opened| opened.facts.size.saturating_sub(opened.facts.at);
    if is_regular(&one) && is_regular(&other) && left(&one) != left(&other) {
        return Ok(false);
    }
    Ok(compare(one, other, options)?.is_none())
}

/// Where two inputs begin to differ; `None`: they are equal.
///
/// ```
/// use sweetspot_io::{Input, compare::{self, first_difference}};
///
/// let one = Input::reader("one", &b"12:00 open"[..]);
/// let other = Input::reader("other", &b"12:30 open"[..]);
/// let difference = first_difference(one, other, &compare::Options::default())?.unwrap();
/// assert_eq!((difference.at, difference.one, difference.other), (3, Some(b'0'), Some(b'3')));
/// # Ok::<(), sweetspot_io::Error>(())
/// ```
///
/// # Errors
/// Where opening or reading fails.
pub fn first_difference(
    one: impl Into<Input>,
    other: impl Into<Input>,
    options: &Options<'_>,
) -> Result<Option<Difference>> {
    let (one, other) = (one.into().open()?, other.into().open()?);
    if is_same_file(&one, &other) {
        return Ok(None);
    }
    compare(one, other, options)
}

/// Whether both are one regular file, to be read from the same position.
fn is_same_file(one: &Opened, other: &Opened) -> bool {
    let (Source::File(one_file), Source::File(other_file)) = (&one.source, &other.source) else {
        return false;
    };
    let (Ok(one_stat), Ok(other_stat)) = (sys::stat(one_file), sys::stat(other_file)) else {
        return false;
    };
    one.facts == other.facts
        && one.facts.kind == InputKind::Regular
        && (one_stat.st_dev, one_stat.st_ino) == (other_stat.st_dev, other_stat.st_ino)
}

fn compare(one: Opened, other: Opened, options: &Options<'_>) -> Result<Option<Difference>> {
    const UNIT_BYTES: usize = 512;
    let mut one = Blocks::new(one, &options.read, UNIT_BYTES)?;
    let mut other = Blocks::new(other, &options.read, UNIT_BYTES)?;
    // How many bytes are equal, and at the front of the blocks how many of these.
    let (mut at, mut one_done, mut other_done) = (0, 0, 0);
    loop {
        for (blocks, done) in [(&mut one, &mut one_done), (&mut other, &mut other_done)] {
            if *done == blocks.block().len() {
                blocks.advance(0)?;
                *done = 0;
            }
        }
        let (left, right) = (&one.block()[one_done..], &other.block()[other_done..]);
        let len = left.len().min(right.len());
        let equal = first_unequal(&left[..len], &right[..len]);
        if equal < len || left.is_empty() != right.is_empty() {
            let (one, other) = (left.get(equal).copied(), right.get(equal).copied());
            return Ok(Some(Difference { at: at + equal as u64, one, other }));
        }
        if len == 0 {
            return Ok(None);
        }
        at += len as u64;
        (one_done, other_done) = (one_done + len, other_done + len);
        if let Some(progress) = options.progress {
            progress(at);
        }
    }
}

/// Where two slices of one length begin to differ; their length if they do not.
fn first_unequal(left: &[u8], right: &[u8]) -> usize {
    if left == right {
        return left.len();
    }
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::{self, Place};
    use crate::{BufferSize, Strategy};
    use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};

    #[test]
    fn the_first_difference_is_found_whatever_the_buffer() {
        let content: Vec<u8> = (0..300u32).map(|number| (number * 7 % 251) as u8).collect();
        let place = Place::new(&content);
        for len in [0, 1, 69, 299, 300, 301] {
            for change in [None, Some(0), Some(1), Some(68), Some(150), Some(299)] {
                let mut other = content.clone();
                other.resize(len, 0);
                if let Some(byte) = change.and_then(|at: usize| other.get_mut(at)) {
                    *byte ^= 1;
                }
                std::fs::write(place.path("other"), &other).unwrap();
                let equal = content.iter().zip(&other).take_while(|(a, b)| a == b).count();
                let expected = (content != other).then(|| Difference {
                    at: equal as u64,
                    one: content.get(equal).copied(),
                    other: other.get(equal).copied(),
                });
                for &strategy in Strategy::ALL {
                    for buffer_bytes in [1, 2, 3, 63, 64, 65, 299, 300, 301, 4096] {
                        let buffer_size = BufferSize::Bytes(buffer_bytes);
                        let strategy = Some(strategy);
                        let read = ReadOptions { strategy, buffer_size, ..ReadOptions::default() };
                        let options = Options { read, ..Options::default() };
                        let found =
                            first_difference(place.input(), place.path("other"), &options).unwrap();
                        assert_eq!(found, expected, "{strategy:?} {buffer_bytes} {len} {change:?}");
                    }
                }
                let options = Options::default();
                let piped = first_difference(place.input(), test::pipe(&other), &options).unwrap();
                assert_eq!(piped, expected);
                let equals = content_equals(place.input(), place.path("other"), &options).unwrap();
                assert_eq!(equals, expected.is_none());
            }
        }
        assert!(content_equals(place.input(), place.input(), &Options::default()).unwrap());
        let same = first_difference(place.input(), place.input(), &Options::default());
        assert_eq!(same.unwrap(), None);
    }

    #[test]
    fn content_is_looked_at_only_where_it_must_be() {
        let place = Place::new(b"12345612345");
        std::fs::hard_link(place.path("file"), place.path("name")).unwrap();
        std::fs::write(place.path("equal"), b"12345612345").unwrap();
        std::fs::write(place.path("longer"), b"123456123456").unwrap();
        let open_at = |at| {
            let mut file = std::fs::File::open(place.path("file")).unwrap();
            std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(at)).unwrap();
            Input::from(file)
        };
        let path = |name| Input::path(place.path(name));
        for (one, other, equal, looked) in [
            (path("file"), path("name"), true, false),
            (path("file"), path("equal"), true, true),
            (path("file"), path("longer"), false, false),
            (open_at(6), open_at(6), true, false),
            // One file, read from two places.
            (open_at(0), open_at(6), false, false),
            (path("file"), test::pipe(b"12345612345"), true, true),
            (path("/dev/null"), path("/dev/null"), true, false),
        ] {
            let looks = std::sync::atomic::AtomicBool::new(false);
            let progress = |_| looks.store(true, std::sync::atomic::Ordering::Relaxed);
            let options = Options { progress: Some(&progress), ..Options::default() };
            assert_eq!(content_equals(one, other, &options).unwrap(), equal);
            assert_eq!(looks.into_inner(), looked);
        }
        let found = first_difference(open_at(0), open_at(6), &Options::default()).unwrap();
        assert_eq!(found, Some(Difference { at: 5, one: Some(b'6'), other: None }));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_first_difference_is_that_of_two_slices(
            one in proptest::collection::vec(0u8..2, 0..2000),
            change in proptest::option::of(any::<usize>()),
            len in 0usize..2000,
            buffer_bytes in 1u32..3000,
        ) {
            let mut other = one.clone();
            if let Some(at) = change && !one.is_empty() {
                other[at % one.len()] ^= 1;
                other.truncate(len);
            }
            let equal = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
            let expected = (one != other).then(|| Difference {
                at: equal as u64,
                one: one.get(equal).copied(),
                other: other.get(equal).copied(),
            });
            let buffer_size = BufferSize::Bytes(buffer_bytes);
            let read = ReadOptions { buffer_size, ..ReadOptions::default() };
            let options = Options { read, ..Options::default() };
            let [one, other] = [one, other].map(|content| {
                Input::reader("memory", std::io::Cursor::new(content))
            });
            prop_assert_eq!(first_difference(one, other, &options).unwrap(), expected);
        }
    }
}
