//! As `transfer-size.c`, through the reader of records of `sweetspot-io`: a transfer is a record.
//!
//! The file's length is a multiple of the size.

use samples::{Outcome, Samples, program, read_options};
use std::process::ExitCode;
use sweetspot_io::records::{Options, Reader};

/// What was read: the same that the C program counts.
#[derive(Default)]
struct Seen {
    transfers: u64,
    checksum: u64,
}

fn main() -> ExitCode {
    program("transfer-size STRATEGY TRANSFER_BYTES PASSES FILE", |words| {
        let &[strategy, size, passes, file] = words else { return Err("four words".into()) };
        read(Options::new(size.parse()?).read(read_options(strategy)?), passes, file)
    })
}

fn read(options: Options, passes: &str, file: &str) -> Outcome {
    let mut samples = Samples::new("ns");
    let mut seen = Seen::default();
    for _ in 0..passes.parse::<u32>()? {
        let pass = || {
            let before = seen.transfers;
            Reader::open(file, &options)?.for_each_record(|record| {
                let mut word = [0; 8];
                let len = record.len().min(word.len());
                word[..len].copy_from_slice(&record[..len]);
                let word = u64::from_le_bytes(word);
                seen.checksum = seen.checksum.wrapping_mul(31).wrapping_add(word);
                seen.transfers += 1;
            })?;
            Ok::<_, sweetspot_io::Error>(seen.transfers - before)
        };
        samples.take(pass, |transfers| *transfers as f64)?;
    }
    samples.report()?;
    Ok(format!("transfers {}\nchecksum {}\n", seen.transfers, seen.checksum as i64))
}
