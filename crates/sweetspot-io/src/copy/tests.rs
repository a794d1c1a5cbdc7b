use super::*;
use crate::sys::fault::{self, Fault};
use crate::test::{self, Place};
use crate::{BufferSize, Strategy};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

fn options(strategy: Option<Strategy>, buffer_bytes: u32) -> Options<'static> {
    let buffer_size = BufferSize::Bytes(buffer_bytes);
    let read = ReadOptions { strategy, buffer_size, ..ReadOptions::default() };
    Options { read, ..Options::default() }
}

#[test]
fn copies_are_equal_whatever_the_strategy_and_the_buffer() {
    for content in test::contents() {
        let place = Place::new(&content);
        for strategy in Strategy::ALL.iter().copied().map(Some).chain([None]) {
            for buffer_bytes in test::buffers(&content) {
                let options = options(strategy, buffer_bytes);
                let to = place.path("to");
                let copied = copy(place.input(), &to, &options).unwrap();
                let what = format!("{strategy:?} {buffer_bytes} {copied:?}");
                assert_eq!(copied.bytes, content.len() as u64, "{what}");
                assert_eq!(std::fs::read(&to).unwrap(), content, "{what}");
                std::fs::remove_file(&to).unwrap();
            }
            let mut output = Vec::new();
            let (reader, writer) = std::io::pipe().unwrap();
            let drained = std::thread::spawn(move || {
                std::io::copy(&mut { reader }, &mut output).unwrap();
                output
            });
            let to = File::from(std::os::fd::OwnedFd::from(writer));
            let copied = copy(test::pipe(&content), to, &options(strategy, 100)).unwrap();
            assert_eq!(copied.bytes, content.len() as u64);
            if strategy.is_none() {
                assert_eq!(copied.how, How::Spliced);
            }
            assert_eq!(drained.join().unwrap(), content);
        }
    }
}

#[test]
fn files_without_a_length_are_copied() {
    let place = Place::new(b"");
    let to = place.path("to");
    for strategy in Strategy::ALL.iter().copied().map(Some).chain([None]) {
        let run = || copy("/proc/filesystems", &to, &options(strategy, 64)).unwrap();
        let (copied, _, len_max) = fault::count(run);
        assert_eq!(copied.how, How::ReadWrite);
        assert!(len_max <= AUTO_BUFFER_BYTES, "the kernel is not asked: its answer may be wrong");
        let expected = std::fs::read("/proc/filesystems").unwrap();
        assert!(!expected.is_empty());
        assert_eq!(std::fs::read(&to).unwrap(), expected, "{strategy:?}");
        std::fs::remove_file(&to).unwrap();
    }
}

#[test]
fn what_the_kernel_says_is_not_believed_where_it_is_known_to_be_wrong() {
    let content = b"some line\n".repeat(1000);
    let place = Place::new(&content);
    // A kernel that copies nothing, at any of the calls: also a 0 that comes too early.
    let (mut nth, mut reached) = (0, true);
    while reached {
        let run = || copy(place.input(), place.path("to"), &Options::default());
        let copied;
        (copied, reached) = fault::with(nth, Fault::Nothing, run);
        assert_eq!(copied.unwrap().bytes, 10_000, "nothing at call {nth}");
        assert_eq!(std::fs::read(place.path("to")).unwrap(), content, "nothing at call {nth}");
        std::fs::remove_file(place.path("to")).unwrap();
        nth += 1;
    }
    let progress = |_| {};
    let told = Options { progress: Some(&progress), ..Options::default() };
    for (options, most) in [(Options::default(), CALL_BYTES_MAX), (told, PROGRESS_BYTES)] {
        let (copied, _, len_max) =
            fault::count(|| copy(place.input(), place.path("to"), &options).unwrap());
        assert!([How::CopyRange, How::Cloned].contains(&copied.how), "{copied:?}");
        assert!(len_max as u64 <= most, "{len_max} bytes were asked for in one call");
        std::fs::remove_file(place.path("to")).unwrap();
    }
    // A splice that this kernel does not do is read and written.
    let (mut nth, mut reached, mut read_and_written) = (0, true, 0);
    while reached {
        let run = || copy(test::pipe(&content), place.path("to"), &Options::default());
        let copied;
        (copied, reached) = fault::with(nth, Fault::Error(Errno::INVAL), run);
        if let Ok(copied) = copied {
            assert_eq!(std::fs::read(place.path("to")).unwrap(), content, "EINVAL at call {nth}");
            std::fs::remove_file(place.path("to")).unwrap();
            read_and_written += u32::from(copied.how == How::ReadWrite);
        }
        nth += 1;
    }
    // One of them is where nobody knows that it is a pipe.
    assert!(read_and_written > 1, "a failed splice is no failed copy");
    for (file_system, believed) in [(0xEF53, true), (0x9123_683E, false), (0x2FC1_2FC1, false)] {
        assert_eq!(believes_holes(file_system), believed, "{file_system:x}");
    }
}

#[test]
fn holes_stay_holes() {
    let place = Place::new(b"");
    let file = File::options().write(true).open(place.path("file")).unwrap();
    file.write_all_at(&[b'x'; 5000], 1 << 20).unwrap();
    file.write_all_at(b"y", 3 << 20).unwrap();
    file.set_len(5 << 20).unwrap();
    file.sync_all().unwrap();
    for strategy in Strategy::ALL.iter().copied().map(Some).chain([None]) {
        let to = place.path("to");
        let copied = copy(place.input(), &to, &options(strategy, 65536)).unwrap();
        assert_eq!(copied.bytes, 5 << 20);
        let equal = std::fs::read(&to).unwrap() == std::fs::read(place.path("file")).unwrap();
        assert!(equal, "{strategy:?}");
        let blocks = |name| std::fs::metadata(place.path(name)).unwrap().blocks();
        if blocks("file") * 512 < 5 << 20 {
            assert!(blocks("to") * 512 < 1 << 20, "{strategy:?}: {} blocks", blocks("to"));
        }
        std::fs::remove_file(&to).unwrap();
    }
}

#[test]
fn what_is_there_is_refused_or_replaced_and_permissions_are_kept() {
    let place = Place::new(b"new");
    std::fs::set_permissions(place.path("file"), PermissionsExt::from_mode(0o640)).unwrap();
    let to = place.path("to");
    std::fs::write(&to, "old").unwrap();
    let error = copy(place.input(), &to, &Options::default()).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Exists), "{error}");
    assert_eq!(std::fs::read(&to).unwrap(), b"old");
    let replace = Options { existing: Existing::Replace, ..Options::default() };
    copy(place.input(), &to, &replace).unwrap();
    assert_eq!(std::fs::read(&to).unwrap(), b"new");
    assert_eq!(to.metadata().unwrap().mode() & 0o777, 0o640);
    assert_eq!(place.others(), ["to"]);
    for existing in [Existing::Refuse, Existing::Replace] {
        let options = Options { existing, ..Options::default() };
        let error = copy(place.input(), place.path("file"), &options).unwrap_err();
        assert!(matches!(error.kind, ErrorKind::SameFile), "{error}");
    }
    assert_eq!(std::fs::read(place.path("file")).unwrap(), b"new");
    // A link stays a link.
    std::os::unix::fs::symlink("to", place.path("link")).unwrap();
    copy("/proc/version", place.path("link"), &replace).unwrap();
    assert!(place.path("link").symlink_metadata().unwrap().is_symlink());
    assert_ne!(std::fs::read(&to).unwrap(), b"new");
}

#[test]
fn what_a_file_grows_by_meanwhile_is_copied() {
    for begins_with_a_hole in [false, true] {
        let place = Place::new(b"");
        let from = place.path("file");
        let mut file = std::fs::OpenOptions::new().write(true).open(&from).unwrap();
        let at = if begins_with_a_hole { 1 << 20 } else { 0 };
        std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(at)).unwrap();
        std::io::Write::write_all(&mut file, &[b'x'; 100_000]).unwrap();
        let once = std::sync::Once::new();
        // Told when the file's content has been copied, up to the end that it had.
        let grow = |_: u64| {
            once.call_once(|| std::io::Write::write_all(&mut &file, b"and more").unwrap());
        };
        let options = Options { progress: Some(&grow), ..Options::default() };
        copy(place.input(), place.path("to"), &options).unwrap();
        assert!(once.is_completed());
        let (content, copied) = (std::fs::read(&from).unwrap(), std::fs::read(place.path("to")));
        assert_eq!(content.len() as u64, at + 100_008);
        assert!(copied.unwrap() == content, "begins with a hole: {begins_with_a_hole}");
    }
}
