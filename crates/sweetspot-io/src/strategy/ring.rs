//! Several reads in flight at once, through io_uring.
//!
//! Invariant: every read that was submitted is waited for before its memory goes away, and blocks
//! come out in the order of the file, whatever the order in which reads end.

use super::{Advance, Unusable, buffer::Buffer};
use crate::input::{Opened, Source};
use crate::sys;
use io_uring::{IoUring, opcode, types};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Reads in flight at once. A disk with a queue is busy from a handful on.
const READS_MAX: usize = 4;

struct Ring {
    ring: IoUring,
    file: File,
    /// Submitted reads in the order of their positions; each one's place is its number.
    reads: VecDeque<Read>,
    /// The number of the first of `reads`.
    first: u64,
    /// Where the next read is to begin; none are submitted beyond `size`.
    submit_at: u64,
    size: u64,
    /// Where the file goes on after the block.
    at: u64,
    current: Buffer,
    spare: Vec<Buffer>,
    buffer_bytes: usize,
}

struct Read {
    buffer: Buffer,
    at: u64,
    /// What the kernel answered.
    result: Option<i32>,
}

pub fn new(opened: Opened, buffer_bytes: usize) -> Result<Box<dyn Advance>, Unusable> {
    let ring = match IoUring::new(READS_MAX as u32) {
        Ok(ring) => ring,
        Err(_) => return Err(Unusable("the kernel or a sandbox allows no io_uring", opened)),
    };
    let Opened { source, facts, name } = opened;
    let Source::File(file) = source else {
        return Err(Unusable(
            "a reader is not known to the kernel",
            Opened { source, facts, name },
        ));
    };
    Ok(Box::new(Ring {
        ring,
        file,
        reads: VecDeque::with_capacity(READS_MAX),
        first: 0,
        submit_at: facts.at,
        size: facts.size,
        at: facts.at,
        current: Buffer::default(),
        spare: Vec::new(),
        buffer_bytes,
    }))
}

impl Ring {
    #[allow(unsafe_code)]
    fn submit(&mut self) -> io::Result<()> {
        while self.reads.len() < READS_MAX && self.submit_at < self.size {
            let mut buffer = self.spare.pop().unwrap_or_else(|| Buffer::new(self.buffer_bytes));
            let space = buffer.space(self.buffer_bytes);
            // Reads of more than 2 GiB do not exist.
            let len = space.len() as u32;
            let read = opcode::Read::new(types::Fd(self.file.as_raw_fd()), space.as_mut_ptr(), len)
                .offset(self.submit_at)
                .build()
                .user_data(self.first + self.reads.len() as u64);
            // SAFETY: the memory is the heap's and belongs to the buffer in `reads`, which nobody
            // touches before the kernel has answered and which `drop` waits for.
            let pushed = unsafe { self.ring.submission().push(&read) };
            pushed.map_err(io::Error::other)?;
            self.reads.push_back(Read { buffer, at: self.submit_at, result: None });
            self.submit_at += u64::from(len);
        }
        self.enter(0)
    }

    /// Hands over what is new and waits for `wanted` answers.
    fn enter(&mut self, wanted: usize) -> io::Result<()> {
        match self.ring.submit_and_wait(wanted) {
            // The callers ask again while there is no answer.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            result => drop(result?),
        }
        for answer in self.ring.completion() {
            let place = (answer.user_data() - self.first) as usize;
            if let Some(read) = self.reads.get_mut(place) {
                read.result = Some(answer.result());
            }
        }
        Ok(())
    }

    /// The first read, once it was answered. What was read behind a gap, since the file got shorter
    /// and longer again meanwhile, does not count.
    fn first_read(&mut self) -> io::Result<Option<Buffer>> {
        let (mut buffer, at, result) = loop {
            while self.reads.front().is_some_and(|read| read.result.is_none()) {
                self.enter(1)?;
            }
            let Some(Read { buffer, at, result }) = self.reads.pop_front() else { return Ok(None) };
            self.first += 1;
            if at == self.at {
                break (buffer, at, result);
            }
        };
        let mut len = usize::try_from(result.unwrap_or(-1)).unwrap_or(0);
        let wanted = self.buffer_bytes;
        if len < wanted {
            // Short, failed or interrupted: the ordinary call says what there is.
            len += sys::read_full_at(
                &self.file,
                &mut buffer.space(self.buffer_bytes)[len..],
                at + len as u64,
            )?;
        }
        if len < wanted {
            self.submit_at = self.size;
        }
        buffer.filled(len);
        Ok(Some(buffer))
    }
}

impl Advance for Ring {
    fn advance(&mut self, keep: usize) -> io::Result<usize> {
        self.submit()?;
        let next = match self.first_read()? {
            Some(buffer) => buffer,
            // Beyond the length that it had: the file may have grown.
            None => {
                let mut buffer = Buffer::new(self.buffer_bytes);
                let len = sys::read_full_at(&self.file, buffer.space(self.buffer_bytes), self.at)?;
                buffer.filled(len);
                buffer
            }
        };
        let fresh = next.len();
        self.at += fresh as u64;
        if let Some(buffer) = self.current.follow(next, keep).recycled(self.buffer_bytes)
            && self.spare.len() < READS_MAX
        {
            self.spare.push(buffer);
        }
        Ok(fresh)
    }

    fn block(&self) -> &[u8] {
        self.current.block()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        while self.reads.iter().any(|read| read.result.is_none()) {
            if self.enter(1).is_err() {
                // The kernel may still write there.
                std::mem::forget(std::mem::take(&mut self.reads));
                return;
            }
        }
    }
}
