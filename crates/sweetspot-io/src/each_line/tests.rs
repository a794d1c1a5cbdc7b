use super::*;
use crate::sys::fault;
use crate::test::{self, Place};
use proptest::prelude::{Just, ProptestConfig, prop_assert, prop_assert_eq, prop_oneof, proptest};

fn options(chunk_bytes: u32, threads: usize) -> Options<'static> {
    let buffer_size = BufferSize::Bytes(chunk_bytes);
    Options {
        read: ReadOptions { buffer_size, ..ReadOptions::default() },
        threads,
        ..Options::default()
    }
}

/// Shows each line and that it was one.
fn show(line: &[u8], output: &mut Vec<u8>) {
    output.push(b'<');
    output.extend_from_slice(line);
    output.push(b'>');
}

fn expected(content: &[u8], ends: Ends) -> Vec<u8> {
    let mut expected = Vec::new();
    for (start, end) in scan::tests::lines(content, ends) {
        show(&content[start..end], &mut expected);
    }
    expected
}

#[test]
fn all_chunks_threads_and_strategies_give_the_same_lines_in_order() {
    for content in test::contents() {
        let place = Place::new(&content);
        for ends in [Ends::Any, Ends::Lf] {
            let expected = expected(&content, ends);
            for chunk_bytes in test::buffers(&content) {
                let threads = chunk_bytes as usize % 3 + 1;
                let strategies = Strategy::ALL.iter().copied().map(Some);
                let strategy = strategies
                    .chain([None])
                    .nth(chunk_bytes as usize % (Strategy::ALL.len() + 1))
                    .unwrap();
                for (strategy, piped) in [(None, false), (strategy, false), (None, true)] {
                    let mut options = Options { ends, ..options(chunk_bytes, threads) };
                    options.read.strategy = strategy;
                    let input = if piped { test::pipe(&content) } else { place.input() };
                    let tally = each_line(input, place.path("to"), &options, show).unwrap();
                    let found = std::fs::read(place.path("to")).unwrap();
                    let what = format!("{strategy:?} {chunk_bytes} {threads} {piped} {ends:?}");
                    assert_eq!(found, expected, "{what}");
                    assert_eq!(tally.bytes_in, content.len() as u64, "{what}");
                    assert_eq!(tally.bytes_out, expected.len() as u64, "{what}");
                    std::fs::remove_file(place.path("to")).unwrap();
                }
            }
        }
    }
}

#[test]
fn any_order_has_the_same_lines() {
    let content = b"some line\n".repeat(1000);
    let place = Place::new(&content);
    let options = Options { order: Order::Any, ..options(100, 3) };
    let seen = AtomicU64::new(0);
    each_line(place.input(), place.path("to"), &options, |line, output| {
        seen.fetch_add(1, Relaxed);
        show(line, output);
    })
    .unwrap();
    assert_eq!(seen.into_inner(), 1000);
    assert_eq!(std::fs::read(place.path("to")).unwrap(), expected(&content, Ends::Any));
}

/// An error of the caller's.
#[derive(Debug, PartialEq)]
enum Own {
    Number(std::num::ParseIntError),
    At(u32),
}

impl From<std::num::ParseIntError> for Own {
    fn from(error: std::num::ParseIntError) -> Own {
        Own::Number(error)
    }
}

#[test]
fn a_failure_stops_it_and_all_before_it_was_done() {
    let content: Vec<u8> = (0..1000).flat_map(|n| format!("{n}\n").into_bytes()).collect();
    let place = Place::new(&content);
    for (threads, piped) in [(1, false), (3, false), (3, true)] {
        let (output, seen) = (place.path("to"), Mutex::new(Vec::new()));
        let input = if piped { test::pipe(&content) } else { place.input() };
        let work = |batch: &Batch<'_>, _: &mut Vec<u8>| -> std::result::Result<(), Own> {
            let numbers = batch.iter().map(|line| String::from_utf8_lossy(line).parse::<u32>());
            let numbers = numbers.collect::<std::result::Result<Vec<_>, _>>()?;
            seen.lock().unwrap().extend(&numbers);
            match numbers.contains(&500) {
                true => Err(Own::At(500)),
                false => Ok(()),
            }
        };
        let result = each_batch(input, &output, &options(64, threads), work).unwrap();
        assert_eq!(result, Err(Own::At(500)), "it comes back as it was");
        assert!(!output.exists(), "nothing half-done has the name");
        let seen = seen.into_inner().unwrap();
        assert!((0..500).all(|number| seen.contains(&number)), "{threads} {piped}");
        assert!(seen.len() < 1000 || threads > 1, "it went on");
    }
}

#[test]
fn output_before_a_failure_reaches_a_writer() {
    let place = Place::new(&b"good\n".repeat(100));
    let path = place.path("log");
    for fail_at in [0, 50, 99] {
        let log = File::create(&path).unwrap();
        let number = AtomicU64::new(0);
        // One line a chunk, and one thread, so that the number is the line's.
        let result = each_line(place.input(), log, &options(5, 1), |line, output| {
            if number.fetch_add(1, Relaxed) == fail_at {
                return Err("bad");
            }
            show(line, output);
            Ok(())
        });
        assert_eq!(result.unwrap(), Err("bad"));
        assert_eq!(std::fs::read(&path).unwrap(), b"<good>".repeat(fail_at as usize));
    }
}

#[test]
fn all_up_to_where_it_stops_is_there() {
    use std::ops::ControlFlow::{self, Break, Continue};
    let content: Vec<u8> = (0..1000).flat_map(|n| format!("{n}\n").into_bytes()).collect();
    let place = Place::new(&content);
    let numbers = |range: Range<u32>| range.map(|n| format!("<{n}>")).collect::<String>();
    for stop_at in [0, 1, 500, 999, 1000] {
        for (threads, piped, order) in [
            (1, false, Order::Input),
            (3, false, Order::Input),
            (3, true, Order::Input),
            (3, false, Order::Any),
        ] {
            let output = place.path("to");
            let input = if piped { test::pipe(&content) } else { place.input() };
            let options = Options { order, ..options(64, threads) };
            let work = |line: &[u8], output: &mut Vec<u8>| -> ControlFlow<u32> {
                show(line, output);
                match String::from_utf8_lossy(line).parse() {
                    // Of all that stop it the first in the file counts.
                    Ok(number) if number >= stop_at => Break(number),
                    _ => Continue(()),
                }
            };
            let flow = each_line(input, &output, &options, work).unwrap();
            let what = format!("{stop_at} {threads} {piped} {order:?}");
            match stop_at {
                1000 => {
                    assert!(matches!(flow, Continue(tally) if tally.bytes_in == 3890), "{what}")
                }
                _ => assert_eq!(flow.break_value(), Some(stop_at), "{what}"),
            }
            let found = std::fs::read_to_string(&output).unwrap();
            match order {
                Order::Input => assert_eq!(found, numbers(0..1000.min(stop_at + 1)), "{what}"),
                Order::Any => {
                    let missing =
                        (0..stop_at).find(|number| !found.contains(&format!("<{number}>")));
                    assert_eq!(missing, None, "{what}");
                }
            }
            std::fs::remove_file(&output).unwrap();
        }
    }
}

#[test]
fn lines_that_are_too_long_are_an_error_in_every_way() {
    for (strategy, threads) in [(None, 1), (None, 3), (Some(Strategy::Streaming), 2)] {
        for chunk_bytes in [1, 3, 10, 11, 12, 13, 100, 10_000] {
            for limit in [0, 1, 10, 9000] {
                for len in [limit, limit + 1] {
                    let content = format!("\n{}\nx", "y".repeat(len));
                    let place = Place::new(content.as_bytes());
                    let mut options = options(chunk_bytes, threads);
                    options.line_bytes_max = limit;
                    options.read.strategy = strategy;
                    let result = each_line(place.input(), Output::nowhere(), &options, |_, _| {});
                    let what = format!("{strategy:?} {threads} {chunk_bytes} {limit} {len}");
                    // The last line has one byte.
                    match (len > limit, limit == 0) {
                        (false, false) => drop(result.expect(&what)),
                        (true, _) => {
                            let error = result.unwrap_err();
                            let first = matches!(error.kind, ErrorKind::LineTooLong { at: 1, .. });
                            assert!(first, "{what}: {error}");
                        }
                        (false, true) => assert!(result.is_err(), "{what}"),
                    }
                }
            }
        }
    }
}

#[test]
fn not_much_is_read_of_a_line_that_is_too_long() {
    let place = Place::new(b"");
    place.change_len(64 << 20).join().unwrap();
    for strategy in [None, Some(Strategy::Streaming)] {
        let mut options = Options { line_bytes_max: 100, ..options(65_536, 1) };
        options.read.strategy = strategy;
        let run = || each_line(place.input(), Output::nowhere(), &options, |_, _| {});
        let (result, calls, len_max) = fault::count(run);
        let kind = result.unwrap_err().kind;
        assert!(matches!(kind, ErrorKind::LineTooLong { at: 0, limit_bytes: 100 }), "{kind:?}");
        assert!(calls < 10 && len_max < 100_000, "{strategy:?}: {calls} calls, {len_max} bytes");
    }
}

#[test]
fn a_panic_is_not_swallowed_and_nobody_waits_for_ever() {
    let place = Place::new(&b"line\n".repeat(1000));
    let result = catch_unwind(|| {
        let panics = std::sync::atomic::AtomicBool::new(true);
        each_line(place.input(), Output::nowhere(), &options(10, 3), |_, _| {
            assert!(!panics.swap(false, Relaxed), "as planned");
        })
    });
    assert!(result.is_err());
}

#[test]
fn of_two_errors_the_one_further_to_the_front_is_told() {
    let place = Place::new(b"0\n1\n2\n3\n");
    let first_failed = std::sync::Barrier::new(2);
    let error = each_line(place.input(), Output::nowhere(), &options(2, 2), |line, _| match line {
        b"0" => {
            first_failed.wait();
            Err("the first")
        }
        b"2" => {
            first_failed.wait();
            std::thread::sleep(std::time::Duration::from_millis(100));
            Err("the second")
        }
        _ => Ok(()),
    });
    assert_eq!(error.unwrap(), Err("the first"));
}

#[test]
fn pairs_cut_where_a_thread_has_read_to() {
    let chunk_bytes = 10;
    for read_to in [chunk_bytes + SLACK_BYTES, chunk_bytes + SLACK_BYTES + EXTEND_BYTES] {
        for len in read_to - 4..read_to + 4 {
            let content = format!("{}\r\nz\n", "y".repeat(len));
            let place = Place::new(content.as_bytes());
            let options = options(chunk_bytes as u32, 2);
            let tally = each_line(place.input(), place.path("to"), &options, show).unwrap();
            assert_eq!(tally.bytes_in, content.len() as u64, "{len}");
            let found = std::fs::read(place.path("to")).unwrap();
            assert_eq!(found, expected(content.as_bytes(), Ends::Any), "{len}");
            std::fs::remove_file(place.path("to")).unwrap();
        }
    }
}

#[test]
fn a_file_that_changes_meanwhile_ends_it_without_harm() {
    for len_after in [0, 3, 4000, 40_000] {
        let place = Place::new(&b"abc\n".repeat(5000));
        let changed = std::sync::Once::new();
        let tally = each_line(place.input(), Output::nowhere(), &options(100, 2), |line, _| {
            changed.call_once(|| place.change_len(len_after).join().unwrap());
            assert!(b"abc".starts_with(line) || line.iter().all(|&byte| byte == 0), "{line:?}");
        })
        .unwrap();
        assert!(tally.bytes_in <= 20_000, "it is as long as it was at first");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_lines_cut_anywhere_are_those_of_one_reader(
        content in proptest::collection::vec(
            prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'x'), Just(b'y')], 0..2000
        ),
        begin in 0usize..50,
        chunk_bytes in 1u32..700,
        limit in proptest::option::of(0usize..12),
        ends in prop_oneof![Just(Ends::Any), Just(Ends::Lf)],
    ) {
        let place = Place::new(&content);
        let begin = begin.min(content.len());
        let mut file = File::open(place.path("file")).unwrap();
        std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(begin as u64)).unwrap();
        let content = &content[begin..];
        let limit = limit.unwrap_or(LINE_BYTES_MAX);
        let mut options = Options { ends, line_bytes_max: limit, ..options(chunk_bytes, 2) };
        options.existing = Existing::Replace;
        let log = File::create(place.path("log")).unwrap();
        let result = each_line(file, log, &options, show);
        let lines = scan::tests::lines(content, ends);
        let bad = lines.iter().position(|(start, end)| end - start > limit);
        let good = bad.map_or(content.len(), |bad| lines[bad].0);
        let found = std::fs::read(place.path("log")).unwrap();
        prop_assert_eq!(found, expected(&content[..good], ends));
        match (bad, result) {
            (None, result) => prop_assert_eq!(result.unwrap().bytes_in, content.len() as u64),
            (Some(bad), result) => {
                let kind = result.unwrap_err().kind;
                let expected = lines[bad].0 as u64;
                let told = matches!(kind, ErrorKind::LineTooLong { at, .. } if at == expected);
                prop_assert!(told, "{kind:?}, not at {expected}");
            }
        }
    }
}
