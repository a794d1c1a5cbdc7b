//! The next definition of a symbol: libc's, or that of another preloaded library behind ours.
//!
//! `dlsym(RTLD_NEXT)` takes locks and may allocate, so it must not be called from inside a hook, and
//! resolving three hundred symbols at start would cost every process 0.1 ms. Instead the list of
//! loaded objects is taken once, at start, and a symbol is looked up in their hash tables when it is
//! first needed: no lock, no memory, safe in a signal handler.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::Relaxed};

use libc::{Elf64_Ehdr, Elf64_Phdr};

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

    /// The address of the next definition of `name`, the same at each call; that of a function
    /// which fails with ENOSYS where there is none.
    #[inline(always)]
    pub fn address(&self, name: &'static CStr) -> usize {
        match self.address.load(Relaxed) {
            0 => self.find(name),
            address => address,
        }
    }

    #[cold]
    #[inline(never)]
    fn find(&self, name: &'static CStr) -> usize {
        let address = match lookup(name) {
            0 => match lookup_without_64(name) {
                0 => missing as *const () as usize,
                address => address,
            },
            address => address,
        };
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

/// More than the longest name of a function with `64` in it.
const NAME_BYTES_MAX: usize = 48;

/// Stands for a function that this libc does not have: nobody can have linked against it.
unsafe extern "C" fn missing() -> isize {
    crate::fail(libc::ENOSYS)
}

/// Objects that are looked through: those after ours in the order of loading. Of more than these,
/// only the C library is looked through, in the last place. That many, because the list is written at
/// the start and lies in the page that is written then.
const OBJECTS_MAX: usize = 160;

/// A loaded library.
pub struct Object {
    base: AtomicUsize,
    dynamic: AtomicUsize,
}

#[unsafe(link_section = ".data")]
static OBJECTS: [Object; OBJECTS_MAX] =
    [const { Object { base: AtomicUsize::new(0), dynamic: AtomicUsize::new(0) } }; OBJECTS_MAX];
#[unsafe(link_section = ".data")]
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// See `needs_uring`.
#[unsafe(link_section = ".data")]
static NEEDS_URING: AtomicBool = AtomicBool::new(false);
/// See `has_glibc`.
#[unsafe(link_section = ".data")]
static HAS_GLIBC: AtomicBool = AtomicBool::new(false);
/// The path by which this library was loaded, as the loader keeps it.
#[unsafe(link_section = ".data")]
static OWN_PATH: AtomicPtr<c_char> = AtomicPtr::new(core::ptr::null_mut());

/// The path by which this library was loaded; `None` before the start.
pub fn own_path() -> Option<&'static [u8]> {
    let path = OWN_PATH.load(Relaxed);
    // SAFETY: a string of the loader's, which never unloads us.
    (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) }.to_bytes())
}

unsafe extern "C" {
    fn dl_iterate_phdr(
        callback: unsafe extern "C" fn(*mut libc::dl_phdr_info, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
}

/// Takes the list of objects that were loaded after this library. Called once, at start.
pub fn take_objects() {
    let mut passed_ours = false;
    // SAFETY: the callback only reads what it is given and the flag.
    unsafe { dl_iterate_phdr(take_object, (&raw mut passed_ours).cast()) };
}

unsafe extern "C" fn take_object(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    passed_ours: *mut c_void,
) -> c_int {
    // SAFETY: the loader hands over a valid record, and `take_objects` a pointer to its flag.
    let (info, passed_ours) = unsafe { (&*info, &mut *passed_ours.cast::<bool>()) };
    let base = info.dlpi_addr as usize;
    let mut dynamic = 0;
    let mut ours = false;
    for index in 0..usize::from(info.dlpi_phnum) {
        // SAFETY: the loader's table has that many headers.
        let header = unsafe { &*info.dlpi_phdr.add(index) };
        let start = base.wrapping_add(header.p_vaddr as usize);
        match header.p_type {
            libc::PT_DYNAMIC => dynamic = start,
            libc::PT_LOAD => {
                let here = take_object as *const () as usize;
                ours |= (start..start + header.p_memsz as usize).contains(&here);
            }
            _ => {}
        }
    }
    if ours {
        *passed_ours = true;
        OWN_PATH.store(info.dlpi_name.cast_mut(), Relaxed);
    } else if *passed_ours && dynamic != 0 {
        // SAFETY: the loader hands over a valid record.
        let name = unsafe { path_of(info) }.map_or(b"".as_slice(), file_name);
        let is_glibc = name == GLIBC;
        let count = COUNT.load(Relaxed);
        // Without libc every call would fail, and it may come late in a program of many libraries.
        let place = match count < OBJECTS_MAX {
            true => count,
            false if is_glibc || name.starts_with(MUSL) => OBJECTS_MAX - 1,
            false => return 0,
        };
        if is_glibc {
            HAS_GLIBC.store(true, Relaxed);
        }
        if is_uring(name) {
            NEEDS_URING.store(true, Relaxed);
        }
        OBJECTS[place].base.store(base, Relaxed);
        OBJECTS[place].dynamic.store(dynamic, Relaxed);
        COUNT.store(place + 1, Relaxed);
    }
    0
}

/// The C libraries, by the names of their files.
const GLIBC: &[u8] = b"libc.so.6";
const MUSL: &[u8] = b"ld-musl-";

/// Whether the C library is glibc, by the name of its file. False proves nothing.
pub fn has_glibc() -> bool {
    HAS_GLIBC.load(Relaxed)
}

/// The path of an object.
///
/// # Safety
/// Its name must be a string or null.
unsafe fn path_of(info: &libc::dl_phdr_info) -> Option<&'static [u8]> {
    let path = info.dlpi_name;
    // SAFETY: as the caller says; the loader keeps it as long as the object.
    (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) }.to_bytes())
}

/// Whether the first definition behind ours is libc's own, and not another library's that stands in
/// front of it.
pub fn is_libcs(name: &CStr) -> bool {
    // A function that nobody stands in front of.
    let libc = find(c"getauxval").map(|found| &raw const *found.object);
    find(name).map(|found| &raw const *found.object) == libc
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

/// Address of the first definition of `name` behind ours, or 0.
pub fn lookup(name: &CStr) -> usize {
    find(name).map_or(0, |found| found.address)
}

/// The first definition of `name` behind ours.
pub fn find(name: &CStr) -> Option<Found> {
    if COUNT.load(Relaxed) == 0 {
        // Called before our constructor, by another library's.
        take_objects();
    }
    let bytes = name.to_bytes();
    let hash = bytes
        .iter()
        .fold(5381u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)));
    OBJECTS[..COUNT.load(Relaxed)].iter().find_map(|object| {
        // SAFETY: the object is a loaded library, kept loaded because the program was linked
        // against it.
        let address = unsafe {
            lookup_in(object.base.load(Relaxed), object.dynamic.load(Relaxed), name, hash)
        };
        (address != 0).then_some(Found { address, object })
    })
}

impl Object {
    /// Its program headers; none where its first page does not hold them.
    fn segments(&self) -> &'static [Elf64_Phdr] {
        let base = self.base.load(Relaxed);
        if base == 0 {
            return &[];
        }
        // SAFETY: a loaded library begins with its header, which the first segment holds, and with it
        // the program headers: the loaders themselves read them there.
        unsafe {
            let header = &*(base as *const Elf64_Ehdr);
            if &header.e_ident[..4] != b"\x7fELF" {
                return &[];
            }
            let first = (base + header.e_phoff as usize) as *const Elf64_Phdr;
            core::slice::from_raw_parts(first, usize::from(header.e_phnum))
        }
    }

    fn addresses(&self, segment: &Elf64_Phdr) -> Range<usize> {
        let start = self.base.load(Relaxed).wrapping_add(segment.p_vaddr as usize);
        start..start.wrapping_add(segment.p_memsz as usize)
    }

    /// The data that the loader has made read-only.
    pub fn relro(&self) -> Option<Range<usize>> {
        let segment =
            self.segments().iter().find(|segment| segment.p_type == libc::PT_GNU_RELRO)?;
        Some(self.addresses(segment))
    }

    /// Whether an address is in one of its segments.
    pub fn holds(&self, address: usize) -> bool {
        let mut loaded = self.segments().iter().filter(|segment| segment.p_type == libc::PT_LOAD);
        loaded.any(|segment| self.addresses(segment).contains(&address))
    }
}

#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// The tables of an object by which names are found.
struct Names {
    strings: usize,
    symbols: usize,
    versions: usize,
    gnu_hash: usize,
    hash: usize,
}

/// Looks `name` up in one object; the default version wins.
///
/// # Safety
/// `dynamic` must be the dynamic section of an object loaded at `base`.
unsafe fn lookup_in(base: usize, dynamic: usize, name: &CStr, hash: u32) -> usize {
    const DT_HASH: u64 = 4;
    const DT_STRTAB: u64 = 5;
    const DT_SYMTAB: u64 = 6;
    const DT_VERSYM: u64 = 0x6fff_fff0;
    const DT_GNU_HASH: u64 = 0x6fff_fef5;
    let mut names = Names { strings: 0, symbols: 0, versions: 0, gnu_hash: 0, hash: 0 };
    let mut entry = dynamic as *const [u64; 2];
    // SAFETY: the dynamic section ends with a null entry; the tables it names are mapped.
    unsafe {
        while (*entry)[0] != 0 {
            // glibc has added the base already, musl and the vDSO have not.
            let value = (*entry)[1] as usize;
            let value = if value < base { base + value } else { value };
            match (*entry)[0] {
                DT_STRTAB => names.strings = value,
                DT_SYMTAB => names.symbols = value,
                DT_VERSYM => names.versions = value,
                DT_GNU_HASH => names.gnu_hash = value,
                DT_HASH => names.hash = value,
                _ => {}
            }
            entry = entry.add(1);
        }
        match &names {
            Names { strings: 0, .. } | Names { symbols: 0, .. } => 0,
            Names { gnu_hash: 0, hash: 0, .. } => 0,
            Names { gnu_hash: 0, .. } => names.in_hash(base, name),
            _ => names.in_gnu_hash(base, name, hash),
        }
    }
}

impl Names {
    /// The address of symbol `index`, if it is a definition of that name, and whether it is of the
    /// default version.
    ///
    /// # Safety
    /// There must be such a symbol.
    unsafe fn definition(&self, base: usize, index: u32, name: &CStr) -> Option<(usize, bool)> {
        const IFUNC: u8 = 10;
        // SAFETY: as the caller says; its name is a string of the table.
        unsafe {
            let symbol = &*(self.symbols as *const Symbol).add(index as usize);
            let its_name = CStr::from_ptr((self.strings + symbol.name as usize) as *const c_char);
            if symbol.section == 0 || symbol.value == 0 || its_name != name {
                return None;
            }
            let mut address = base + symbol.value as usize;
            if symbol.info & 15 == IFUNC {
                let resolve: unsafe extern "C" fn() -> usize = core::mem::transmute(address);
                address = resolve();
            }
            let version = match self.versions {
                0 => 0,
                versions => *(versions as *const u16).add(index as usize),
            };
            Some((address, version & 0x8000 == 0))
        }
    }

    /// # Safety
    /// As [`lookup_in`]; there must be a table of this kind.
    unsafe fn in_gnu_hash(&self, base: usize, name: &CStr, hash: u32) -> usize {
        // SAFETY: the table is mapped and laid out so.
        unsafe {
            let header = self.gnu_hash as *const u32;
            let (buckets, first, bloom_words) = (*header, *header.add(1), *header.add(2));
            if buckets == 0 {
                return 0;
            }
            let bloom = header.add(4).cast::<u64>();
            let shift = *header.add(3);
            let word = *bloom.add(((hash / 64) % bloom_words.max(1)) as usize);
            if word & (1 << (hash % 64)) == 0 || word & (1 << ((hash >> shift) % 64)) == 0 {
                return 0;
            }
            let bucket_list = bloom.add(bloom_words as usize).cast::<u32>();
            let chain = bucket_list.add(buckets as usize);
            let mut index = *bucket_list.add((hash % buckets) as usize);
            if index < first {
                return 0;
            }
            let mut hidden = 0;
            loop {
                let entry_hash = *chain.add((index - first) as usize);
                if entry_hash | 1 == hash | 1 {
                    match self.definition(base, index, name) {
                        Some((address, true)) => return address,
                        Some((address, false)) => hidden = address,
                        None => {}
                    }
                }
                if entry_hash & 1 != 0 {
                    return hidden;
                }
                index += 1;
            }
        }
    }

    /// The same in the older table, which some linkers still make alone.
    ///
    /// # Safety
    /// As [`lookup_in`]; there must be a table of this kind.
    unsafe fn in_hash(&self, base: usize, name: &CStr) -> usize {
        let hash = name.to_bytes().iter().fold(0u32, |hash, byte| {
            let hash = (hash << 4).wrapping_add(u32::from(*byte));
            let high = hash & 0xf000_0000;
            (hash ^ high >> 24) & !high
        });
        // SAFETY: the table is mapped and laid out so.
        unsafe {
            let header = self.hash as *const u32;
            let (buckets, symbols) = (*header, *header.add(1));
            if buckets == 0 {
                return 0;
            }
            let chain = header.add(2 + buckets as usize);
            let mut index = *header.add(2 + (hash % buckets) as usize);
            let mut hidden = 0;
            // A chain has no more links than there are symbols.
            for _ in 0..symbols {
                if index == 0 {
                    break;
                }
                match self.definition(base, index, name) {
                    Some((address, true)) => return address,
                    Some((address, false)) => hidden = address,
                    None => {}
                }
                index = *chain.add(index as usize);
            }
            hidden
        }
    }
}
