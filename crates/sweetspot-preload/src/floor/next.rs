//! The next definition of a symbol: libc's, or that of another preloaded library behind ours.
//!
//! `dlsym(RTLD_NEXT)` takes locks and may allocate, so it must not be called from inside a hook, and
//! resolving three hundred symbols at start would cost every process 0.1 ms. Instead the list of
//! loaded objects is taken once, at start, and a symbol is looked up in their hash tables when it is
//! first needed: no lock, no memory, safe in a signal handler.
//!
//! The list is read where the loader keeps it for debuggers. `dl_iterate_phdr` is no way to it: other
//! libraries stand in front of that, look for the true one by `dlsym`, and so come back here.
#![allow(unsafe_code)]

mod homonyms;
mod lacking;
mod later;
mod names;
mod objects;
mod rpc;
mod versions;

use core::ffi::CStr;
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering::Relaxed};

use crate::floor::sys;

pub use self::homonyms::homonym;
pub use self::later::{Unseen, later, unloading};
use self::names::{gnu_hash, lookup_in};
use self::objects::loaded;
pub use self::objects::{Object, whole_pages};
pub use self::rpc::needs_rpc;
pub use self::versions::{has_several, is_led_to};

/// The address of a function behind ours, found when first asked for.
///
/// It does not hold its name: some six hundred addresses of names would have to be relocated, and
/// their pages copied, at the start of every process.
pub struct Next {
    address: AtomicUsize,
}

impl Next {
    /// Not asked for yet.
    pub const fn new() -> Self {
        Next { address: AtomicUsize::new(0) }
    }

    /// The address of the next definition of `name`, the same at each call; that of what stands for it
    /// where there is none.
    #[inline(always)]
    pub fn address(&self, name: &'static CStr) -> usize {
        match self.address.load(Relaxed) {
            0 => self.find(name),
            address => address,
        }
    }

    /// The same, once it was asked for.
    #[inline(always)]
    pub fn known(&self) -> Option<NonZeroUsize> {
        NonZeroUsize::new(self.address.load(Relaxed))
    }

    /// The same for a function of which libc may have several versions: that which is asked for.
    #[inline(always)]
    pub fn address_asked(&self, name: &'static CStr) -> usize {
        match self.address.load(Relaxed) {
            0 => self.find_by(name, versions::lookup_asked),
            address => address,
        }
    }

    #[cold]
    #[inline(never)]
    #[unsafe(link_section = ".text.startup")]
    fn find(&self, name: &'static CStr) -> usize {
        self.find_by(name, lookup)
    }

    #[unsafe(link_section = ".text.startup")]
    fn find_by(&self, name: &'static CStr, first: fn(&CStr) -> usize) -> usize {
        let ways = [first, lookup_without_64, lookup_without_np, lookup_later];
        let address = ways.into_iter().map(|way| way(name)).find(|found| *found != 0);
        let address = address.unwrap_or_else(|| lacking::stand_in(name));
        self.address.store(address, Relaxed);
        address
    }
}

/// musl has one kind of offset, and since 1.2.4 one name for each function: programs that were linked
/// before ask for `open64` and get `open`.
fn lookup_without_64(name: &CStr) -> usize {
    let name = name.to_bytes_with_nul();
    let mut short = [0; NAME_BYTES_MAX];
    let Some(at) = name.windows(2).position(|two| two == b"64") else { return 0 };
    let Some(space) = short.get_mut(..name.len() - 2) else { return 0 };
    space[..at].copy_from_slice(&name[..at]);
    space[at..].copy_from_slice(&name[at + 2..]);
    CStr::from_bytes_with_nul(space).map_or(0, lookup)
}

/// What POSIX took over lost the mark of an extension, by which C libraries have it alone so far.
fn lookup_without_np(name: &CStr) -> usize {
    match name.to_bytes() {
        b"posix_spawn_file_actions_addchdir" => lookup(c"posix_spawn_file_actions_addchdir_np"),
        b"posix_spawn_file_actions_addfchdir" => lookup(c"posix_spawn_file_actions_addfchdir_np"),
        b"posix_spawn_file_actions_addchdir_np" => lookup(c"posix_spawn_file_actions_addchdir"),
        b"posix_spawn_file_actions_addfchdir_np" => lookup(c"posix_spawn_file_actions_addfchdir"),
        _ => 0,
    }
}

/// Before glibc 2.34 the functions of the loader are in a library of their own, which a program may get
/// with another one after its start.
fn lookup_later(name: &CStr) -> usize {
    let hash = gnu_hash(name);
    let behind = loaded().skip_while(|object| !object.is_ours()).skip(1);
    let behind = behind.filter(|object| object.is_libcs());
    // SAFETY: a loaded library that stays.
    let look = |object: &Object| unsafe { lookup_in(object.base, object.dynamic, name, hash) };
    let mut found = behind.map(look);
    found.find(|address| *address != 0).unwrap_or(0)
}

/// More than the longest name of a function with `64` in it.
const NAME_BYTES_MAX: usize = 48;

/// Objects that are looked through, of those after ours in the order of loading: the first ones, then those alone that
/// have a name in common with the hooks, and in the last place nothing but the C library. That many, because the list
/// is written at the start and lies in the page that is written then.
const OBJECTS_MAX: usize = 256;
const OBJECTS_ANY: usize = OBJECTS_MAX / 2;
const OBJECTS_LAST: usize = OBJECTS_MAX - 1;

#[unsafe(link_section = ".data")]
static OBJECTS: [AtomicPtr<Object>; OBJECTS_MAX] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; OBJECTS_MAX];
#[unsafe(link_section = ".data")]
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// See `needs_uring`.
#[unsafe(link_section = ".data")]
static NEEDS_URING: AtomicBool = AtomicBool::new(false);
/// Whether Go made a library that was loaded after ours.
#[unsafe(link_section = ".data")]
static HAS_GO: AtomicBool = AtomicBool::new(false);
/// See `has_twin`.
#[unsafe(link_section = ".data")]
static HAS_TWIN: AtomicBool = AtomicBool::new(false);
/// See `has_glibc`.
#[unsafe(link_section = ".data")]
static HAS_GLIBC: AtomicBool = AtomicBool::new(false);
/// Whether the program has libraries of its own.
#[unsafe(link_section = ".data")]
static HAS_OWN: AtomicBool = AtomicBool::new(false);
/// This library, as the loader keeps it.
#[unsafe(link_section = ".data")]
static OWN: AtomicPtr<Object> = AtomicPtr::new(core::ptr::null_mut());

/// The path by which this library was loaded; `None` before the start.
pub fn own_path() -> Option<&'static [u8]> {
    own()?.path()
}

/// This library; `None` before the start.
fn own() -> Option<&'static Object> {
    // SAFETY: null, or the loader's record, which stays: it never unloads us.
    unsafe { OWN.load(Relaxed).as_ref() }
}

/// Takes the list of objects that were loaded after this library. Called once, at start; another
/// library may come in between and cause the same list to be taken, by a function of libc's that it
/// stands in front of.
#[unsafe(link_section = ".text.startup")]
pub fn take_objects() {
    let mut objects = loaded().skip_while(|object| {
        let is_before_us = !object.is_ours();
        if is_before_us && object.path().is_some_and(is_valgrind) {
            sys::UNDER_VALGRIND.store(true, Relaxed);
        }
        is_before_us
    });
    let Some(own) = objects.next() else { return };
    OWN.store(core::ptr::from_ref(own).cast_mut(), Relaxed);
    loaded().last().into_iter().for_each(later::begin);
    let mut count = 0;
    for object in objects.filter(|object| object.dynamic != 0) {
        let name = object.path().map_or(b"".as_slice(), file_name);
        let is_glibc = name == GLIBC;
        let is_loaders = name.starts_with(b"ld-");
        if is_uring(name) {
            NEEDS_URING.store(true, Relaxed);
        }
        if !is_glibc && !is_loaders {
            look_at(object, name);
        }
        // Without libc every call would fail, and it may come late in a program of many libraries.
        let is_meant = match count {
            ..OBJECTS_ANY => true,
            _ if is_glibc || name.starts_with(MUSL) => true,
            OBJECTS_LAST.. => false,
            _ => homonyms::share_names(object, own),
        };
        if !is_meant {
            continue;
        }
        let place = count.min(OBJECTS_LAST);
        if is_glibc {
            HAS_GLIBC.store(true, Relaxed);
        }
        OBJECTS[place].store(core::ptr::from_ref(object).cast_mut(), Relaxed);
        count = place + 1;
    }
    COUNT.store(count, Relaxed);
}

/// A library that is neither the C library nor its loader.
fn look_at(object: &Object, name: &[u8]) {
    if homonyms::is_own(name) {
        HAS_OWN.store(true, Relaxed);
    }
    if object.is_of_go() {
        HAS_GO.store(true, Relaxed);
    }
    if name.starts_with(b"libsweetspot") {
        HAS_TWIN.store(true, Relaxed);
    }
}

/// Whether this library is there once more, of whatever version (`/etc/ld.so.preload`): that one does all, as two of them
/// would take each other for libc.
pub fn has_twin() -> bool {
    HAS_TWIN.load(Relaxed)
}

/// Whether Go made the program, or a library that it was loaded with.
pub fn has_go() -> bool {
    HAS_GO.load(Relaxed) || loaded().next().is_some_and(Object::is_of_go)
}

/// Takes the list of objects, and leads references to names of the program's own libraries past the hooks. Whether
/// such a function stands in front of libc. Called once, at start.
#[unsafe(link_section = ".text.startup")]
pub fn begin(preloaded: impl FnOnce() -> Option<&'static [u8]>) -> bool {
    take_objects();
    HAS_OWN.load(Relaxed) && homonyms::lead_past_hooks(preloaded().unwrap_or_default())
}

/// Whether a path is that of what valgrind puts in front of everything.
fn is_valgrind(path: &[u8]) -> bool {
    file_name(path).starts_with(b"vgpreload_")
}

/// The C libraries, by the names of their files.
const GLIBC: &[u8] = b"libc.so.6";
const MUSL: &[u8] = b"ld-musl-";

/// Whether the C library is glibc, by the name of its file. False proves nothing.
pub fn has_glibc() -> bool {
    HAS_GLIBC.load(Relaxed)
}

/// Whether the first definition behind ours is libc's own, and not another library's that stands in
/// front of it. Of a name that is nowhere, too: nobody stands in front of it.
pub fn is_libcs(name: &CStr) -> bool {
    find(name).is_none_or(|found| found.object.is_libcs())
}

/// Whether libc's are the first definitions behind ours of what is answered here without them. Another
/// library, which would not see what is answered, may change bytes; only of sanitizers it is known that
/// they look on, and that a call which they miss harms nobody.
pub fn data_is_libcs() -> bool {
    const NAMES: &[u8] = b"read\0__read\0__read_chk\0write\0__write\0\
        pread\0pread64\0__pread64\0__pread_chk\0__pread64_chk\0pwrite\0pwrite64\0__pwrite64\0\
        readv\0preadv\0preadv64\0preadv2\0preadv64v2\0writev\0pwritev\0pwritev64\0pwritev2\0pwritev64v2\0\
        lseek\0lseek64\0llseek\0__lseek\0";
    /// 0: not asked; 1: they are; 2: they are not.
    #[unsafe(link_section = ".data")]
    static ANSWER: AtomicU32 = AtomicU32::new(0);
    if ANSWER.load(Relaxed) == 0 {
        let looks_on = |name: &CStr| find(name).is_some_and(|found| found.object.is_sanitizer());
        let is_good = |name: &[u8]| {
            CStr::from_bytes_with_nul(name).is_ok_and(|name| is_libcs(name) || looks_on(name))
        };
        let all = NAMES.split_inclusive(|byte| *byte == 0).all(is_good);
        ANSWER.store(if all { 1 } else { 2 }, Relaxed);
    }
    ANSWER.load(Relaxed) == 1
}

/// Whether an address lies in the C library.
pub fn is_in_libc(address: usize) -> bool {
    objects().any(|object| object.holds(address) && object.is_libcs())
}

/// What stands in front of libc's function of this name: the address of our own; 0: nothing.
pub fn hook(name: &CStr) -> usize {
    count();
    // SAFETY: the loader's record of this library.
    own().map_or(0, |own| unsafe { lookup_in(own.base, own.dynamic, name, gnu_hash(name)) })
}

/// What the search for the next definition of a name leads to, for code at an address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Libc's own.
    Libcs,
    /// What the loader says: ours, or that of another library which was there at the start.
    Other,
    /// Nobody but the loader knows: the code belongs to a library that was loaded later.
    Unknown,
}

/// Asks for the next definition of `name` behind the code at `address`. Ours have no versions: where
/// one is asked for they are passed over.
pub fn after(address: usize, name: &CStr, has_version: bool) -> After {
    let asks = objects().position(|object| object.holds(address));
    let mut before_us = loaded().take_while(|object| !object.is_ours());
    if asks.is_none() && !before_us.any(|object| object.holds(address)) {
        return After::Unknown;
    }
    let mut behind = objects().skip(asks.map_or(0, |asks| asks + 1));
    let mut is_behind = |found: &Found| behind.any(|each| core::ptr::eq(each, found.object));
    let first = if has_version { find(name) } else { find_any(name) };
    match asks.is_some() || has_version {
        // Nobody stands between them.
        true if first.is_some_and(|found| found.object.is_libcs() && is_behind(&found)) => {
            After::Libcs
        }
        _ => After::Other,
    }
}

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// Whether a path is that of liburing, whose calls are not seen.
pub fn is_uring(path: &[u8]) -> bool {
    file_name(path).starts_with(b"liburing")
}

/// Whether the program was loaded with liburing.
pub fn needs_uring() -> bool {
    NEEDS_URING.load(Relaxed)
}

/// What a name leads to.
pub struct Found {
    pub address: usize,
    pub object: &'static Object,
}

impl Found {
    /// Whether it is a function, and not a variable.
    pub fn is_code(&self) -> bool {
        self.object.has_code_at(self.address)
    }
}

/// Address of the first definition of `name` behind ours, or 0.
pub fn lookup(name: &CStr) -> usize {
    find(name).map_or(0, |found| found.address)
}

/// The address of a variable of libc's, which is the program's copy of it where it has one; or 0.
#[cold]
pub fn variable(name: &CStr) -> usize {
    let hash = gnu_hash(name);
    let program = loaded().take(1).filter(|object| object.dynamic != 0);
    // SAFETY: the program and what it was started with stay.
    let look = |object: &Object| unsafe { lookup_in(object.base, object.dynamic, name, hash) };
    program.chain(objects()).map(look).find(|address| *address != 0).unwrap_or(0)
}

/// How many objects there are behind ours.
fn count() -> usize {
    if COUNT.load(Relaxed) == 0 {
        // Called before our constructor, by another library's.
        take_objects();
    }
    COUNT.load(Relaxed)
}

/// The objects behind ours.
fn objects() -> impl Iterator<Item = &'static Object> {
    // SAFETY: null, or the loader's record, which stays: it never unloads what was there at the start.
    let object = |place: &AtomicPtr<Object>| unsafe { place.load(Relaxed).as_ref() };
    OBJECTS.iter().take(count()).filter_map(object)
}

/// The first definition of `name` behind ours, for who asks for a version of libc's, or for none: another
/// library's of a version of its own is not meant.
#[inline(always)]
pub fn find(name: &CStr) -> Option<Found> {
    find_by_hash(name, gnu_hash(name))
}

/// The same. Of most names the hash is known when this library is compiled.
#[inline(never)]
#[unsafe(link_section = ".text.startup")]
fn find_by_hash(name: &CStr, hash: u32) -> Option<Found> {
    objects().find_map(|object| {
        // SAFETY: the object is a loaded library, kept loaded because the program was linked
        // against it.
        let address = unsafe { lookup_in(object.base, object.dynamic, name, hash) };
        let is_meant =
            address != 0 && !(homonyms::any() && homonyms::is_of_other_version(object, name, hash));
        is_meant.then_some(Found { address, object })
    })
}

/// The first definition of `name` behind ours, in any version.
#[cold]
fn find_any(name: &CStr) -> Option<Found> {
    let hash = gnu_hash(name);
    objects().find_map(|object| {
        // SAFETY: as above.
        let address = unsafe { lookup_in(object.base, object.dynamic, name, hash) };
        (address != 0).then_some(Found { address, object })
    })
}
