//! As `CopyPercentiles.java`, with `copy` and `content_equals` of `sweetspot-io`.
//!
//! The sink keeps nothing but is a writer of this process, so that the bytes really come here: a copy
//! to `/dev/null` is left to the kernel, and takes no time at all.

use samples::{Samples, program, read_options};
use std::fs::File;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use sweetspot_io::{Input, Output, ReadOptions, compare, copy};

fn main() -> ExitCode {
    program("copy-percentiles OPERATION STRATEGY TIMES FILE", |words| {
        let &[operation, strategy, times, file] = words else { return Err("four words".into()) };
        let read = read_options(strategy)?;
        let mut samples = Samples::new("ms");
        let mut done = 0;
        for _ in 0..times.parse::<u32>()? {
            done += samples.take(
                || match operation {
                    "copy" => copy_to(Output::nowhere(), file, read),
                    "contentEquals" => content_equals(file, read),
                    _ => Err(format!("no operation is named {operation}").into()),
                },
                |_| 1e6,
            )?;
        }
        let sum = Sum::default();
        copy_to(Output::writer("a sum", sum.clone()), file, read)?;
        samples.report()?;
        Ok(format!("{operation} {done}\nsum {:08x}\n", sum.0.load(Relaxed)))
    })
}

type Done = Result<u64, Box<dyn std::error::Error>>;

fn copy_to(to: Output, file: &str, read: ReadOptions) -> Done {
    let options = copy::Options::new().read(read);
    Ok(copy::copy(file, to, &options)?.bytes)
}

/// Two streams of one file, which are compared as such: two names of a file are equal without a look.
fn content_equals(file: &str, read: ReadOptions) -> Done {
    let options = compare::Options::new().read(read);
    let stream = || Ok::<_, io::Error>(Input::reader("a stream", File::open(file)?));
    Ok(compare::content_equals(stream()?, stream()?, &options)?.into())
}

/// A sum of all bytes in their order, as Java's `Arrays.hashCode` adds them up.
#[derive(Clone, Default)]
struct Sum(Arc<AtomicU32>);

impl Write for Sum {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let add = |sum: u32, byte: &u8| sum.wrapping_mul(31).wrapping_add((*byte).into());
        self.0.store(bytes.iter().fold(self.0.load(Relaxed), add), Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
