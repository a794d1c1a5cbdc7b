//! Programs that this one becomes or starts: those that the library would harm start without it.
//!
//! The dynamic linker prints an error where it cannot load a library (another machine, a file that
//! may not be read any more, a small limit on addresses or data), a C library that is not known may lack what
//! we need, AddressSanitizer refuses to start when it does not come first, valgrind is to find the faults of the
//! program, at the calls that make them, and `ldd` the libraries of the program. Such a program gets an environment
//! without us. Programs of other users (set-id) need no rule: their linker ignores us without a word.
//!
//! The child of a vfork comes here too, in its parent's memory: nothing is kept. Files are looked at
//! aside (`floor::aside`), without a descriptor that anybody could notice, and little is needed of the
//! caller's stack, which may be a small alternate one. A file that cannot be read (a damaged one, a bad address,
//! one that may only be executed) leaves the environment as it is; the kernel or the linker then says what is
//! wrong. Where files cannot be looked at at all (under a filter of system calls, or where there can be no thread
//! for it) the program starts without us.

mod environment;

use core::ffi::c_char;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use libc::{Elf64_Ehdr, Elf64_Phdr};
use sweetspot_core::{linkers, policy};

use self::environment::{Names, elements, readable_text, variable, without, without_for_good};
use crate::engine::spawns::is_filtered;
use crate::floor::atomic::single_threaded;
use crate::floor::{aside, proc, sys};

/// A list of `NAME=VALUE`, as exec takes it.
pub type Environment = *const *const c_char;

unsafe extern "C" {
    static mut environ: Environment;
}

/// The environment of this process.
pub fn own_environment() -> Environment {
    put_back();
    environment_now()
}

/// The same, or the one that stands in its place.
fn environment_now() -> Environment {
    // SAFETY: a variable of libc.
    unsafe { environ }
}

/// Where the file of a program is.
#[derive(Clone, Copy)]
pub enum Target {
    /// As `openat` finds it.
    At(i32, *const c_char),
    /// As `execvp` finds it.
    InPath(*const c_char),
    /// An open descriptor.
    Open(i32),
    /// Where it depends on a folder that is not known.
    Unknown,
}

impl Target {
    /// The same target, for a process that goes to another folder first.
    pub fn beyond_a_change_of_folder(self) -> Target {
        let is_whole = |path: &[u8]| path.starts_with(b"/");
        let is_known = match self {
            Target::At(_, path) => readable_text(path).is_some_and(is_whole),
            Target::InPath(name) => {
                let name = readable_text(name).unwrap_or_default();
                let mut folders = own_path_folders();
                is_whole(name) || !name.contains(&b'/') && folders.all(is_whole)
            }
            Target::Open(_) | Target::Unknown => true,
        };
        if is_known { self } else { Target::Unknown }
    }

    /// False: there is no file of that name that this process may run.
    pub fn may_be_run(self) -> bool {
        let (folder, path) = match self {
            Target::At(folder, path) => (folder, path),
            Target::InPath(name) => match readable_text(name) {
                Some(text) if text.contains(&b'/') => (libc::AT_FDCWD, name),
                Some(text) => return find_in_path(text, |_| Some(())).is_some(),
                None => return true,
            },
            Target::Open(_) | Target::Unknown => return true,
        };
        // SAFETY: a bad address is an error.
        unsafe { sys::syscall!(SYS_faccessat, folder as isize, path, libc::X_OK) == 0 }
    }
}

/// The folders in which programs are looked for.
fn own_path_folders() -> impl Iterator<Item = &'static [u8]> {
    const NAME: &[u8] = b"PATH=";
    let given = variable(environment_now(), NAME).map(|path| &path[NAME.len()..]);
    given.unwrap_or(b"/bin:/usr/bin").split(|byte| *byte == b':')
}

/// What `look` says first, of the files of that name in these folders that can be executed.
fn find_in_path<R>(text: &[u8], look: impl Fn(*const c_char) -> Option<R>) -> Option<R> {
    const BYTES: usize = libc::PATH_MAX as usize;
    let mut path = [0u8; BYTES];
    for folder in own_path_folders() {
        let len = folder.len() + 1 + text.len();
        if len >= BYTES {
            continue;
        }
        path[..folder.len()].copy_from_slice(folder);
        // An empty folder is this one.
        path[folder.len()] = b'/';
        path[folder.len() + 1..len].copy_from_slice(text);
        path[len] = 0;
        let start = usize::from(folder.is_empty());
        let path = path[start..].as_ptr();
        // SAFETY: a string that ends with zero.
        let can_be_executed =
            unsafe { sys::syscall!(SYS_faccessat, libc::AT_FDCWD as isize, path, libc::X_OK) == 0 };
        if can_be_executed && let Some(found) = look(path.cast()) {
            return Some(found);
        }
    }
    None
}

/// Calls `start` with the environment in which the program is to be started; `None`: as given.
pub fn start<R>(
    target: Target,
    given: Environment,
    start: impl FnOnce(Option<Environment>) -> R,
) -> R {
    match Names::of(given) {
        Some(names) if must_be_without(target, &names) => without(given, &names, start),
        _ => start(None),
    }
}

/// Whether the program must start without us, also where it may not be allowed to look: nothing would be buffered there
/// anyway.
fn must_be_without(target: Target, names: &Names) -> bool {
    is_filtered() || is_harmed(target, names)
}

/// Calls what starts the shell inside libc, in the environment of this process; without us, if the
/// shell could not load us. With several threads the environment stays: another one may set
/// variables meanwhile.
pub fn start_shell<R>(shell: impl FnOnce() -> R) -> R {
    let own = own_environment();
    let target = Target::At(libc::AT_FDCWD, c"/bin/sh".as_ptr());
    let names = Names::of(own).filter(|names| single_threaded() && must_be_without(target, names));
    if let Some(changed) = names.and_then(|names| without_for_good(own, &names)) {
        PUT_ASIDE.store(own.cast_mut(), Relaxed);
        IN_PLACE.store(changed.cast_mut(), Relaxed);
        // SAFETY: a variable of libc; the list is never taken away.
        unsafe { environ = changed };
    }
    let answer = shell();
    put_back();
    answer
}

/// The environment of this process while another one is in its place, and that one. A handler may leave the function
/// that starts the shell by a jump, or set a variable, which makes a new list.
static PUT_ASIDE: AtomicPtr<*const c_char> = AtomicPtr::new(core::ptr::null_mut());
static IN_PLACE: AtomicPtr<*const c_char> = AtomicPtr::new(core::ptr::null_mut());

/// Puts the environment back, if another one is still in its place.
fn put_back() {
    let in_place = IN_PLACE.load(Relaxed);
    if !in_place.is_null() && core::ptr::eq(environment_now(), in_place) {
        // SAFETY: a variable of libc, and the list that was there before.
        unsafe { environ = PUT_ASIDE.load(Relaxed) };
    }
}

/// Whether the program is one that must start without us.
#[inline(never)]
#[unsafe(link_section = ".text.startup")]
fn is_harmed(target: Target, names: &Names) -> bool {
    if sys::address_or_data_bytes_max() < policy::ADDRESS_BYTES_MIN {
        // The linker would print an error where there is no room for us.
        return true;
    }
    if names.is_of_tool || elements(names.preload).any(is_address_sanitizer) {
        return true;
    }
    if matches!(target, Target::Unknown) {
        // It may be one that would be.
        return true;
    }
    // Where there can be no look it may be one, too.
    aside::look_with(|| descriptor_of(target), || has_harmed_file(target, names)).unwrap_or(true)
}

/// The descriptor that is needed to look at a target's file; -1: none.
fn descriptor_of(target: Target) -> i32 {
    let fd = match target {
        Target::At(folder, path) => own_descriptor(path).unwrap_or(folder),
        Target::InPath(name) => own_descriptor(name).unwrap_or(-1),
        Target::Open(fd) => fd,
        Target::Unknown => -1,
    };
    fd.max(-1)
}

/// The descriptor that a path means in the thread that names it: another one may have another table.
fn own_descriptor(path: *const c_char) -> Option<i32> {
    let number = readable_text(path)?.strip_prefix(b"/proc/thread-self/fd/")?;
    sys::decimal(number).and_then(|number| i32::try_from(number).ok())
}

/// The same of its file. `None`: nothing can be opened now.
#[unsafe(link_section = ".text.startup")]
#[inline(never)]
fn has_harmed_file(target: Target, names: &Names) -> Option<bool> {
    let can_be_read = can_be_read(names.ours)?;
    Some(!can_be_read || File::of(target).is_some_and(File::starts_what_is_harmed))
}

/// Whether a dynamic linker is one of a C library that is not known. A path that is longer is not looked at to its
/// end.
#[unsafe(link_section = ".text.startup")]
#[inline(never)]
fn is_unknown(linker: &[u8]) -> bool {
    linker.len() < LINKER_BYTES_MAX && !linkers::is_known(linker)
}

/// Whether a library is AddressSanitizer's, which must be the first.
fn is_address_sanitizer(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    name.starts_with(b"libasan.so") || name.starts_with(b"libclang_rt.asan")
}

/// Whether a library can still be opened. The process may have given up rights, or have gone to
/// another root. `None`: at present no file can be.
fn can_be_read(path: &'static [u8]) -> Option<bool> {
    // SAFETY: it was made of a C string.
    match unsafe { File::open_any(libc::AT_FDCWD, path.as_ptr().cast()) } {
        Ok(_) => Some(true),
        Err(sys::Errno(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EINTR)) => None,
        Err(_) => Some(false),
    }
}

/// Scripts that name scripts: the kernel follows four.
const INTERPRETERS_MAX: u32 = 5;

/// A regular file, open as long as the look needs it.
struct File {
    fd: i32,
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: our own descriptor.
        unsafe { sys::syscall!(SYS_close, self.fd as isize) };
    }
}

impl File {
    /// # Safety
    /// As `openat`: a bad address is an error.
    unsafe fn open(folder: i32, path: *const c_char) -> Result<File, sys::Errno> {
        // SAFETY: as the caller says.
        if unsafe { sys::status_at(folder, path, 0) }.is_some_and(|status| !status.regular) {
            // No program; and anyone who waits at the other end of a pipe would be woken.
            return Err(sys::Errno(libc::EACCES));
        }
        // SAFETY: as the caller says.
        unsafe { File::open_any(folder, path) }
    }

    /// Opens what is known to be a regular file.
    ///
    /// # Safety
    /// As `openat`: a bad address is an error.
    unsafe fn open_any(folder: i32, path: *const c_char) -> Result<File, sys::Errno> {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
        // SAFETY: as the caller says.
        let fd = unsafe { sys::syscall!(SYS_openat, folder as isize, path, flags, 0) };
        sys::result(fd).map(|fd| File { fd: fd as i32 })
    }

    fn of(target: Target) -> Option<File> {
        match target {
            // SAFETY: what the program hands to exec.
            Target::At(folder, path) => unsafe { File::open(folder, path) }.ok(),
            Target::InPath(name) => File::in_path(name),
            Target::Unknown => None,
            Target::Open(fd) => {
                let link = proc::link_of(fd);
                // SAFETY: a string that ends with zero. (The descriptor itself may be of the kind
                // that cannot be read.)
                unsafe { File::open(libc::AT_FDCWD, link.as_ptr().cast()) }.ok()
            }
        }
    }

    /// The first file of that name, in the folders of `PATH`, that can be executed.
    #[inline(never)]
    fn in_path(name: *const c_char) -> Option<File> {
        let text = readable_text(name)?;
        if text.contains(&b'/') {
            // SAFETY: a C string.
            return unsafe { File::open(libc::AT_FDCWD, name) }.ok();
        }
        // SAFETY: a string that ends with zero. A folder, too, can seem to be executable.
        let open = |path| match unsafe { File::open(libc::AT_FDCWD, path) } {
            Ok(file) => Some(Some(file)),
            Err(sys::Errno(libc::EACCES)) => None,
            Err(_) => Some(None),
        };
        find_in_path(text, open).flatten()
    }

    /// Reads what is there, at most the whole buffer.
    fn read<'a>(&self, at: u64, buffer: &'a mut [u8]) -> &'a [u8] {
        // SAFETY: a buffer of that size.
        let answer = unsafe { sys::read_at(self.fd, buffer.as_mut_ptr(), buffer.len(), at) };
        &buffer[..sys::result(answer).unwrap_or(0).min(buffer.len())]
    }

    /// Calls `then` with `bytes` at `at`, at most [`PART_BYTES_MAX`], or as many as there are: where they lie in
    /// the start of the file, which is known, they need no room of their own.
    #[inline(always)]
    fn with<R>(&self, head: &[u8], at: u64, bytes: usize, then: impl FnOnce(&[u8]) -> R) -> R {
        let start = usize::try_from(at).unwrap_or(usize::MAX);
        match head.get(start..).and_then(|rest| rest.get(..bytes)) {
            Some(known) => then(known),
            None => self.with_read(at, bytes, then),
        }
    }

    #[cold]
    #[inline(never)]
    fn with_read<R>(&self, at: u64, bytes: usize, then: impl FnOnce(&[u8]) -> R) -> R {
        let mut part = [0; PART_BYTES_MAX];
        then(self.read(at, &mut part[..bytes]))
    }

    /// Whether this program, or what runs this script, would be harmed.
    fn starts_what_is_harmed(mut self) -> bool {
        let mut head = [0; HEAD_BYTES];
        for _ in 0..=INTERPRETERS_MAX {
            let head = self.read(0, &mut head);
            let Some(line) = head.strip_prefix(b"#!") else { return self.needs_what_harms(head) };
            let Some(file) = interpreter(line) else { return false };
            self = file;
        }
        false
    }

    /// Whether a program that begins so is of another machine, or has a C library that is not known, or
    /// AddressSanitizer.
    fn needs_what_harms(&self, head: &[u8]) -> bool {
        if !head.starts_with(b"\x7fELF") || head.len() < size_of::<Elf64_Ehdr>() {
            return false;
        }
        // SAFETY: long enough, and any bytes are a header.
        let header = unsafe { head.as_ptr().cast::<Elf64_Ehdr>().read_unaligned() };
        let same_kind = header.e_ident[4..6] == [2, 1] && header.e_machine == crate::arch::MACHINE;
        let bytes = usize::from(header.e_phnum).min(SEGMENTS_MAX) * size_of::<Elf64_Phdr>();
        let have_what_harms = |segments: &[u8]| {
            segments.len() == bytes && self.has_segments_that_harm(segments, head)
        };
        !same_kind || self.with(head, header.e_phoff, bytes, have_what_harms)
    }

    /// The same of its segments.
    fn has_segments_that_harm(&self, segments: &[u8], head: &[u8]) -> bool {
        let of_type = |wanted| each_segment(segments).find(|segment| segment.p_type == wanted);
        let has_unknown = |linker: Elf64_Phdr| {
            let bytes = (linker.p_filesz as usize).min(LINKER_BYTES_MAX);
            self.with(head, linker.p_offset, bytes, is_unknown)
        };
        of_type(libc::PT_INTERP).is_some_and(has_unknown)
            || of_type(libc::PT_DYNAMIC)
                .is_some_and(|dynamic| self.needs_sanitizer(&dynamic, segments))
    }

    /// Whether a library that the program names is AddressSanitizer's. Where it is part of the
    /// program itself (`-static-libasan`), it does not mind.
    #[inline(never)]
    #[unsafe(link_section = ".text.startup")]
    fn needs_sanitizer(&self, dynamic: &Elf64_Phdr, segments: &[u8]) -> bool {
        const DT_NEEDED: u64 = 1;
        const DT_STRTAB: u64 = 5;
        let mut table = [[0u64; 2]; DYNAMIC_MAX];
        let bytes = (dynamic.p_filesz as usize).min(size_of_val(&table));
        // SAFETY: the bytes of the table, any of which are valid.
        let raw = unsafe { core::slice::from_raw_parts_mut(table.as_mut_ptr().cast(), bytes) };
        let len = self.read(dynamic.p_offset, raw).len();
        let table = &table[..len / 16];
        let names = table.iter().find(|entry| entry[0] == DT_STRTAB).and_then(|entry| {
            let holds = |segment: &Elf64_Phdr| {
                segment.p_type == libc::PT_LOAD
                    && entry[1].wrapping_sub(segment.p_vaddr) < segment.p_filesz
            };
            let segment = each_segment(segments).find(holds)?;
            Some((entry[1] - segment.p_vaddr).wrapping_add(segment.p_offset))
        });
        let Some(names) = names else { return false };
        table.iter().filter(|entry| entry[0] == DT_NEEDED).any(|entry| {
            let mut name = [0; 16];
            is_address_sanitizer(self.read(names.wrapping_add(entry[1]), &mut name))
        })
    }
}

/// The headers of segments in these bytes.
fn each_segment(bytes: &[u8]) -> impl Iterator<Item = Elf64_Phdr> {
    // SAFETY: as many bytes as a header has, any of which are one.
    let segment = |bytes: &[u8]| unsafe { bytes.as_ptr().cast::<Elf64_Phdr>().read_unaligned() };
    bytes.chunks_exact(size_of::<Elf64_Phdr>()).map(segment)
}

/// The path of a dynamic linker is looked at up to here.
const LINKER_BYTES_MAX: usize = 256;

/// The start of a file: the headers of nearly all programs, and the name of their linker.
const HEAD_BYTES: usize = 1024;

/// What is looked at elsewhere in a file at once: the headers of its segments.
const PART_BYTES_MAX: usize = SEGMENTS_MAX * size_of::<Elf64_Phdr>();

/// Segments and dynamic entries that are looked at: more than linkers make.
const SEGMENTS_MAX: usize = 32;
const DYNAMIC_MAX: usize = 96;

/// As much of a script the kernel reads for its first line.
const LINE_BYTES_MAX: usize = 256;

/// The file that the first line of a script names, after `#!`.
fn interpreter(line: &[u8]) -> Option<File> {
    let line = &line[..line.len().min(LINE_BYTES_MAX - b"#!".len())];
    let line = line.split(|byte| *byte == b'\n').next()?;
    let word = line.split(|byte| matches!(byte, b' ' | b'\t')).find(|word| !word.is_empty())?;
    let mut path = [0; LINE_BYTES_MAX];
    path[..word.len()].copy_from_slice(word);
    // SAFETY: a string that ends with zero: the line is shorter than the buffer.
    unsafe { File::open(libc::AT_FDCWD, path.as_ptr().cast()) }.ok()
}
