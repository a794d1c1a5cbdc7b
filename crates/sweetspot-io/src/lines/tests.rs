//! All strategies, all buffers and all ways to get lines give the same lines.

use super::*;
use crate::test::{self, Place};
use crate::{BufferSize, Strategy};
use proptest::prelude::*;
use std::ops::ControlFlow::{self, Break, Continue};
use std::os::unix::fs::OpenOptionsExt;

fn expected(content: &[u8], ends: Ends) -> Vec<Vec<u8>> {
    let ranges = scan::tests::lines(content, ends);
    ranges.into_iter().map(|(start, end)| content[start..end].to_vec()).collect()
}

fn options(strategy: Strategy, buffer_bytes: u32, ends: Ends) -> Options {
    let buffer_size = BufferSize::Bytes(buffer_bytes);
    let read = ReadOptions { strategy: Some(strategy), buffer_size, ..ReadOptions::default() };
    Options { read, ends, ..Options::default() }
}

/// The ways to get lines.
const WAYS: usize = 4;

/// Reads in one of the ways.
fn read_in_way(way: usize, place: &Place, options: &Options) -> Vec<Vec<u8>> {
    let mut lines = Lines::open(place.input(), options).unwrap();
    let mut found = Vec::new();
    match way % WAYS {
        0 => lines.for_each_line(|line| found.push(line.to_vec())).unwrap(),
        1 => {
            while let Some(line) = lines.next_line().unwrap() {
                found.push(line.to_vec());
            }
            assert!(lines.next_line().unwrap().is_none() && lines.next_batch().unwrap().is_none());
        }
        2 => {
            let mut at = 0;
            while let Some(batch) = lines.next_batch().unwrap() {
                assert_eq!(batch.at(), at);
                at += batch.bytes().len() as u64;
                found.extend(batch.iter().map(<[u8]>::to_vec));
            }
        }
        _ => {
            let mut count = 0;
            while let Some(batch) = lines.next_batch().unwrap() {
                batch.for_each_range(|range| found.push(batch.bytes()[range].to_vec()));
                count += batch.count();
            }
            assert_eq!(count, found.len() as u64);
        }
    }
    found
}

#[test]
fn all_strategies_and_buffers_give_the_same_lines() {
    for content in test::contents() {
        let place = Place::new(&content);
        for ends in [Ends::Any, Ends::Lf] {
            let expected = expected(&content, ends);
            for &strategy in Strategy::ALL {
                for (way, buffer_bytes) in test::buffers(&content).enumerate() {
                    let options = options(strategy, buffer_bytes, ends);
                    let ways = if strategy == Strategy::Streaming { WAYS } else { 1 };
                    for way in way..way + ways {
                        assert_eq!(
                            read_in_way(way, &place, &options),
                            expected,
                            "{strategy:?} {buffer_bytes} {ends:?} way {way}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn strategies_are_really_used() {
    let place = Place::new(&b"line\n".repeat(10_000));
    for &strategy in Strategy::ALL {
        let lines = Lines::open(place.input(), &options(strategy, 4096, Ends::Any)).unwrap();
        let choice = lines.choice();
        if choice.strategy != strategy {
            println!("skipped: {} is not to be had here: {}", strategy.name(), choice.why);
            let needed = strategy != Strategy::Ring || cfg!(feature = "uring");
            assert!(!needed || std::env::var_os("CI").is_none(), "{choice:?}");
        }
    }
}

#[test]
fn inputs_that_are_no_plain_files() {
    for &strategy in Strategy::ALL {
        for content in [&b""[..], b"\n", b"a\r\nb\rc"] {
            let input = Input::reader("memory", std::io::Cursor::new(content.to_vec()));
            let mut found = Vec::new();
            let options = options(strategy, 3, Ends::Any);
            Lines::open(input, &options)
                .and_then(|mut lines| lines.for_each_line(|line| found.push(line.to_vec())))
                .unwrap();
            assert_eq!(found, expected(content, Ends::Any), "{strategy:?}");
            let mut found = Vec::new();
            Lines::open(test::pipe(content), &options)
                .and_then(|mut lines| lines.for_each_line(|line| found.push(line.to_vec())))
                .unwrap();
            assert_eq!(found, expected(content, Ends::Any), "{strategy:?}");
        }
        let options = options(strategy, 100, Ends::Any);
        let cpuinfo = std::fs::read_to_string("/proc/filesystems").unwrap();
        let mut lines = Lines::open("/proc/filesystems", &options).unwrap();
        assert_eq!(lines.count().unwrap(), cpuinfo.lines().count() as u64, "{strategy:?}");
        assert!(Lines::open("/", &options).unwrap().count().is_err(), "a folder has no lines");
        let error = Lines::open("/no/such/file", &options).err().unwrap();
        assert!(error.to_string().starts_with("cannot open /no/such/file: "), "{error}");
    }
}

#[test]
fn files_that_change_meanwhile() {
    // Lines of four bytes; the file grows or shrinks after the first line was read.
    for &strategy in Strategy::ALL {
        for len_after in [0, 40_000, 120_000] {
            let place = Place::new(&b"abc\n".repeat(20_000));
            let mut lines = Lines::open(place.input(), &options(strategy, 512, Ends::Any)).unwrap();
            assert_eq!(lines.next_line().unwrap(), Some(&b"abc"[..]));
            // In another thread: with the strategy `Mapped` it has to wait for the lease.
            let changed = place.change_len(len_after);
            let mut count = 1;
            while let Some(line) = lines.next_line().unwrap() {
                // What a file grows by is zeros here.
                assert!(line == b"abc" || line.iter().all(|&byte| byte == 0), "{line:?}");
                count += 1;
            }
            drop(lines);
            changed.join().unwrap();
            assert!((1..=20_001).contains(&count), "{strategy:?} {len_after} {count}");
            if len_after > 80_000 {
                assert!(count >= 20_000, "{strategy:?} {len_after} {count}");
            }
        }
    }
}

#[test]
fn who_wants_to_write_to_a_mapped_file_does_not_wait_for_its_end() {
    let lines_of = |place: &Place| {
        let options = options(Strategy::Mapped, 4096, Ends::Any);
        Lines::open(place.input(), &options).unwrap()
    };
    let place = Place::new(&b"line\n".repeat(20_000));
    let writes = || {
        let mut options = std::fs::File::options();
        options.write(true).custom_flags(libc::O_NONBLOCK).open(place.path("file"))
    };
    let writer = writes().unwrap();
    assert_eq!(lines_of(&place).choice().strategy, Strategy::Streaming, "others may write");
    drop(writer);
    let mut lines = lines_of(&place);
    if lines.choice().strategy != Strategy::Mapped {
        println!("skipped: there are no leases here: {}", lines.choice().why);
        assert!(std::env::var_os("CI").is_none());
        return;
    }
    lines.next_batch().unwrap();
    let changed = place.change_len(200_000);
    assert!(!changed.is_finished(), "the lease is kept while somebody looks at the map");
    lines.next_batch().unwrap();
    let waited = std::time::Instant::now();
    changed.join().unwrap();
    // The kernel itself takes a lease away, after 45 seconds.
    assert!(waited.elapsed().as_secs() < 20, "the lease was not given back");
    let before = lines.next_batch().unwrap().unwrap().at();
    assert!(before < 20_000, "it went on after {before} bytes");
    drop(lines);
    // An open file that stays open keeps no lease.
    let file = std::fs::File::open(place.path("file")).unwrap();
    let kept = file.try_clone().unwrap();
    let options = options(Strategy::Mapped, 4096, Ends::Any);
    let mut lines = Lines::open(file, &options).unwrap();
    assert_eq!(lines.choice().strategy, Strategy::Mapped);
    lines.next_batch().unwrap();
    assert!(writes().is_err(), "there is a lease");
    drop(lines);
    writes().unwrap();
    drop(kept);
}

/// Gives one part at each read.
struct Parts(Vec<&'static [u8]>);

impl std::io::Read for Parts {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        assert!(!self.0.is_empty(), "nobody asked for more");
        let part = self.0.remove(0);
        buffer[..part.len()].copy_from_slice(part);
        Ok(part.len())
    }
}

#[test]
fn lines_are_given_out_as_soon_as_their_ends_are_known() {
    for parts in [&[&b"a\r"[..], b"b"][..], &[b"a\r", b"\n"], &[b"a", b"\n"], &[b"a\nb"]] {
        let input = Input::reader("parts", Parts(parts.to_vec()));
        let mut lines = Lines::open(input, &options(Strategy::Streaming, 64, Ends::Any)).unwrap();
        assert_eq!(lines.next_line().unwrap(), Some(&b"a"[..]), "{parts:?}");
    }
}

#[test]
fn a_file_that_fits_into_no_memory_is_an_error() {
    const LEN: u64 = 8 << 40;
    let place = Place::new(b"");
    let file = std::fs::File::options().write(true).open(place.path("file")).unwrap();
    if Vec::<u8>::new().try_reserve(LEN as usize).is_ok() || file.set_len(LEN).is_err() {
        println!("skipped: this system promises any memory, or has no large files");
        return;
    }
    let options = options(Strategy::Whole, 1, Ends::Any);
    let error = Lines::open(place.input(), &options).unwrap().count().unwrap_err();
    assert_eq!(error.io().unwrap().kind(), std::io::ErrorKind::OutOfMemory, "{error}");
}

#[test]
fn the_limit_of_a_line_is_kept_whatever_the_buffer() {
    for &strategy in Strategy::ALL {
        for buffer_bytes in [1, 2, 3, 7, 9, 10, 11, 12, 64, 99, 100, 101, 102, 103, 4096] {
            for limit in [0, 1, 2, 10, 100] {
                for (len, end) in [limit, limit + 1]
                    .into_iter()
                    .flat_map(|len| [(len, "\n"), (len, "\r\n"), (len, "")])
                {
                    let content = format!("\n{}{end}", "x".repeat(len));
                    let place = Place::new(content.as_bytes());
                    let options = Options {
                        line_bytes_max: limit,
                        ..options(strategy, buffer_bytes, Ends::Any)
                    };
                    let mut lines = Lines::open(place.input(), &options).unwrap();
                    let mut found = 0;
                    let result = lines.for_each_line(|_| found += 1);
                    let what = format!("{strategy:?} {buffer_bytes} {limit} {len} {end:?}");
                    if len <= limit {
                        result.expect(&what);
                        assert_eq!(found, 2 - usize::from(len == 0 && end.is_empty()), "{what}");
                        continue;
                    }
                    assert_eq!(found, 1, "{what}: the line before it is there");
                    let kind = result.unwrap_err().kind;
                    let ErrorKind::LineTooLong { at: 1, limit_bytes } = kind else {
                        panic!("{what}: {kind:?}")
                    };
                    assert_eq!(limit_bytes, limit);
                    assert!(lines.next_line().unwrap().is_none(), "{what}: that was the end");
                }
            }
        }
    }
}

#[test]
fn lines_after_a_stop_are_still_there() {
    for content in test::contents() {
        let place = Place::new(&content);
        for ends in [Ends::Any, Ends::Lf] {
            let expected = expected(&content, ends);
            for &strategy in Strategy::ALL {
                for (turn, buffer_bytes) in test::buffers(&content).enumerate() {
                    let options = options(strategy, buffer_bytes, ends);
                    let mut lines = Lines::open(place.input(), &options).unwrap();
                    let (wanted, mut found) = (turn % 3 + 1, Vec::new());
                    loop {
                        let before = found.len();
                        let flow = lines.for_each_line(|line| {
                            found.push(line.to_vec());
                            if found.len() - before == wanted { Break("ok") } else { Continue(()) }
                        });
                        let enough = found.len() - before == wanted;
                        assert_eq!(flow.unwrap().break_value(), enough.then_some("ok"));
                        // In turns with the other way.
                        let Some(line) = lines.next_line().unwrap() else { break };
                        found.push(line.to_vec());
                    }
                    assert_eq!(found, expected, "{strategy:?} {buffer_bytes} {ends:?} {wanted}");
                }
            }
        }
    }
}

#[test]
fn text_after_a_stop_is_still_there() {
    for content in test::contents() {
        let place = Place::new(&content);
        for ends in [Ends::Any, Ends::Lf] {
            let expected = expected(&content, ends);
            for encoding in [Encoding::Latin1, Encoding::Utf8(Invalid::Replace)] {
                for (turn, buffer_bytes) in test::buffers(&content).enumerate() {
                    let options = options(Strategy::Streaming, buffer_bytes, ends);
                    let mut lines = Lines::open(place.input(), &options).unwrap();
                    let wanted = turn % 3 + 1;
                    // The bytes of the text's lines are counted where it stops: the next line shows
                    // whether they were counted well.
                    let mut number = 0;
                    loop {
                        let before = number;
                        let result = lines.for_each_text(encoding, |_| {
                            number += 1;
                            if number - before == wanted { Err("enough") } else { Ok(()) }
                        });
                        assert_eq!(result.unwrap().is_err(), number - before == wanted);
                        let next = lines.next_line().unwrap().map(<[u8]>::to_vec);
                        assert_eq!(next.as_ref(), expected.get(number), "{encoding:?}");
                        if next.is_none() {
                            break;
                        }
                        number += 1;
                    }
                    assert_eq!(number, expected.len());
                }
            }
        }
    }
}

#[test]
fn a_stop_before_a_bad_byte_comes_first() {
    let place = Place::new(b"one\r\ntwo\nthr\xFFee\n");
    let mut lines = Lines::open(place.input(), &Options::default()).unwrap();
    let encoding = Encoding::Utf8(Invalid::Error);
    let flow = lines.for_each_text(encoding, |line| {
        if line == "one" { Break(line.to_owned()) } else { Continue(()) }
    });
    assert_eq!(flow.unwrap(), Break("one".to_owned()));
    let mut found = Vec::new();
    let error = lines.for_each_text(encoding, |line| found.push(line.to_owned())).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::NotUtf8 { at: 12 }), "{error}");
    assert_eq!(found, ["two"]);
}

#[test]
fn an_error_of_the_callers_comes_back_as_it_was() {
    let place = Place::new(b"1\n2\nx\n4\n");
    let mut lines = Lines::open(place.input(), &Options::default()).unwrap();
    let mut sum = 0;
    let mut add = |line: &[u8]| -> std::result::Result<ControlFlow<u32>, std::num::ParseIntError> {
        sum += String::from_utf8_lossy(line).parse::<u32>()?;
        Ok(if sum > 5 { Break(sum) } else { Continue(()) })
    };
    assert_eq!(lines.for_each_line(&mut add).unwrap(), "x".parse::<u32>().map(|_| Continue(())));
    assert_eq!(lines.for_each_line(&mut add).unwrap(), Ok(Break(7)));
    let missing = Input::path("/");
    let result = Lines::open(missing, &Options::default()).unwrap().for_each_line(add);
    assert!(result.unwrap_err().io().is_some(), "reading has failed, which is another error");
}

#[test]
fn a_batch_after_a_line_is_the_rest_of_it() {
    let place = Place::new(b"a\nb\nc\n");
    let mut lines = Lines::open(place.input(), &Options::default()).unwrap();
    assert_eq!(lines.next_line().unwrap(), Some(&b"a"[..]));
    let batch = lines.next_batch().unwrap().unwrap();
    assert_eq!((batch.bytes(), batch.at()), (&b"b\nc\n"[..], 2));
    assert!(lines.next_line().unwrap().is_none());
}

#[test]
fn text_that_is_not_utf8_is_an_error_with_its_place_or_replaced() {
    let content = b"gr\xC3\xBCn\nrot\r\nbl\xFFau\nwei\xC3\n";
    let place = Place::new(content);
    for buffer_bytes in 1..30 {
        let options = options(Strategy::Streaming, buffer_bytes, Ends::Any);
        let decode = |encoding| {
            let mut found = Vec::new();
            let result = Lines::open(place.input(), &options)
                .unwrap()
                .for_each_text(encoding, |line| found.push(line.to_owned()));
            (found, result)
        };
        let (found, result) = decode(Encoding::Utf8(Invalid::Error));
        assert_eq!(found, ["grün", "rot"]);
        assert!(matches!(result.unwrap_err().kind, ErrorKind::NotUtf8 { at: 13 }));
        let (found, result) = decode(Encoding::Utf8(Invalid::Replace));
        result.unwrap();
        assert_eq!(found, ["grün", "rot", "bl\u{FFFD}au", "wei\u{FFFD}"]);
        let (found, result) = decode(Encoding::Latin1);
        result.unwrap();
        assert_eq!(found, ["grÃ¼n", "rot", "blÿau", "weiÃ"]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lines_are_those_of_std_where_lf_ends_them(
        content in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..3000),
        buffer_bytes in 1u32..600,
        strategy in proptest::sample::select(Strategy::ALL),
    ) {
        let place = Place::new(&content);
        let of_std: Vec<Vec<u8>> =
            std::io::BufRead::split(&content[..], b'\n').map(|line| line.unwrap()).collect();
        let way = buffer_bytes as usize;
        let lf = options(strategy, buffer_bytes, Ends::Lf);
        prop_assert_eq!(read_in_way(way, &place, &lf), of_std);
        let any = options(strategy, buffer_bytes, Ends::Any);
        prop_assert_eq!(read_in_way(way, &place, &any), expected(&content, Ends::Any));
    }

    #[test]
    fn text_is_what_std_makes_of_it(
        content in proptest::collection::vec(
            prop_oneof![4 => Just("\n"), 4 => Just("é"), 4 => Just("a\r"), 4 => Just("€𝄞")], 0..300
        ),
        bad in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..3),
        buffer_bytes in 1u32..300,
    ) {
        let mut content = content.concat().into_bytes();
        for (at, byte) in bad {
            let len = content.len().max(1);
            if let Some(place) = content.get_mut(at % len) {
                *place = byte;
            }
        }
        let place = Place::new(&content);
        let decode = |encoding| {
            let mut found = Vec::new();
            let options = options(Strategy::Streaming, buffer_bytes, Ends::Any);
            let result = Lines::open(place.input(), &options)
                .unwrap()
                .for_each_text(encoding, |line| found.push(line.to_owned()));
            (found, result.map_err(|error| error.kind))
        };
        let lines = expected(&content, Ends::Any);
        let replaced: Vec<_> =
            lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect();
        let (found, result) = decode(Encoding::Utf8(Invalid::Replace));
        prop_assert!(result.is_ok());
        prop_assert_eq!(&found, &replaced);
        let (found, result) = decode(Encoding::Utf8(Invalid::Error));
        match (std::str::from_utf8(&content), result) {
            (Ok(_), result) => {
                prop_assert!(result.is_ok());
                prop_assert_eq!(found, replaced);
            }
            (Err(error), Err(ErrorKind::NotUtf8 { at })) => {
                prop_assert_eq!(at, error.valid_up_to() as u64);
                // All lines before that byte's.
                let before = &content[..error.valid_up_to()];
                let ends = before.iter().rposition(|byte| b"\r\n".contains(byte));
                let whole = expected(&before[..ends.map_or(0, |end| end + 1)], Ends::Any);
                prop_assert_eq!(&found[..], &replaced[..whole.len()]);
            }
            (Err(error), result) => prop_assert!(false, "{error}, but {result:?}"),
        }
    }
}
