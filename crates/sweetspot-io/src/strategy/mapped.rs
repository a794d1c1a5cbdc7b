//! The file's own pages, mapped: no copy, no buffer.
//!
//! A map shows changes that others make while a slice of it is looked at, and a file that gets
//! shorter ends the process with SIGBUS. Therefore a map is used only under a *read lease*
//! (fcntl(2), `F_SETLEASE`): the kernel grants it while nobody has the file open for writing, and
//! holds anyone who opens it for writing or truncates it until the lease is given back, 45 seconds at
//! most (/proc/sys/fs/lease-break-time). Between blocks this module looks whether somebody waits,
//! and if so lets the map go and reads on. Where there is no lease (the file is open for writing, it
//! belongs to somebody else, the file system has none) another strategy takes over.
//!
//! Invariant: no byte of the map is looked at without the lease, provided that the caller takes
//! less than 45 seconds for a block.

use super::{Advance, Unusable};
use crate::input::{Opened, Source};
use crate::sys;
use memmap2::Mmap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Which signal tells of a broken lease; libc (the crate) does not have it. From
/// asm-generic/fcntl.h, the same number on all machines.
const F_SETSIG: libc::c_int = 10;

struct Mapped {
    file: File,
    map: Option<Mmap>,
    /// After the map was let go: the block.
    copy: Vec<u8>,
    /// The block, in the map.
    start: usize,
    end: usize,
    /// Where the file goes on after the block.
    at: u64,
    buffer_bytes: usize,
}

pub fn new(opened: Opened, buffer_bytes: usize) -> Result<Box<dyn Advance>, Unusable> {
    let Source::File(file) = &opened.source else {
        return Err(Unusable("a reader cannot be mapped", opened));
    };
    if !take_lease(file) {
        let why = "it cannot be kept from changing while it is mapped";
        return Err(Unusable(why, opened));
    }
    let Some(map) = map(file) else {
        give_lease_back(file);
        return Err(Unusable("it cannot be mapped", opened));
    };
    let Opened { source: Source::File(file), facts, .. } = opened else { unreachable!() };
    let start = (facts.at as usize).min(map.len());
    let (copy, at) = (Vec::new(), start as u64);
    Ok(Box::new(Mapped { file, map: Some(map), copy, start, end: start, at, buffer_bytes }))
}

#[allow(unsafe_code)]
fn map(file: &File) -> Option<Mmap> {
    // SAFETY: the caller holds a read lease on the file, so nobody changes it.
    unsafe { Mmap::map(file) }.ok()
}

#[allow(unsafe_code)]
fn take_lease(file: &File) -> bool {
    let fd = file.as_raw_fd();
    // Breaking a lease makes the kernel send a signal. SIGURG does nothing where it is not
    // expected; without this it would be SIGIO, which ends the process.
    // SAFETY: these commands of fcntl take an integer and touch no memory.
    unsafe {
        libc::fcntl(fd, F_SETSIG, libc::SIGURG) == 0
            && libc::fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK) == 0
    }
}

#[allow(unsafe_code)]
fn give_lease_back(file: &File) {
    // SAFETY: this command of fcntl takes an integer and touches no memory.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
}

/// Whether nobody waits for the file.
#[allow(unsafe_code)]
fn has_lease(file: &File) -> bool {
    // SAFETY: this command of fcntl takes no argument and touches no memory.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) == libc::F_RDLCK }
}

impl Mapped {
    /// Goes on without the map: somebody wants to change the file.
    fn let_go(&mut self, keep: usize) {
        if let Some(map) = self.map.take() {
            self.copy = map[self.end - keep..self.end].to_vec();
        }
        give_lease_back(&self.file);
    }

    fn read_on(&mut self, keep: usize) -> io::Result<usize> {
        let kept = self.copy.len() - keep;
        self.copy.drain(..kept);
        self.copy.resize(keep + self.buffer_bytes, 0);
        let fresh = sys::read_at(&self.file, &mut self.copy[keep..], self.at)?;
        self.copy.truncate(keep + fresh);
        self.at += fresh as u64;
        Ok(fresh)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // The description may be shared with somebody who keeps it open.
        if self.map.take().is_some() {
            give_lease_back(&self.file);
        }
    }
}

impl Advance for Mapped {
    fn advance(&mut self, keep: usize) -> io::Result<usize> {
        if self.map.is_some() && !has_lease(&self.file) {
            self.let_go(keep);
        }
        let Some(map) = &self.map else { return self.read_on(keep) };
        let fresh = self.buffer_bytes.min(map.len() - self.end);
        if fresh == 0 {
            // The end of the map, and of the file, unless it grew before there was a lease.
            self.let_go(keep);
            return self.read_on(keep);
        }
        self.start = self.end - keep;
        self.end += fresh;
        self.at = self.end as u64;
        Ok(fresh)
    }

    fn block(&self) -> &[u8] {
        match &self.map {
            Some(map) => &map[self.start..self.end],
            None => &self.copy,
        }
    }
}
