//! Past the page cache: `O_DIRECT`, or reads after which the cache forgets the pages at once
//! (`RWF_DONTCACHE`, Linux 6.14).
//!
//! `O_DIRECT` wants memory, position and length aligned. A short read, which leaves the position
//! unaligned, is the end of the file, or the file was changed meanwhile: from there on it is read in
//! the ordinary way.

use super::{
    Advance, Unusable,
    buffer::{ALIGN_BYTES, Buffer},
};
use crate::input::{Opened, Source};
use crate::sys;
use rustix::fs::OFlags;
use rustix::io::ReadWriteFlags;
use std::fs::File;
use std::io;

/// `RWF_DONTCACHE`: not in rustix yet (linux/fs.h, 6.14).
const DONTCACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

#[derive(PartialEq)]
enum Way {
    Direct,
    Uncached,
    Ordinary,
}

struct Direct {
    file: File,
    way: Way,
    at: u64,
    current: Buffer,
    spare: Option<Buffer>,
    buffer_bytes: usize,
}

pub fn new(opened: Opened, buffer_bytes: usize) -> Result<Box<dyn Advance>, Unusable> {
    let Source::File(file) = &opened.source else {
        return Err(Unusable("a reader has no way past the page cache", opened));
    };
    if !(opened.facts.at as usize).is_multiple_of(ALIGN_BYTES) {
        return Err(Unusable("O_DIRECT needs an aligned position to begin at", opened));
    }
    // Through /proc, since a flag set on this description would be seen by those that share it.
    let own = std::os::fd::AsRawFd::as_raw_fd(file);
    let path = format!("/proc/self/fd/{own}");
    let Ok(file) = sys::open(path.as_ref(), OFlags::RDONLY | OFlags::DIRECT) else {
        return Err(Unusable("the file system has no O_DIRECT", opened));
    };
    let buffer_bytes = buffer_bytes.next_multiple_of(ALIGN_BYTES);
    Ok(boxed(Way::Direct, file, opened.facts.at, buffer_bytes))
}

pub fn new_uncached(opened: Opened, buffer_bytes: usize) -> Result<Box<dyn Advance>, Unusable> {
    let Source::File(file) = &opened.source else {
        return Err(Unusable("a reader has no page cache", opened));
    };
    // Length 0 would not be looked at.
    let mut probe = [0; 1];
    if uncached(file, &mut probe, opened.facts.at).is_err() {
        let why = "the kernel or the file system has no RWF_DONTCACHE";
        return Err(Unusable(why, opened));
    }
    let Opened { source: Source::File(file), facts, .. } = opened else { unreachable!() };
    Ok(boxed(Way::Uncached, file, facts.at, buffer_bytes))
}

fn boxed(way: Way, file: File, at: u64, buffer_bytes: usize) -> Box<dyn Advance> {
    Box::new(Direct { file, way, at, current: Buffer::default(), spare: None, buffer_bytes })
}

fn uncached(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    sys::read_with(file, buffer, at, DONTCACHE)
}

impl Direct {
    fn read(&mut self, buffer: &mut Buffer) -> io::Result<usize> {
        let len = match self.way {
            Way::Direct => match sys::read_at(&self.file, buffer.space(self.buffer_bytes), self.at)
            {
                // Some file systems say only now that they cannot do it.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    self.go_ordinary()?;
                    sys::read_at(&self.file, buffer.space(self.buffer_bytes), self.at)
                }
                result => result,
            },
            Way::Uncached => uncached(&self.file, buffer.space(self.buffer_bytes), self.at),
            Way::Ordinary => sys::read_at(&self.file, buffer.space(self.buffer_bytes), self.at),
        }?;
        buffer.filled(len);
        self.at += len as u64;
        if self.way == Way::Direct && !len.is_multiple_of(ALIGN_BYTES) {
            self.go_ordinary()?;
        }
        Ok(len)
    }

    /// The description is this module's own.
    fn go_ordinary(&mut self) -> io::Result<()> {
        self.way = Way::Ordinary;
        Ok(rustix::fs::fcntl_setfl(&self.file, OFlags::empty())?)
    }
}

impl Advance for Direct {
    fn advance(&mut self, keep: usize) -> io::Result<usize> {
        let mut next = self.spare.take().unwrap_or_else(|| Buffer::new(self.buffer_bytes));
        let fresh = self.read(&mut next)?;
        self.spare = self.current.follow(next, keep).recycled(self.buffer_bytes);
        Ok(fresh)
    }

    fn block(&self) -> &[u8] {
        self.current.block()
    }
}
