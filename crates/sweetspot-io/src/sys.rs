//! Every system call of the crate that moves bytes or names: interrupted calls start again and
//! short ones go on here, and nowhere else.
//!
//! Invariant: no other module reads, writes, opens or renames by itself, so that a test can fail
//! any call (`fault`).

use rustix::fs::{AtFlags, CWD, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;

#[cfg(test)]
pub mod fault;

/// Makes one call, again while it is interrupted. `len` is how many bytes it may move.
fn call<T>(len: usize, mut once: impl FnMut(usize) -> io::Result<T>) -> io::Result<T> {
    loop {
        #[cfg(test)]
        let result = fault::next(len).map_err(io::Error::from).and_then(&mut once);
        #[cfg(not(test))]
        let result = once(len);
        match result {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn simple<T>(mut once: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    call(0, |_| Ok(once()?))
}

/// Reads once, 0 at the end.
pub fn read(reader: &mut (impl Read + ?Sized), buffer: &mut [u8]) -> io::Result<usize> {
    call(buffer.len(), |len| reader.read(&mut buffer[..len]))
}

/// Reads until `buffer` is full or the input ends.
pub fn read_full(reader: &mut (impl Read + ?Sized), buffer: &mut [u8]) -> io::Result<usize> {
    fill(buffer, |rest, _| read(reader, rest))
}

/// Reads at a position until `buffer` is full or the file ends.
pub fn read_full_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    fill(buffer, |rest, done| read_at(file, rest, at + done as u64))
}

/// Reads once at a position, 0 at the end.
pub fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    call(buffer.len(), |len| Ok(rustix::io::pread(file, &mut buffer[..len], at)?))
}

/// Reads once at a position, with flags.
pub fn read_with(
    file: &File,
    buffer: &mut [u8],
    at: u64,
    flags: rustix::io::ReadWriteFlags,
) -> io::Result<usize> {
    call(buffer.len(), |len| {
        let mut buffers = [io::IoSliceMut::new(&mut buffer[..len])];
        Ok(rustix::io::preadv2(file, &mut buffers, at, flags)?)
    })
}

fn fill(
    buffer: &mut [u8],
    mut once: impl FnMut(&mut [u8], usize) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match once(&mut buffer[done..], done)? {
            0 => break,
            len => done += len,
        }
    }
    Ok(done)
}

/// Writes all of `bytes`.
pub fn write_all(writer: &mut (impl Write + ?Sized), bytes: &[u8]) -> io::Result<()> {
    drain(bytes, |rest, _| call(rest.len(), |len| writer.write(&rest[..len])))
}

/// Writes all of `bytes` at a position.
pub fn write_all_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    drain(bytes, |rest, done| {
        let at = at + done as u64;
        call(rest.len(), |len| Ok(rustix::io::pwrite(file, &rest[..len], at)?))
    })
}

fn drain(bytes: &[u8], mut once: impl FnMut(&[u8], usize) -> io::Result<usize>) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match once(&bytes[done..], done)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            len => done += len,
        }
    }
    Ok(())
}

/// Passes on what a writer of the caller's still holds.
pub fn flush(writer: &mut (impl Write + ?Sized)) -> io::Result<()> {
    call(0, |_| writer.flush())
}

/// Opens a file that is there.
pub fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    simple(|| rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())).map(File::from)
}

/// Opens a new file without a name in `folder`, or with one: `flags` say which.
pub fn create(path: &Path, flags: OFlags, mode: u32) -> io::Result<File> {
    let flags = flags | OFlags::CLOEXEC;
    simple(|| rustix::fs::open(path, flags, Mode::from_raw_mode(mode))).map(File::from)
}

/// What the kernel knows of an open file.
pub fn stat(fd: impl AsFd) -> io::Result<rustix::fs::Stat> {
    simple(|| rustix::fs::fstat(&fd))
}

/// Moves or asks for the position.
pub fn seek(file: &File, to: SeekFrom) -> io::Result<u64> {
    simple(|| rustix::fs::seek(file, to))
}

/// Sets the length.
pub fn set_len(file: &File, len: u64) -> io::Result<()> {
    simple(|| rustix::fs::ftruncate(file, len))
}

/// Gives a file without a name the name `path`, which must be free.
pub fn link(file: &File, path: &Path) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    simple(|| rustix::fs::linkat(CWD, &own, CWD, path, AtFlags::SYMLINK_FOLLOW))
}

/// Renames, over what has the name `to`.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    simple(|| rustix::fs::rename(from, to))
}

/// Renames, unless something has the name `to`.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let flags = rustix::fs::RenameFlags::NOREPLACE;
    simple(|| rustix::fs::renameat_with(CWD, from, CWD, to, flags))
}

/// Lets two files share their blocks.
pub fn clone_file(from: &File, to: &File) -> io::Result<()> {
    simple(|| rustix::fs::ioctl_ficlone(to, from))
}

/// Lets the kernel copy up to `len` bytes; 0 at the end.
pub fn copy_range(from: &File, to: &File, at: u64, len: usize) -> io::Result<usize> {
    call(len, |len| {
        let (mut from_at, mut to_at) = (at, at);
        Ok(rustix::fs::copy_file_range(from, Some(&mut from_at), to, Some(&mut to_at), len)?)
    })
}

/// Moves up to `len` bytes from one descriptor to another, one of which is a pipe; 0 at the end.
pub fn splice(from: &File, to: &File, len: usize) -> io::Result<usize> {
    let flags = rustix::pipe::SpliceFlags::MOVE;
    call(len, |len| Ok(rustix::pipe::splice(from, None, to, None, len, flags)?))
}

/// What a thread takes along from the one that started it: in tests the faults that are planned.
pub struct Inherited {
    #[cfg(test)]
    plan: Option<std::sync::Arc<fault::Plan>>,
}

impl Inherited {
    pub fn from_here() -> Inherited {
        Inherited {
            #[cfg(test)]
            plan: fault::plan(),
        }
    }

    pub fn adopt(self) {
        #[cfg(test)]
        fault::set_plan(self.plan);
    }
}

/// Whether a call failed because this kernel, this file system or a sandbox does not have it for
/// these files, so that another way may work.
pub fn is_unsupported(error: &io::Error) -> bool {
    let errnos = [
        Errno::NOSYS,
        Errno::OPNOTSUPP,
        Errno::INVAL,
        Errno::XDEV,
        Errno::PERM,
        Errno::NOTTY,
        Errno::BADF,
        Errno::TXTBSY,
        Errno::ISDIR,
    ];
    error.raw_os_error().is_some_and(|raw| errnos.contains(&Errno::from_raw_os_error(raw)))
}
