//! The tables of a loaded object by which its symbols are found.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char};

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
    symbols: usize,
    versions: usize,
    gnu_hash: usize,
    hash: usize,
    /// Where its own name is in the strings; 0: it has none.
    own: usize,
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
    pub(super) unsafe fn of(base: usize, dynamic: usize) -> Names {
        const DT_HASH: u64 = 4;
        const DT_STRTAB: u64 = 5;
        const DT_SYMTAB: u64 = 6;
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
        unsafe { CStr::from_ptr((self.strings + self.own) as *const c_char) }.to_bytes()
    }

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
