//! Loaded objects, as the loader keeps them for debuggers; and what of each lies where.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int};
use core::ops::Range;

use libc::{Elf64_Ehdr, Elf64_Phdr};

use super::names::Names;
use super::{find, lookup};
use crate::arch;
use crate::floor::sys;

/// A loaded library: what a loader keeps of it for debuggers (`<link.h>`), the same with glibc and musl.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Object {
    pub(super) base: usize,
    pub(super) path: *const c_char,
    pub(super) dynamic: usize,
    pub(super) next: *const Object,
}

/// A note of a linker's, as it begins, with a name of four bytes.
#[repr(C)]
struct Note {
    name_bytes: u32,
    bytes: u32,
    _kind: u32,
    name: [u8; 4],
}

/// Where debuggers find the list.
#[repr(C)]
struct Debug {
    _version: c_int,
    first: *const Object,
}

/// All loaded objects, the program first, in the order of loading. What was there at the start stays
/// where it is.
pub(super) fn loaded() -> impl Iterator<Item = &'static Object> {
    let debug = match arch::address_if_any!("_r_debug") {
        0 => match arch::address_if_any!("_dl_debug_addr") {
            0 => core::ptr::null(),
            // SAFETY: musl's variable, a pointer.
            address => unsafe { *(address as *const *const Debug) },
        },
        address => address as *const Debug,
    };
    // SAFETY: the loader's record, which it fills before any code of the program runs.
    let first = unsafe { debug.as_ref() }.map_or(core::ptr::null(), |debug| debug.first);
    // SAFETY: an object of its list, or the end of that.
    let next = |at: *const Object| unsafe { at.as_ref() };
    core::iter::successors(next(first), move |object| next(object.next))
}

impl Object {
    /// Whether it is this library.
    pub(super) fn is_ours(&self) -> bool {
        self.dynamic == own_dynamic()
    }

    pub(super) fn path(&self) -> Option<&'static [u8]> {
        // SAFETY: a string of the loader's, which keeps it as long as the object.
        (!self.path.is_null()).then(|| unsafe { CStr::from_ptr(self.path) }.to_bytes())
    }
}

/// The address of our own dynamic section, which the linker makes.
fn own_dynamic() -> usize {
    unsafe extern "C" {
        static _DYNAMIC: [u64; 2];
    }
    &raw const _DYNAMIC as usize
}

impl Object {
    /// Whether it is the C library, or one of the parts of which glibc consisted before 2.34.
    pub(super) fn is_libcs(&self) -> bool {
        // A function that nobody stands in front of.
        matches!(self.name(), b"libpthread.so.0" | b"libdl.so.2" | b"librt.so.1")
            || find(c"getauxval").is_some_and(|libc| core::ptr::eq(libc.object, self))
    }

    /// Whether it is a sanitizer of gcc's or LLVM's.
    pub(super) fn is_sanitizer(&self) -> bool {
        self.name().starts_with(b"libtsan.so") || self.name().starts_with(b"libclang_rt.")
    }

    /// The name that it gives itself.
    pub(super) fn name(&self) -> &'static [u8] {
        // SAFETY: a loaded library that stays.
        unsafe { Names::of(self.base, self.dynamic).own_name() }
    }

    /// Its program headers. None where the first page of a library does not hold them: a tool has moved them to the
    /// end of the file, and where that lies in memory only they say.
    fn segments(&self) -> &'static [Elf64_Phdr] {
        // Not each begins with a page of its own (`-Ttext-segment`).
        match self.base != 0 && sys::is_readable(self.base) {
            true => self.segments_of_page(),
            false => self.segments_elsewhere(),
        }
    }

    /// Where they are not in its first page, the kernel has said where a program has them.
    fn segments_elsewhere(&self) -> &'static [Elf64_Phdr] {
        let is_program = loaded().next().is_some_and(|program| program.dynamic == self.dynamic);
        if is_program { program_headers() } else { &[] }
    }

    /// The same of an object that begins with a page of its own.
    fn segments_of_page(&self) -> &'static [Elf64_Phdr] {
        let base = self.base;
        // SAFETY: it can be read, and the first page of an object begins with its header.
        let header = unsafe { &*(base as *const Elf64_Ehdr) };
        let count = usize::from(header.e_phnum);
        let end = (header.e_phoff as usize).saturating_add(count * size_of::<Elf64_Phdr>());
        if &header.e_ident[..4] != b"\x7fELF" || end > PAGE_BYTES_MIN {
            return self.segments_elsewhere();
        }
        // SAFETY: they are in the page that begins with the header.
        unsafe { core::slice::from_raw_parts((base + header.e_phoff as usize) as *const _, count) }
    }

    /// The parts of it that are in memory.
    fn loaded_segments(&self) -> impl Iterator<Item = &'static Elf64_Phdr> {
        self.segments().iter().filter(|segment| segment.p_type == libc::PT_LOAD)
    }

    fn addresses(&self, segment: &Elf64_Phdr) -> Range<usize> {
        let start = self.base.wrapping_add(segment.p_vaddr as usize);
        start..start.wrapping_add(segment.p_memsz as usize)
    }

    /// Whether Go made it, by a note that its linker leaves in the first page: then it makes system calls of its own.
    pub fn is_of_go(&self) -> bool {
        let segments = self.segments();
        // Where a tool has moved the headers of a library there are none, so this is its first page, or the program's.
        let page = segments.as_ptr() as usize & !(PAGE_BYTES_MIN - 1);
        let mut noted = segments.iter().filter(|segment| segment.p_type == libc::PT_NOTE);
        noted.any(|segment| {
            let Range { start: mut at, end } = self.addresses(segment);
            let mask = if segment.p_align == 8 { 7 } else { 3 };
            let padded = |bytes: usize| (bytes + mask) & !mask;
            while page <= at && at + size_of::<Note>() <= end.min(page + PAGE_BYTES_MIN) {
                // SAFETY: in the page that has the header.
                let note = unsafe { &*(at as *const Note) };
                if note.name_bytes == 4 && note.name == *b"Go\0\0" {
                    return true;
                }
                at += padded(12 + note.name_bytes as usize) + padded(note.bytes as usize);
            }
            false
        })
    }

    /// The data that the loader has made read-only.
    pub(super) fn relro(&self) -> Option<Range<usize>> {
        self.relro_in(self.segments())
    }

    /// The same of the C library. That begins with a page of its own, which is not asked for, unless it was linked to
    /// other addresses than those from zero on (prelinked).
    pub fn relro_of_libc(&self) -> Option<Range<usize>> {
        const LIBRARY_BYTES_MAX: usize = 64 << 20;
        match self.dynamic.wrapping_sub(self.base) < LIBRARY_BYTES_MAX {
            true => self.relro_in(self.segments_of_page()),
            false => self.relro(),
        }
    }

    fn relro_in(&self, segments: &[Elf64_Phdr]) -> Option<Range<usize>> {
        let segment = segments.iter().find(|segment| segment.p_type == libc::PT_GNU_RELRO)?;
        Some(self.addresses(segment))
    }

    /// Whether there is code at an address.
    pub(super) fn has_code_at(&self, address: usize) -> bool {
        let mut code = self.loaded_segments().filter(|segment| segment.p_flags & libc::PF_X != 0);
        code.any(|segment| self.addresses(segment).contains(&address))
    }

    /// Whether there are data at an address that the program may write, but for what the loader has made read-only.
    pub(super) fn has_data_at(&self, address: usize) -> bool {
        let mut data = self.loaded_segments().filter(|segment| segment.p_flags & libc::PF_W != 0);
        data.any(|segment| self.addresses(segment).contains(&address))
    }

    /// From its first address to its last one.
    pub(super) fn extent(&self) -> Range<usize> {
        let mut each = self.loaded_segments().map(|segment| self.addresses(segment));
        let Some(first) = each.next() else { return 0..0 };
        each.fold(first, |all, one| all.start.min(one.start)..all.end.max(one.end))
    }

    /// Whether an address is in one of its segments.
    pub fn holds(&self, address: usize) -> bool {
        self.loaded_segments().any(|segment| self.addresses(segment).contains(&address))
    }
}

/// The bytes of a page: 4, 16 or 64 KiB, by machine and kernel.
pub(super) fn page_bytes() -> usize {
    const AT_PAGESZ: usize = 6;
    auxiliary(AT_PAGESZ).max(PAGE_BYTES_MIN)
}

/// What the kernel has said about the process at its start; 0: nothing.
fn auxiliary(what: usize) -> usize {
    let getauxval = lookup(c"getauxval");
    if getauxval == 0 {
        return 0;
    }
    // SAFETY: libc's function with its signature; it looks into a list.
    unsafe { core::mem::transmute::<usize, unsafe extern "C" fn(usize) -> usize>(getauxval)(what) }
}

/// The headers of the program.
fn program_headers() -> &'static [Elf64_Phdr] {
    const AT_PHDR: usize = 3;
    const AT_PHNUM: usize = 5;
    match auxiliary(AT_PHDR) {
        0 => &[],
        // SAFETY: they are in the program's memory, that many.
        first => unsafe { core::slice::from_raw_parts(first as *const _, auxiliary(AT_PHNUM)) },
    }
}

const PAGE_BYTES_MIN: usize = 4096;

/// Of a range of addresses, the pages that a loader protects: from that in which it begins, up to that
/// in which it ends.
pub fn whole_pages(range: Range<usize>) -> Range<usize> {
    let mask = !(page_bytes() - 1);
    range.start & mask..range.end & mask
}
