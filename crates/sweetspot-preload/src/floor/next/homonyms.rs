//! Functions and variables of the program's own libraries that have the name of a hook.
//!
//! Hooks stand in front of all libraries, and not only of the C library. So the loader leads to a hook who means
//! another library's `connect`, which may be something else altogether: a function with other arguments, or a
//! variable. Nobody can tell that when the hook is called. So before the program begins, the references that are
//! not to the C library are led to where they would lead without us.
//!
//! Which these are is known by their versions. Who was linked to the C library asks for a version of it: such a
//! reference keeps the hook. The others are few. They keep it, too, if what they lead to is the C library's.
#![allow(unsafe_code)]

use core::ffi::CStr;
use core::ops::Range;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use super::names::{Names, Reference, gnu_hash};
use super::{
    Found, OBJECTS_MAX, Object, file_name, find_any, has_glibc, loaded, lookup_in, objects, own,
    versions, whole_pages,
};
use crate::arch::relocation;
use crate::floor::sys;

/// Whether a library of the program's own has a name in common with the hooks.
#[unsafe(link_section = ".data")]
static SHARES: AtomicBool = AtomicBool::new(false);

/// Libraries that are not meant here, by how the names of their files begin: C libraries and what comes with compilers,
/// and those of which it is known that their functions do what libc's of the same names do.
const OF_SYSTEM: &[u8] =
    b"libc.so.6 ld- libm.so. libpthread.so. libdl.so. librt.so. libgcc_s.so. libstdc++.so. \
    libresolv.so. libutil.so. libanl.so. \
    libattr.so. libbsd.so. libfts.so. libtirpc.so. libhwasan.so. liblsan.so. libtsan.so. libclang_rt. libtcmalloc";

/// Whether a library has a name in common with the hooks of ours.
#[cold]
#[inline(never)]
pub(super) fn share_names(object: &Object, ours: &Object) -> bool {
    // SAFETY: both are loaded.
    unsafe {
        let hooks = Names::of(ours.base, ours.dynamic);
        Names::of(object.base, object.dynamic).share(&hooks)
    }
}

/// Whether there are names that are not libc's alone.
#[inline(always)]
pub(super) fn any() -> bool {
    SHARES.load(Relaxed)
}

fn is_own_library(object: &Object) -> bool {
    object.dynamic != 0 && is_own(object.path().map_or(b"", file_name))
}

/// Whether a library, by the name of its file, is one of the program's own.
#[inline(never)]
#[unsafe(link_section = ".text.startup")]
pub(super) fn is_own(file_name: &[u8]) -> bool {
    !OF_SYSTEM.split(|byte| *byte == b' ').any(|begin| file_name.starts_with(begin))
}

/// Leads references to names of the program's own libraries past the hooks; whether one of them is a function: what it
/// does, in place of libc's, no hook sees. `preloaded`: the libraries that the user has put in front of
/// libc, as `LD_PRELOAD` names them; they stay behind the hooks.
///
/// Called once, before anything of the program's runs.
#[cold]
#[inline(never)]
pub fn lead_past_hooks(preloaded: &[u8]) -> bool {
    let Some(ours) = own() else { return false };
    let own = |object: &&Object| is_own_library(object) && !is_in(preloaded, object);
    if !objects().filter(own).any(|object| share_names(object, ours)) {
        return false;
    }
    // SAFETY: this library is loaded.
    let hooks = unsafe { Names::of(ours.base, ours.dynamic) };
    SHARES.store(true, Relaxed);
    for (place, _) in objects().enumerate().filter(|(_, object)| is_in(preloaded, object)) {
        PRELOADED[place / 64].fetch_or(1 << (place % 64), Relaxed);
    }
    let hooks = Hooks { own: ours, extent: ours.extent(), names: hooks, preloaded };
    let all = loaded().filter(|object| !object.is_ours() && is_own_library(object));
    // Each is led, also where the answer is known.
    all.filter(|object| hooks.lead(object, |_, _| None)).count() > 0
}

/// The same for libraries that were loaded since. What is not found among those of the start they have themselves.
/// There is one thread.
#[cold]
#[inline(never)]
pub(super) fn lead_later<Later: Iterator<Item = Object>>(later: impl Fn() -> Later) -> bool {
    let Some(ours) = own() else { return false };
    let own = || later().filter(is_own_library);
    if !own().any(|object| share_names(&object, ours)) {
        return false;
    }
    // SAFETY: this library is loaded, and so are the others.
    let names = unsafe { Names::of(ours.base, ours.dynamic) };
    let hooks = Hooks { own: ours, extent: ours.extent(), names, preloaded: b"" };
    let defined = |name: &CStr, version| {
        later().find_map(|object| {
            let address = defined_in(&object, name, gnu_hash(name), version);
            (address != 0).then(|| (address, object.has_code_at(address)))
        })
    };
    own().filter(|object| hooks.lead(object, defined)).count() > 0
}

/// The function or variable that `name` leads to, of a library of the program's own; only where such names were found at
/// the start.
pub fn homonym(name: &CStr) -> Option<Found> {
    if !any() || is_of_program(name) {
        return None;
    }
    let is_own = |found: &Found| {
        is_own_library(found.object) && !found.object.is_libcs() && !is_preloaded(found.object)
    };
    find_any(name).filter(is_own)
}

/// Whether the program itself defines it, and so comes before all.
fn is_of_program(name: &CStr) -> bool {
    let program = loaded().next().filter(|program| program.dynamic != 0);
    // SAFETY: the program stays.
    program.is_some_and(|program| unsafe {
        lookup_in(program.base, program.dynamic, name, gnu_hash(name)) != 0
    })
}

/// Which objects, by their places, `LD_PRELOAD` names.
static PRELOADED: [AtomicU64; OBJECTS_MAX / 64] = [const { AtomicU64::new(0) }; OBJECTS_MAX / 64];

fn is_preloaded(object: &Object) -> bool {
    let place = objects().position(|other| ptr::eq(other, object));
    place.is_some_and(|place| PRELOADED[place / 64].load(Relaxed) >> (place % 64) & 1 != 0)
}

/// Whether the definition of `name` in a library is of a version of its own, which nobody gets who asks for one of
/// glibc's. (musl knows no versions.)
#[cold]
#[inline(never)]
pub(super) fn is_of_other_version(object: &Object, name: &CStr, hash: u32) -> bool {
    if !has_glibc() || !is_own_library(object) {
        return false;
    }
    // SAFETY: a loaded library, which stays.
    unsafe {
        let names = Names::of(object.base, object.dynamic);
        let defined = if names.versions == 0 { None } else { names.index_defined(name, hash) };
        defined.is_some_and(|index| versions::is_of_another(object, &names, index))
    }
}

struct Hooks<'a> {
    own: &'static Object,
    extent: Range<usize>,
    names: Names,
    preloaded: &'a [u8],
}

impl Hooks<'_> {
    /// Leads the references of an object; whether one of them is to a function. `later`: where libraries that were
    /// loaded after the start define a name in a version, and whether that is a function.
    fn lead(
        &self,
        object: &Object,
        later: impl Fn(&CStr, Option<u32>) -> Option<(usize, bool)>,
    ) -> bool {
        // SAFETY: an object that is loaded; what the loader fills in can be read.
        unsafe {
            let names = Names::of(object.base, object.dynamic);
            if names.symbols == 0 {
                return false;
            }
            let of_libc = names.needed_versions(b"GLIBC_");
            let extent = object.extent();
            let is_libcs = |symbol| {
                let number = if names.versions == 0 { 0 } else { names.version_of(symbol) };
                number < 64 && of_libc >> number & 1 != 0
            };
            let mut any = false;
            for reference in names.references(object.base) {
                if !is_libcs(reference.symbol) && self.may_be_met(&names, &extent, reference) {
                    any |= self.lead_one(object, &names, reference, &later).unwrap_or(false);
                }
            }
            any
        }
    }

    /// Whether a reference leads to a hook, or will when it is first used.
    ///
    /// # Safety
    /// It must be one of an object with these names.
    unsafe fn may_be_met(&self, names: &Names, extent: &Range<usize>, to: Reference) -> bool {
        // SAFETY: the loader has written there.
        let leads_to = || unsafe { *(to.place as *const usize) };
        // SAFETY: as the caller says.
        let has_hook = || unsafe { self.has_hook(names.name_of(to.symbol)) };
        match to.kind {
            relocation::CALL if extent.contains(&leads_to()) => has_hook(),
            relocation::CALL => self.extent.contains(&leads_to()),
            relocation::ADDRESS | relocation::IN_DATA => {
                self.extent.contains(&leads_to().wrapping_sub(to.addend))
            }
            relocation::COPY => has_hook(),
            _ => false,
        }
    }

    fn has_hook(&self, name: &CStr) -> bool {
        // Most are names of C++.
        !name.to_bytes().starts_with(b"_Z") && self.hook(name) != 0
    }

    fn hook(&self, name: &CStr) -> usize {
        // SAFETY: this library is loaded.
        unsafe { lookup_in(self.own.base, self.own.dynamic, name, gnu_hash(name)) }
    }

    /// Leads one reference to where it would lead without us; whether that is a function, or what it is cannot be
    /// helped. `None`: it stays as it is.
    ///
    /// # Safety
    /// It must be one of this object, which has these names.
    unsafe fn lead_one(
        &self,
        object: &Object,
        names: &Names,
        to: Reference,
        later: &impl Fn(&CStr, Option<u32>) -> Option<(usize, bool)>,
    ) -> Option<bool> {
        // SAFETY: as the caller says.
        let name = unsafe { names.name_of(to.symbol) };
        let is_copy = to.kind == relocation::COPY;
        let version = versions::version_of(object, names, to.symbol);
        let (address, is_code) = match natural(name, version, is_copy) {
            None => later(name, version)?,
            Some(found) => {
                let stays = !is_own_library(found.object)
                    || found.object.is_libcs()
                    || is_in(self.preloaded, found.object);
                if stays {
                    return None;
                }
                if is_copy {
                    // SAFETY: as the caller says.
                    unsafe { self.copy(object, names, to, name, &found)? };
                    return Some(found.is_code());
                }
                (found.address, found.is_code())
            }
        };
        let addend = if to.kind == relocation::CALL { 0 } else { to.addend };
        let (address, place) = (address.wrapping_add(addend), to.place as *mut usize);
        // SAFETY: the loader has written the same place.
        let write = || unsafe { place.write(address) };
        let is_written = written(object, to.place, size_of::<usize>(), write);
        Some(is_code || !is_written)
    }

    /// Gives a variable of the program's, which has its value from a library, that value: the loader has copied
    /// from a hook.
    ///
    /// # Safety
    /// As [`Hooks::lead_one`].
    unsafe fn copy(
        &self,
        object: &Object,
        names: &Names,
        to: Reference,
        name: &CStr,
        found: &Found,
    ) -> Option<()> {
        // SAFETY: as the caller says; both are as large as their symbols say.
        unsafe {
            let there = Names::of(found.object.base, found.object.dynamic);
            let bytes = names.bytes_of(to.symbol);
            let known = there
                .index_defined(name, gnu_hash(name))
                .map_or(bytes, |index| there.bytes_of(index))
                .min(bytes);
            let hook = self.names.index_defined(name, gnu_hash(name))?;
            let wrong = self.names.bytes_of(hook).min(bytes);
            let place = to.place as *mut u8;
            let as_copied = core::slice::from_raw_parts(place, wrong)
                == core::slice::from_raw_parts(self.hook(name) as *const u8, wrong);
            // Else somebody was here before.
            if !as_copied {
                return None;
            }
            let write = || {
                place.write_bytes(0, bytes);
                ptr::copy_nonoverlapping(found.address as *const u8, place, known);
            };
            written(object, to.place, bytes, write).then_some(())
        }
    }
}

/// Whether a library is one of those that `LD_PRELOAD` names.
fn is_in(preloaded: &[u8], object: &Object) -> bool {
    let mut paths = preloaded.split(|byte| matches!(byte, b':' | b' '));
    let name = object.path().map_or(b"".as_slice(), file_name);
    paths.any(|path| !path.is_empty() && file_name(path) == name)
}

/// What a name leads to without us, in a version, as the hash of its name, or in none.
fn natural(name: &CStr, version: Option<u32>, is_copy: bool) -> Option<Found> {
    let hash = gnu_hash(name);
    let defines = |object: &'static Object| {
        let address = defined_in(object, name, hash, version);
        (address != 0).then_some(Found { address, object })
    };
    // The program itself comes first, but for what it has a copy of.
    let program = loaded().take(if is_copy { 0 } else { 1 });
    program.filter(|object| object.dynamic != 0).chain(objects()).find_map(defines)
}

/// Where a loaded object defines a name of this hash, in a version or in none; 0: it does not.
fn defined_in(object: &Object, name: &CStr, hash: u32, version: Option<u32>) -> usize {
    // SAFETY: it is loaded.
    unsafe {
        let names = Names::of(object.base, object.dynamic);
        match version.filter(|_| names.versions != 0) {
            None => lookup_in(object.base, object.dynamic, name, hash),
            Some(version) => versions::defines(object, name, version).unwrap_or(0),
        }
    }
}

/// Lets `write` change so many bytes at a place, also where the loader has made them read-only. False: they are among code,
/// or the system refuses it.
fn written(object: &Object, place: usize, bytes: usize, write: impl FnOnce()) -> bool {
    if !object.has_data_at(place) {
        return false;
    }
    let closed = object.relro().map_or(0..0, whole_pages);
    let closed = closed.start.max(place)..closed.end.min(place + bytes);
    let pages = if closed.is_empty() { 0..0 } else { pages_of(closed) };
    if !sys::protect(&pages, libc::PROT_READ | libc::PROT_WRITE) {
        return false;
    }
    write();
    sys::protect(&pages, libc::PROT_READ);
    true
}

/// The pages in which a range lies.
fn pages_of(range: Range<usize>) -> Range<usize> {
    let begins = whole_pages(range.start..range.end);
    let last = whole_pages(range.end - 1..range.end - 1).start;
    let next = last + super::objects::page_bytes();
    begins.start..next
}
