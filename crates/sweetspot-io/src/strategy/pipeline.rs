//! A thread reads ahead into buffers while the caller works on the one before.
//!
//! Dropped early, the thread ends after the read that it is in; a read of a silent pipe may take
//! long, and nobody waits for it.

use super::{Advance, buffer::Buffer};
use crate::input::{Opened, Source};
use crate::sys::Inherited;
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

/// Buffers that may wait to be worked on. One is filled and one is worked on meanwhile.
const WAITING_MAX: usize = 2;

struct Pipeline {
    full: Receiver<io::Result<Buffer>>,
    empty: Sender<Buffer>,
    current: Buffer,
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
    Ok(Box::new(Pipeline { full, empty, current: Buffer::default(), buffer_bytes }))
}

fn read_ahead(
    mut source: Source,
    buffer_bytes: usize,
    to_caller: &SyncSender<io::Result<Buffer>>,
    from_caller: &Receiver<Buffer>,
) {
    loop {
        let mut buffer = from_caller.try_recv().unwrap_or_else(|_| Buffer::new(buffer_bytes));
        let result = source.read(buffer.space(buffer_bytes)).map(|len| {
            buffer.filled(len);
            buffer
        });
        let ends = !matches!(&result, Ok(buffer) if buffer.len() > 0);
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
        if let Some(buffer) = self.current.follow(next, keep).recycled(self.buffer_bytes) {
            // The thread may have ended already.
            let _ = self.empty.send(buffer);
        }
        Ok(fresh)
    }

    fn block(&self) -> &[u8] {
        self.current.block()
    }
}
