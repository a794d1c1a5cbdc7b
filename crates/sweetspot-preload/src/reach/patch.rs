//! Patched entries: how calls are seen that libc makes to itself.
//!
//! `printf`, `fread`, `fclose` reach the kernel through libc's own `write`, `read`, `close`, which
//! preloading does not touch. So when the first window opens (with `--stdio`: at the start), the first
//! instruction of those small functions is replaced by a jump to here. Their first instruction is one
//! of a few known ones, at least five bytes long, so no thread can stand inside it; it is moved to a
//! page of ours, followed by a jump back behind it, and through that copy the original goes on, a
//! cancellation point as before.
//!
//! Not here: `open64`, `__read_nocancel`, `__pread64_nocancel`. They begin with instructions shorter
//! than a jump, inside which a thread may stand. libc opens and reads by them what it closes itself
//! (tables, locales), and those closes are seen: such a number never meets what was kept for it.
//!
//! It fails closed: bytes that are not known, or memory that may not be made writable, mean that no
//! window opens in this process at all.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_void};
use core::sync::atomic::{
    AtomicU32, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};

use sweetspot_core::why::Why;

use crate::ops::{Outcome, observe};
use crate::{next, ops, sys};

/// A function of libc whose entry is patched.
struct Entry {
    name: &'static CStr,
    /// Where it now jumps to.
    handler: fn() -> usize,
    /// Its own address.
    address: AtomicUsize,
    /// That of its moved beginning; 0 until that can be executed and is to be used.
    original: AtomicUsize,
}

macro_rules! entries {
    ($($name:literal => $handler:ident,)*) => {
        [$(Entry {
            name: $name,
            handler: || $handler as *const () as usize,
            address: AtomicUsize::new(0),
            original: AtomicUsize::new(0),
        },)*]
    };
}

static ENTRIES: [Entry; 10] = entries! {
    c"read" => libc_read,
    c"write" => libc_write,
    c"lseek64" => libc_seek,
    c"close" => libc_close,
    c"pread64" => libc_read_at,
    c"pwrite64" => libc_write_at,
    c"readv" => libc_read_vector,
    c"writev" => libc_write_vector,
    c"__write_nocancel" => libc_write_nocancel,
    c"__close_nocancel" => libc_close_nocancel,
};

/// 0: not tried; 1: being done; 2: done; 3: cannot be done.
#[unsafe(link_section = ".data")]
static STATE: AtomicU32 = AtomicU32::new(0);

/// Whether libc's own calls are seen; patches the entries when first asked.
pub fn stdio_is_seen() -> bool {
    match STATE.load(Relaxed) {
        2 => return true,
        0 => {}
        _ => return false,
    }
    if STATE.compare_exchange(0, 1, Relaxed, Relaxed).is_err() {
        return false;
    }
    let patched = patch_all();
    match patched {
        // The first window is about to open, and with it the first copy.
        Ok(()) => crate::fault::install(),
        Err(why) => crate::ledger::note(why),
    }
    STATE.store(if patched.is_ok() { 2 } else { 3 }, Relaxed);
    patched.is_ok()
}

/// Whether they never will be: nothing can be buffered in this process.
pub fn stdio_is_never_seen() -> bool {
    STATE.load(Relaxed) == 3
}

/// Where a function really goes on: its moved beginning, if its entry was patched.
pub fn original(address: usize) -> usize {
    if STATE.load(Relaxed) == 0 {
        return address;
    }
    let entry = ENTRIES.iter().find(|entry| entry.address.load(Relaxed) == address);
    match entry.map_or(0, |entry| entry.original.load(SeqCst)) {
        0 => address,
        original => original,
    }
}

/// Whether that is the moved beginning of a function of libc's.
pub fn is_libc(address: usize) -> bool {
    STATE.load(Relaxed) == 2 && ENTRIES.iter().any(|entry| entry.original.load(Relaxed) == address)
}

/// A page for the moved beginnings.
#[repr(align(4096))]
struct Code(core::cell::UnsafeCell<[u8; 4096]>);
// SAFETY: written once, under STATE, before anyone executes it.
unsafe impl Sync for Code {}
static CODE: Code = Code(core::cell::UnsafeCell::new([0; 4096]));

/// Bytes of the page that one moved beginning may take.
const SLOT_BYTES: usize = 32;

#[cfg(target_arch = "x86_64")]
fn patch_all() -> Result<(), Why> {
    let page = CODE.0.get() as usize;
    // First everything is prepared and checked; nothing is changed unless all can be.
    for (index, entry) in ENTRIES.iter().enumerate() {
        let address = next::lookup(entry.name);
        let slot = page + index * SLOT_BYTES;
        if address == 0 || !prepare(address, slot, (entry.handler)()) {
            return Err(Why::CodeUnknown);
        }
        entry.address.store(address, Relaxed);
    }
    // SAFETY: our own page.
    let answer =
        unsafe { sys::syscall!(SYS_mprotect, page, 4096, libc::PROT_READ | libc::PROT_EXEC) };
    if answer != 0 {
        return Err(Why::CodeLocked);
    }
    let writable = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let executable = libc::PROT_READ | libc::PROT_EXEC;
    if !pages().all(|page| protect(page, writable)) {
        pages().for_each(|page| {
            protect(page, executable);
        });
        return Err(Why::CodeLocked);
    }
    // Whoever asks for the next definition from now on, or asked before, must not come round to the
    // handlers. Not earlier: other threads go through the moved beginnings at once.
    for (index, entry) in ENTRIES.iter().enumerate() {
        entry.original.store(page + index * SLOT_BYTES, SeqCst);
    }
    crate::abi::use_originals();
    for entry in &ENTRIES {
        jump(entry.address.load(Relaxed), (entry.handler)());
    }
    pages().for_each(|page| {
        protect(page, executable);
    });
    Ok(())
}

#[cfg(not(target_arch = "x86_64"))]
fn patch_all() -> Result<(), Why> {
    Err(Why::Machine)
}

/// The pages that hold entries, each once.
fn pages() -> impl Iterator<Item = usize> {
    let page_of = |entry: &Entry| entry.address.load(Relaxed) & !(PAGE_BYTES - 1);
    ENTRIES.iter().enumerate().filter_map(move |(index, entry)| {
        let page = page_of(entry);
        (!ENTRIES[..index].iter().any(|other| page_of(other) == page)).then_some(page)
    })
}

/// A function begins on a multiple of sixteen bytes, so its first sixteen are in one page.
const PAGE_BYTES: usize = 4096;

/// Changes the protection of a page of libc's code.
fn protect(page: usize, protection: i32) -> bool {
    // SAFETY: code stays readable and executable.
    unsafe { sys::syscall!(SYS_mprotect, page, PAGE_BYTES, protection) == 0 }
}

/// `endbr64`, which some distributions' functions begin with.
const ENDBR: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// Writes the moved beginning of `address` to `slot`; false if its bytes are not known ones or a
/// distance is too far.
fn prepare(address: usize, slot: usize, handler: usize) -> bool {
    // SAFETY: the start of a function of libc.
    let bytes = unsafe { *(address as *const [u8; 16]) };
    let skip = if bytes[..4] == ENDBR { 4 } else { 0 };
    let first = &bytes[skip..];
    // cmpb $0, x(%rip), seven bytes; or mov $n, %eax, five.
    let len = match first {
        [0x80, 0x3d, _, _, _, _, 0, ..] => 7,
        [0xb8, ..] => 5,
        _ => return false,
    };
    let mut code = [0x90u8; SLOT_BYTES];
    code[..len].copy_from_slice(&first[..len]);
    if len == 7 {
        let old = i32::from_le_bytes([first[2], first[3], first[4], first[5]]);
        let target = (address + skip + len).wrapping_add_signed(old as isize);
        let Some(new) = distance(slot + len, target) else { return false };
        code[2..6].copy_from_slice(&new.to_le_bytes());
    }
    let Some(back) = distance(slot + len + 5, address + skip + len) else { return false };
    code[len] = 0xe9;
    code[len + 1..len + 5].copy_from_slice(&back.to_le_bytes());
    if distance(address + skip + 5, handler).is_none() {
        return false;
    }
    // SAFETY: the slot is ours and not executable yet.
    unsafe { *(slot as *mut [u8; SLOT_BYTES]) = code };
    true
}

fn distance(from: usize, to: usize) -> Option<i32> {
    i32::try_from(to as i64 - from as i64).ok()
}

/// Replaces the first instruction of `address` by a jump, in one store of sixteen bytes: the start
/// of a function is that much aligned, and whoever runs it sees the old instruction or the new one.
#[cfg(target_arch = "x86_64")]
fn jump(address: usize, handler: usize) {
    // SAFETY: the start of a function, writable for now.
    let old = unsafe { *(address as *const [u8; 16]) };
    let skip = if old[..4] == ENDBR { 4 } else { 0 };
    let mut new = old;
    let Some(to) = distance(address + skip + 5, handler) else { return };
    new[skip] = 0xe9;
    new[skip + 1..skip + 5].copy_from_slice(&to.to_le_bytes());
    let (old, new) = (u128::from_le_bytes(old), u128::from_le_bytes(new));
    // SAFETY: sixteen bytes, aligned to sixteen (checked below by the instruction itself, which
    // faults otherwise; glibc aligns its functions so).
    unsafe {
        core::arch::asm!(
            "xchg {low}, rbx",
            "lock cmpxchg16b xmmword ptr [{address}]",
            "mov rbx, {low}",
            low = inout(reg) new as u64 => _,
            address = in(reg) address,
            in("rcx") (new >> 64) as u64,
            inout("rax") old as u64 => _,
            inout("rdx") (old >> 64) as u64 => _,
            options(nostack),
        );
    }
}

/// Makes functions of our own lead to other ones from their first instruction on. To be called before
/// there is a second thread; nothing may be executing them. The pages in between are made writable for
/// that moment together: a system call for each function costs every start of a program 0.1 ms.
#[cfg(target_arch = "x86_64")]
pub fn redirect<const N: usize>(ways: [(usize, Option<usize>); N]) {
    // Another library's, which stands before us, is not ours to change.
    let ours = |from: usize| from.abs_diff(patch_all as *const () as usize) <= OUR_BYTES_MAX;
    let ways = || {
        ways.iter()
            .filter(|(from, _)| ours(*from))
            .filter_map(|(from, to)| Some((*from, distance(from + JUMP_BYTES, (*to)?)?)))
    };
    let froms = || ways().map(|(from, _)| from);
    let (Some(first), Some(last)) = (froms().min(), froms().max()) else { return };
    let page = first & !(PAGE_BYTES - 1);
    let end = ((last + JUMP_BYTES - 1) & !(PAGE_BYTES - 1)) + PAGE_BYTES;
    let protect = |protection: i32| {
        // SAFETY: code stays readable and executable.
        unsafe { sys::syscall!(SYS_mprotect, page, end - page, protection) == 0 }
    };
    if !protect(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) {
        return;
    }
    for (from, distance) in ways() {
        let distance = distance.to_le_bytes();
        let jump = [0xe9, distance[0], distance[1], distance[2], distance[3]];
        // SAFETY: the start of a function, writable for now, which nobody executes.
        unsafe { (from as *mut [u8; JUMP_BYTES]).write_unaligned(jump) };
    }
    protect(libc::PROT_READ | libc::PROT_EXEC);
}

/// Our own code is smaller than that, and other libraries begin farther away.
#[cfg(target_arch = "x86_64")]
const OUR_BYTES_MAX: usize = 1 << 20;

/// A jump with a distance of 32 bits.
#[cfg(target_arch = "x86_64")]
const JUMP_BYTES: usize = 5;

#[cfg(not(target_arch = "x86_64"))]
pub fn redirect<const N: usize>(_ways: [(usize, Option<usize>); N]) {}

/// The moved beginning of the entry `index`.
fn moved(index: usize) -> usize {
    ENTRIES[index].original.load(Relaxed)
}

/// A call of libc's that is not buffered: see `ops::libc_call`.
fn libc_call(fd: i32, kind: observe::Kind, len: u64, at: Option<i64>) -> Outcome {
    match observe::libc_call(kind, fd, len, at) {
        Some(watch) => Outcome::Watch(watch),
        None => Outcome::PassOn(ops::libc_call(fd)),
    }
}

/// libc reads, writes or seeks on its own account (stdio, mostly): asked of `ops` as any call where
/// that is buffered, else at the kernel's offset.
macro_rules! libc_calls {
    ($(
        $index:literal $name:ident($fd:ident: i32 $(, $arg:ident: $type:ty)*) -> $ret:ty,
        $ask:expr, $kind:ident $len:expr, $at:expr;
    )*) => {$(
        unsafe extern "C" fn $name($fd: i32 $(, $arg: $type)*) -> $ret {
            let outcome = match ops::is_libc_buffered($fd) {
                true => $ask,
                false => libc_call($fd, observe::Kind::$kind, $len, $at),
            };
            if let Outcome::Done(answer) = outcome {
                return answer as $ret;
            }
            let original: unsafe extern "C" fn(i32 $(, $type)*) -> $ret =
                // SAFETY: the moved beginning of the function with this signature.
                unsafe { core::mem::transmute(moved($index)) };
            // SAFETY: as the caller of the C function promises.
            let answer = unsafe { original($fd $(, $arg)*) };
            outcome.finish(answer as isize) as $ret
        }
    )*};
}

libc_calls! {
    0 libc_read(fd: i32, buffer: *mut c_void, len: usize) -> isize,
        ops::read::read(fd, buffer.cast(), len), Read len as u64, None;
    1 libc_write(fd: i32, buffer: *const c_void, len: usize) -> isize,
        ops::write::write(fd, buffer.cast(), len), Write len as u64, None;
    2 libc_seek(fd: i32, offset: i64, whence: i32) -> i64,
        ops::seek::seek(fd, offset, whence), Seek whence as u64, None;
    4 libc_read_at(fd: i32, buffer: *mut c_void, len: usize, offset: i64) -> isize,
        ops::read::read_at(fd, buffer.cast(), len, offset), Read len as u64, Some(offset);
    5 libc_write_at(fd: i32, buffer: *const c_void, len: usize, offset: i64) -> isize,
        ops::write::write_at(fd, buffer.cast(), len, offset), Write len as u64, Some(offset);
    6 libc_read_vector(fd: i32, vector: *const libc::iovec, count: i32) -> isize,
        ops::read::read_vector(fd, vector, count, None), Read observe::ANY, None;
    7 libc_write_vector(fd: i32, vector: *const libc::iovec, count: i32) -> isize,
        ops::write::write_vector(fd, vector, count), Write observe::ANY, None;
    8 libc_write_nocancel(fd: i32, buffer: *const c_void, len: usize) -> isize,
        ops::write::write(fd, buffer.cast(), len), Write len as u64, None;
}

/// libc closes a descriptor on its own account.
macro_rules! libc_closes {
    ($($index:literal $name:ident;)*) => {$(
        unsafe extern "C" fn $name(fd: i32) -> i32 {
            let failed = ops::life::closing(fd);
            let original: unsafe extern "C" fn(i32) -> i32 =
                // SAFETY: the moved beginning of a function with this signature.
                unsafe { core::mem::transmute(moved($index)) };
            // SAFETY: any descriptor may be closed.
            let answer = unsafe { original(fd) };
            if failed != 0 && answer == 0 { crate::fail(failed) as i32 } else { answer }
        }
    )*};
}

libc_closes! {
    3 libc_close;
    9 libc_close_nocancel;
}
