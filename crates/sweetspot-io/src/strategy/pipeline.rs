//! A thread reads ahead into chunks while the caller works on the one before.
//!
//! Dropped early, the thread ends after the read that it is in; a read of a silent pipe may take
//! long, and nobody waits for it.

use super::{Advance, chunk::Chunk};
use crate::input::{Opened, Source};
use crate::sys::Inherited;
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

/// Chunks that may wait to be worked on. One is filled and one is worked on meanwhile.
const WAITING_MAX: usize = 2;

struct Pipeline {
    full: Receiver<io::Result<Chunk>>,
    empty: Sender<Chunk>,
    current: Chunk,
    buffer_bytes: usize,
}

pub fn new(opened: Opened, buffer_bytes: usize) -> io::Result<Box<dyn Advance>> {
    let (to_caller, full) = sync_channel(WAITING_MAX);
    let (empty, from_caller) = channel();
    let inherited = Inherited::from_here();
    thread::Builder::new().name("read ahead".into()).spawn(move || {
        inherited.adopt();
        read_ahead(opened.source, buffer_bytes, &to_caller, &from_caller);
    })?;
    Ok(Box::new(Pipeline { full, empty, current: Chunk::new(0), buffer_bytes }))
}

fn read_ahead(
    mut source: Source,
    buffer_bytes: usize,
    to_caller: &SyncSender<io::Result<Chunk>>,
    from_caller: &Receiver<Chunk>,
) {
    loop {
        let mut chunk = from_caller.try_recv().unwrap_or_else(|_| Chunk::new(buffer_bytes));
        let result = source.read(chunk.space()).map(|len| {
            chunk.filled(len);
            chunk
        });
        let ends = !matches!(&result, Ok(chunk) if chunk.len() > 0);
        if to_caller.send(result).is_err() || ends {
            return;
        }
    }
}

impl Advance for Pipeline {
    fn advance(&mut self, keep: usize) -> io::Result<usize> {
        let died = || io::Error::other("the thread that reads ahead has died");
        let next = self.full.recv().map_err(|_| died())??;
        let fresh = next.len();
        if let Some(chunk) = self.current.follow(next, keep).recycled(self.buffer_bytes) {
            // The thread may have ended already.
            let _ = self.empty.send(chunk);
        }
        Ok(fresh)
    }

    fn block(&self) -> &[u8] {
        self.current.block()
    }
}
