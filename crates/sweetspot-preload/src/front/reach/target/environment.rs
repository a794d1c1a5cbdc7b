//! Environments that others hand over: whether they name our library, and copies without it.
#![allow(unsafe_code)]

use core::ffi::c_char;
use core::mem::MaybeUninit;

use super::Environment;
use crate::floor::{next, sys};

/// Our library in an environment.
pub(super) struct Names {
    /// The variable's text, its name included.
    pub(super) preload: &'static [u8],
    pub(super) ours: &'static [u8],
}

const PRELOAD: &[u8] = b"LD_PRELOAD=";

/// Variables of ours, which mean nothing without the library.
const LEFT_OUT: [&[u8]; 3] = [b"SWEETSPOT_LEDGER=", b"SWEETSPOT_SUMMARY=", b"SWEETSPOT_FILTERS="];

impl Names {
    /// None: the environment does not name our library, or there is a bad address in it: then the
    /// kernel must say so.
    pub(super) fn of(given: Environment) -> Option<Names> {
        let ours = next::own_path()?;
        let (mut preload, mut sound) = (None, true);
        for entry in entries(given) {
            match entry {
                Ok(entry) if preload.is_none() && entry.starts_with(PRELOAD) => {
                    preload = Some(entry);
                }
                Ok(_) => {}
                Err(BadAddress) => sound = false,
            }
        }
        let preload = preload.filter(|_| sound)?;
        elements(preload).any(|element| element == ours).then_some(Names { preload, ours })
    }
}

/// An address of the program's where nothing can be read.
struct BadAddress;

/// Pages that were found to be readable, the last one in each place: the texts of an environment lie on a few.
struct Readable {
    pages: [usize; PAGES],
}

/// As many pages are remembered.
const PAGES: usize = 8;

/// No page that is asked for.
const NO_PAGE: usize = usize::MAX;

/// The smallest page, in bytes; what is readable is so in whole pages.
const PAGE_BYTES: usize = 4096;

impl Readable {
    fn new() -> Readable {
        Readable { pages: [NO_PAGE; PAGES] }
    }

    /// Whether this address can be read.
    fn is(&mut self, address: usize) -> bool {
        let page = address / PAGE_BYTES;
        let known = &mut self.pages[page % PAGES];
        if *known != page && sys::is_readable(address) {
            *known = page;
        }
        *known == page
    }

    /// The text that begins here, if all of it can be read.
    fn text(&mut self, text: *const c_char) -> Result<&'static [u8], BadAddress> {
        let start = text as usize;
        let mut end = start;
        loop {
            if !self.is(end) {
                return Err(BadAddress);
            }
            let page_end = (end / PAGE_BYTES + 1).saturating_mul(PAGE_BYTES);
            while end < page_end {
                // SAFETY: the page can be read, and is the caller's until the program has started.
                if unsafe { *(end as *const u8) } == 0 {
                    // SAFETY: as above, from the first byte to this one.
                    return Ok(unsafe {
                        core::slice::from_raw_parts(start as *const u8, end - start)
                    });
                }
                end += 1;
            }
        }
    }
}

/// A text of the program's; `None`: it cannot be read.
pub(super) fn readable_text(text: *const c_char) -> Option<&'static [u8]> {
    Readable::new().text(text).ok()
}

/// The texts of an environment, up to the first bad address.
fn entries(given: Environment) -> impl Iterator<Item = Result<&'static [u8], BadAddress>> {
    let mut readable = Readable::new();
    let mut ended = given.is_null();
    (0..).map_while(move |index| {
        if ended {
            return None;
        }
        let place = given.wrapping_add(index);
        if !place.is_aligned() || !readable.is(place as usize) {
            ended = true;
            return Some(Err(BadAddress));
        }
        // SAFETY: it can be read, and is aligned, so it lies in one page.
        let entry = unsafe { *place };
        if entry.is_null() {
            return None;
        }
        let text = readable.text(entry);
        ended = text.is_err();
        Some(text)
    })
}

/// The texts of an environment that has none.
pub(super) fn sound_entries(given: Environment) -> impl Iterator<Item = &'static [u8]> {
    entries(given).map_while(Result::ok)
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
    let count = sound_entries(given).count() + 1;
    let bytes = (count + names.preload.len() / 8 + 1) * size_of::<usize>();
    let Some(memory) = sys::map_memory(bytes) else {
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

/// An environment that is put on the stack where no memory is to be had: under a limit on addresses
/// or data that leaves no room for the library either.
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
        let mut kept = 0;
        for (index, entry) in sound_entries(given).take(count - 1).enumerate() {
            let is_preload = entry.starts_with(PRELOAD);
            if is_preload && !others || LEFT_OUT.iter().any(|name| entry.starts_with(name)) {
                continue;
            }
            list.add(kept).write(if is_preload { text.cast() } else { *given.add(index) });
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
