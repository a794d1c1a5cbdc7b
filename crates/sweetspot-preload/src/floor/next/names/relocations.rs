//! What an object wants of others: the places that the loader fills in, and the versions that are asked for.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char};

use super::{Names, Symbol};

/// A table of relocations.
#[derive(Clone, Copy, Default)]
pub(super) struct Relocations {
    pub(super) at: usize,
    pub(super) bytes: usize,
    /// So many at its begin name no symbol.
    pub(super) nameless: usize,
}

/// One of them; the symbol is the upper half of `info`, the kind the lower one.
#[repr(C)]
struct Relocation {
    place: u64,
    info: u64,
    addend: i64,
}

impl Relocation {
    fn symbol(&self) -> u32 {
        (self.info >> 32) as u32
    }
}

/// A place that the loader fills in with what a symbol leads to.
#[derive(Clone, Copy)]
pub(in crate::floor::next) struct Reference {
    pub(in crate::floor::next) place: usize,
    pub(in crate::floor::next) kind: u32,
    pub(in crate::floor::next) symbol: u32,
    pub(in crate::floor::next) addend: usize,
}

/// Versions that are needed of one library (`Elf64_Verneed`).
#[repr(C)]
struct NeededOf {
    _form: u16,
    count: u16,
    _library: u32,
    first: u32,
    next: u32,
}

/// One of them (`Elf64_Vernaux`).
#[repr(C)]
struct Needed {
    hash: u32,
    _flags: u16,
    index: u16,
    name: u32,
    next: u32,
}

impl Names {
    /// Whether it needs a symbol of others with a name that fits, in a version that begins so.
    ///
    /// # Safety
    /// Its tables must be mapped.
    pub(in crate::floor::next) unsafe fn needs(
        &self,
        version: &[u8],
        fits: fn(&[u8]) -> bool,
    ) -> bool {
        if [self.strings, self.symbols, self.versions, self.needed].contains(&0) {
            return false;
        }
        // SAFETY: what the tables name is in the other ones.
        unsafe { self.named() }.any(|relocation| unsafe {
            let symbol = relocation.symbol();
            (*self.symbol(symbol)).section == 0
                && fits(self.name_of(symbol).to_bytes())
                && self.needed_version(symbol as usize).starts_with(version)
        })
    }

    /// The relocations that may name a symbol.
    ///
    /// # Safety
    /// Its tables must be mapped.
    unsafe fn named(&self) -> impl Iterator<Item = &'static Relocation> {
        self.relocations.into_iter().flat_map(|table| {
            let count = table.bytes / size_of::<Relocation>();
            // SAFETY: the table is mapped and has that many.
            (table.nameless..count)
                .map(move |index| unsafe { &*(table.at as *const Relocation).add(index) })
        })
    }

    /// The places that are filled in by symbols.
    ///
    /// # Safety
    /// Its tables must be mapped, and its base be this one.
    pub(in crate::floor::next) unsafe fn references(
        &self,
        base: usize,
    ) -> impl Iterator<Item = Reference> {
        // SAFETY: as the caller says.
        let named = unsafe { self.named() }.filter(|relocation| relocation.symbol() != 0);
        named.map(move |relocation| Reference {
            place: base.wrapping_add(relocation.place as usize),
            kind: relocation.info as u32,
            symbol: relocation.symbol(),
            addend: relocation.addend as usize,
        })
    }

    unsafe fn symbol(&self, index: u32) -> *const Symbol {
        // SAFETY: there is such a symbol, as each caller says.
        unsafe { (self.symbols as *const Symbol).add(index as usize) }
    }

    /// # Safety
    /// There must be such a symbol.
    pub(in crate::floor::next) unsafe fn name_of(&self, index: u32) -> &'static CStr {
        // SAFETY: as the caller says; its name is a string of the table.
        unsafe {
            let name = (*self.symbol(index)).name as usize;
            CStr::from_ptr((self.strings + name) as *const c_char)
        }
    }

    /// How many bytes a symbol has.
    ///
    /// # Safety
    /// There must be such a symbol.
    pub(in crate::floor::next) unsafe fn bytes_of(&self, index: u32) -> usize {
        // SAFETY: as the caller says.
        unsafe { (*self.symbol(index)).size as usize }
    }

    /// Which symbol is the first definition of a name; `None`: it is not found.
    ///
    /// # Safety
    /// Its tables must be mapped.
    pub(in crate::floor::next) unsafe fn index_defined(
        &self,
        name: &CStr,
        hash: u32,
    ) -> Option<u32> {
        let mut found = None;
        // SAFETY: the table names this symbol.
        let is_it = |index| unsafe {
            let is_it = self.name_of(index) == name && (*self.symbol(index)).section != 0;
            found = is_it.then_some(index);
            is_it
        };
        // SAFETY: as the caller says.
        unsafe { self.with_name(name, hash, is_it) };
        found
    }

    /// The version of a number that it needs of others, as the hash of its name.
    ///
    /// # Safety
    /// Its tables must be mapped.
    pub(in crate::floor::next) unsafe fn version_needed(&self, number: u16) -> Option<u32> {
        // SAFETY: as the caller says.
        let needed = unsafe { self.find_needed(|needed| needed.index & 0x7fff == number) };
        needed.map(|needed| needed.hash)
    }

    /// The numbers of the versions that it needs of others and that begin so, as bits; as far as they are below 64.
    ///
    /// # Safety
    /// Its tables must be mapped.
    pub(in crate::floor::next) unsafe fn needed_versions(&self, begin: &[u8]) -> u64 {
        let mut numbers = 0;
        // SAFETY: as the caller says.
        unsafe {
            self.find_needed(|needed| {
                let fits = self.string(needed.name as usize).starts_with(begin);
                numbers |= u64::from(fits) << (needed.index & 0x7fff).min(63);
                false
            });
        }
        numbers & (u64::MAX >> 1)
    }

    /// The first version that it needs of others and that is it.
    ///
    /// # Safety
    /// Its tables must be mapped.
    unsafe fn find_needed(
        &self,
        mut is_it: impl FnMut(&'static Needed) -> bool,
    ) -> Option<&'static Needed> {
        if self.needed == 0 {
            return None;
        }
        let mut at = self.needed;
        loop {
            // SAFETY: each record says where the next one is, 0 at the last.
            unsafe {
                let needed_of = &*(at as *const NeededOf);
                let mut one_at = at + needed_of.first as usize;
                for _ in 0..needed_of.count {
                    let one = &*(one_at as *const Needed);
                    if is_it(one) {
                        return Some(one);
                    }
                    one_at += one.next as usize;
                }
                match needed_of.next {
                    0 => return None,
                    next => at += next as usize,
                }
            }
        }
    }

    /// The version in which it needs a symbol; empty: any.
    ///
    /// # Safety
    /// Its tables must be mapped, and have this symbol.
    unsafe fn needed_version(&self, symbol: usize) -> &'static [u8] {
        // SAFETY: as the caller says.
        unsafe {
            let wanted = *(self.versions as *const u16).add(symbol) & 0x7fff;
            let needed = self.find_needed(|needed| needed.index & 0x7fff == wanted);
            needed.map_or(b"", |needed| self.string(needed.name as usize))
        }
    }
}
