//! This process' side of the ledger: found by its path, checked, mapped when first needed.
//!
//! Without one (a bare preload, a folder that is not reachable) everything still works: the size
//! comes from the environment and counters stay here.

use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

use sweetspot_core::cost::Cost;
use sweetspot_core::glob;
use sweetspot_core::ledger::{
    BUFFER_AUTO, BUFFER_UNSET, CLOCK_STANDS, CLOCK_WANTED, Devices, FILES_MAX, FLAG_OBSERVE,
    FLAG_PLACES, FLAG_PROBE, FLAG_SUMMARY, FLAG_TRACE, Header, Ledger, MAGIC, RULE_AUTO,
    RULE_PRIVATE, RULE_STDIO, RULES_MAX, Rule, TEXT_BYTES_MAX, Way,
};
use sweetspot_core::observe::{OBSERVATIONS_AT, Observations};
use sweetspot_core::policy;
use sweetspot_core::trace::{TRACE_AT, Trace};
use sweetspot_core::why::Why;

use crate::concerns::{self, SUMMARY};
use crate::file::{self, OpenFile};
use crate::{aside, process, sys};

/// The path from the environment: a string of the environment block, zero at its end.
#[unsafe(link_section = ".data")]
static PATH: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
#[unsafe(link_section = ".data")]
static MAPPED: AtomicPtr<Ledger> = AtomicPtr::new(core::ptr::null_mut());
/// Whether mapping was tried.
#[unsafe(link_section = ".data")]
static TRIED: AtomicU32 = AtomicU32::new(0);

/// Keeps the path for later.
pub fn remember(path: Option<&'static [u8]>) {
    if let Some(path) = path {
        PATH.store(path.as_ptr().cast_mut(), Relaxed);
    }
}

/// The ledger, mapped on first use. Called only inside transitions or at start.
pub fn ledger() -> Option<&'static Ledger> {
    if TRIED.swap(1, Relaxed) == 0
        && let Some(ledger) = map()
    {
        // SAFETY: just mapped.
        process::set_max_age_ms(unsafe { (*ledger).header.max_age_ms.load(Relaxed) });
        MAPPED.store(ledger, Relaxed);
        process::watch_clock(mapped());
        // SAFETY: as above.
        if unsafe { (*ledger).header.flags.load(Relaxed) } & FLAG_SUMMARY != 0 {
            concerns::set(SUMMARY);
        }
    }
    mapped()
}

/// The ledger, if it is mapped.
fn mapped() -> Option<&'static Ledger> {
    // SAFETY: a mapped ledger stays mapped, and all of it is atomics.
    unsafe { MAPPED.load(Relaxed).as_ref() }
}

/// The most memory that this process may use, whatever sizes are in force, in bytes.
pub fn memory_bytes_max() -> u64 {
    mapped().map_or(u64::MAX, |ledger| ledger.header.budget_bytes.load(Relaxed))
}

/// What is known of file systems.
pub fn devices() -> Option<&'static Devices> {
    mapped().map(|ledger| &ledger.header.devices)
}

/// Bytes that chunks may still take, as far as the guard has said.
pub fn chunks_left() -> u64 {
    mapped().map_or(0, |ledger| ledger.header.chunks_left.load(Relaxed))
}

/// Says in the summary, if there is one, what transfers of a file cost, and which size was chosen.
pub fn record_cost(file: &OpenFile, way: Way, cost: Option<Cost>, chosen_bytes: u64) {
    // SAFETY: records of the ledger stay mapped.
    if let Some(record) = unsafe { file.file_record.load(Relaxed).as_ref() } {
        record.costs[way as usize].store(cost.map_or(0, Cost::to_word), Relaxed);
        record.chosen[way as usize].fetch_max(chosen_bytes as u32, Relaxed);
    }
}

/// Lets the guard's clock go on, where there is a guard: what is looked at now must be looked at
/// again.
pub fn want_clock() {
    let Some(header) = mapped().map(|ledger| &ledger.header) else { return };
    let wanted = header.clock_wanted.load(Relaxed);
    if wanted == CLOCK_WANTED {
        return;
    }
    let was = header.clock_wanted.swap(CLOCK_WANTED, SeqCst);
    if was == CLOCK_STANDS && header.guard.load(Relaxed) != 0 {
        header.asks.fetch_add(1, SeqCst);
        if header.guard_naps.load(SeqCst) == 1 {
            sys::futex_wake(&header.asks);
        }
    }
}

/// Device and inode of the mapped ledger.
static IDENTITY: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Opens the ledger again, does something with it, closes it: no descriptor is kept.
fn with_descriptor<T>(mut action: impl FnMut(i32, &libc::stat) -> Option<T>) -> Option<T> {
    let path = PATH.load(Relaxed);
    match path.is_null() {
        true => None,
        false => aside::look(-1, || with_opened(path, &mut action)),
    }
}

fn with_opened<T>(
    path: *const u8,
    mut action: impl FnMut(i32, &libc::stat) -> Option<T>,
) -> Option<T> {
    let flags = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NOCTTY;
    // SAFETY: the path is a string of the environment.
    let fd = unsafe { sys::syscall!(SYS_openat, libc::AT_FDCWD as isize, path, flags, 0) };
    let fd = sys::result(fd).ok()? as i32;
    let done = status_if_ours(fd).and_then(|stat| action(fd, &stat));
    // SAFETY: our own descriptor.
    unsafe { sys::syscall!(SYS_close, fd as isize) };
    done
}

fn map() -> Option<*mut Ledger> {
    if sys::address_or_data_bytes_max() < policy::ADDRESS_BYTES_MIN {
        return None;
    }
    with_descriptor(|fd, stat| {
        IDENTITY[0].store(stat.st_dev, Relaxed);
        IDENTITY[1].store(stat.st_ino, Relaxed);
        map_descriptor(fd)
    })
}

/// Maps a chunk, with its first pages in place. The guard has allocated all of it.
pub fn map_chunk(at: u64, bytes: u64) -> Option<u64> {
    with_descriptor(|fd, stat| {
        let same = stat.st_dev == IDENTITY[0].load(Relaxed)
            && stat.st_ino == IDENTITY[1].load(Relaxed)
            && stat.st_size as u64 >= at + bytes;
        if !same {
            return None;
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new shared mapping of our own file, and advice on it.
        unsafe {
            let address =
                sys::syscall!(SYS_mmap, 0, bytes, protection, libc::MAP_SHARED, fd as isize, at);
            let address = sys::result(address).ok()? as u64;
            sys::syscall!(SYS_madvise, address, bytes, libc::MADV_DONTDUMP);
            sys::syscall!(
                SYS_madvise,
                address,
                bytes.min(policy::APPEND_BYTES_FIRST),
                libc::MADV_POPULATE_WRITE
            );
            Some(address)
        }
    })
}

/// Unmaps a chunk that nothing refers to any more; 0: there is none.
pub fn unmap_chunk(chunk: u64, bytes: u64) {
    if chunk != 0 {
        // SAFETY: a mapping of our own.
        unsafe { sys::syscall!(SYS_munmap, chunk, bytes) };
    }
}

/// Lets go of a chunk into which an append that was interrupted goes on to copy: in its place is
/// memory that belongs to nobody. Unmapped, its addresses could be the program's by then.
pub fn disconnect_chunk(chunk: u64, bytes: u64) {
    if chunk != 0 {
        replace(chunk, bytes);
    }
}

/// Reads a small file of the kernel's.
pub fn read_small(path: &core::ffi::CStr, buffer: &mut [u8]) -> Option<usize> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: a string, a buffer of that size, and a descriptor of our own.
    let read = || unsafe {
        let fd = sys::syscall!(SYS_openat, libc::AT_FDCWD as isize, path.as_ptr(), flags, 0);
        let fd = sys::result(fd).ok()?;
        let answer = sys::syscall!(SYS_read, fd, buffer.as_mut_ptr(), buffer.len());
        sys::syscall!(SYS_close, fd);
        sys::result(answer).ok()
    };
    aside::look(-1, read)
}

/// A regular file of ours that nobody else can open.
fn status_if_ours(fd: i32) -> Option<libc::stat> {
    let mut stat = core::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the kernel fills the struct.
    let (answer, stat, user) = unsafe {
        let answer = sys::syscall!(SYS_fstat, fd as isize, stat.as_mut_ptr());
        (answer, stat.assume_init(), sys::syscall!(SYS_geteuid))
    };
    let ours = answer == 0
        && stat.st_mode == libc::S_IFREG | 0o600
        && stat.st_uid as isize == user
        && stat.st_size as usize >= size_of::<Ledger>();
    ours.then_some(stat)
}

fn map_descriptor(fd: i32) -> Option<*mut Ledger> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new shared mapping of our own file.
    let address = unsafe {
        sys::syscall!(
            SYS_mmap,
            0,
            size_of::<Ledger>(),
            protection,
            libc::MAP_SHARED,
            fd as isize,
            0
        )
    };
    let ledger = sys::result(address).ok()? as *mut Ledger;
    // SAFETY: just mapped, and large enough.
    let magic = unsafe { (*ledger).header.magic.load(Relaxed) };
    if magic != MAGIC {
        // SAFETY: our own mapping.
        unsafe { sys::syscall!(SYS_munmap, ledger, size_of::<Ledger>()) };
        return None;
    }
    Some(ledger)
}

/// Lets go of the shared memory for good: the process is about to give up rights, and whoever may
/// then control it must not reach what others have pending. Private zeros take its place, because
/// counters and entries are still pointed to. What could not be written keeps its chunk.
pub fn let_go() {
    let mapped = unmapped();
    if mapped.is_null() {
        return;
    }
    replace(mapped as u64, size_of::<Ledger>() as u64);
}

/// Forgets where the ledger is mapped, which it returns.
fn unmapped() -> *mut Ledger {
    concerns::clear(SUMMARY);
    MAPPED.swap(core::ptr::null_mut(), Relaxed)
}

/// Puts private zeros in the place of shared memory that is still pointed to: by counters, or by an
/// append that was interrupted and goes on.
fn replace(at: u64, bytes: u64) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: replaces a mapping of our own, all of whose users bear with any content.
    unsafe { sys::syscall!(SYS_mmap, at, bytes, protection, flags, -1isize, 0) };
}

/// In the child of a fork: what is mapped is the parent's, and so is what is counted there. If this
/// process needs a ledger it maps it anew.
pub fn leave_to_parent() {
    let mapped = unmapped();
    if mapped.is_null() {
        return;
    }
    TRIED.store(0, Relaxed);
    process::watch_clock(None);
    for file in file::used() {
        file.record.store((&raw const file.counters.0).cast_mut(), Relaxed);
        file.file_record.store(core::ptr::null_mut(), Relaxed);
    }
    replace(mapped as u64, size_of::<Ledger>() as u64);
}

/// The reasons that [`note`] was given in this process, as bits: the ledger has those of all.
#[unsafe(link_section = ".data")]
static NOTED: AtomicU64 = AtomicU64::new(0);

/// A reason for which this whole process is not buffered.
pub fn noted() -> Option<Why> {
    let bits = NOTED.load(Relaxed);
    Why::ALL.into_iter().find(|why| bits & why.bit() != 0)
}

/// Notes a reason for which this whole process is not buffered, for the summary.
pub fn note(why: Why) {
    NOTED.fetch_or(why.bit(), Relaxed);
    if process::under_seccomp() && MAPPED.load(Relaxed).is_null() {
        // It may not be allowed to map it.
        return;
    }
    if let Some(ledger) = ledger() {
        ledger.header.why.fetch_or(why.bit(), Relaxed);
    }
}

/// Says that the library was loaded: for the summary, or for `profile`.
pub fn announce() {
    if let Some(ledger) = ledger() {
        ledger.header.processes.fetch_add(1, Relaxed);
        if ledger.header.flags.load(Relaxed) & FLAG_OBSERVE != 0 {
            crate::ops::observe::start();
        }
    }
}

/// The header in which an answer is to be stored, where this process is only asked what would be
/// buffered.
pub fn probed() -> Option<&'static Header> {
    let header = &mapped()?.header;
    (header.flags.load(Relaxed) & FLAG_PROBE != 0).then_some(header)
}

/// Whether places are to be noted, too.
pub fn wants_places() -> bool {
    mapped().is_some_and(|ledger| ledger.header.flags.load(Relaxed) & FLAG_PLACES != 0)
}

/// Maps the counters of `profile`.
pub fn observations() -> Option<&'static Observations> {
    let address = map_part(OBSERVATIONS_AT, size_of::<Observations>())?;
    // SAFETY: mapped just now and for good, of that size; every bit pattern is valid.
    Some(unsafe { &*(address as *const Observations) })
}

/// Maps the log of `profile --record`, if there is to be one.
pub fn trace() -> Option<&'static Trace> {
    if mapped()?.header.flags.load(Relaxed) & FLAG_TRACE == 0 {
        return None;
    }
    let address = map_part(TRACE_AT, size_of::<Trace>())?;
    // SAFETY: as above.
    Some(unsafe { &*(address as *const Trace) })
}

/// Maps so many bytes of the ledger's file, from `at` on, for good.
fn map_part(at: u64, bytes: usize) -> Option<usize> {
    with_descriptor(|fd, stat| {
        if (stat.st_size as u64) < at + bytes as u64 {
            return None;
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new shared mapping of our own file, and advice on it.
        unsafe {
            let address =
                sys::syscall!(SYS_mmap, 0, bytes, protection, libc::MAP_SHARED, fd as isize, at);
            let address = sys::result(address).ok()?;
            sys::syscall!(SYS_madvise, address, bytes, libc::MADV_DONTDUMP);
            Some(address)
        }
    })
}

/// Whether rules may be in force, which can switch on what the size switches off.
pub fn has_rules() -> bool {
    !PATH.load(Relaxed).is_null()
        && ledger().is_some_and(|ledger| ledger.header.rules.load(Relaxed) > 0)
}

/// Space for what /proc says a descriptor is.
pub type PathBuffer = [u8; 512];

/// The link in /proc to what a descriptor is: a string that ends with zero.
pub fn link_of(fd: i32) -> ProcPath {
    proc_path(b"/proc/self/fd/", fd, b"")
}

/// A name in /proc: a string that ends with zero.
pub type ProcPath = [u8; 40];

/// The name in /proc with a number in it, which is not negative.
pub fn proc_path(before: &[u8], number: i32, after: &[u8]) -> ProcPath {
    let mut path = [0; 40];
    path[..before.len()].copy_from_slice(before);
    let mut digits = [0u8; 10];
    let (mut rest, mut at) = (number as u32, digits.len());
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 || at == 0 {
            break;
        }
    }
    let digits = &digits[at..];
    let end = before.len() + digits.len();
    path[before.len()..end].copy_from_slice(digits);
    path[end..end + after.len()].copy_from_slice(after);
    path
}

/// A number behind a name at the beginning of a line of a small file of the kernel's; `None`: not all of
/// the file can be read. A line that is not there counts as 0.
pub fn number_in(path: &core::ffi::CStr, name: &[u8]) -> Option<u64> {
    let mut buffer = [0; 4096];
    let len = read_small(path, &mut buffer);
    let len = len.filter(|len| (1..buffer.len()).contains(len))?;
    let mut lines = buffer[..len].split(|byte| *byte == b'\n');
    let digits = lines.find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    Some(digits.iter().fold(0, |number: u64, digit| {
        number.wrapping_mul(10).wrapping_add(u64::from(digit.wrapping_sub(b'0')))
    }))
}

/// The path of a descriptor, for rules and for display.
pub fn path_of(fd: i32, buffer: &mut PathBuffer) -> &[u8] {
    let link = link_of(fd);
    // SAFETY: a terminated string, and a buffer of that size.
    let answer = unsafe {
        sys::syscall!(
            SYS_readlinkat,
            libc::AT_FDCWD as isize,
            link.as_ptr(),
            buffer.as_mut_ptr(),
            buffer.len()
        )
    };
    &buffer[..sys::result(answer).unwrap_or(0).min(512)]
}

/// The size in force for the file of a descriptor, as `Header::buffer`: that of the first rule that
/// matches, else that of the process; and where that is `auto`, what `auto` means there.
pub fn buffer_for(fd: i32) -> u32 {
    let buffer = match rule_for(fd).map(|rule| rule.buffer.load(Relaxed)) {
        None | Some(BUFFER_UNSET) => process::buffer(),
        Some(buffer) => buffer,
    };
    if buffer == BUFFER_AUTO { auto_for(fd) } else { buffer }
}

/// What `auto` means for the file of a descriptor, as [`buffer_for`].
pub fn auto_for(fd: i32) -> u32 {
    first_rule(fd, is_for_auto).map_or(BUFFER_AUTO, |rule| rule.buffer.load(Relaxed))
}

fn is_for_auto(rule: &Rule) -> bool {
    rule.flags.load(Relaxed) & RULE_AUTO != 0
}

/// Whether nobody looks at the file of a descriptor before it is closed, by its rule.
pub fn is_private(fd: i32) -> bool {
    rule_for(fd).is_some_and(|rule| rule.flags.load(Relaxed) & RULE_PRIVATE != 0)
}

/// Whether any rule says so of any file.
pub fn has_private_files() -> bool {
    has_rules()
        && ledger().is_some_and(|ledger| {
            ledger.rules.iter().any(|rule| rule.flags.load(Relaxed) & RULE_PRIVATE != 0)
        })
}

/// Whether the calls that stdio makes on a descriptor are buffered like any others, by its rule.
pub fn buffers_stdio(fd: i32) -> bool {
    rule_for(fd).is_some_and(|rule| rule.flags.load(Relaxed) & RULE_STDIO != 0)
}

/// The first rule that matches the file of a descriptor.
fn rule_for(fd: i32) -> Option<&'static Rule> {
    first_rule(fd, |rule| !is_for_auto(rule))
}

/// The same among those of one kind.
fn first_rule(fd: i32, is_meant: impl Fn(&Rule) -> bool) -> Option<&'static Rule> {
    let ledger = ledger()?;
    let rules = (ledger.header.rules.load(Relaxed) as usize).min(RULES_MAX);
    if rules == 0 {
        return None;
    }
    let mut path = [0; 512];
    let path = path_of(fd, &mut path);
    let (mut program, mut file) = ([0; TEXT_BYTES_MAX], [0; TEXT_BYTES_MAX]);
    ledger.rules[..rules].iter().filter(|rule| is_meant(rule)).find(|rule| {
        let (program, file) = (rule.program.load(&mut program), rule.file.load(&mut file));
        let wanted_program = program.is_empty() || glob::matches(program, program_name());
        wanted_program && (file.is_empty() || matches_path(file, path))
    })
}

/// A pattern without a slash is meant for the file's name, one with a slash for its whole path.
fn matches_path(pattern: &[u8], path: &[u8]) -> bool {
    if pattern.contains(&b'/') {
        return glob::matches(pattern, path);
    }
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    glob::matches(pattern, name)
}

unsafe extern "C" {
    static program_invocation_short_name: *const core::ffi::c_char;
}

/// The file name of the program, as it was called.
pub fn program_name() -> &'static [u8] {
    // SAFETY: a variable of libc that holds a string for the life of the process.
    unsafe {
        let name = program_invocation_short_name;
        if name.is_null() { b"" } else { core::ffi::CStr::from_ptr(name).to_bytes() }
    }
}

/// Whether the environment names a ledger.
pub fn is_given() -> bool {
    !PATH.load(Relaxed).is_null()
}

/// Whether a summary is wanted.
#[inline(always)]
pub fn wants_summary() -> bool {
    concerns::of(SUMMARY) != 0
}

/// Another size is in force for an open file: the summary says so, if there is one.
pub fn record_buffer(file: &OpenFile) {
    // SAFETY: records of the ledger stay mapped.
    if let Some(record) = unsafe { file.file_record.load(Relaxed).as_ref() } {
        record.buffer.store(file.buffer.load(Relaxed), Relaxed);
    }
}

/// Gives an open file its record in the ledger, if a summary is wanted: counters go there.
pub fn record(file: &OpenFile, fd: i32) {
    if !file.file_record.load(Relaxed).is_null() {
        return;
    }
    let Some(ledger) = ledger() else { return };
    if ledger.header.flags.load(Relaxed) & FLAG_SUMMARY == 0 {
        // The memory of the records is only there when somebody wants them.
        return;
    }
    let index = ledger.header.files.fetch_add(1, Relaxed) as usize;
    // The last record is shared by all that come too late.
    let record = &ledger.files[index.min(FILES_MAX - 1)];
    record.device.store(file.device.load(Relaxed), Relaxed);
    record.inode.store(file.inode.load(Relaxed), Relaxed);
    record.buffer.store(file.buffer.load(Relaxed), Relaxed);
    let mut path = [0; 512];
    record.path.store(path_of(fd, &mut path));
    record.pid.store(sys::process_id() as u32, Relaxed);
    for (shared, own) in record.counters.iter().zip(&file.counters.0) {
        shared.fetch_add(own.load(Relaxed), Relaxed);
    }
    record.why.fetch_or(file.why.load(Relaxed), Relaxed);
    file.record.store((&raw const record.counters).cast_mut(), Relaxed);
    file.file_record.store((&raw const *record).cast_mut(), Relaxed);
}
