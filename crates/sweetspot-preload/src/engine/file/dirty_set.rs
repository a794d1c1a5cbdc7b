//! The set of open files with pending bytes: a list through the files themselves, as nothing is allocated here. A file
//! is in it once or not at all, which it knows; whoever changes it holds its lock ([`DirtySet::hold`]).
#![allow(unsafe_code)]

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::OpenFile;
use crate::floor::lock::{self, hold};

/// What a file knows of the set.
pub struct InDirtySet {
    is_in: AtomicU32,
    /// The file behind it there; null: it is the last one.
    next: AtomicPtr<OpenFile>,
}

impl InDirtySet {
    /// It is not in it.
    #[allow(clippy::declare_interior_mutable_const)]
    pub const NOT: InDirtySet =
        InDirtySet { is_in: AtomicU32::new(0), next: AtomicPtr::new(ptr::null_mut()) };

    #[inline(always)]
    pub fn is_in(&self) -> bool {
        self.count() != 0
    }

    /// 1 or 0, to be compared with how many there are.
    #[inline(always)]
    pub fn count(&self) -> u32 {
        self.is_in.load(Relaxed)
    }

    /// It is not in it, whatever was before: its place is a new file's, or its process a new one.
    pub fn forget(&self) {
        self.is_in.store(0, Relaxed);
    }
}

/// The files in order.
pub struct DirtySet {
    lock: AtomicU64,
    first: AtomicPtr<OpenFile>,
    last: AtomicPtr<OpenFile>,
}

impl DirtySet {
    #[allow(clippy::declare_interior_mutable_const)]
    pub const EMPTY: DirtySet = DirtySet {
        lock: AtomicU64::new(0),
        first: AtomicPtr::new(ptr::null_mut()),
        last: AtomicPtr::new(ptr::null_mut()),
    };

    /// Its lock, which comes before that of any file.
    pub fn hold(&self) -> lock::Held<'_> {
        hold(&self.lock)
    }

    /// The one that came last.
    pub fn last(&self) -> Option<&'static OpenFile> {
        of(&self.last)
    }

    /// Puts a file that is not in it behind all others. Whether it is the first one.
    pub fn push(&self, file: &OpenFile) -> bool {
        file.dirty.is_in.store(1, Relaxed);
        self.link_behind(self.last(), file)
    }

    /// Makes a file the last one; whether it is the first one, too.
    fn link_behind(&self, last: Option<&OpenFile>, file: &OpenFile) -> bool {
        let this = (&raw const *file).cast_mut();
        file.dirty.next.store(ptr::null_mut(), Relaxed);
        match last {
            Some(last) => last.dirty.next.store(this, Relaxed),
            None => self.first.store(this, Relaxed),
        }
        self.last.store(this, Relaxed);
        last.is_none()
    }

    /// From the first file on.
    pub fn walk(&self) -> Walk<'_> {
        Walk { set: self, before: None }
    }

    /// Takes a file out; whether it was in it.
    pub fn remove(&self, file: &OpenFile) -> bool {
        let mut walk = self.walk();
        while file.dirty.is_in() {
            match walk.file() {
                Some(this) if ptr::eq(this, file) => walk.remove(),
                Some(_) => walk.pass(),
                None => return false,
            }
            if !file.dirty.is_in() {
                return true;
            }
        }
        false
    }

    /// Puts the files in order; those that are alike stay as they are. How many there are.
    pub fn sort_by_key(&self, key: impl Fn(&OpenFile) -> u64) -> u64 {
        let mut files = 0;
        let mut rest = self.first.swap(ptr::null_mut(), Relaxed);
        self.last.store(ptr::null_mut(), Relaxed);
        // SAFETY: files are statics.
        while let Some(file) = unsafe { rest.as_ref() } {
            files += 1;
            rest = file.dirty.next.load(Relaxed);
            match self.last() {
                // Mostly they are in order already.
                Some(last) if key(last) > key(file) => self.insert(file, &key),
                last => _ = self.link_behind(last, file),
            }
        }
        files
    }

    /// Puts a file before the first one that comes after it: there is one.
    fn insert(&self, file: &OpenFile, key: impl Fn(&OpenFile) -> u64) {
        let mut walk = self.walk();
        while walk.file().is_some_and(|other| key(other) <= key(file)) {
            walk.pass();
        }
        file.dirty.next.store(walk.link().load(Relaxed), Relaxed);
        walk.link().store((&raw const *file).cast_mut(), Relaxed);
    }

    /// It is empty, and nobody holds its lock: in the child of a fork. What the files know is not changed.
    pub fn forget(&self) {
        self.lock.store(0, Relaxed);
        self.first.store(ptr::null_mut(), Relaxed);
        self.last.store(ptr::null_mut(), Relaxed);
    }
}

/// A way from file to file, on which some are taken out.
pub struct Walk<'a> {
    set: &'a DirtySet,
    before: Option<&'static OpenFile>,
}

impl Walk<'_> {
    fn link(&self) -> &AtomicPtr<OpenFile> {
        self.before.map_or(&self.set.first, |before| &before.dirty.next)
    }

    /// The file that it has come to; `None`: it was at all of them.
    pub fn file(&self) -> Option<&'static OpenFile> {
        of(self.link())
    }

    /// Goes on to the next one.
    pub fn pass(&mut self) {
        self.before = self.file();
    }

    /// Takes the file out, and goes on to the next one.
    pub fn remove(&mut self) {
        let Some(file) = self.file() else { return };
        let next = file.dirty.next.load(Relaxed);
        self.link().store(next, Relaxed);
        if next.is_null() {
            let last =
                self.before.map_or(ptr::null_mut(), |before| (&raw const *before).cast_mut());
            self.set.last.store(last, Relaxed);
        }
        file.dirty.forget();
    }
}

fn of(link: &AtomicPtr<OpenFile>) -> Option<&'static OpenFile> {
    // SAFETY: files are statics.
    unsafe { link.load(Relaxed).as_ref() }
}

#[cfg(test)]
mod tests {
    use super::super::NEW;
    use super::*;
    use std::vec::Vec;

    static FILES: [OpenFile; 5] = [const { NEW }; 5];

    fn numbers(set: &DirtySet) -> Vec<usize> {
        let mut walk = set.walk();
        core::iter::from_fn(|| {
            let file = walk.file()?;
            walk.pass();
            FILES.iter().position(|known| ptr::eq(known, file))
        })
        .collect()
    }

    #[test]
    fn a_file_is_in_it_once_in_the_order_that_is_asked_for() {
        let set = DirtySet::EMPTY;
        assert!(set.push(&FILES[3]) && !set.push(&FILES[1]) && !set.push(&FILES[4]));
        assert_eq!(numbers(&set), [3, 1, 4]);
        assert!(!set.remove(&FILES[0]) && set.remove(&FILES[4]) && !set.remove(&FILES[4]));
        assert!(!FILES[4].dirty.is_in() && FILES[1].dirty.is_in());
        // What comes next is behind the last one that is left.
        [0, 4, 2].iter().for_each(|number| assert!(!set.push(&FILES[*number])));
        assert_eq!(numbers(&set), [3, 1, 0, 4, 2]);
        let number =
            |file: &OpenFile| FILES.iter().position(|known| ptr::eq(known, file)).unwrap() as u64;
        assert_eq!(set.sort_by_key(number), 5);
        assert_eq!(numbers(&set), [0, 1, 2, 3, 4]);
        assert_eq!(set.sort_by_key(|file| 4 - number(file)), 5);
        assert_eq!(numbers(&set), [4, 3, 2, 1, 0]);
        // Those that are alike stay as they are.
        set.sort_by_key(|file| number(file) % 2);
        assert_eq!(numbers(&set), [4, 2, 0, 3, 1]);
        let mut walk = set.walk();
        while let Some(file) = walk.file() {
            if number(file) == 2 { walk.pass() } else { walk.remove() }
        }
        assert_eq!((numbers(&set), set.last().map(number)), (Vec::from([2]), Some(2)));
        assert!(set.remove(&FILES[2]) && set.last().is_none());
        assert!(set.push(&FILES[2]), "it is the first one again");
    }
}
