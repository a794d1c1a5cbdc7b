//! Which record a descriptor's calls are counted in: that of its path, or of its folder.
//!
//! The path is what the program gave, from the current folder or one that is open; where that is not known,
//! the kernel is asked.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::ffi::c_char;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};

use sweetspot_core::ledger::TEXT_BYTES_MAX;
use sweetspot_core::observe::{IS_INHERITED, IS_OTHER, IS_REGULAR, Record, Tally};
use sweetspot_core::shadow::{Shadow, World};
use sweetspot_core::why::Why;

use super::state::{
    CLOSE_ON_EXEC, Counts, FOLDED, OTHER, PASS_THROUGH, SEEN, SHARED, STDIO_TOO, Seen,
};
use super::{
    GIVEN_UP, HIGHEST, OWNER, beside, holds_for, is_borrowed, is_on, made, name_program,
    observations, quiesce, random,
};
use crate::engine::{ledger, rules};
use crate::floor::{atomic, proc, sys};

/// Files that a process opened first have a record each from then on. Of later ones only those that
/// prove busy have: the others are counted by folder, and one in [`FOLDED_WEIGHT`] of them is
/// followed closely. A record costs a fault of a page, a file that is followed some questions to the
/// kernel: as much as all that is done with a small file.
pub(super) const FILES_APART: u32 = 128;
pub(super) const FOLDED_WEIGHT: u32 = 8;
/// Once more than so many were opened, one in so many: enough is known of their like.
pub(super) const FOLDED_FEW: u32 = 512;
pub(super) const FOLDED_WEIGHT_OF_MANY: u32 = 64;
/// Calls that make a file busy.
pub(super) const BUSY_CALLS: u32 = 256;
/// Files that this process has opened: each one that has a record, and all that are counted by folder.
#[unsafe(link_section = ".data")]
pub(super) static FILES: AtomicU32 = AtomicU32::new(0);

impl Counts {
    /// The record of a descriptor, found first where it is not known.
    #[inline(always)]
    pub(super) fn of(seen: &'static Seen, fd: i32) -> Option<Counts> {
        // SAFETY: records are mapped for good.
        match unsafe { seen.record.load(Relaxed).as_ref() } {
            Some(record) => {
                let own = seen.flags.load(Relaxed) & SHARED == 0;
                Some(Counts { record, exclusive: own && atomic::single_threaded() })
            }
            None => find(seen, fd),
        }
    }
}

impl Seen {
    /// From now on its calls are counted in a record of its own.
    #[cold]
    pub(super) fn unfold(&self, fd: i32) {
        self.flags.fetch_and(!FOLDED, Relaxed);
        self.flags.fetch_or(ruled(fd), Relaxed);
        if let Some(all) = observations() {
            let mut buffer = [0; 512];
            let path = asked_path(fd, &mut buffer);
            set_apart(path);
            self.count_in(all.record(OWNER.load(Relaxed), path));
        }
    }
}

/// The record of a descriptor that is not known: it was open before, or made out of sight.
#[cold]
pub(super) fn find(seen: &'static Seen, fd: i32) -> Option<Counts> {
    let all = observations()?;
    name_program();
    let mut buffer = [0; 512];
    // SAFETY: records are mapped for good.
    if let Some(before) = unsafe { seen.before.load(Relaxed).as_ref() } {
        // That of the parent: the same path, counted for this process.
        let mut text = [0; TEXT_BYTES_MAX];
        let record = all.record(OWNER.load(Relaxed), before.path.load(&mut text));
        record.what.fetch_or(before.what.load(Relaxed), Relaxed);
        return Some(seen.count_in(record));
    }
    let status = sys::status(fd)?;
    let path = asked_path(fd, &mut buffer);
    // All pipes together, all sockets together.
    let unnamed = !path.starts_with(b"/");
    let path = match path.iter().position(|byte| *byte == b':') {
        Some(end) if unnamed => &path[..end],
        _ => path,
    };
    set_apart(path);
    let record = all.record(OWNER.load(Relaxed), path);
    let what = if status.regular { IS_REGULAR | IS_INHERITED } else { IS_OTHER };
    record.what.fetch_or(what, Relaxed);
    record.size.fetch_max(status.size, Relaxed);
    remember(seen, fd, record, 0);
    if !status.regular {
        seen.flags.fetch_or(OTHER, Relaxed);
    }
    seen.with_state(false, |state| {
        if status.regular {
            let at = sys::seek(fd, 0, libc::SEEK_CUR).max(0) as u64;
            (state.position, state.last_end) = (at, at);
            state.shadow = Shadow::OUTSIDE;
        } else {
            state.change_shadow(&mut World::default(), Some(Why::NotRegular));
            record.why.fetch_or(Why::NotRegular.bit(), Relaxed);
        }
    });
    Counts::of(seen, fd)
}

/// The path of a descriptor, as the kernel knows it.
pub(super) fn asked_path(fd: i32, buffer: &mut proc::PathBuffer) -> &[u8] {
    let path = proc::path_of(fd, buffer);
    path.strip_suffix(b" (deleted)").unwrap_or(path)
}

/// Ties a descriptor to its record, with nothing remembered.
pub(super) fn remember(seen: &'static Seen, fd: i32, record: &'static Record, flags: u32) {
    seen.leave();
    seen.flags.store(flags | ruled(fd), Relaxed);
    seen.describe();
    let counts = seen.count_in(record);
    know(fd);
    beside::note(seen, fd, record);
    if let Some(why) = Why::first(GIVEN_UP.load(Relaxed)) {
        quiesce(seen, &counts, holds_for(why, fd));
    }
}

/// The flag of a descriptor for what a rule says of its file.
fn ruled(fd: i32) -> u32 {
    if rules::buffers_stdio(fd) { STDIO_TOO } else { 0 }
}

/// A descriptor is in use from now on.
pub(super) fn know(fd: i32) {
    if HIGHEST.load(Relaxed) <= fd as u32 {
        HIGHEST.fetch_max(fd as u32 + 1, Relaxed);
    }
}

/// A descriptor was opened by path.
fn opened(fd: i32, flags: i32, path: *const c_char) {
    if !is_on() || fd < 0 {
        return;
    }
    made(fd);
    // SAFETY: the kernel has just opened this path.
    let given = unsafe { core::ffi::CStr::from_ptr(path) }.to_bytes();
    if !opened_beside(fd, flags, None, given) {
        opened_from_here(fd, flags, given);
    }
}

/// The same, with a folder to which the path is relative, or AT_FDCWD.
pub fn opened_at(folder: i32, fd: i32, flags: i32, path: *const c_char) {
    if !is_on() || fd < 0 {
        return;
    }
    // SAFETY: the kernel has just opened this path, since it gave a descriptor.
    if folder == libc::AT_FDCWD || unsafe { *path } == b'/' as c_char {
        return opened(fd, flags, path);
    }
    made(fd);
    // SAFETY: the kernel has just opened this path.
    let given = unsafe { core::ffi::CStr::from_ptr(path) }.to_bytes();
    let base = record_of_folder(folder);
    if base.is_none() || !opened_beside(fd, flags, base, given) {
        opened_from(base, fd, flags, given);
    }
}

#[cold]
#[inline(never)]
pub(super) fn opened_from_here(fd: i32, flags: i32, given: &[u8]) {
    let mut buffer = [0; PATH_BYTES_MAX];
    if let Some(path) = absolute(given, &mut buffer)
        && let Some(record) = opened_as(fd, flags, path)
    {
        BESIDE.remember(None, given, record);
    }
}

#[cold]
#[inline(never)]
pub(super) fn opened_from(base: Option<&'static Record>, fd: i32, flags: i32, given: &[u8]) {
    let (mut joined, mut asked) = ([0; PATH_BYTES_MAX], [0; 512]);
    let path = base.and_then(|base| in_folder(base, given, &mut joined));
    let record = opened_as(fd, flags, path.unwrap_or_else(|| proc::path_of(fd, &mut asked)));
    if let (Some(record), Some(_)) = (record, base) {
        BESIDE.remember(base, given, record);
    }
}

/// A file beside the last one that was counted by its folder: counted there, too, without a look at
/// its path, unless it may have a record of its own.
#[inline]
pub(super) fn opened_beside(fd: i32, flags: i32, base: Option<&Record>, given: &[u8]) -> bool {
    let Some(seen) = SEEN.get(fd as usize) else { return false };
    if !atomic::single_threaded() || flags & libc::O_DIRECTORY != 0 || is_borrowed() {
        return false;
    }
    let beside = BESIDE.find(base, given).filter(|(_, name)| !BESIDE.may_be_apart(name));
    let Some((record, _)) = beside else { return false };
    count_in_folder(seen, fd, record, close_on_exec(flags));
    true
}

/// The folder of the last file that was counted by its folder: what the program gave to open it,
/// but for its name. For one thread only.
pub(super) struct Beside {
    /// That folder's record; null: there was none.
    pub(super) record: AtomicPtr<Record>,
    /// To what the path is relative; null: to the current folder.
    pub(super) base: AtomicPtr<Record>,
    pub(super) len: AtomicU32,
    pub(super) given: UnsafeCell<[u8; TEXT_BYTES_MAX]>,
    /// The end of its path: see [`apart_bit`].
    pub(super) folder_end: AtomicU64,
}
// SAFETY: only threads that are alone touch it. A handler in the middle of a change may leave the one's
// text and the other's record: what is counted is wrong then, and no memory.
unsafe impl Sync for Beside {}
pub(super) static BESIDE: Beside = Beside {
    record: AtomicPtr::new(core::ptr::null_mut()),
    base: AtomicPtr::new(core::ptr::null_mut()),
    len: AtomicU32::new(0),
    given: UnsafeCell::new([0; TEXT_BYTES_MAX]),
    folder_end: AtomicU64::new(0),
};

impl Beside {
    /// The record, if this path is in that folder, and the file's name.
    #[inline]
    fn find<'a>(
        &self,
        base: Option<&Record>,
        given: &'a [u8],
    ) -> Option<(&'static Record, &'a [u8])> {
        // SAFETY: records are mapped for good.
        let record = unsafe { self.record.load(Relaxed).as_ref() }?;
        let same_base = self.base.load(Relaxed) == base.map_or(core::ptr::null_mut(), address);
        // SAFETY: see above.
        let known = unsafe { (&*self.given.get()).get(..self.len.load(Relaxed) as usize) }?;
        let (folder, name) = given.split_at_checked(known.len())?;
        let same_folder = known.is_empty() || folder == known;
        (same_base && same_folder && !has_slash(name)).then_some((record, name))
    }

    pub(super) fn remember(&self, base: Option<&Record>, given: &[u8], record: &'static Record) {
        let folder = folder_of(given);
        self.forget();
        // Those of others may be found by their paths only.
        if folder.len() <= TEXT_BYTES_MAX && record.owner.load(Relaxed) != 0 {
            // SAFETY: see above.
            unsafe { (&mut *self.given.get())[..folder.len()].copy_from_slice(folder) };
            self.len.store(folder.len() as u32, Relaxed);
            let mut text = [0; TEXT_BYTES_MAX];
            self.folder_end.store(end_of(record.path.load(&mut text)), Relaxed);
            self.base.store(base.map_or(core::ptr::null_mut(), address), Relaxed);
            self.record.store(address(record), Relaxed);
        }
    }

    /// Whether a file in it may have a record of its own.
    #[inline]
    fn may_be_apart(&self, name: &[u8]) -> bool {
        let (word, bit) = apart_bit(self.folder_end.load(Relaxed), name);
        word.load(Relaxed) & bit != 0
    }

    pub(super) fn forget(&self) {
        self.record.store(core::ptr::null_mut(), Relaxed);
    }
}

pub(super) fn address(record: &Record) -> *mut Record {
    (&raw const *record).cast_mut()
}

/// A bit for each file that has a record of its own in this process, or in one that it was forked from; by
/// chance also for others.
pub(super) static APART: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

/// The last eight bytes of a name as a number, the last one highest; of a shorter one, all of them.
#[inline]
fn end_of(name: &[u8]) -> u64 {
    if let Some(end) = name.last_chunk() {
        return u64::from_le_bytes(*end);
    }
    // Two pieces, which may overlap.
    if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        let [first, last] = [first, last].map(|piece| u64::from(u32::from_le_bytes(*piece)));
        return first | last << (8 * (name.len() - 4));
    }
    name.iter().rev().fold(0, |end, byte| end << 8 | u64::from(*byte))
}

/// Whether there is a slash in what should be a file's name.
#[inline]
fn has_slash(name: &[u8]) -> bool {
    const ONES: u64 = u64::MAX / 255;
    let among = |bytes: u64| {
        let differs = bytes ^ (ONES * b'/' as u64);
        // The highest bit of a byte that does not differ, and of some above it.
        differs.wrapping_sub(ONES) & !differs & (ONES << 7) != 0
    };
    let (eights, _) = name.as_chunks();
    eights.iter().any(|bytes| among(u64::from_le_bytes(*bytes))) || among(end_of(name))
}

/// The bit of a file: where it is. Names that are counted through differ in their ends.
#[inline]
fn apart_bit(folder_end: u64, name: &[u8]) -> (&'static AtomicU64, u64) {
    let file = end_of(name) ^ name.len() as u64 ^ folder_end.rotate_left(32);
    let bit = file.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
    (&APART[bit as usize / 64], 1 << (bit % 64))
}

/// A file has a record of its own from now on.
fn set_apart(path: &[u8]) {
    let (folder, name) = path.split_at(folder_of(path).len());
    let (word, bit) = apart_bit(end_of(folder), name);
    word.fetch_or(bit, Relaxed);
}

/// The record of a folder that was opened before; `None`: only the kernel knows its path.
pub(super) fn record_of_folder(folder: i32) -> Option<&'static Record> {
    let seen = SEEN.get(folder as usize)?;
    if seen.flags.load(Relaxed) & FOLDED != 0 {
        return become_folder(seen, folder);
    }
    // SAFETY: records are mapped for good.
    unsafe { seen.record.load(Relaxed).as_ref() }
}

/// What was taken for a file of its folder, as it was opened like one, is a folder itself.
#[cold]
pub(super) fn become_folder(seen: &'static Seen, folder: i32) -> Option<&'static Record> {
    let all = observations()?;
    let (mut asked, mut joined) = ([0; PATH_BYTES_MAX], [0; PATH_BYTES_MAX]);
    let path = asked_path(folder, &mut asked);
    let record = all.record(OWNER.load(Relaxed), join([path, b"/", b""], &mut joined)?);
    seen.flags.fetch_and(!FOLDED, Relaxed);
    Some(seen.count_in(record).record)
}

/// A path in such a folder; `None`: only the kernel knows it.
pub(super) fn in_folder<'a>(
    record: &Record,
    name: &[u8],
    buffer: &'a mut [u8; PATH_BYTES_MAX],
) -> Option<&'a [u8]> {
    let mut text = [0; TEXT_BYTES_MAX];
    let folder = record.path.load(&mut text);
    // A longer one has lost its beginning.
    let is_whole = folder.starts_with(b"/") && folder.len() < TEXT_BYTES_MAX;
    let folder = folder.strip_suffix(b"/").unwrap_or(folder);
    if is_whole { join([folder, b"/", name], buffer) } else { None }
}

/// The pieces of a path, if there is room.
pub(super) fn join<'a>(
    pieces: [&[u8]; 3],
    buffer: &'a mut [u8; PATH_BYTES_MAX],
) -> Option<&'a [u8]> {
    if pieces.iter().map(|piece| piece.len()).sum::<usize>() > PATH_BYTES_MAX {
        return None;
    }
    let mut len = 0;
    for piece in pieces {
        buffer[len..len + piece.len()].copy_from_slice(piece);
        len += piece.len();
    }
    Some(&buffer[..len])
}

/// A descriptor means the file of this name, from its beginning. The record of its folder, if it is
/// counted there.
pub(super) fn opened_as(fd: i32, flags: i32, path: &[u8]) -> Option<&'static Record> {
    let (all, seen) = (observations()?, SEEN.get(fd as usize)?);
    if is_borrowed() {
        return None;
    }
    name_program();
    // Only the record of a folder's files ends with a slash.
    let path = path.strip_suffix(b"/").filter(|path| !path.is_empty()).unwrap_or(path);
    let owner = OWNER.load(Relaxed);
    let of_its_own = match all.find(owner, path) {
        None if FILES.load(Relaxed) < FILES_APART || ledger::is_exact() => {
            FILES.fetch_add(1, Relaxed);
            set_apart(path);
            Some(all.record(owner, path))
        }
        known => known,
    };
    if let Some(record) = of_its_own {
        remember(seen, fd, record, close_on_exec(flags));
        count_open(seen, fd);
    } else if flags & libc::O_DIRECTORY != 0 {
        // No file of its folder, but the folder whose files are counted there.
        let mut buffer = [0; PATH_BYTES_MAX];
        let record = all.record(owner, join([path, b"/", b""], &mut buffer).unwrap_or(path));
        remember(seen, fd, record, close_on_exec(flags));
    } else {
        let record = all.record(owner, folder_of(path));
        count_in_folder(seen, fd, record, close_on_exec(flags));
        return Some(record);
    }
    None
}

/// The flag of a descriptor for those of its opening.
#[inline]
pub(super) fn close_on_exec(flags: i32) -> u32 {
    if flags & libc::O_CLOEXEC != 0 { CLOSE_ON_EXEC } else { 0 }
}

/// A file is counted with others of its folder.
#[inline]
pub(super) fn count_in_folder(
    seen: &'static Seen,
    fd: i32,
    record: &'static Record,
    close_on_exec: u32,
) {
    let files = FILES.load(Relaxed);
    FILES.store(files.saturating_add(1), Relaxed);
    let weight = if files < FOLDED_FEW { FOLDED_WEIGHT } else { FOLDED_WEIGHT_OF_MANY };
    // The first one is followed, so that no folder is judged by none.
    if record.tallies[Tally::Opens as usize].load(Relaxed) == 0 || random() < u32::MAX / weight {
        remember(seen, fd, record, close_on_exec | FOLDED);
        count_open(seen, fd);
    } else {
        seen.flags.store(close_on_exec | FOLDED | PASS_THROUGH, Relaxed);
        seen.position.store(0, Relaxed);
        seen.count_in(record).tally(Tally::Opens, 1);
        seen.arm(BUSY_CALLS);
        know(fd);
    }
}

pub(super) fn count_open(seen: &'static Seen, fd: i32) {
    if let Some(counts) = Counts::of(seen, fd) {
        counts.tally(Tally::Opens, 1);
    }
}

/// The folder of a path, with its slash, which no file's path ends with.
pub(super) fn folder_of(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    &path[..end]
}

/// Longer paths keep their end.
pub(super) const PATH_BYTES_MAX: usize = 512;

/// The current folder, as far as it is known.
pub(super) struct Folder {
    pub(super) len: AtomicU32,
    pub(super) bytes: UnsafeCell<[u8; PATH_BYTES_MAX]>,
}
// SAFETY: the bytes are for display; two threads that find them out at once store the same.
unsafe impl Sync for Folder {}
pub(super) static FOLDER: Folder =
    Folder { len: AtomicU32::new(0), bytes: UnsafeCell::new([0; PATH_BYTES_MAX]) };

/// The current folder may be another one now.
pub fn moved() {
    FOLDER.len.store(0, Relaxed);
    BESIDE.forget();
}

/// A path from the root, for the records; the end of it, where it is long.
pub(super) fn absolute<'a>(
    path: &'a [u8],
    buffer: &'a mut [u8; PATH_BYTES_MAX],
) -> Option<&'a [u8]> {
    if path.starts_with(b"/") {
        return Some(path);
    }
    let path = path.strip_prefix(b"./").unwrap_or(path);
    let mut folder_len = FOLDER.len.load(Relaxed) as usize;
    if folder_len == 0 {
        // SAFETY: a buffer of that size; see `Folder`.
        let answer = unsafe { sys::syscall!(SYS_getcwd, FOLDER.bytes.get(), PATH_BYTES_MAX) };
        folder_len = sys::result(answer).ok()?.checked_sub(1)?;
        FOLDER.len.store(folder_len as u32, Relaxed);
    }
    // SAFETY: see `Folder`.
    let folder: &[u8; PATH_BYTES_MAX] = unsafe { &*FOLDER.bytes.get() };
    let folder = &folder[..folder_len.min(PATH_BYTES_MAX)];
    let folder = if folder == b"/" { b"" } else { folder };
    Some(join([folder, b"/", path], buffer).unwrap_or(path))
}
