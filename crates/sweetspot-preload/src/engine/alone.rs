//! Whether the description of a file that was open before the program started is this process' alone, as in
//! `prog < in`. The guard looks; until it has answered, calls on the file pass through. From a yes on the file
//! is as one that was opened here: a process that gets its description later gets it by a call of this process.

use core::sync::atomic::Ordering::Relaxed;

use sweetspot_core::learning::Learning;
use sweetspot_core::ledger::PLACE_NOWHERE;
use sweetspot_core::why::Why;

use super::eligible::Refusal;
use super::file::{self, Attachment, OpenFile};
use super::{entries, handle};
use crate::floor::sys::Status;

/// What is known of such a file.
pub struct Seen {
    pub status: Status,
    pub position: u64,
    pub learned: Learning,
}

/// Makes a file from outside one of this process' own, if it is known by now that nobody else has its
/// description; else asks, if it is worth it. The registry is held.
///
/// # Errors
/// It is not known yet, or not so.
pub fn take(file: &OpenFile, fd: i32, flags: i32, seen: &Seen) -> Result<(), Refusal> {
    let Seen { status, position, learned } = seen;
    let refused = Err(Refusal::Final(Why::FromOutside));
    if flags & libc::O_ACCMODE != libc::O_RDONLY {
        // What is written to it waits all the same, at the offset that others share.
        return refused;
    }
    match (file.attachment.get(), file.entry().map(entries::answer)) {
        (Attachment::None, _) => {
            let left = status.size.saturating_sub(*position);
            if !learned.asks_whether_alone(left) {
                return Err(Refusal::Later);
            }
            let asked = entries::ask(&entries::Ask {
                fd,
                device: status.device,
                inode: status.inode,
                open_flags: flags as u32,
                place: PLACE_NOWHERE,
                write_buffer_bytes: 0,
            });
            match asked {
                Ok(mapped) => handle::note_asked(file, Some(&mapped)),
                Err(entries::NotAsked::Yet) => handle::note_asked(file, None),
                Err(entries::NotAsked::Ever) => return refused,
            }
            Err(Refusal::Later)
        }
        (Attachment::Asked, Some(entries::Answer::Waiting)) => Err(Refusal::Later),
        (Attachment::Asked, Some(entries::Answer::Held)) => {
            file.note_no_more(Why::NotAnswered);
            handle::let_go(file);
            file.outside.store(0, Relaxed);
            Ok(())
        }
        _ => {
            file.note_no_more(Why::NotAnswered);
            handle::let_go(file);
            refused
        }
    }
}

/// The descriptor is about to mean something else, or to get another number beside it: what the guard finds out
/// about it meanwhile says nothing.
pub fn ask_no_more(fd: i32) {
    file::open_file(fd).into_iter().for_each(|(file, _)| handle::forget_question(file));
}
