//! Functions of which glibc keeps several versions: a program gets that with which it was linked.
//!
//! A hook has no version, so it stands in front of all of them. What it leads to is the version that the first object
//! asks for which names the function: the program itself, mostly, and else a library of its.
#![allow(unsafe_code)]

use core::ffi::CStr;
use core::ptr;

use super::names::{Names, gnu_hash};
use super::objects::{Object, loaded};
use super::{find, objects};

/// Their names, as far as there are hooks of them: one text, as each address in a list would be relocated at the start.
const NAMES: &[u8] = b"glob\0glob64\0lio_listio\0lio_listio64\0nftw\0nftw64\0posix_spawn\0posix_spawnp\0\
    pthread_getaffinity_np\0pthread_setaffinity_np\0pthread_kill\0quick_exit\0realpath\0sched_getaffinity\0\
    sched_setaffinity\0timer_create\0timer_delete\0timer_settime\0";

/// Whether a name is one of them.
pub const fn has_several(name: &[u8]) -> bool {
    let (mut at, mut same, mut is_it) = (0, 0, true);
    while at < NAMES.len() {
        match NAMES[at] {
            0 if is_it && same == name.len() => return true,
            0 => (same, is_it) = (0, true),
            byte => {
                is_it = is_it && same < name.len() && name[same] == byte;
                same += 1;
            }
        }
        at += 1;
    }
    false
}

/// Whether a hook of this name leads to the function at an address, of all versions of libc's.
pub fn is_led_to(name: &CStr, address: usize) -> bool {
    !has_several(name.to_bytes()) || lookup_asked(name) == address
}

/// The address of the first definition of `name` behind ours, in the version that is asked for; 0: there is none.
pub(super) fn lookup_asked(name: &CStr) -> usize {
    let Some(found) = find(name) else { return 0 };
    let asked =
        loaded().filter(|object| !object.is_ours()).find_map(|object| asks_for(object, name));
    let of_version = asked.and_then(|version| {
        // Before 2.34 another part of libc may have the older one.
        objects()
            .filter(|object| object.is_libcs())
            .find_map(|object| defines(object, name, version))
    });
    match of_version {
        Some(address) if found.object.is_libcs() => address,
        _ => found.address,
    }
}

/// A version that an object defines.
#[repr(C)]
struct Defined {
    _version: u16,
    _flags: u16,
    number: u16,
    _count: u16,
    hash: u32,
    /// Where its name is.
    first: u32,
    next: u32,
}

/// The version, as the hash of its name, in which an object asks for a function that it does not define. `None`: it does
/// not, or in no version.
fn asks_for(object: &Object, name: &CStr) -> Option<u32> {
    // SAFETY: a loaded object, whose tables are mapped and laid out so.
    unsafe {
        let names = Names::of(object.base, object.dynamic);
        if names.versions == 0 || names.symbols == 0 {
            return None;
        }
        let mut symbols = names.references(object.base).map(|reference| reference.symbol);
        let symbol = symbols.find(|symbol| names.is_asked_for(*symbol, name))?;
        names.version_needed(names.version_of(symbol))
    }
}

/// The first number of a version that has a name: those below it stand for none.
const NAMED_MIN: u16 = 2;

/// The version, as the hash of its name, of a symbol that an object asks for, or defines itself. `None`: it has none.
pub(super) fn version_of(object: &Object, names: &Names, symbol: u32) -> Option<u32> {
    if names.versions == 0 {
        return None;
    }
    // SAFETY: a loaded object with such a symbol.
    unsafe {
        let number = names.version_of(symbol);
        if number < NAMED_MIN {
            return None;
        }
        let own = || defined(object, |defined| defined.number == number);
        names.version_needed(number).or_else(|| own().map(|defined| defined.hash))
    }
}

/// Whether a symbol that an object defines has a version of another name than those of glibc.
pub(super) fn is_of_another(object: &Object, names: &Names, symbol: u32) -> bool {
    // SAFETY: a loaded object with such a symbol; its versions are mapped and laid out so.
    unsafe {
        let number = names.version_of(symbol);
        let version = defined(object, |defined| defined.number == number);
        number >= NAMED_MIN
            && version.is_some_and(|version| {
                let name = ptr::from_ref(version).byte_add(version.first as usize).cast::<u32>();
                !names.string(*name as usize).starts_with(b"GLIBC_")
            })
    }
}

/// Where an object defines a function in the version with this hash.
pub(super) fn defines(object: &Object, name: &CStr, version: u32) -> Option<usize> {
    // SAFETY: as in `asks_for`.
    unsafe {
        // The first one may be the name of the library itself, and stands for none.
        let is_it = |defined: &Defined| defined.hash == version && defined.number >= NAMED_MIN;
        let number = defined(object, is_it)?.number;
        let names = Names::of(object.base, object.dynamic);
        names.of_version(object.base, name, gnu_hash(name), number)
    }
}

/// The first version that an object defines and that is it.
///
/// # Safety
/// The object must be loaded.
unsafe fn defined(object: &Object, is_it: impl Fn(&Defined) -> bool) -> Option<&'static Defined> {
    // SAFETY: as the caller says; each record says where the next one is, 0 at the last.
    unsafe {
        let mut defined = table(object, DT_VERDEF)? as *const Defined;
        while !is_it(&*defined) {
            match (*defined).next {
                0 => return None,
                next => defined = defined.byte_add(next as usize),
            }
        }
        Some(&*defined)
    }
}

const DT_VERDEF: u64 = 0x6fff_fffc;

/// The address that an entry of an object's dynamic section names.
///
/// # Safety
/// The object must be loaded.
unsafe fn table(object: &Object, wanted: u64) -> Option<usize> {
    let mut entry = object.dynamic as *const [u64; 2];
    if entry.is_null() {
        return None;
    }
    // SAFETY: the dynamic section ends with a null entry.
    while let [tag, value] = unsafe { *entry }
        && tag != 0
    {
        if tag == wanted {
            let address = value as usize;
            return Some(if address < object.base { object.base + address } else { address });
        }
        // SAFETY: this was not the last one.
        entry = unsafe { entry.add(1) };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::has_several;

    #[test]
    fn names_are_whole() {
        for name in ["glob", "glob64", "timer_settime", "pthread_kill"] {
            assert!(has_several(name.as_bytes()), "{name}");
        }
        for name in ["", "glo", "glob6", "lob", "kill", "timer_settime2", "read"] {
            assert!(!has_several(name.as_bytes()), "{name}");
        }
    }
}
