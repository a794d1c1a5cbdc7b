//! The tables of a loaded object by which its symbols are found.
#![allow(unsafe_code)]

mod relocations;

use core::ffi::{CStr, c_char};

pub(super) use self::relocations::Reference;
use self::relocations::Relocations;

/// The hash of a name in the newer tables.
pub(super) fn gnu_hash(name: &CStr) -> u32 {
    let next = |hash: u32, byte: &u8| hash.wrapping_mul(33).wrapping_add(u32::from(*byte));
    name.to_bytes().iter().fold(5381, next)
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
#[derive(Default)]
pub(super) struct Names {
    strings: usize,
    pub(super) symbols: usize,
    pub(super) versions: usize,
    gnu_hash: usize,
    hash: usize,
    /// Where its own name is in the strings; 0: it has none.
    own: usize,
    /// The versions that it needs of others.
    needed: usize,
    /// What the loader fills in: addresses of functions that are called, and all else that is not only moved.
    relocations: [Relocations; 2],
}

/// Looks `name` up in one object; the default version wins.
///
/// # Safety
/// `dynamic` must be the dynamic section of an object loaded at `base`.
#[unsafe(link_section = ".text.startup")]
pub(super) unsafe fn lookup_in(base: usize, dynamic: usize, name: &CStr, hash: u32) -> usize {
    // SAFETY: as the caller says.
    unsafe {
        let names = Names::of(base, dynamic);
        match &names {
            Names { strings: 0, .. } | Names { symbols: 0, .. } => 0,
            Names { gnu_hash: 0, hash: 0, .. } => 0,
            Names { gnu_hash: 0, .. } => names.in_hash(base, name),
            _ => names.in_gnu_hash(base, name, hash),
        }
    }
}

impl Names {
    /// # Safety
    /// As [`lookup_in`].
    #[unsafe(link_section = ".text.startup")]
    pub(super) unsafe fn of(base: usize, dynamic: usize) -> Names {
        const DT_HASH: u64 = 4;
        const DT_STRTAB: u64 = 5;
        const DT_SYMTAB: u64 = 6;
        const DT_RELA: u64 = 7;
        const DT_RELASZ: u64 = 8;
        const DT_PLTRELSZ: u64 = 2;
        const DT_JMPREL: u64 = 23;
        const DT_RELACOUNT: u64 = 0x6fff_fff9;
        const DT_VERNEED: u64 = 0x6fff_fffe;
        const DT_SONAME: u64 = 14;
        const DT_VERSYM: u64 = 0x6fff_fff0;
        const DT_GNU_HASH: u64 = 0x6fff_fef5;
        let mut names = Names::default();
        let mut entry = dynamic as *const [u64; 2];
        // SAFETY: the dynamic section ends with a null entry; the tables it names are mapped.
        while let [tag, value] = unsafe { *entry }
            && tag != 0
        {
            // glibc has added the base already, musl and the vDSO have not.
            let address = value as usize;
            let address = if address < base { base + address } else { address };
            match tag {
                DT_STRTAB => names.strings = address,
                DT_SYMTAB => names.symbols = address,
                DT_SONAME => names.own = value as usize,
                DT_VERSYM => names.versions = address,
                DT_GNU_HASH => names.gnu_hash = address,
                DT_HASH => names.hash = address,
                DT_VERNEED => names.needed = address,
                DT_JMPREL => names.relocations[0].at = address,
                DT_PLTRELSZ => names.relocations[0].bytes = value as usize,
                DT_RELA => names.relocations[1].at = address,
                DT_RELASZ => names.relocations[1].bytes = value as usize,
                DT_RELACOUNT => names.relocations[1].nameless = value as usize,
                _ => {}
            }
            // SAFETY: this was not the last one.
            entry = unsafe { entry.add(1) };
        }
        names
    }

    /// The name that the object gives itself.
    ///
    /// # Safety
    /// Its tables must be mapped.
    pub(super) unsafe fn own_name(&self) -> &'static [u8] {
        if self.strings == 0 || self.own == 0 {
            return b"";
        }
        // SAFETY: a string of the table.
        unsafe { self.string(self.own) }
    }

    /// # Safety
    /// Its tables must be mapped, and a string begin there.
    pub(super) unsafe fn string(&self, at: usize) -> &'static [u8] {
        // SAFETY: as the caller says.
        unsafe { CStr::from_ptr((self.strings + at) as *const c_char) }.to_bytes()
    }

    /// The address of symbol `index`, if it is a definition of that name, and whether it is of the
    /// default version.
    ///
    /// # Safety
    /// There must be such a symbol.
    #[unsafe(link_section = ".text.startup")]
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
    #[unsafe(link_section = ".text.startup")]
    unsafe fn in_gnu_hash(&self, base: usize, name: &CStr, hash: u32) -> usize {
        let mut found = 0;
        let is_it = |index| {
            // SAFETY: the table names this symbol.
            match unsafe { self.definition(base, index, name) } {
                Some((address, is_default)) => {
                    found = address;
                    is_default
                }
                None => false,
            }
        };
        // SAFETY: as the caller says.
        unsafe { self.with_hash(hash, is_it) };
        found
    }

    /// Shows the symbols of which the names may have this hash, by their indices, until one is it.
    ///
    /// # Safety
    /// As [`lookup_in`]; there must be a table of this kind.
    #[inline(always)]
    unsafe fn with_hash(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) {
        // SAFETY: the table is mapped and laid out so.
        unsafe {
            let header = self.gnu_hash as *const u32;
            let (buckets, first, bloom_words) = (*header, *header.add(1), *header.add(2));
            if buckets == 0 {
                return;
            }
            let bloom = header.add(4).cast::<u64>();
            let shift = *header.add(3);
            let word = *bloom.add(((hash / 64) % bloom_words.max(1)) as usize);
            if word & (1 << (hash % 64)) == 0 || word & (1 << ((hash >> shift) % 64)) == 0 {
                return;
            }
            let bucket_list = bloom.add(bloom_words as usize).cast::<u32>();
            let chain = bucket_list.add(buckets as usize);
            let mut index = *bucket_list.add((hash % buckets) as usize);
            if index < first {
                return;
            }
            loop {
                let entry_hash = *chain.add((index - first) as usize);
                if entry_hash | 1 == hash | 1 && is_it(index) || entry_hash & 1 != 0 {
                    return;
                }
                index += 1;
            }
        }
    }

    /// Whether any of these names is defined there, too. Almost always that is answered by the hashes in the tables,
    /// and no name is read.
    ///
    /// # Safety
    /// The tables of both must be mapped.
    pub(super) unsafe fn share(&self, others: &Names) -> bool {
        if self.gnu_hash == 0 || others.gnu_hash == 0 {
            // Who has the older table alone is rare, and is looked through.
            return self.hash != 0;
        }
        // SAFETY: the tables are laid out so.
        unsafe {
            let header = self.gnu_hash as *const u32;
            let (buckets, first, bloom_words) = (*header, *header.add(1), *header.add(2));
            let bucket_list = header.add(4 + 2 * bloom_words as usize);
            let chain = bucket_list.add(buckets as usize);
            let header = others.gnu_hash as *const u32;
            // A power of two.
            let word_mask = (*header.add(2) as usize).wrapping_sub(1);
            let (shift, bloom) = (*header.add(3), header.add(4).cast::<u64>());
            for bucket in 0..buckets as usize {
                let mut index = *bucket_list.add(bucket);
                while index >= first.max(1) {
                    // Its lowest bit says whether it is the last one, and not what it was in the hash.
                    let hash = *chain.add((index - first) as usize);
                    let word = *bloom.add((hash / 64) as usize & word_mask);
                    let may_be =
                        word >> (hash & 62) & 3 != 0 && word >> ((hash >> shift) & 63) & 1 != 0;
                    if may_be {
                        let name = self.name_of(index);
                        if others.index_defined(name, gnu_hash(name)).is_some() {
                            return true;
                        }
                    }
                    if hash & 1 != 0 {
                        break;
                    }
                    index += 1;
                }
            }
        }
        false
    }

    /// The address of the definition of `name` in the version of this number.
    ///
    /// # Safety
    /// As [`lookup_in`].
    pub(super) unsafe fn of_version(
        &self,
        base: usize,
        name: &CStr,
        hash: u32,
        number: u16,
    ) -> Option<usize> {
        let mut found = None;
        if self.versions != 0 {
            let is_it = |index| {
                // SAFETY: the table names this symbol.
                unsafe {
                    if self.version_of(index) == number {
                        found = self.definition(base, index, name).map(|(address, _)| address);
                    }
                }
                found.is_some()
            };
            // SAFETY: as the caller says.
            unsafe { self.with_name(name, hash, is_it) };
        }
        found
    }

    /// Shows the symbols that may have this name, of this hash, by whatever table there is, until one is it.
    ///
    /// # Safety
    /// As [`lookup_in`].
    pub(super) unsafe fn with_name(&self, name: &CStr, hash: u32, is_it: impl FnMut(u32) -> bool) {
        // SAFETY: as the caller says.
        unsafe {
            match (self.gnu_hash, self.hash) {
                (0, 0) => {}
                (0, _) => self.with_older_hash(name, is_it),
                _ => self.with_hash(hash, is_it),
            }
        }
    }

    /// Whether a symbol is one of that name that another object is to define.
    ///
    /// # Safety
    /// There must be such a symbol.
    pub(super) unsafe fn is_asked_for(&self, index: u32, name: &CStr) -> bool {
        // SAFETY: as the caller says; its name is a string of the table.
        unsafe {
            let symbol = &*(self.symbols as *const Symbol).add(index as usize);
            let its_name = (self.strings + symbol.name as usize) as *const c_char;
            symbol.section == 0 && CStr::from_ptr(its_name) == name
        }
    }

    /// The number of the version of a symbol; there must be a table of them.
    ///
    /// # Safety
    /// There must be such a symbol.
    pub(super) unsafe fn version_of(&self, index: u32) -> u16 {
        // SAFETY: as the caller says.
        unsafe { *(self.versions as *const u16).add(index as usize) & 0x7fff }
    }

    /// The same as [`Names::in_gnu_hash`] in the older table, which some linkers still make alone.
    ///
    /// # Safety
    /// As [`lookup_in`]; there must be a table of this kind.
    unsafe fn in_hash(&self, base: usize, name: &CStr) -> usize {
        let mut found = 0;
        let is_it = |index| {
            // SAFETY: the table names this symbol.
            let definition = unsafe { self.definition(base, index, name) };
            definition.is_some_and(|(address, is_default)| {
                found = address;
                is_default
            })
        };
        // SAFETY: as the caller says.
        unsafe { self.with_older_hash(name, is_it) };
        found
    }

    /// # Safety
    /// As [`Names::in_hash`].
    unsafe fn with_older_hash(&self, name: &CStr, mut is_it: impl FnMut(u32) -> bool) {
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
                return;
            }
            let chain = header.add(2 + buckets as usize);
            let mut index = *header.add(2 + (hash % buckets) as usize);
            // A chain has no more links than there are symbols.
            for _ in 0..symbols {
                if index == 0 || is_it(index) {
                    return;
                }
                index = *chain.add(index as usize);
            }
        }
    }
}
