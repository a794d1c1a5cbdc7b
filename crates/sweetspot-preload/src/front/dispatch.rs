//! Which engine a call goes to: in a process that is observed (`profile`) the observer, in all others the
//! engine. What concerns both goes through here, everything else from the doors to the engine.
//!
//! A process is observed from its start to its end, or never. While it is, the engine is passive: so what
//! is asked of the engine all the same does nothing. It does not know of the observer.
//!
//! Invariant: what is answered from a buffer, or passes through at once, does not come here first. Each
//! function asks once whether the process is observed, and that is all that it costs.
#![allow(unsafe_code)]

use core::ffi::c_char;

use sweetspot_core::why::Why;

use crate::engine::{
    self, Pass, changes, children, concerns, dirty, embed, ending, life, mapping, own_files, pass,
    read, sharing, space, spawns, table, unseen, write,
};
use crate::floor::aside;
use crate::floor::errno::fail;
use crate::floor::signals::SignalsBlocked;
use crate::floor::sys;
use crate::observer::{self, LEN_UNKNOWN, Sharing, Watch};
pub use crate::observer::{Kind, is_on as is_observed, ways};

/// What became of a call.
pub enum Outcome {
    /// Done: return this.
    Done(isize),
    /// Call the next definition, then [`Outcome::finish`].
    PassThrough(Pass),
    /// The same, and it is counted.
    Watch(Watch),
}

impl From<engine::Outcome> for Outcome {
    #[inline(always)]
    fn from(outcome: engine::Outcome) -> Outcome {
        match outcome {
            engine::Outcome::Done(answer) => Outcome::Done(answer),
            engine::Outcome::PassThrough(pass) => Outcome::PassThrough(pass),
        }
    }
}

impl Outcome {
    /// Tidies up after a call that passed through and gave `answer`, and hands the answer back.
    #[inline(always)]
    pub fn finish(self, answer: isize) -> isize {
        match self {
            Outcome::PassThrough(pass) => pass.finish(answer),
            Outcome::Watch(watch) => watch.finish(answer),
            Outcome::Done(_) => answer,
        }
    }
}

/// A read, write or seek that nothing has answered yet.
#[inline(always)]
fn follow(
    kind: Kind,
    fd: i32,
    len: u64,
    at: Option<i64>,
    engine: impl FnOnce() -> engine::Outcome,
) -> Outcome {
    match observer::call(kind, fd, len, at) {
        Some(watch) => Outcome::Watch(watch),
        None => engine().into(),
    }
}

/// `read`.
#[inline(always)]
pub fn read(fd: i32, buffer: *mut u8, len: usize) -> Outcome {
    match table::open_word(fd).and_then(|word| read::hit(word, fd, buffer, len)) {
        Some(done) => Outcome::Done(done),
        None => follow(Kind::Read, fd, len as u64, None, || read::not_hit(fd, buffer, len)),
    }
}

/// `pread`.
#[inline(always)]
pub fn read_at(fd: i32, buffer: *mut u8, len: usize, offset: i64) -> Outcome {
    match table::open_word(fd).and_then(|word| read::hit_at(word, fd, buffer, len, offset)) {
        Some(done) => Outcome::Done(done),
        None => follow(Kind::Read, fd, len as u64, Some(offset), || {
            read::not_hit_at(fd, buffer, len, offset)
        }),
    }
}

/// `readv`, and with an offset `preadv`.
pub fn read_vector(
    fd: i32,
    vector: *const libc::iovec,
    count: i32,
    offset: Option<i64>,
) -> Outcome {
    follow(Kind::Read, fd, LEN_UNKNOWN, offset, || read::read_vector(fd, vector, count, offset))
}

/// `write`.
#[inline(always)]
pub fn write(fd: i32, buffer: *const u8, len: usize) -> Outcome {
    match table::open_word(fd).and_then(|word| write::waits(word, fd, buffer, len)) {
        Some(done) => Outcome::Done(done),
        None => follow(Kind::Write, fd, len as u64, None, || write::not_waiting(fd, buffer, len)),
    }
}

/// `pwrite`.
pub fn write_at(fd: i32, buffer: *const u8, len: usize, offset: i64) -> Outcome {
    follow(Kind::Write, fd, len as u64, Some(offset), || write::write_at(fd, buffer, len))
}

/// `writev`.
pub fn write_vector(fd: i32, vector: *const libc::iovec, count: i32) -> Outcome {
    follow(Kind::Write, fd, LEN_UNKNOWN, None, || write::write_vector(fd, vector, count))
}

/// `pwritev`.
pub fn write_vector_at(fd: i32, offset: i64) -> Outcome {
    follow(Kind::Write, fd, LEN_UNKNOWN, Some(offset), || write::write_vector_at(fd))
}

/// `lseek`.
#[inline(always)]
pub fn seek(fd: i32, offset: i64, whence: i32) -> Outcome {
    match table::open_word(fd).and_then(|word| engine::seek::moved(word, fd, offset, whence)) {
        Some(position) => Outcome::Done(position),
        None => follow(Kind::Seek, fd, whence as u64, None, || {
            engine::seek::not_moved(fd, offset, whence)
        }),
    }
}

/// libc reads, writes or seeks on its own account, and is not buffered.
pub fn libc_call(kind: Kind, fd: i32, len: u64) -> Outcome {
    match observer::libc_call(kind, fd, len, None) {
        Some(watch) => Outcome::Watch(watch),
        None => {
            let is_write = kind == Kind::Write;
            let pass = pass::libc_call(fd, if is_write { len } else { 0 });
            if is_write {
                changes::writing(fd, false);
            }
            let failed = match kind {
                Kind::Seek => engine::seek::failing(fd, len as i32),
                _ => life::incomplete(fd),
            };
            failed.map_or(Outcome::PassThrough(pass), |errno| Outcome::Done(fail(errno)))
        }
    }
}

/// The common call on nothing that is buffered: a release point before it, an acquire point after it.
#[inline(always)]
pub fn pass_through() -> Pass {
    if is_observed() {
        observer::sync_point();
        return Pass::NOTHING;
    }
    engine::pass_through()
}

/// A release point that only other processes can notice, as the call looks at no file: what nobody else
/// looks at goes on waiting. The call is an acquire point, too.
#[inline(always)]
pub fn public_sync_point() -> Pass {
    if is_observed() {
        observer::sync_point();
        return Pass::NOTHING;
    }
    engine::public_sync_point()
}

/// Before others can see something else of this process alone, as its descriptors.
pub fn before_it_is_shown() {
    if is_observed() { observer::release_point() } else { engine::before_it_is_shown() }
}

/// Whether the engine takes no part in a call on no file; then the observer, if there is one, has counted
/// it, and nothing is left to do.
#[inline(always)]
pub fn takes_no_part() -> bool {
    if is_observed() {
        observer::sync_point();
        return true;
    }
    spawns::passive()
}

/// Whether a release point has any effect: something waits, or such points are counted.
#[inline(always)]
pub fn release_point_matters() -> bool {
    dirty::is_pending() || is_observed()
}

/// Before a function that needs the time zone, which libc may read.
pub fn zone_is_needed() -> Pass {
    before_own_file(own_files::zone_is_news)
}

/// Before a message of a domain (null: of the one in force) is looked up, in a catalogue that libc may read.
pub fn message_is_needed(domain: *const c_char) -> Pass {
    before_own_file(|| own_files::message_is_news(domain))
}

/// Before libc may open, read and close a file of its own; `reads` says whether, if anybody is to know.
fn before_own_file(reads: impl FnOnce() -> bool) -> Pass {
    let is_concerned = is_observed() || !spawns::passive();
    if is_concerned && reads() { pass_through() } else { Pass::NOTHING }
}

/// Writes out everything that waits, as the program asks for.
pub fn flush() -> Result<(), i32> {
    if is_observed() {
        observer::sync_point();
    }
    embed::flush()
}

/// Before a file is opened by path, relative to a folder.
#[inline(always)]
pub fn opening(folder: i32, path: *const c_char, flags: i32) -> Pass {
    let pass = pass_through();
    if !is_observed() {
        // SAFETY: the program hands the path over, and the kernel alone reads it.
        unsafe { changes::opening(folder, path, flags) };
    }
    pass
}

/// A descriptor was opened, with these open flags; by what path is not known. `fd` may be an error.
pub fn opened(fd: i32, flags: i32) {
    if is_observed() { observer::made(fd) } else { life::opened(fd, flags) }
}

/// A descriptor was opened by path, relative to a folder.
pub fn opened_at(folder: i32, fd: i32, flags: i32, path: *const c_char) {
    if is_observed() {
        observer::opened_at(folder, fd, flags, path);
    } else {
        life::opened(fd, flags);
    }
}

/// A descriptor was made that is no file opened by path.
pub fn made(fd: i32) {
    if is_observed() { observer::made(fd) } else { life::made(fd) }
}

/// Descriptors were made and written to where `list` points, which the kernel has just done.
pub fn made_several(list: *const i32, count: usize) {
    for index in 0..count {
        // SAFETY: the call that wrote there has succeeded.
        made(unsafe { *list.add(index) });
    }
}

/// The current folder may be another one now.
pub fn folder_changed() {
    observer::moved();
}

/// A descriptor was taken from another process by one of it.
pub fn fetched(pidfd: i32, fd: i32) {
    observer::made(fd);
    life::fetched(pidfd, fd);
}

/// A call that is not followed gave a small number, which may be a new descriptor.
pub fn perhaps_made(fd: i32) {
    if is_observed() { observer::made(fd) } else { life::perhaps_made(fd) }
}

/// Before a descriptor is closed; the error with which that is to fail after it was done, or 0.
#[unsafe(link_section = ".text.startup")]
pub fn closing(fd: i32) -> i32 {
    if is_observed() {
        observer::closed(fd);
        return 0;
    }
    life::closing(fd)
}

/// Closes a descriptor by `next`, and fails afterwards where [`closing`] says so.
#[unsafe(link_section = ".text.startup")]
pub fn close(fd: i32, next: impl FnOnce() -> i32) -> i32 {
    let _handlers = life::meets_handlers(fd).then(SignalsBlocked::deferring);
    let failed = closing(fd);
    let answer = next();
    are_closed();
    failing_with(failed, answer)
}

/// After the kernel has closed descriptors: what they led to is free, unless the program has others.
#[inline(always)]
pub fn are_closed() {
    aside::await_copies();
}

/// The answer of a call that was made, and that is to fail with this error unless it is 0.
pub fn failing_with(failed: i32, answer: i32) -> i32 {
    if failed != 0 && answer == 0 { fail(failed) as i32 } else { answer }
}

/// Before `close_range`.
pub fn range(first: u32, last: u32, flags: u32) {
    if is_observed() {
        observer::range_closed(first, last, flags);
    } else {
        life::range(first, last, flags);
    }
}

/// The flags of its open file were set. The engine asks for them where writes begin to wait: a thread or a handler that
/// came in between has asked for those before.
pub fn flags_set(fd: i32, flags: i32) {
    match is_observed() {
        true => observer::flags_set(fd, flags),
        false if concerns::is_concurrent() => life::hand_over_flags(fd),
        false => {}
    }
}

/// The descriptor is about to be used in a way that is not followed: its calls pass through for good.
pub fn special_use(fd: i32, why: Why) {
    if is_observed() { observer::special_use(fd, why) } else { life::special_use(fd, why) }
}

/// The kernel is about to use the descriptor's offset, or its content, behind our back.
pub fn hand_over(fd: i32) {
    if is_observed() { observer::handed_over(fd) } else { life::hand_over(fd) }
}

/// The same for a call by which the kernel uses what the file holds; the error with which it is to fail.
pub fn hand_over_content(fd: i32) -> Option<i32> {
    if is_observed() {
        observer::handed_over(fd);
        return None;
    }
    life::hand_over_content(fd)
}

/// The kernel is about to use the descriptor's offset behind our back.
pub fn hand_over_offset(fd: i32) {
    match is_observed() {
        true if concerns::is_concurrent() => observer::special_use(fd, Why::SpecialUse),
        true => observer::handed_over(fd),
        false => life::hand_over_offset(fd),
    }
}

/// The same for two descriptors between which the kernel moves bytes; the error with which it is to fail.
pub fn hand_over_offsets(from: i32, to: i32) -> Option<i32> {
    let errors = [from, to].map(|fd| {
        hand_over_offset(fd);
        hand_over_content(fd)
    });
    errors[0].or(errors[1])
}

/// Before bytes are written to a descriptor, nobody knows how many; `is_placed`: perhaps at a position that is given.
pub fn writes_unseen(fd: i32, is_placed: bool) {
    space::written_unseen();
    match is_placed {
        true => hand_over(fd),
        false => hand_over_offset(fd),
    }
    changes::writing(fd, is_placed);
    // What it writes may be news for a window that is read next.
    pass_through().done();
}

/// Bytes were moved inside the kernel, from one descriptor to another.
pub fn transferred(from: i32, to: i32, answer: isize) {
    space::written_through(answer.max(0) as u64);
    observer::transferred(from, to, answer);
}

/// Before memory is mapped; the error with which that is to fail.
pub fn mapping(fd: i32, protection: i32, flags: i32) -> Option<i32> {
    if !is_observed() {
        return mapping::mapping(fd, protection, flags);
    }
    let meaning = mapping::meaning_of(fd, protection, flags);
    if let Some(status) = &meaning.file {
        observer::mapped(fd, status);
    }
    if meaning.syncs() {
        syncs();
    } else if meaning.acquires() {
        observer::acquires_unseen();
    }
    None
}

/// Before a library is loaded by its path, which the loader maps.
///
/// # Safety
/// As of `fstatat`: a bad address is an error.
pub unsafe fn loading(path: *const c_char) {
    if !is_observed() {
        // SAFETY: as the caller says.
        return unsafe { mapping::loading(path) };
    }
    // SAFETY: as above.
    if let Some(status) = unsafe { sys::status_at(libc::AT_FDCWD, path, 0) } {
        observer::mapped(-1, &status);
    }
}

/// Before a library is loaded, which may make calls of its own, or need another one that does.
pub fn library_comes() {
    if !is_observed() {
        mapping::library_comes();
    }
}

/// Libraries may have been loaded, by whatever way. Where calls of one are not seen, buffering ends.
pub fn look_at_libraries() {
    if let Some(why) = ending::unseen_library() {
        end_because(why);
    }
}

/// Before the protection of memory changes.
pub fn protecting(protection: i32) {
    if mapping::begins_to_sync(protection) {
        syncs();
    }
}

/// This process and another one share writable memory.
pub fn syncs() {
    if !is_observed() {
        unseen::syncs();
    } else {
        observer::ending(Some(Why::SharedMemory));
    }
}

/// Before a fork. To be followed by `after_fork` in both processes.
#[unsafe(link_section = ".text.startup")]
pub fn before_fork() {
    if !is_observed() {
        return children::before_fork();
    }
    observer::shares(Sharing::All, |_| false);
    if unseen::is_shared_by_fork() {
        syncs();
    }
}

/// Before a process is made that nobody follows, whose death this one may notice.
pub fn before_other_kin() {
    if !is_observed() {
        children::begin_company();
    }
}

/// After a fork, in the parent (`child` > 0 or an error) and in the child (0).
#[unsafe(link_section = ".text.startup")]
pub fn after_fork(child: i32) {
    children::after_fork(child);
    if child == 0 {
        observer::forked();
    }
}

/// Before a vfork or spawn by this thread, by a list of file actions (0: none).
pub fn before_spawn(actions: usize) {
    if is_observed() {
        observer::shares(Sharing::Inherited, |fd| sharing::is_named(actions, fd));
    } else {
        if sharing::is_named(actions, sharing::OPENS) {
            changes::spawn_opens();
        }
        children::before_spawn(actions);
    }
}

/// Before this process becomes another program; it goes on if that fails.
#[unsafe(link_section = ".text.startup")]
pub fn before_exec(is_there: impl FnOnce() -> bool) {
    if is_observed() { observer::ending(None) } else { children::before_exec(is_there) }
}

/// The process ends.
pub fn end() {
    if is_observed() { observer::ending(None) } else { ending::end() }
}

/// The process can no longer be followed, or may no longer do what we would do.
pub fn end_because(why: Why) {
    if is_observed() { observer::ending(Some(why)) } else { ending::end_because(why) }
}
