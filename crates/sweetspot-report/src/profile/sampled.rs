//! What was found in the calls that were looked at closely, for all of their kind.

use super::data::Buffered;
use sweetspot_core::shadow::Would;

/// What buffering would do with a file with so many reads, writes and seeks. Where only some of them
/// were looked at closely, what was found stands for all of the kind.
pub fn buffered(would: impl Fn(Would) -> u64, calls: [u64; 3], is_folder: bool) -> Buffered {
    let asked = [Would::AskedReads, Would::AskedWrites, Would::AskedSeeks].map(&would);
    let by_reads = |found| scaled(would(found), asked[0], calls[0]);
    let by_writes = |found| scaled(would(found), asked[1], calls[1]);
    // A file gets its buffer while each call is followed; of a folder's files only some are.
    let by_files = |found| match is_folder {
        true => scaled(would(found), asked.iter().sum(), calls.iter().sum()),
        false => would(found),
    };
    Buffered {
        hits: by_reads(Would::Hit),
        hit_bytes: by_reads(Would::HitBytes),
        fills: by_reads(Would::Fill),
        fill_bytes: by_reads(Would::FillBytes),
        asks: by_reads(Would::Ask),
        appends: by_writes(Would::Append),
        append_bytes: by_writes(Would::AppendBytes),
        flushes: by_writes(Would::Flush),
        flush_bytes: by_writes(Would::FlushBytes),
        seeks: scaled(would(Would::Seek), asked[2], calls[2]),
        quiesces: by_files(Would::Quiesce),
        opens: by_files(Would::Open),
    }
}

/// What was found in `asked` calls, for all `calls`; as it is where none was asked.
pub fn scaled(found: u64, asked: u64, calls: u64) -> u64 {
    match asked {
        0 => found,
        asked => (u128::from(found) * u128::from(calls) / u128::from(asked)) as u64,
    }
}
