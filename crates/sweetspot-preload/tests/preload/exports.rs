//! The list of hooks is complete: every function that this machine's libc exports is either hooked
//! or listed in `silent.txt` with its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use object::read::elf::{FileHeader, ProgramHeader, Sym};
use object::{Endianness, elf};
use sweetspot_core::glob;

use crate::library;

/// Hooks that newer releases of glibc export than the oldest one that is supported.
const NEWER: [&str; 10] = [
    "openat2",
    "pidfd_spawn",
    "pidfd_spawnp",
    "pidfd_getpid",
    "sched_getattr",
    "sched_setattr",
    "posix_spawn_file_actions_addchdir",
    "posix_spawn_file_actions_addfchdir",
    "posix_spawn_file_actions_addclosefrom_np",
    "posix_spawn_file_actions_addtcsetpgrp_np",
];

/// Hooks of functions that only musl has.
const OF_MUSL: [&str; 4] = ["getdents", "posix_close", "tcgetwinsize", "tcsetwinsize"];

/// Functions of our own, for programs that know of us: the names in `include/sweetspot.h`.
const OWN: [&str; 3] = ["sweetspot_advise", "sweetspot_flush", "sweetspot_status"];

/// What the library may need of libc: musl has these too, and a program of musl's that finds one
/// missing does not start.
const IMPORTS: [&str; 7] = [
    "__errno_location",
    "environ",
    "fileno",
    "program_invocation_short_name",
    // Only on aarch64: the compiler's atomics ask what the processor can do; other names of two
    // variables above.
    "getauxval",
    "__environ",
    "__progname",
];

/// The minor version of the oldest glibc 2 whose programs load the library.
const GLIBC_MINOR_MIN: u32 = 28;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Exported,
    Imported,
}

/// The functions (and for imports also variables) in the table of dynamic symbols, without those
/// that only libc's own libraries may use.
fn symbols(bytes: &[u8], side: Side) -> BTreeSet<String> {
    let header = elf::FileHeader64::<Endianness>::parse(bytes).expect("an ELF file");
    let endian = header.endian().expect("a known byte order");
    let sections = header.sections(endian, bytes).expect("sections");
    let table = sections.symbols(endian, bytes, elf::SHT_DYNSYM).expect("dynamic symbols");
    let versions = sections.versions(endian, bytes).expect("versions");
    let mut public = BTreeSet::new();
    for (index, symbol) in table.enumerate() {
        let undefined = symbol.is_undefined(endian);
        let kind = symbol.st_type();
        let wanted = match side {
            Side::Exported => !undefined && matches!(kind, elf::STT_FUNC | elf::STT_GNU_IFUNC),
            Side::Imported => undefined && symbol.st_bind() == elf::STB_GLOBAL,
        };
        let name = symbol.name(endian, table.strings()).expect("a name");
        if !wanted || name.is_empty() {
            continue;
        }
        let name = String::from_utf8(name.to_vec()).expect("a name in ASCII");
        let version = versions.as_ref().and_then(|versions| {
            versions.version(versions.version_index(endian, index)).ok().flatten()
        });
        if version.is_none_or(|version| version.name() != b"GLIBC_PRIVATE") {
            public.insert(name);
        }
    }
    assert!(side == Side::Imported || !public.is_empty());
    public
}

/// What every process pays for at its start, whether it buffers or not. A relocation that needs a
/// symbol is looked up in every library; a page that is written is copied, about a microsecond each;
/// the names of hooks decide how long a lookup by other libraries takes that ends here in vain.
const RELOCATIONS_MAX: usize = 64;
const WRITTEN_BYTES_MAX: u64 = 3 * 4096;
const HOOKS_MAX: usize = 900;

/// Names the libraries of another release of glibc, with colons between them (before 2.34 it is several
/// files), to be looked at instead of the one that this test runs with.
const OTHER_LIBRARIES: &str = "SWEETSPOT_TEST_LIBC";

/// The C library that this test runs with.
fn libc_path() -> PathBuf {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the maps of this process");
    let line = maps.lines().find(|line| line.contains("/libc.so.6")).expect("a glibc");
    PathBuf::from(&line[line.find('/').expect("a path")..])
}

fn libc_functions() -> BTreeSet<String> {
    let paths: Vec<PathBuf> = match std::env::var_os(OTHER_LIBRARIES) {
        Some(others) => std::env::split_paths(&others).collect(),
        None => vec![libc_path()],
    };
    let functions = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        symbols(&bytes, Side::Exported)
    };
    paths.iter().flat_map(functions).collect()
}

/// musl, where Debian's package puts it.
fn musl_path() -> PathBuf {
    format!("/usr/lib/{}-linux-musl/libc.so", std::env::consts::ARCH).into()
}

/// Whether hooks may be missing in front of them: an older release has not all functions yet.
fn is_older_release() -> bool {
    std::env::var_os(OTHER_LIBRARIES).is_some()
}

fn hooks() -> BTreeSet<String> {
    symbols(&std::fs::read(library::path()).expect("the library is readable"), Side::Exported)
}

/// The patterns of `silent.txt`, each with its reason.
fn silent() -> BTreeMap<String, String> {
    let text = include_str!("../../silent.txt");
    let mut patterns = BTreeMap::new();
    let (mut reason, mut in_reason) = (String::new(), false);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut rest = line;
        if let Some(begin) = line.strip_prefix('[') {
            (reason, in_reason, rest) = (String::new(), true, begin);
        }
        if in_reason {
            in_reason = !rest.ends_with(']');
            reason.push_str(rest.trim_end_matches(']'));
            reason.push(' ');
            continue;
        }
        for pattern in rest.split_whitespace() {
            assert!(!reason.trim().is_empty(), "{pattern} has no reason");
            let before = patterns.insert(pattern.to_owned(), reason.trim().to_owned());
            assert_eq!(before, None, "{pattern} is listed twice");
        }
    }
    patterns
}

fn matches(pattern: &str, name: &str) -> bool {
    glob::matches(pattern.as_bytes(), name.as_bytes())
}

#[test]
fn every_function_of_libc_is_hooked_or_silent_for_a_reason() {
    let (hooks, silent) = (hooks(), silent());
    let musl = symbols(
        &std::fs::read(musl_path()).expect("musl is readable (Debian: apt-get install musl)"),
        Side::Exported,
    );
    let forgotten: Vec<_> = libc_functions()
        .union(&musl)
        .filter(|name| !hooks.contains(*name) && !silent.keys().any(|each| matches(each, name)))
        .cloned()
        .collect();
    assert!(
        forgotten.is_empty(),
        "neither hooked in src/front/abi nor listed in silent.txt: {forgotten:?}"
    );
}

#[test]
fn no_hook_is_listed_as_silent() {
    let silent = silent();
    for hook in hooks() {
        let listed = silent.keys().find(|pattern| matches(pattern, &hook));
        assert_eq!(listed, None, "{hook} is hooked");
    }
}

#[test]
fn every_hook_stands_in_front_of_something() {
    if is_older_release() {
        return;
    }
    let functions = libc_functions();
    let strays: Vec<_> = hooks()
        .into_iter()
        .filter(|hook| !functions.contains(hook))
        .filter(|hook| ![&NEWER[..], &OF_MUSL, &OWN].concat().contains(&hook.as_str()))
        .collect();
    assert!(strays.is_empty(), "libc exports no such functions: {strays:?}");
}

/// Where in this libc the versions of each function are.
fn places() -> BTreeMap<String, BTreeSet<u64>> {
    let bytes = std::fs::read(libc_path()).expect("libc is readable");
    let header = elf::FileHeader64::<Endianness>::parse(&*bytes).expect("an ELF file");
    let endian = header.endian().expect("a known byte order");
    let sections = header.sections(endian, &*bytes).expect("sections");
    let table = sections.symbols(endian, &*bytes, elf::SHT_DYNSYM).expect("dynamic symbols");
    let mut places = BTreeMap::<String, BTreeSet<u64>>::new();
    for symbol in table.iter().filter(|symbol| !symbol.is_undefined(endian)) {
        let name = symbol.name(endian, table.strings()).expect("a name");
        let name = String::from_utf8(name.to_vec()).expect("a name in ASCII");
        places.entry(name).or_default().insert(symbol.st_value(endian));
    }
    places
}

#[test]
fn hooks_of_functions_with_several_versions_are_known() {
    let source = include_str!("../../src/floor/next/versions.rs");
    let list = source.split("NAMES: &[u8] = b\"").nth(1).and_then(|rest| rest.split('"').next());
    let names = list.expect("the list").split("\\0");
    let names = names.map(|name| name.trim_start_matches(|letter: char| !letter.is_alphanumeric()));
    let known: BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
    let hooks = hooks();
    for (name, places) in places().iter().filter(|(name, _)| hooks.contains(*name)) {
        let is_known = known.contains(name.as_str());
        assert!(places.len() == 1 || is_known, "{name} is not in src/floor/next/versions.rs");
    }
    assert!(known.iter().all(|name| hooks.contains(*name)), "one is no hook: {known:?}");
}

#[test]
fn functions_of_our_own_are_exported() {
    let hooks = hooks();
    for name in OWN {
        assert!(hooks.contains(name), "{name} is in the header, not in the library");
    }
    let others =
        hooks.iter().filter(|hook| hook.starts_with("sweetspot") && !OWN.contains(&hook.as_str()));
    assert_eq!(others.count(), 0, "a name that the header does not have");
}

#[test]
fn nothing_is_needed_that_other_libraries_lack() {
    let bytes = std::fs::read(library::path()).expect("the library is readable");
    let strays: Vec<_> = symbols(&bytes, Side::Imported)
        .into_iter()
        .filter(|name| !IMPORTS.contains(&name.as_str()))
        .collect();
    assert!(strays.is_empty(), "imports that musl may not have: {strays:?}");
}

#[test]
fn nothing_newer_than_the_oldest_glibc_is_needed() {
    let bytes = std::fs::read(library::path()).expect("the library is readable");
    let text = String::from_utf8_lossy(&bytes);
    let newest = text.split("GLIBC_2.").skip(1).filter_map(|rest| {
        let end = rest.find(|letter: char| !letter.is_ascii_digit())?;
        rest[..end].parse::<u32>().ok()
    });
    let newest = newest.max().expect("it names the versions that it needs");
    assert!(newest <= GLIBC_MINOR_MIN, "the library needs glibc 2.{newest}");
}

#[test]
fn a_process_that_buffers_nothing_pays_little() {
    use object::read::elf::{Dyn, ProgramHeader};
    let bytes = std::fs::read(library::path()).expect("the library is readable");
    let header = elf::FileHeader64::<Endianness>::parse(&*bytes).expect("an ELF file");
    let endian = header.endian().expect("a known byte order");
    let segments = header.program_headers(endian, &*bytes).expect("segments");
    let dynamic = segments.iter().find_map(|one| one.dynamic(endian, &*bytes).expect("readable"));
    let dynamic = dynamic.expect("a dynamic section");
    let value = |tag: u32| -> u64 {
        let found = dynamic.iter().find(|entry| entry.tag32(endian) == Some(tag));
        found.map_or(0, |entry| entry.d_val(endian))
    };
    let relocations = (value(elf::DT_RELASZ) + value(elf::DT_PLTRELSZ)) as usize / 24;
    assert!((1..=RELOCATIONS_MAX).contains(&relocations), "{relocations} relocations");
    let is_writable = |flags: u32| flags & elf::PF_W != 0;
    let load = segments.iter().filter(|one| one.p_type(endian) == elf::PT_LOAD);
    let written: u64 = load
        .filter(|one| is_writable(one.p_flags(endian)))
        .map(|one| one.p_filesz(endian).next_multiple_of(4096))
        .sum();
    assert!(written > 0 && written <= WRITTEN_BYTES_MAX, "{written} bytes");
    assert!(hooks().len() <= HOOKS_MAX, "{} hooks", hooks().len());
}

/// The tables of files and descriptors take several MiB, all of it zeros, which have no place in the file. One value in
/// them that is not zero would bring all of that into it.
#[test]
fn the_tables_take_no_room_in_the_file() {
    const BYTES_MAX: u64 = 3 << 19;
    let bytes = std::fs::metadata(library::path()).unwrap().len();
    assert!(bytes < BYTES_MAX, "{bytes} bytes");
}

/// Each page that is written at the start costs every process of a `run` some microseconds: what is not zero lies in one,
/// with what the linker adds. The one behind it is written where a table in it is used.
#[test]
fn what_is_written_at_the_start_lies_in_one_page() {
    const PAGE_BYTES: u64 = 4096;
    let bytes = std::fs::read(library::path()).unwrap();
    let header = elf::FileHeader64::<Endianness>::parse(&*bytes).expect("an ELF file");
    let endian = header.endian().expect("a known byte order");
    let segments = header.program_headers(endian, &*bytes).expect("program headers");
    let mut pages = segments.iter().filter(|segment| {
        segment.p_type(endian) == elf::PT_LOAD && segment.p_flags(endian) & elf::PF_W != 0
    });
    let (written, none) = (pages.next().expect("data"), pages.next());
    assert!(none.is_none(), "one segment of data");
    let (begin, bytes) = (written.p_vaddr(endian), written.p_filesz(endian));
    let page_of = |address| address / PAGE_BYTES;
    assert_eq!(page_of(begin), page_of(begin + bytes - 1), "{bytes} bytes at {begin:#x}");
}
