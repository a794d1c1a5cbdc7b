//! Environments that others hand over: whether they name our library, and copies without it.
#![allow(unsafe_code)]

use core::cell::{Cell, UnsafeCell};
use core::ffi::c_char;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

use super::Environment;
use crate::engine::spawns::is_filtered;
use crate::floor::{next, sys};

/// Our library in an environment.
pub(super) struct Names {
    /// The variable's text, its name included.
    pub(super) preload: &'static [u8],
    pub(super) ours: &'static [u8],
    /// What starts in it is a tool that takes us for a part of the program.
    pub(super) is_of_tool: bool,
}

const PRELOAD: &[u8] = b"LD_PRELOAD=";

/// Variables of ours, which mean nothing without the library.
const LEFT_OUT: [&[u8]; 3] = [b"SWEETSPOT_LEDGER=", b"SWEETSPOT_SUMMARY=", b"SWEETSPOT_FILTERS="];

impl Names {
    /// None: the environment does not name our library, or there is a bad address before the place where it
    /// would: then the kernel must say so.
    #[unsafe(link_section = ".text.startup")]
    pub(super) fn of(given: Environment) -> Option<Names> {
        let ours = next::own_path()?;
        let preload = variable(given, PRELOAD)?;
        elements(preload).any(|element| element == ours).then(|| Names {
            preload,
            ours,
            is_of_tool: is_of_tool(given),
        })
    }
}

/// Whether an environment is the one that valgrind's launcher gives to valgrind, which no program that it runs
/// gets to see (not where it is to count our own instructions), or the one in which the dynamic linker lists what it
/// would load, and starts nothing: `ldd` of a program names what belongs to it.
#[unsafe(link_section = ".text.startup")]
fn is_of_tool(given: Environment) -> bool {
    const LISTS: &[u8] = b"LD_TRACE_LOADED_OBJECTS=";
    first_variable(given, &[b"VALGRIND_LAUNCHER=", LISTS]).is_some_and(|text| {
        text.starts_with(LISTS) || variable(given, b"SWEETSPOT_VALGRIND=").is_none()
    })
}

/// An address of the program's where nothing can be read.
struct BadAddress;

/// Pages that were found to be readable, the last one in each place: the texts of an environment lie on a few.
struct Readable {
    pages: [Cell<usize>; PAGES],
}

/// As many pages are remembered.
const PAGES: usize = 8;

/// No page that is asked for.
const NO_PAGE: usize = usize::MAX;

/// The smallest page, in bytes; what is readable is so in whole pages.
const PAGE_BYTES: usize = 4096;

impl Readable {
    fn new() -> Readable {
        Readable { pages: [const { Cell::new(NO_PAGE) }; PAGES] }
    }

    /// Whether this address can be read. Under a filter of system calls, which may kill for the question, all but
    /// the first page is taken to be readable.
    fn is(&self, address: usize) -> bool {
        let page = address / PAGE_BYTES;
        let known = &self.pages[page % PAGES];
        let is_readable = || if is_filtered() { page != 0 } else { sys::is_readable(address) };
        if known.get() != page && is_readable() {
            known.set(page);
        }
        known.get() == page
    }

    /// Whether the text at an address begins so.
    fn begins(&self, text: *const c_char, with: &[u8]) -> bool {
        with.iter().enumerate().all(|(index, byte)| {
            let at = text.wrapping_add(index).cast::<u8>();
            // SAFETY: it can be read, and is the caller's until the program has started.
            self.is(at as usize) && unsafe { *at } == *byte
        })
    }

    /// The text at an address, if all of it can be read.
    fn text(&self, text: *const c_char) -> Result<&'static [u8], BadAddress> {
        let start = text.cast::<u8>();
        let mut len = 0;
        loop {
            let at = start.wrapping_add(len);
            if !self.is(at as usize) {
                return Err(BadAddress);
            }
            // SAFETY: as in `begins`, from the first byte to this one.
            unsafe {
                if *at == 0 {
                    return Ok(core::slice::from_raw_parts(start, len));
                }
            }
            len += 1;
        }
    }

    /// The words of an environment: where its texts are. The first bad address among the words' own ends it.
    fn entries(
        &self,
        given: Environment,
    ) -> impl Iterator<Item = Result<*const c_char, BadAddress>> {
        let mut bad = given.is_null();
        (0..).map_while(move |index| {
            if bad {
                return None;
            }
            let place = given.wrapping_add(index);
            bad = !place.is_aligned() || !self.is(place as usize);
            if bad {
                return Some(Err(BadAddress));
            }
            // SAFETY: it can be read, and is aligned, so it lies in one page.
            let entry = unsafe { *place };
            (!entry.is_null()).then_some(Ok(entry))
        })
    }
}

/// A text of the program's; `None`: it cannot be read.
pub(super) fn readable_text(text: *const c_char) -> Option<&'static [u8]> {
    Readable::new().text(text).ok()
}

/// The text of the first variable that begins so; `None`: there is none, or it cannot be read.
#[unsafe(link_section = ".text.startup")]
pub(super) fn variable(given: Environment, begin: &[u8]) -> Option<&'static [u8]> {
    first_variable(given, &[begin])
}

/// The same of the first that begins in one of these ways.
#[unsafe(link_section = ".text.startup")]
fn first_variable(given: Environment, begin: &[&[u8]]) -> Option<&'static [u8]> {
    let readable = Readable::new();
    let mut entries = readable.entries(given).map_while(Result::ok);
    let begins = |entry: &*const c_char| begin.iter().any(|begin| readable.begins(*entry, begin));
    readable.text(entries.find(begins)?).ok()
}

/// The libraries that a text `LD_PRELOAD=...` names.
pub(super) fn elements(preload: &[u8]) -> impl Iterator<Item = &[u8]> {
    preload[PRELOAD.len()..]
        .split(|byte| matches!(byte, b':' | b' '))
        .filter(|element| !element.is_empty())
}

/// Calls `start` with a copy of the environment without us, in fresh memory, which the child of a
/// vfork leaves to its parent.
#[inline(never)]
pub(super) fn without<R>(
    given: Environment,
    names: &Names,
    start: impl FnOnce(Option<Environment>) -> R,
) -> R {
    // One with a bad address is the kernel's to refuse.
    let Some(count) = words(given) else { return start(None) };
    let bytes = bytes_without(count, names);
    // A filter may kill for a call.
    let memory = if bytes <= SMALL_BYTES && is_filtered() { None } else { sys::map_memory(bytes) };
    let Some(memory) = memory else {
        return match bytes <= SMALL_BYTES {
            true => without_on_stack(given, names, count, start),
            false => start(None),
        };
    };
    // SAFETY: that many bytes of memory.
    let answer = start(Some(unsafe { copy_without(memory, given, names, count) }));
    // SAFETY: mapped above, and nobody's any more.
    unsafe { sys::syscall!(SYS_munmap, memory, bytes) };
    answer
}

/// A copy of the environment without us that lives on, one at a time; `None`: there is no room for it.
pub(super) fn without_for_good(given: Environment, names: &Names) -> Option<Environment> {
    let count = words(given)?;
    let bytes = bytes_without(count, names);
    // A filter may kill for a call.
    let memory = match bytes <= SMALL_BYTES {
        true => SMALL.0.get().cast(),
        false if is_filtered() => return None,
        false => large(bytes)?,
    };
    // SAFETY: that many bytes of memory; no other program is being started by what was there before.
    Some(unsafe { copy_without(memory, given, names, count) })
}

struct Small(UnsafeCell<[usize; SMALL_BYTES / size_of::<usize>()]>);

// SAFETY: it is only used while there is one thread.
unsafe impl Sync for Small {}

static SMALL: Small = Small(UnsafeCell::new([0; SMALL_BYTES / size_of::<usize>()]));

/// Memory that is mapped for a larger copy, and used again.
fn large(bytes: usize) -> Option<*mut u8> {
    static MEMORY: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
    static BYTES: AtomicUsize = AtomicUsize::new(0);
    if BYTES.load(Relaxed) < bytes {
        // What it had before the program may still know of.
        let bytes = bytes.next_power_of_two();
        MEMORY.store(sys::map_memory(bytes)?, Relaxed);
        BYTES.store(bytes, Relaxed);
    }
    Some(MEMORY.load(Relaxed))
}

/// Bytes of a copy.
fn bytes_without(count: usize, names: &Names) -> usize {
    (count + names.preload.len() / 8 + 1) * size_of::<usize>()
}

/// How many words an environment has, with the one that ends it; `None`: there is a bad address among theirs.
fn words(given: Environment) -> Option<usize> {
    Readable::new().entries(given).try_fold(1, |count, entry| entry.ok().map(|_| count + 1))
}

/// An environment that is put on the stack where no memory is to be had: under a limit on addresses
/// or data that leaves no room for the library either, or under a filter of system calls.
const SMALL_BYTES: usize = 4096;

#[cold]
#[inline(never)]
fn without_on_stack<R>(
    given: Environment,
    names: &Names,
    count: usize,
    start: impl FnOnce(Option<Environment>) -> R,
) -> R {
    let mut memory = [MaybeUninit::<usize>::uninit(); SMALL_BYTES / size_of::<usize>()];
    // SAFETY: the caller has seen that it fits.
    start(Some(unsafe { copy_without(memory.as_mut_ptr().cast(), given, names, count) }))
}

/// Copies an environment of `count` words without us.
///
/// # Safety
/// There must be memory for so many words, and for the text of the variable behind them.
unsafe fn copy_without(
    memory: *mut u8,
    given: Environment,
    names: &Names,
    count: usize,
) -> Environment {
    // SAFETY: as the caller says: `count` words of it are pointers, the text follows.
    unsafe {
        let list = memory.cast::<*const c_char>();
        let text = memory.add(count * size_of::<usize>());
        let others = write_without(names, text);
        let readable = Readable::new();
        let mut kept = 0;
        for entry in readable.entries(given).map_while(Result::ok).take(count - 1) {
            let begins = |name: &[u8]| readable.begins(entry, name);
            let is_preload = begins(PRELOAD);
            if is_preload && !others || LEFT_OUT.into_iter().any(begins) {
                continue;
            }
            list.add(kept).write(if is_preload { text.cast() } else { entry });
            kept += 1;
        }
        list.add(kept).write(core::ptr::null());
        list
    }
}

/// Writes the variable without our library, each other one behind the separator that it had; false
/// if there is no other one.
///
/// # Safety
/// `text` must have room for the whole variable and its end.
unsafe fn write_without(names: &Names, text: *mut u8) -> bool {
    let mut len = 0;
    let mut put = |bytes: &[u8]| {
        // SAFETY: no more than the variable is written.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), text.add(len), bytes.len()) };
        len += bytes.len();
    };
    put(PRELOAD);
    let mut others = false;
    for element in elements(names.preload).filter(|element| *element != names.ours) {
        if others {
            let at = element.as_ptr() as usize - names.preload.as_ptr() as usize;
            put(&names.preload[at - 1..at]);
        }
        put(element);
        others = true;
    }
    put(&[0]);
    others
}
